//! What clients trust about a server, and a server about clients: signed cards, certificates, and tokens of an OpenID provider.

use std::fs;
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testkit::authority::Authority;
use testkit::support::serve::Server;

use crate::serve::http_client::{client, command, exchange, send};
use crate::serve::safety::wait_until;
use crate::support::tool_fixture::{ToolFixture, send_request};

/// Writes a new key, and returns its file.
fn key(folder: &Path, name: &str, algorithm: &'static rcgen::SignatureAlgorithm) -> String {
    let file = folder.join(name);
    let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
    fs::write(&file, pair.serialize_pem()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Starts a server with a client, whose card these keys sign.
fn signing(folder: &Path, keys: &[&str]) -> (Server, String) {
    let authorization = client(folder, "ada", &[]);
    // Not the name that `clients add` looks for.
    let config = folder.join("signing.json");
    fs::copy(folder.join("clients.json"), &config).unwrap();
    let mut flags = vec![
        "--task-store",
        "memory",
        "--config",
        config.to_str().unwrap(),
    ];
    for key in keys {
        flags.extend(["--signing-key", key]);
    }
    let token = authorization.rsplit_once(' ').unwrap().1.to_owned();
    (Server::scripted(&flags), token)
}

fn get(server: &Server, path: &str) -> Value {
    let answer = exchange(server, &format!("GET {path}"), &[], "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

#[tokio::test]
async fn plugin_accepts_a_card_that_a_served_key_signed() {
    let folder = tempfile::tempdir().unwrap();
    let own = key(folder.path(), "own.pem", &rcgen::PKCS_ED25519);
    let (server, token) = signing(folder.path(), &[&own]);
    let served = folder.path().join("served.json");
    let keys = get(&server, "/.well-known/jwks.json");
    fs::write(&served, keys.to_string()).unwrap();
    let mut others = keys;
    others["keys"][0]["x"] = json!("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    let other = folder.path().join("other.json");
    fs::write(&other, others.to_string()).unwrap();

    for (file, expected) in [(served, json!(true)), (other, json!(false))] {
        let auth = json!({"type": "bearer", "token": token});
        let fixture = ToolFixture::with_target(
            json!({"baseUrl": server.url(), "auth": auth, "requireSignedCard": true, "jwksFile": file}),
        );
        let envelope = fixture.call(&send_request()).await;
        assert_eq!(envelope["ok"], expected, "{envelope}");
        let reason = envelope["error"]["reason"].as_str();
        assert_eq!(
            reason,
            (expected == false).then_some("card_signature"),
            "{envelope}"
        );
    }
}

#[test]
fn both_keys_of_a_rotation_sign() {
    let folder = tempfile::tempdir().unwrap();
    let new = key(folder.path(), "new.pem", &rcgen::PKCS_ED25519);
    let old = key(folder.path(), "old.pem", &rcgen::PKCS_ECDSA_P256_SHA256);
    let (server, _) = signing(folder.path(), &[&new, &old]);
    let keys = get(&server, "/.well-known/jwks.json");
    let algorithms: Vec<_> = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["alg"])
        .collect();
    assert_eq!(algorithms, ["EdDSA", "ES256"]);
    let tag = |_| {
        let answer = exchange(&server, "GET /.well-known/agent-card.json", &[], "");
        answer
            .head
            .lines()
            .find(|line| line.starts_with("etag"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        tag(0),
        tag(1),
        "ES256 is randomized, but the card stays the same"
    );
}

#[test]
fn unusable_signing_key_prevents_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    fs::write(&file, "s3cret").unwrap();
    let file = file.to_str().unwrap();
    let args = [
        "serve",
        "--port",
        "0",
        "--executor",
        "scripted",
        "--task-store",
        "memory",
        "--signing-key",
        file,
    ];
    let ended = command(&args);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success()
            && stderr.contains("/signingKeys/0")
            && stderr.contains("no private key"),
        "{stderr}"
    );
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[test]
fn removal_takes_effect_beside_a_name_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let eve = client(folder.path(), "eve", &[]);
    // Not the name that `clients add` looks for: it would refuse the name.
    let config = folder.path().join("settings.json");
    let billing = json!({"name": "billing", "issuer": "https://login.example", "audience": "a"});
    fs::write(&config, json!({"clients": [billing]}).to_string()).unwrap();
    let config = config.to_str().unwrap();
    let server = Server::scripted(&[
        "--task-store",
        "memory",
        "--config",
        config,
        "--state-dir",
        state,
    ]);
    assert_eq!(send(&server, "echo a", &[&eve]).status, 200);
    let shadow = client(folder.path(), "billing", &[]);
    let removed = command(&["serve", "clients", "remove", "eve", "--state-dir", state]);
    assert!(removed.status.success(), "{removed:?}");
    wait_until(|| send(&server, "echo a", &[&eve]).status == 401);
    assert_eq!(send(&server, "echo a", &[&shadow]).status, 401);
}

#[tokio::test]
async fn certificate_identifies_its_client_beside_tokens() {
    let authority = Authority::new();
    authority.signed("localhost");
    let (ada, _) = authority.signed("ada.example");
    authority.signed("eve.example");
    let folder = tempfile::tempdir().unwrap();
    let authorization = client(folder.path(), "bob", &[]);
    let token = authorization.rsplit_once(' ').unwrap().1;
    let mut config: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("clients.json")).unwrap())
            .unwrap();
    let hash: String = digest(&SHA256, &ada)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    config["clients"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "ada", "certificateSha256": hash}));
    let file = |name: &str| authority.file(name).to_str().unwrap().to_owned();
    config["tls"] = json!({"certFile": file("localhost.pem"), "keyFile": file("localhost.key"), "clientCaFile": file("ca.pem")});
    let path = folder.path().join("serve.json");
    fs::write(&path, config.to_string()).unwrap();
    let server = Server::scripted(&["--task-store", "memory", "--config", path.to_str().unwrap()]);
    let port = server.url().rsplit_once(':').unwrap().1;

    let mtls = |name: &str| json!({"type": "mtls", "certFile": file(&format!("{name}.pem")), "keyFile": file(&format!("{name}.key"))});
    let bearer = json!({"type": "bearer", "token": token});
    for (auth, expected) in [
        (mtls("ada.example"), None),
        (bearer, None),
        (mtls("eve.example"), Some("auth_required")),
        (Value::Null, Some("auth_required")),
    ] {
        let mut target = json!({"baseUrl": format!("https://localhost:{port}"), "tls": {"caFile": file("ca.pem")}});
        if !auth.is_null() {
            target["auth"] = auth.clone();
        }
        let envelope = ToolFixture::with_target(target).call(&send_request()).await;
        assert_eq!(
            envelope["error"]["reason"].as_str(),
            expected,
            "{auth}: {envelope}"
        );
    }
    // What a client keeps of the card.
    let state = folder.path().join("state");
    let url = format!("https://localhost:{port}");
    let target = json!({"alias": "main", "default": true, "baseUrl": url, "tls": {"caFile": file("ca.pem")}, "auth": mtls("ada.example"), "pins": "report"});
    let fixture = ToolFixture::new(&json!({"stateDir": state, "targets": [target]}));
    assert_eq!(fixture.call(&send_request()).await["ok"], true);
    let files = fs::read_dir(state.join("pins")).unwrap();
    let mut kept = files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
    assert!(kept.any(|text| text.contains("/securitySchemes/mtls")));
}

