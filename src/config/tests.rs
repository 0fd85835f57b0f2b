#![allow(clippy::unwrap_used)]
use super::*;
use base::config::with_presumed_scheme;
use serde_json::{Value, json};

fn refused(config: &Value) -> String {
    Config::parse(&config.to_string()).unwrap_err().path
}

fn with_target(extra: Value) -> Value {
    json!({ "targets": [target("a", extra)] })
}

fn target(alias: &str, extra: Value) -> Value {
    let mut target = json!({ "alias": alias, "baseUrl": "https://a.example" });
    let fields = target.as_object_mut().unwrap();
    fields.extend(extra.as_object().unwrap().clone());
    target
}

#[test]
fn url_without_scheme_suggests_one() {
    for (url, whole) in [
        ("127.0.0.1:7801", Some("http://127.0.0.1:7801")),
        ("[::1]:1", Some("http://[::1]:1")),
        ("localhost:1/a", Some("http://localhost:1/a")),
        ("desk.example", Some("https://desk.example")),
        ("desk.example:443", Some("https://desk.example:443")),
        ("http://desk.example", None),
        ("mailto:a@desk.example", None),
        ("desk.example?key=secret", None),
        ("/a", None),
        ("", None),
    ] {
        assert_eq!(with_presumed_scheme(url).as_deref(), whole, "{url}");
    }
}

#[test]
fn invalid_secret_type_lists_accepted_forms() {
    let config = with_target(json!({"auth": {"type": "bearer", "token": 7}}));
    let error = Config::parse(&config.to_string()).unwrap_err();
    assert_eq!(error.path, "/targets/0/auth/token");
    assert!(error.message.contains("a SecretRef"), "{error}");
}

#[test]
fn invalid_settings_are_reported_with_their_place() {
    let with_parameter = |name: &str, value: &str| json!({"serviceParameters": {name: value}});
    let two = |more: Value| json!([target("a", more.clone()), target("b", more)]);
    let url = "https://a.example";
    for (config, place) in [
        (json!({"enabled": "yes"}), "/enabled"),
        (json!({"nonsense": 1}), "/nonsense"),
        (json!({"targets": {}}), "/targets"),
        (json!({"targets": [url]}), "/targets/0"),
        (json!({"targets": [{"baseUrl": url}]}), "/targets/0"),
        (
            json!({"targets": two(json!({"alias": " a"}))}),
            "/targets/1/alias",
        ),
        (
            json!({"targets": two(json!({"default": true}))}),
            "/targets/1/default",
        ),
        (
            json!({"taskHandles": {"maxEntries": 0}}),
            "/taskHandles/maxEntries",
        ),
        (
            json!({"limits": {"responseBytes": 1}}),
            "/limits/responseBytes",
        ),
        (json!({"cards": {"ttlMs": -1}}), "/cards/ttlMs"),
    ] {
        assert_eq!(refused(&config), place, "{config}");
    }
    let two_cards = json!({"cardPath": "https://b.example/c", "cardUrl": "https://c.example/c"});
    let token = |kind: &str, token: &str| json!({"auth": {"type": kind, "token": token}});
    for (more, place) in [
        (json!({"alias": " "}), "alias"),
        (json!({"baseUrl": "ftp://a.example"}), "baseUrl"),
        (json!({"baseUrl": "http://a.example:99999/"}), "baseUrl"),
        (json!({"baseUrl": "https://u:p@a.example/"}), "baseUrl"),
        (json!({"endpoint": "/relative"}), "endpoint"),
        (two_cards, "cardPath"),
        (
            json!({"card": {}, "cardUrl": "https://b.example/c"}),
            "card",
        ),
        (json!({"card": {}, "cardPath": "/c"}), "card"),
        (json!({"card": 1}), "card"),
        (json!({"preferredTransports": []}), "preferredTransports"),
        (
            json!({"preferredTransports": ["GRPC"]}),
            "preferredTransports/0",
        ),
        (
            json!({"preferredTransports": ["PIGEON"]}),
            "preferredTransports/0",
        ),
        (token("bearer", "a\nb"), "auth/token"),
        (token("kerberos", "a"), "auth/type"),
    ] {
        let config = with_target(more);
        assert_eq!(refused(&config), format!("/targets/0/{place}"), "{config}");
    }
    for (defaults, place) in [
        (json!({"timeoutMs": 0}), "timeoutMs"),
        (
            with_parameter("bad name", "x"),
            "serviceParameters/bad name",
        ),
        (with_parameter("a/b~", "x"), "serviceParameters/a~1b~0"),
        (with_parameter("Host", "x"), "serviceParameters/Host"),
        (with_parameter("x", "a\r\nb: c"), "serviceParameters/x"),
    ] {
        let config = json!({ "defaults": defaults });
        assert_eq!(refused(&config), format!("/defaults/{place}"), "{config}");
    }
    assert_eq!(Config::parse("{").unwrap_err().path, "");
}

