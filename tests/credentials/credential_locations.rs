//! The places of credentials, and peers that repeat their requests.

use serde_json::{Value, json};

use crate::credentials::echo::{Echo, Seen};
use crate::credentials::recorded_tool::{RecordedTool, requests};

const KEY: &str = "sesame/7f3a+opens==";

/// Calls a peer with all actions and returns the requests. No result contains one of `secrets`.
async fn called(settings: Value, secrets: &[&str]) -> Vec<Seen> {
    let peer = Echo::start().await;
    let mut target = settings;
    target["baseUrl"] = json!(peer.origin);
    let mut recorded = RecordedTool::with_target(&target);
    for request in requests() {
        recorded.call(&request).await;
    }
    recorded.assert_omits(secrets);
    let seen = peer.seen();
    assert!(seen.len() >= requests().len(), "{} requests", seen.len());
    seen
}

/// Every request has this header.
fn assert_all_have(seen: &[Seen], name: &str, value: &str) {
    for request in seen {
        let header = request.headers.get(name).map(String::as_str);
        assert_eq!(header, Some(value), "{}", request.line);
    }
}

#[tokio::test]
async fn every_request_has_the_bearer_token() {
    let auth = json!({"type": "bearer", "token": KEY});
    let seen = called(json!({"auth": auth}), &[KEY, "sesame"]).await;
    assert_all_have(&seen, "authorization", &format!("Bearer {KEY}"));
}

#[tokio::test]
async fn every_request_has_name_and_password() {
    let auth = json!({"type": "basic", "username": "desk", "password": KEY});
    let pair = "ZGVzazpzZXNhbWUvN2YzYStvcGVucz09";
    let seen = called(json!({"auth": auth}), &[KEY, "sesame", pair]).await;
    assert_all_have(&seen, "authorization", &format!("Basic {pair}"));
}

#[tokio::test]
async fn every_request_has_the_header_key() {
    let auth = json!({"type": "apiKey", "in": "header", "name": "X-Desk-Key", "value": KEY});
    let seen = called(json!({"auth": auth}), &[KEY, "sesame"]).await;
    assert_all_have(&seen, "x-desk-key", KEY);
}

#[tokio::test]
async fn every_request_has_the_query_key() {
    let auth = json!({"type": "apiKey", "in": "query", "name": "desk key", "value": KEY});
    let seen = called(json!({"auth": auth}), &[KEY, "sesame", "%2F7f3a"]).await;
    for request in seen {
        let part = "?desk+key=sesame%2F7f3a%2Bopens%3D%3D ";
        assert!(request.line.contains(part), "{}", request.line);
    }
}

#[tokio::test]
async fn api_key_cookie_is_sent_beside_other_cookies() {
    let auth = json!({"type": "apiKey", "in": "cookie", "name": "key", "value": KEY});
    let settings = json!({"auth": auth, "headers": {"Cookie": "session=chocolate-9b"}});
    let seen = called(settings, &[KEY, "sesame", "chocolate-9b"]).await;
    let cookies = format!("session=chocolate-9b; key={KEY}");
    assert_all_have(&seen, "cookie", &cookies);
}

/// Returns the settings of a credential that a shell script prints. Not the script but its run contains the key.
fn command(script: &str) -> Value {
    let key = "$(printf ses%s ame/7f3a+opens==)";
    let script = script.replace(KEY, key);
    json!({"type": "command", "command": ["/bin/sh", "-c", script]})
}

#[tokio::test]
async fn every_request_has_the_token_of_the_command() {
    let seen = called(
        json!({"auth": command(&format!("echo \"{KEY}\""))}),
        &[KEY, "sesame"],
    )
    .await;
    assert_all_have(&seen, "authorization", &format!("Bearer {KEY}"));
}

#[tokio::test]
async fn every_request_is_signed_for_aws() {
    let auth = json!({"type": "awsSigV4", "region": "eu-west-1", "accessKeyId": "AKIDEXAMPLE",
        "secretAccessKey": KEY, "sessionToken": "session-token-8c"});
    let seen = called(
        json!({"auth": auth}),
        &[KEY, "sesame", "session-token-8c", "AKIDEXAMPLE"],
    )
    .await;
    assert_all_have(&seen, "x-amz-security-token", "session-token-8c");
    for request in seen {
        let header = &request.headers["authorization"];
        let scope = "/eu-west-1/bedrock-agentcore/aws4_request, SignedHeaders=";
        assert!(
            header.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
                && header.contains(scope),
            "{header}"
        );
    }
}

