//! Private authorities and client certificates, with servers that check them.

use serde_json::{Value, json};

use crate::credentials::certificates::{Authority, Clients, Pair};
use crate::credentials::echo::Echo;
use crate::credentials::recorded_tool::{RecordedTool, requests};
use crate::credentials::tool_fixture::{ToolFixture, reason, send_request};

fn mtls(pair: &Pair) -> Value {
    json!({"type": "mtls", "certFile": pair.cert_file, "keyFile": pair.key_file})
}

#[tokio::test]
async fn private_authority_is_trusted_per_target() {
    let authority = Authority::new("private");
    let other = Authority::new("private_other");
    let peer = Echo::over(Some(authority.server(&Clients::Any)), None).await;
    let target =
        |alias: &str, tls: Value| json!({"alias": alias, "baseUrl": peer.origin, "tls": tls});
    // The first call leaves an open connection, which the others must not use.
    let fixture = ToolFixture::new(&json!({"targets": [
        target("trusts", json!({"caFile": authority.file()})),
        target("system", json!({})),
        target("other", json!({"caFile": other.file()})),
    ]}));
    for (alias, expected) in [("trusts", "none"), ("system", "tls"), ("other", "tls")] {
        let mut request = send_request();
        request["target_alias"] = json!(alias);
        let envelope = fixture.call(&request).await;
        assert_eq!(reason(&envelope), expected, "{alias}: {envelope}");
    }
}

#[tokio::test]
async fn client_certificate_is_sent_and_key_stays_secret() {
    let authority = Authority::new("certified");
    let pair = authority.client("certified_desk");
    let peer = Echo::over(Some(authority.server(&Clients::Required)), None).await;
    let tls = json!({"caFile": authority.file()});
    let mut recorded = RecordedTool::with_target(
        &json!({"baseUrl": peer.origin, "tls": tls, "auth": mtls(&pair)}),
    );
    assert_eq!(recorded.call(&send_request()).await["ok"], true);
    for request in requests() {
        recorded.call(&request).await;
    }
    assert!(peer.seen().iter().all(|request| request.certificate));
    recorded.assert_omits(&[&pair.key_line]);

    let untrusting = ToolFixture::with_target(json!({"baseUrl": peer.origin, "tls": tls}));
    let before = peer.seen().len();
    assert_eq!(reason(&untrusting.call(&send_request()).await), "tls");
    assert_eq!(peer.seen().len(), before);
}

#[tokio::test]
async fn connection_with_certificate_is_not_shared() {
    let authority = Authority::new("shared");
    let pair = authority.client("shared_desk");
    let peer = Echo::over(Some(authority.server(&Clients::Optional)), None).await;
    let tls = json!({"caFile": authority.file()});
    let fixture = ToolFixture::new(&json!({"targets": [
        {"alias": "desk", "baseUrl": peer.origin, "tls": tls, "auth": mtls(&pair)},
        {"alias": "guest", "baseUrl": peer.origin, "tls": tls},
    ]}));
    for alias in ["desk", "guest", "desk"] {
        let mut request = send_request();
        request["target_alias"] = json!(alias);
        let before = peer.seen().len();
        assert_eq!(fixture.call(&request).await["ok"], true);
        for request in &peer.seen()[before..] {
            assert_eq!(request.certificate, alias == "desk", "{alias}");
        }
    }
}

#[tokio::test]
async fn certificate_is_not_sent_to_other_origins() {
    let authority = Authority::new("elsewhere");
    let pair = authority.client("elsewhere_desk");
    let other = Echo::over(Some(authority.server(&Clients::Optional)), None).await;
    let own = authority.server(&Clients::Required);
    let peer = Echo::over(Some(own), Some(&other.origin)).await;
    let fixture = ToolFixture::with_target(json!({"baseUrl": peer.origin, "auth": mtls(&pair),
        "tls": {"caFile": authority.file()}, "allowPrivateNetwork": true}));
    assert_eq!(fixture.call(&send_request()).await["ok"], true);
    let there = other.seen();
    assert_eq!(there.len(), 1);
    assert!(!there[0].certificate);
}

#[tokio::test]
async fn token_endpoint_is_secured_as_its_target() {
    let authority = Authority::new("tokens");
    let server = Echo::over(Some(authority.server(&Clients::Any)), None).await;
    let peer = Echo::over(Some(authority.server(&Clients::Any)), None).await;
    let auth = json!({"type": "oauth2", "tokenUrl": format!("{}/token", server.origin), "clientId": "desk",
        "clientSecret": "client-secret-4e"});
    let mut recorded = RecordedTool::with_target(
        &json!({"baseUrl": peer.origin, "auth": auth, "tls": {"caFile": authority.file()}}),
    );
    assert_eq!(recorded.call(&send_request()).await["ok"], true);
    let seen = peer.seen();
    assert_eq!(seen[0].headers["authorization"], "Bearer token-of-echo");
    recorded.assert_omits(&["token-of-echo", "client-secret-4e"]);
}
