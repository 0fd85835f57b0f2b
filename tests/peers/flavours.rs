//! Flavours of the servers: credentials, tenants, signed cards, and the choice of the version.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::driver::Driver;
use crate::peer::send_fields;
use crate::sdk::{self, Sdk, Server};
use crate::servers::config;

/// The credentials that the servers require.
const TOKEN: &str = "the-peers-own-token-3f9c1d";
const USER: (&str, &str) = ("caller", "the-peers-own-password-77ab");

type Test = (&'static str, Sdk, fn(&'static Server));

const TESTS: &[Test] = &[
    (
        "py13: a bearer token lets in, another one and none do not",
        Sdk::Py13,
        bearer,
    ),
    (
        "py13: a user's password lets in, another one and none do not",
        Sdk::Py13,
        basic,
    ),
    (
        "py13: an API key lets in, another one and none do not",
        Sdk::Py13,
        api_key,
    ),
    (
        "py13: the card's tenant reaches the agent",
        Sdk::Py13,
        tenant,
    ),
    (
        "py13: a signed card is accepted by its own keys alone",
        Sdk::Py13,
        signed,
    ),
    (
        "py13: of both versions the newer is chosen",
        Sdk::Py13,
        newest,
    ),
    (
        "js13: of both versions the newer is chosen",
        Sdk::Js13,
        newest,
    ),
    (
        "js13: an extension that the server requires is activated, and called only with it",
        Sdk::Js13,
        extension,
    ),
];

pub fn trials() -> Vec<Trial> {
    let trial = |(name, sdk, test): &Test| {
        let (sdk, test) = (*sdk, *test);
        Trial::test(*name, move || {
            test(sdk::server(sdk));
            Ok(())
        })
    };
    TESTS.iter().map(trial).collect()
}

/// Sends a text to a flavour of a server, with further settings of its target.
fn send(server: &Server, flavour: &str, text: &str, more: &Value) -> Value {
    let origin = server.origin(flavour);
    let mut target = json!({"alias": "peer", "baseUrl": origin});
    let settings = target.as_object_mut().unwrap();
    settings.extend(more.as_object().unwrap().clone());
    Driver::start(&config(&target))
        .call(&send_fields(text, json!({})))
        .0
}

fn check_auth(server: &Server, flavour: &str, valid: Value, invalid: Value, scheme: &str) {
    let answer = send(server, flavour, "message: hi", &json!({"auth": valid}));
    assert_eq!(answer["ok"], true, "{answer:#}");
    assert_eq!(answer["summary"]["message_text"], "hi", "{answer:#}");

    for auth in [json!({"auth": invalid}), json!({})] {
        let answer = send(server, flavour, "message: hi", &auth);
        assert_eq!(answer["error"]["reason"], "auth_required", "{answer:#}");
        let message = answer["error"].to_string();
        assert!(message.contains(scheme), "{answer:#}");
    }
}

fn bearer(server: &'static Server) {
    let auth = |token: &str| json!({"type": "bearer", "token": token});
    check_auth(
        server,
        "bearer",
        auth(TOKEN),
        auth("another-token"),
        "Bearer",
    );
}

fn basic(server: &'static Server) {
    let auth = |password: &str| json!({"type": "basic", "username": USER.0, "password": password});
    check_auth(
        server,
        "basic",
        auth(USER.1),
        auth("another-password"),
        "Basic",
    );
}

fn api_key(server: &'static Server) {
    let auth =
        |key: &str| json!({"type": "apiKey", "in": "header", "name": "X-Peer-Key", "value": key});
    check_auth(server, "api-key", auth(TOKEN), auth("another-key"), "");
}

fn tenant(server: &'static Server) {
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let binding = json!({"preferredTransports": [binding]});
        let answer = send(server, "tenant", "tenant", &binding);
        assert_eq!(answer["ok"], true, "{answer:#}");
        assert_eq!(answer["summary"]["message_text"], "acme", "{answer:#}");
    }
}

fn signed(server: &'static Server) {
    let keys = file("peers-keys.json", server.keys());
    let own = json!({"requireSignedCard": true, "jwksFile": keys});
    let answer = send(server, "signed", "message: hi", &own);
    assert_eq!(answer["ok"], true, "{answer:#}");

    // The key of RFC 7517, appendix A.1, with the id of the right one.
    let key = json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "peers",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    });
    let others = file("peers-other-keys.json", &json!({"keys": [key]}).to_string());
    let other = json!({"requireSignedCard": true, "jwksFile": others});
    for (flavour, settings) in [("signed", other), ("1.0", own)] {
        let answer = send(server, flavour, "message: hi", &settings);
        assert_eq!(answer["ok"], false, "{answer:#}");
        assert_eq!(answer["error"]["details"]["delivered"], "no", "{answer:#}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("sign"), "{answer:#}");
    }
    fs::remove_dir_all(keys.parent().unwrap()).unwrap();
}

/// Returns a temporary file for one test.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(process::id().to_string());
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn newest(server: &'static Server) {
    let answer = send(server, "hybrid", "message: hi", &json!({}));
    assert_eq!(answer["ok"], true, "{answer:#}");
    assert_eq!(answer["summary"]["protocol_version"], "1.0", "{answer:#}");
}

fn extension(server: &'static Server) {
    let uri = "https://peers.test/greeting/v1";
    let metadata = json!({"name": "Ada"});
    for more in [
        json!({"protocolVersion": "0.3"}),
        json!({"preferredTransports": ["JSONRPC"]}),
        json!({"preferredTransports": ["HTTP+JSON"]}),
    ] {
        let mut settings = more.clone();
        settings["extensions"] =
            json!([{"uri": uri, "params": {"tone": "kind"}, "metadata": metadata}]);
        let answer = send(server, "extension", "extension", &settings);
        let text = answer["summary"]["message_text"].as_str();
        let seen: Value =
            serde_json::from_str(text.unwrap_or_else(|| panic!("{answer:#}"))).unwrap();
        assert_eq!(
            seen,
            json!({"extensions": [uri], "metadata": metadata}),
            "{more}"
        );
        assert_eq!(
            answer["summary"]["extensions"],
            json!({uri: "active"}),
            "{more}"
        );

        settings["extensions"][0]["params"]["tone"] = json!("rude");
        for settings in [more, settings] {
            let answer = send(server, "extension", "extension", &settings);
            assert_eq!(
                answer["error"]["reason"], "extension_required",
                "{answer:#}"
            );
            assert_eq!(answer["error"]["details"]["delivered"], "no", "{answer:#}");
        }
    }
}