#[cfg(feature = "real")]
#[test]
fn official_clients_verify_the_card() {
    use std::process::{Command, Stdio};
    use testkit::support::{
        root,
        sdk::{self, Sdk},
    };

    let folder = tempfile::tempdir().unwrap();
    let new = key(folder.path(), "new.pem", &rcgen::PKCS_ED25519);
    let old = key(folder.path(), "old.pem", &rcgen::PKCS_ECDSA_P256_SHA256);
    for keys in [vec![&*new], vec![&*old], vec![&*new, &*old]] {
        fs::remove_file(folder.path().join("clients.json")).ok();
        let (server, _) = signing(folder.path(), &keys);
        let [keys_file, card_file] =
            ["keys.json", "card.json"].map(|name| folder.path().join(name));
        let public = get(&server, "/.well-known/jwks.json");
        let first = public["keys"][0]["kid"].clone();
        fs::write(&keys_file, public.to_string()).unwrap();
        for header in [&[][..], &["A2A-Version: 1.0"]] {
            let card = exchange(&server, "GET /.well-known/agent-card.json", header, "");
            fs::write(&card_file, &card.body).unwrap();
            for sdk in [Sdk::Py13, Sdk::Js13] {
                let home = sdk::home(sdk);
                let program = root("tests/serve");
                let mut command = match sdk {
                    Sdk::Js13 => Command::new("node"),
                    _ => Command::new(home.join("bin/python")),
                };
                match sdk {
                    Sdk::Js13 => command.arg(program.join("js13_verify.mjs")).arg(&home),
                    _ => command.arg(program.join("py13_verify.py")),
                };
                let output = command
                    .args([&card_file, &keys_file])
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success(),
                    "{sdk:?}, {keys:?}, {header:?}: {stderr}"
                );
                let stdout = String::from_utf8(output.stdout).unwrap();
                // The JavaScript SDK first reports the signatures over other forms.
                let last_line = stdout.trim_end().lines().next_back().unwrap();
                let verified: Value = serde_json::from_str(last_line).unwrap();
                assert_eq!(verified["kid"], first, "{sdk:?}");
                assert_eq!(
                    verified["jku"],
                    format!("{}/.well-known/jwks.json", server.url())
                );
            }
        }
    }
}

/// oidc-provider issues a token for the resource, the plugin sends it, and the server reads the keys of the provider.
#[cfg(feature = "real")]
#[tokio::test]
async fn token_of_an_openid_provider_identifies_its_client() {
    use crate::credentials::authorization_server::{SECRET, server};

    let issuer = server().issuer();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("serve.json");
    let clients = json!({"clients": [
        {"name": "other", "issuer": issuer, "audience": "https://desk.example", "claims": {"client_id": "other"}},
        {"name": "steady", "issuer": issuer, "audience": "https://desk.example", "claims": {"client_id": "steady"}},
    ]});
    fs::write(&config, clients.to_string()).unwrap();
    let server = Server::scripted(&[
        "--task-store",
        "memory",
        "--config",
        config.to_str().unwrap(),
    ]);
    let target = |client: &str, resource: &str| {
        json!({"baseUrl": server.url(), "auth": {"type": "oauth2", "tokenUrl": format!("{issuer}/token"), "clientId": client,
            "clientSecret": SECRET, "resource": resource}})
    };
    for (client, resource, expected) in [
        ("steady", "https://desk.example", None),
        ("wrong", "https://desk.example", Some("auth_required")),
        ("steady", "https://other.example", Some("auth_required")),
    ] {
        let fixture = ToolFixture::with_target(target(client, resource));
        let envelope = fixture.call(&send_request()).await;
        assert_eq!(
            envelope["error"]["reason"].as_str(),
            expected,
            "{client}, {resource}: {envelope}"
        );
    }
}