#[tokio::test]
async fn failing_command_opens_no_connection_and_shows_no_secret() {
    let peer = Echo::start().await;
    let script = format!("echo \"cannot use token={KEY}\" >&2; exit 1");
    let settings = json!({"baseUrl": peer.origin, "auth": command(&script)});
    let mut recorded = RecordedTool::with_target(&settings);
    let request = crate::credentials::tool_fixture::send_request();
    let envelope = recorded.call(&request).await;
    assert_eq!(
        envelope["error"]["reason"], "token_unavailable",
        "{envelope}"
    );
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("the command `sh` gave no credential: it failed with exit status: 1"),
        "{message}"
    );
    recorded.assert_omits(&[KEY, "sesame"]);
    assert!(peer.seen().is_empty());
}

#[tokio::test]
async fn target_headers_precede_default_headers() {
    let peer = Echo::start().await;
    let target = json!({"alias": "main", "baseUrl": peer.origin, "default": true,
        "headers": {"X-Desk-Token": KEY, "X-Both": "target-secret-3c"}});
    let mut recorded = RecordedTool::new(&json!({
        "targets": [target],
        "defaults": {"serviceParameters": {"x-both": "default-secret-3c"}},
    }));
    for request in requests() {
        recorded.call(&request).await;
    }
    let seen = peer.seen();
    assert_all_have(&seen, "x-desk-token", KEY);
    assert_all_have(&seen, "x-both", "target-secret-3c");
    recorded.assert_omits(&[KEY, "sesame"]);
}

