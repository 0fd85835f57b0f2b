#![allow(clippy::unwrap_used)]
use super::*;
use crate::config::Secret;
use serde_json::{Value, json};

fn read(gateway: Value) -> Result<Config, ConfigError> {
    Config::parse(&json!({ "gateway": gateway }).to_string())
}

#[track_caller]
fn refused(gateway: Value, place: &str, message: &str) {
    let error = read(gateway).unwrap_err();
    assert_eq!(error.path, place, "{error}");
    assert!(error.message.contains(message), "{error}");
}

#[test]
fn gateway_defaults_to_disabled_and_loopback() {
    let gateway = read(json!({})).unwrap().gateway;
    assert!(!gateway.enabled && !gateway.allow_remote && !gateway.token_in_query);
    assert_eq!(gateway.url, "ws://127.0.0.1:18789");
}

#[test]
fn invalid_address_suggests_valid_one() {
    for (url, message) in [
        ("http://127.0.0.1:18789/", "try `ws://127.0.0.1:18789`"),
        (
            "https://gate.example/a?key=s3cret",
            "try `wss://gate.example/a`",
        ),
        (
            "http://me:s3cret@127.0.0.1:18789",
            "try `ws://127.0.0.1:18789`",
        ),
        ("127.0.0.1:18789", "try `ws://127.0.0.1:18789`"),
        ("localhost:18789", "try `ws://localhost:18789`"),
        ("gate.example", "try `wss://gate.example`"),
        ("tcp://127.0.0.1:18789", "ws or wss"),
        ("ws://", "is not a URL"),
        ("ws://me:s3cret@127.0.0.1:18789", "gateway.token"),
        ("ws://127.0.0.1:18789/?token=s3cret", "gateway.token"),
        ("ws://127.0.0.1:18789/#a", "fragment"),
    ] {
        let error = read(json!({ "url": url })).unwrap_err();
        assert_eq!(error.path, "/gateway/url", "{url}");
        assert!(error.message.contains(message), "{url}: {error}");
        assert!(!error.message.contains("s3cret"), "{error}");
    }
}

#[test]
fn remote_address_requires_permission_and_wss() {
    for (url, remote, message) in [
        ("ws://192.0.2.1:18789", false, Some("gateway.allowRemote")),
        ("wss://192.0.2.1:18789", false, Some("gateway.allowRemote")),
        ("ws://192.0.2.1:18789", true, Some("wss:")),
        ("ws://[2001:db8::1]:18789", true, Some("wss:")),
        ("ws://0.0.0.0:18789", false, Some("gateway.allowRemote")),
        ("wss://192.0.2.1:18789", true, None),
        ("ws://127.8.9.10:18789", false, None),
        ("ws://[::1]:18789", false, None),
        ("ws://[::ffff:127.0.0.1]:18789", false, None),
        // A host name is checked when it is resolved.
        ("ws://gate.example:18789", false, None),
    ] {
        let gateway = json!({"url": url, "allowRemote": remote});
        match message {
            Some(message) => refused(gateway, "/gateway/url", message),
            None => drop(read(gateway).unwrap()),
        }
    }
}

#[test]
fn token_in_url_is_for_heretek_js_only() {
    for dialect in ["auto", "openclaw", "a2a-v1"] {
        let gateway = json!({"tokenInQuery": true, "dialect": dialect, "token": "s3cret"});
        refused(gateway, "/gateway/tokenInQuery", "heretek-js");
    }
    read(json!({"tokenInQuery": true, "dialect": "heretek-js", "token": "s3cret"})).unwrap();
}

#[test]
fn certificates_require_wss_and_a_key() {
    let wss = "wss://127.0.0.1:18789";
    for (url, tls, place) in [
        ("ws://127.0.0.1:18789", json!({"caFile": "/ca"}), "caFile"),
        (wss, json!({"certFile": "/cert"}), "certFile"),
        (wss, json!({"keyFile": "/key"}), "keyFile"),
    ] {
        refused(
            json!({"url": url, "tls": tls}),
            &format!("/gateway/tls/{place}"),
            "",
        );
    }
    let tls = json!({"caFile": "/ca", "certFile": "/cert", "keyFile": "/key"});
    read(json!({"url": wss, "tls": tls})).unwrap();
}

#[test]
fn triad_has_three_different_agents() {
    for (members, place) in [
        (json!(["a", "b"]), "/gateway/triad/members"),
        (json!(["a", "b", "c", "d"]), "/gateway/triad/members"),
        (json!(["a", "b", "a"]), "/gateway/triad/members/2"),
        (json!(["a", "triad", "c"]), "/gateway/triad/members/1"),
        (json!(["a", "b c", "d"]), "/gateway/triad/members/1"),
    ] {
        refused(json!({"triad": {"members": members}}), place, "");
    }
    read(json!({"triad": {"members": ["a", "b", "A"]}})).unwrap();
}

#[test]
fn refuses_triad_and_duplicates_as_agents() {
    refused(
        json!({"agents": ["a", "triad"]}),
        "/gateway/agents/1",
        "gateway.triad",
    );
    refused(json!({"agents": ["a", "a"]}), "/gateway/agents/1", "twice");
    refused(json!({"agents": ["a/b"]}), "/gateway/agents/0", "pattern");
}

#[test]
fn invalid_values_are_reported_with_their_place() {
    for (gateway, place) in [
        (json!({"port": 18789}), "/gateway/port"),
        (json!({"enabled": "yes"}), "/gateway/enabled"),
        (json!({"dialect": "a2a"}), "/gateway/dialect"),
        (json!({"protocol": "a2a v1"}), "/gateway/protocol"),
        (json!({"protocol": ""}), "/gateway/protocol"),
        (json!({"token": ""}), "/gateway/token"),
        (json!({"token": 7}), "/gateway/token"),
        (json!({"timeoutMs": 0}), "/gateway/timeoutMs"),
        (json!({"heartbeatMs": 0}), "/gateway/heartbeatMs"),
        (
            json!({"triad": {"quorum": "most"}}),
            "/gateway/triad/quorum",
        ),
        (
            json!({"triad": {"deadlineMs": 0}}),
            "/gateway/triad/deadlineMs",
        ),
        (json!({"allowedAgents": [""]}), "/gateway/allowedAgents/0"),
    ] {
        refused(gateway, place, "");
    }
}

#[test]
fn token_is_redacted_and_may_be_a_reference() {
    let known = read(json!({"token": "s3cret"})).unwrap();
    let shown = format!("{known:?} {}", serde_json::to_string(&known).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
    let reference = read(json!({"token": {"source": "env", "id": "GATE_TOKEN"}})).unwrap();
    assert!(matches!(
        reference.gateway.token,
        Some(Secret::Unresolved { .. })
    ));
}