fn auth(auth: Value) -> Value {
    with_target(json!({ "auth": auth }))
}

fn key(place: &str, name: &str, value: &str) -> Value {
    auth(json!({"type": "apiKey", "in": place, "name": name, "value": value}))
}

fn oauth2(token_url: &str, scopes: &[&str]) -> Value {
    let client = json!({"type": "oauth2", "tokenUrl": token_url, "clientId": "a", "clientSecret": "b", "scopes": scopes});
    auth(client)
}

/// Returns a target with `awsSigV4` and these fields.
fn aws(fields: Value) -> Value {
    let mut all = json!({"type": "awsSigV4", "region": "us-east-1"});
    let fields = fields.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(fields);
    auth(all)
}

#[test]
fn invalid_credentials_are_reported_with_their_place() {
    let basic = |name: &str, password: &str| {
        auth(json!({"type": "basic", "username": name, "password": password}))
    };
    let mtls = json!({"type": "mtls", "certFile": "a", "keyFile": "b"});
    let over_http = json!({"baseUrl": "http://a.example", "auth": mtls});
    let bearer = json!({"type": "bearer", "token": "t"});
    let two = json!({"auth": bearer, "headers": {"Authorization": "x"}});
    let header = |name: &str, value: &str| with_target(json!({"headers": {name: value}}));
    let https = "https://as.example/";
    for (config, place) in [
        (basic("a:b", "c"), "auth/username"),
        (basic("a\n", "c"), "auth/username"),
        (basic("a", "c\n"), "auth/password"),
        (key("header", "bad name", "k"), "auth/name"),
        (key("header", "Host", "k"), "auth/name"),
        (key("header", "Content-Type", "k"), "auth/name"),
        (key("header", "x-key", "k\n"), "auth/value"),
        (key("cookie", "a=b", "k"), "auth/name"),
        (key("cookie", "a", "k;"), "auth/value"),
        (key("cookie", "a", "k\n"), "auth/value"),
        (key("body", "a", "k"), "auth/in"),
        (oauth2("as.example/token", &[]), "auth/tokenUrl"),
        (oauth2("https://u:p@as.example/", &[]), "auth/tokenUrl"),
        (oauth2("http://as.example/token", &[]), "auth/tokenUrl"),
        (oauth2("http://10.0.0.1/token", &[]), "auth/tokenUrl"),
        (oauth2(https, &["a", "b c"]), "auth/scopes/1"),
        (with_target(over_http), "auth/type"),
        (header("bad name", "x"), "headers/bad name"),
        (header("Host", "x"), "headers/Host"),
        (header("x", "a\r\nb"), "headers/x"),
        (with_target(two), "headers/Authorization"),
        (auth(json!({"type": "command"})), "auth"),
        (
            auth(json!({"type": "command", "command": "get-token --now"})),
            "auth/command",
        ),
        (
            auth(json!({"type": "command", "command": []})),
            "auth/command",
        ),
        (
            auth(json!({"type": "command", "command": ["a\u{0}"]})),
            "auth/command",
        ),
        (
            auth(json!({"type": "command", "command": ["bin/get-token"]})),
            "auth/command",
        ),
        (
            auth(json!({"type": "command", "command": ["./get-token"]})),
            "auth/command",
        ),
        (
            auth(json!({"type": "command", "command": [".."]})),
            "auth/command",
        ),
        (aws(json!({"command": ["../aws"]})), "auth/command"),
        (
            auth(json!({"type": "command", "command": ["a"], "timeoutMs": 99})),
            "auth/timeoutMs",
        ),
        (
            auth(json!({"type": "command", "command": ["a"], "env": ["A=B"]})),
            "auth/env/0",
        ),
        (aws(json!({})), "auth/type"),
        (aws(json!({"accessKeyId": "a"})), "auth/type"),
        (aws(json!({"secretAccessKey": "a"})), "auth/type"),
        (
            aws(json!({"command": ["a"], "sessionToken": "a"})),
            "auth/type",
        ),
        (
            aws(json!({"command": ["a"], "accessKeyId": "a", "secretAccessKey": "b"})),
            "auth/type",
        ),
        (
            aws(json!({"accessKeyId": "a", "secretAccessKey": "b", "env": ["C"]})),
            "auth/env",
        ),
        (
            aws(json!({"accessKeyId": "a", "secretAccessKey": "b", "timeoutMs": 30_000})),
            "auth/timeoutMs",
        ),
        (
            aws(json!({"accessKeyId": "a\n", "secretAccessKey": "b"})),
            "auth/accessKeyId",
        ),
        (
            aws(json!({"region": "us/east", "command": ["a"]})),
            "auth/region",
        ),
        (
            with_target(
                json!({"auth": {"type": "command", "command": ["a"]}, "headers": {"Authorization": "x"}}),
            ),
            "headers/Authorization",
        ),
    ] {
        assert_eq!(refused(&config), format!("/targets/0/{place}"), "{config}");
    }
}