#[tokio::test]
async fn request_has_one_version_header() {
    let card = json!({"name": "Desk", "description": "Answers.", "version": "1.0.0", "capabilities": {}, "skills": [],
        "supportedInterfaces": [{"url": "{{origin}}/a2a/jsonrpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]});
    let answer = json!({"messageId": "m-1", "role": "ROLE_AGENT", "parts": [{"text": "pong"}]});
    let rpc = json!({"SendMessage": {"result": {"message": answer}}});
    let peers =
        crate::credentials::tool_fixture::peers(json!({"main": {"card": card, "rpc": rpc}})).await;
    let mut recorded = RecordedTool::with_target(
        &json!({"baseUrl": peers.origin("main"), "headers": {"A2A-Version": "0.3"}}),
    );
    let envelope = recorded
        .call(&crate::credentials::tool_fixture::send_request())
        .await;
    assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
    let versions: Vec<_> = peers
        .log("main")
        .into_iter()
        .map(|request| request.headers["a2a-version"].clone())
        .collect();
    assert_eq!(versions, ["1.0", "1.0"]);
}

#[tokio::test]
async fn failure_omits_query_of_card_url() {
    let peers = crate::credentials::tool_fixture::peers(json!({"main": {}})).await;
    let mut recorded = RecordedTool::with_target(
        &json!({"baseUrl": peers.origin("main"), "cardPath": "/card?key=sesame-7f3a"}),
    );
    let envelope = recorded
        .call(&crate::credentials::tool_fixture::send_request())
        .await;
    let error = &envelope["error"];
    assert_eq!(error["reason"], "card_unavailable", "{envelope}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("/card`") && !message.contains("sesame"),
        "{message}"
    );
    let requests = peers.log("main");
    assert_eq!(requests[0].path, "/card?key=sesame-7f3a");
}

#[tokio::test]
async fn credentials_are_not_sent_to_other_origins() {
    for auth in [
        json!({"type": "basic", "username": "desk", "password": KEY}),
        json!({"type": "apiKey", "in": "header", "name": "x-key", "value": KEY}),
        json!({"type": "apiKey", "in": "query", "name": "key", "value": KEY}),
        json!({"type": "apiKey", "in": "cookie", "name": "key", "value": KEY}),
        command(&format!("echo \"{KEY}\"")),
        json!({"type": "awsSigV4", "region": "eu-west-1", "accessKeyId": "AKIDEXAMPLE", "secretAccessKey": KEY}),
    ] {
        let other = Echo::start().await;
        let peer = Echo::over(None, Some(&other.origin)).await;
        let mut recorded = RecordedTool::with_target(&json!({"baseUrl": peer.origin, "auth": auth,
            "headers": {"x-desk": KEY}, "allowPrivateNetwork": true}));
        for request in requests() {
            recorded.call(&request).await;
        }
        recorded.assert_omits(&[KEY, "sesame"]);
        let there = other.seen();
        assert!(there.len() >= 6, "{} requests", there.len());
        for request in there {
            let reported = format!("{request:?}");
            let any = ["sesame", "ZGVzazpz", "authorization", "cookie", "key="];
            assert!(
                !any.iter().any(|piece| reported.contains(piece)),
                "{reported}"
            );
        }
    }
}

#[tokio::test]
async fn request_cannot_set_credential_headers() {
    let peer = Echo::start().await;
    let key = json!({"type": "apiKey", "in": "header", "name": "X-Desk-Key", "value": KEY});
    let mut recorded = RecordedTool::new(&json!({"targets": [
        {"alias": "key", "baseUrl": peer.origin, "auth": key, "headers": {"X-Desk": KEY}},
        {"alias": "open", "baseUrl": format!("{}/open", peer.origin)},
    ]}));
    let mut request = crate::credentials::tool_fixture::send_request();
    for (name, alias, allowed) in [
        ("x-desk-key", "key", false),
        ("X-DESK", "key", false),
        ("x-other", "key", true),
        ("x-desk-key", "open", true),
    ] {
        request["target_alias"] = json!(alias);
        request["service_parameters"] = json!({name: "mine"});
        let before = peer.seen().len();
        let envelope = recorded.call(&request).await;
        assert_eq!(envelope["ok"], allowed, "{name}: {envelope}");
        if !allowed {
            assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR");
            let place = &envelope["error"]["details"]["errors"][0]["instancePath"];
            assert_eq!(*place, format!("/service_parameters/{name}"));
            assert_eq!(peer.seen().len(), before);
        }
    }
    recorded.assert_omits(&[KEY]);
}

#[tokio::test]
async fn unresolved_secret_opens_no_connection() {
    let reference = json!({"source": "env", "id": "DESK_SECRET"});
    for auth in [
        json!({"type": "bearer", "token": reference}),
        json!({"type": "basic", "username": "desk", "password": reference}),
        json!({"type": "apiKey", "in": "query", "name": "key", "value": reference}),
        json!({"type": "oauth2", "tokenUrl": "https://as.example/token", "clientId": "desk", "clientSecret": reference}),
        json!({"type": "awsSigV4", "region": "eu-west-1", "accessKeyId": "AKIDEXAMPLE", "secretAccessKey": reference}),
    ] {
        let peer = Echo::start().await;
        let mut recorded =
            RecordedTool::with_target(&json!({"baseUrl": peer.origin, "auth": auth}));
        let envelope = recorded
            .call(&crate::credentials::tool_fixture::send_request())
            .await;
        assert_eq!(
            envelope["error"]["reason"], "credential_unresolved",
            "{auth}"
        );
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains("env:DESK_SECRET"), "{message}");
        assert!(peer.seen().is_empty());
    }
}

#[tokio::test]
async fn auth_challenge_is_reported_by_scheme_and_realm() {
    let peer = Echo::start().await;
    let mut recorded = RecordedTool::with_target(&json!({"baseUrl": peer.origin}));
    let mut request = crate::credentials::tool_fixture::send_request();
    request["parts"][0]["text"] = json!("challenge");
    let envelope = recorded.call(&request).await;
    assert_eq!(envelope["error"]["reason"], "auth_required");
    assert_eq!(
        envelope["error"]["details"]["auth_schemes"],
        json!(["Bearer"])
    );
    assert_eq!(envelope["error"]["details"]["http_status"], 401);
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("it requires Bearer (realm `POST /rpc"),
        "{message}"
    );
}
