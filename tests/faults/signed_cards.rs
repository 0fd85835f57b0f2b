//! Targets whose agent cards must be signed.

use std::{fs, path::PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openclaw_remote_agent::plugin::Plugin;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::conformance::Peers;

use crate::faults::tool_fixture::{
    ToolFixture, card, message, peers, reason, result, send_request,
};
use crate::support::in_process::RecordedLog;

/// A card in canonical form, with only fields that its signature covers.
const CARD: &str = r#"{"capabilities":{"extendedAgentCard":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"description":"Answers.","name":"Signed desk","skills":[{"description":"d","id":"s","name":"n","tags":["t"]}],"supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"0.3","url":"/a2a/jsonrpc"}],"version":"1.0.0"}"#;

/// A signer, and the file with its key.
struct Signer {
    key: Ed25519KeyPair,
    file: PathBuf,
}

impl Signer {
    fn new(name: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        let x = URL_SAFE_NO_PAD.encode(key.public_key());
        let jwks = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "desk", "x": x}]});
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jwks.json"));
        fs::write(&file, jwks.to_string()).unwrap();
        Self { key, file }
    }

    fn signed_card(&self) -> Value {
        let protected = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","kid":"desk"}"#);
        let content = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(CARD));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(content.as_bytes()));
        let mut card: Value = serde_json::from_str(CARD).unwrap();
        card["signatures"] = json!([{"protected": protected, "signature": signature}]);
        card
    }

    fn fixture(&self, peers: &Peers) -> ToolFixture {
        ToolFixture::with_target(json!({
            "baseUrl": peers.origin("main"),
            "requireSignedCard": true,
            "jwksFile": self.file,
        }))
    }
}

/// Returns a peer with this card and an unsigned extended card.
async fn start_peer(plain: Value) -> Peers {
    peers(json!({"main": {"card": plain, "rpc": {
        "message/send": result(message("pong")),
        "agent/getAuthenticatedExtendedCard": result(card()),
        "GetExtendedAgentCard": result(card()),
    }}}))
    .await
}

#[tokio::test]
async fn target_with_a_signed_card_is_called() {
    let signer = Signer::new("called");
    let peers = start_peer(signer.signed_card()).await;
    let envelope = signer.fixture(&peers).call(&send_request()).await;
    assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
}

#[tokio::test]
async fn unsigned_extended_card_does_not_replace_signed_card() {
    let signer = Signer::new("extended");
    let peers = start_peer(signer.signed_card()).await;
    let listed = signer
        .fixture(&peers)
        .call(&json!({"action": "list_targets"}))
        .await;
    let target = &listed["summary"]["targets"][0];
    assert_eq!(target["target_name"], "Signed desk", "{listed}");
    assert_eq!(peers.log("main").len(), 2, "both cards were fetched");
}

#[tokio::test]
async fn unsigned_or_foreign_card_stops_the_call() {
    let signer = Signer::new("refused");
    let other = Signer::new("other").signed_card();
    for card in [card(), other] {
        let peers = start_peer(card).await;
        let fixture = signer.fixture(&peers);
        let envelope = fixture.call(&send_request()).await;
        assert_eq!(reason(&envelope), "card_signature", "{envelope}");
        assert_eq!(envelope["error"]["details"]["delivered"], "no");
        assert_eq!(peers.log("main").len(), 1, "only the card was fetched");
        let listed = fixture.call(&json!({"action": "list_targets"})).await;
        let target = &listed["summary"]["targets"][0];
        assert_eq!(
            target["last_refresh_error"]["reason"], "card_signature",
            "{listed}"
        );
    }
}

#[tokio::test]
async fn signed_card_is_found_after_missing_locations() {
    let signer = Signer::new("missing-location");
    let route = "GET /.well-known/agent-card.json";
    for (card, expected) in [(signer.signed_card(), "none"), (card(), "card_signature")] {
        let peers = peers(json!({"main": {
            "routes": {route: {"json": card}},
            "rpc": {"message/send": result(message("pong"))},
        }}))
        .await;
        let fixture = ToolFixture::with_target(json!({
            "baseUrl": format!("{}/base", peers.origin("main")),
            "requireSignedCard": true,
            "jwksFile": signer.file,
        }));
        let envelope = fixture.call(&send_request()).await;
        assert_eq!(reason(&envelope), expected, "{envelope}");
    }
}

#[test]
fn ineffective_settings_are_errors_with_their_path() {
    let base = json!({"alias": "main", "baseUrl": "http://127.0.0.1:1"});
    let missing = "/nowhere/keys.json";
    let empty = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("empty.jwks.json");
    fs::write(&empty, r#"{"keys": []}"#).unwrap();
    for (settings, field, message) in [
        (
            json!({"requireSignedCard": true}),
            "requireSignedCard",
            "https",
        ),
        (json!({"jwksFile": missing}), "jwksFile", "no effect"),
        (
            json!({"requireSignedCard": true, "jwksFile": missing}),
            "jwksFile",
            missing,
        ),
        (
            json!({"requireSignedCard": true, "jwksFile": empty}),
            "jwksFile",
            "no key",
        ),
    ] {
        let mut target = base.clone();
        for (key, value) in settings.as_object().unwrap() {
            target[key] = value.clone();
        }
        let config = json!({"targets": [target]}).to_string();
        let Err(error) = Plugin::new(&config, Arc::<RecordedLog>::default()) else {
            panic!("{settings} is accepted");
        };
        assert_eq!(error.path, format!("/targets/0/{field}"));
        assert!(error.message.contains(message), "{error}");
    }
}