#[test]
fn valid_credentials_are_accepted() {
    for config in [
        auth(json!({"type": "basic", "username": "a b", "password": "ü:c"})),
        key("header", "X-Key", "k y"),
        key("query", "any name", "any\nkey"),
        key("cookie", "a", "b=c"),
        auth(
            json!({"type": "command", "command": ["vault", "read"], "env": ["VAULT_ADDR"], "timeoutMs": 5000}),
        ),
        aws(
            json!({"accessKeyId": "a", "secretAccessKey": "b", "sessionToken": {"source": "env", "id": "C"}}),
        ),
        auth(json!({"type": "command", "command": ["/opt/bin/get-token", "--config", "a/b"]})),
        aws(json!({"service": "execute-api", "command": ["aws-vault", "export"]})),
        oauth2("https://as.example/token", &["a:b", "c/d"]),
        oauth2("http://127.0.0.1:1/token", &[]),
        oauth2("http://localhost/token", &[]),
        oauth2("http://[::1]/token", &[]),
        with_target(
            json!({"auth": oauth2("http://as.example/", &[])["targets"][0]["auth"], "allowPrivateNetwork": true}),
        ),
        with_target(
            json!({"auth": key("cookie", "a", "b")["targets"][0]["auth"], "headers": {"cookie": "c=d"}}),
        ),
    ] {
        let parsed = Config::parse(&config.to_string());
        assert!(parsed.is_ok(), "{config}: {}", parsed.unwrap_err());
    }
}

#[test]
fn debug_omits_the_arguments_of_a_program() {
    let command = ["/opt/get-token", "--password", "opensesame"];
    for auth in [
        auth(json!({"type": "command", "command": command})),
        aws(json!({"command": command})),
    ] {
        let printed = format!("{:?}", Config::parse(&auth.to_string()).unwrap());
        assert!(printed.contains("/opt/get-token"), "{printed}");
        assert!(!printed.contains("opensesame"), "{printed}");
    }
}

#[test]
fn schema_and_type_agree() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut of_type = serde_json::to_value(Config::default()).unwrap();
    // OpenClaw writes the defaults of the schema into the settings, and there the address is that of its own gateway.
    let gateway = of_type["gateway"].as_object_mut().unwrap();
    assert!(gateway.remove("url").is_some());
    assert_eq!(Some(of_type), testkit::schema::defaults(&schema));
    for (place, config) in testkit::schema::with_wrong_types(&schema) {
        let read = serde_json::from_value::<Config>(config);
        let error = read.err().map(|error| error.to_string());
        let is_read = |error: &String| !error.contains("missing field");
        assert!(error.as_ref().is_some_and(is_read), "{place}: {error:?}");
    }
}

#[test]
fn integers_accept_a_decimal_point_and_saturate() {
    let config =
        json!({"defaults": {"timeoutMs": 5.0}, "taskHandles": {"maxEntries": 2.0, "ttlMs": 1e30}});
    let config = Config::parse(&config.to_string()).unwrap();
    assert_eq!(config.defaults.timeout_ms, 5);
    assert_eq!(
        (config.task_handles.max_entries, config.task_handles.ttl_ms),
        (2, u64::MAX)
    );
}

#[test]
fn absolute_card_path_becomes_card_url() {
    let config = Config::parse(
        &with_target(json!({"cardPath": "https://cards.example/a.json"})).to_string(),
    )
    .unwrap();
    assert_eq!(
        config.targets[0].card_url.as_deref(),
        Some("https://cards.example/a.json")
    );
    assert_eq!(config.targets[0].card_path, None);
}

#[test]
fn query_belongs_to_the_address_of_the_card() {
    let card = "https://a.example/.well-known/agent-card.json?assistant_id=1";
    for more in [
        json!({"cardUrl": card}),
        json!({"cardPath": card}),
        json!({"cardPath": "/.well-known/agent-card.json?assistant_id=1"}),
    ] {
        Config::parse(&with_target(more).to_string()).unwrap();
    }
    let defaults = json!({"defaults": {"cardPath": card}});
    Config::parse(&defaults.to_string()).unwrap();
    let fault = |more| Config::parse(&with_target(more).to_string()).unwrap_err();
    for (more, place, names_setting) in [
        (json!({"baseUrl": card}), "/targets/0/baseUrl", true),
        (
            json!({"baseUrl": "https://a.example/#a"}),
            "/targets/0/baseUrl",
            false,
        ),
        (json!({"endpoint": card}), "/targets/0/endpoint", false),
        (
            json!({"cardUrl": format!("{card}#a")}),
            "/targets/0/cardUrl",
            false,
        ),
    ] {
        let error = fault(more.clone());
        assert_eq!(error.path, place, "{more}");
        assert_eq!(error.message.contains("`cardUrl`"), names_setting, "{more}");
    }
}

#[test]
fn debug_and_json_omit_secrets() {
    let config = json!({
        "defaults": {"serviceParameters": {"x-key": "hunter2"}},
        "targets": [
            target("a", json!({"auth": {"type": "bearer", "token": "hunter2"}, "headers": {"x-key": "hunter2"}})),
            target("b", json!({"auth": {"type": "basic", "username": "b", "password": "hunter2"}})),
            target("c", json!({"auth": {"type": "apiKey", "in": "query", "name": "c", "value": "hunter2"}})),
            target("d", json!({"auth": {"type": "oauth2", "tokenUrl": "https://d.example/", "clientId": "d", "clientSecret": "hunter2"}})),
            target("e", json!({"auth": {"type": "awsSigV4", "region": "r", "accessKeyId": "hunter2", "secretAccessKey": "hunter2", "sessionToken": "hunter2"}})),
        ]
    });
    let config = Config::parse(&config.to_string()).unwrap();
    let written = serde_json::to_string(&config).unwrap();
    assert!(
        written.contains("x-key") && !written.contains("hunter2"),
        "{written}"
    );
    let printed = format!("{config:?}");
    assert!(
        printed.contains("[redacted]") && !printed.contains("hunter2"),
        "{printed}"
    );
}

#[test]
fn error_omits_invalid_value() {
    let error = Config::parse(
        &with_target(json!({"auth": {"type": "bearer", "token": 12345678}})).to_string(),
    )
    .unwrap_err();
    assert!(error.path.starts_with("/targets/0/auth/token"), "{error}");
    assert!(!error.to_json().contains("12345678"), "{error}");
}
