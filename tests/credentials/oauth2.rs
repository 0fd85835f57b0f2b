//! Access tokens from a real authorization server.

use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::credentials::authorization_server::{SECRET, Server, server};
use crate::credentials::echo::Echo;
use crate::credentials::recorded_tool::{RecordedTool, requests};
use crate::credentials::tool_fixture::{
    ToolFixture, card, message, peers, reason, result, send_request, within_timeout,
};

fn auth(server: &Server, client: &str) -> Value {
    json!({"type": "oauth2", "tokenUrl": server.token_url(), "clientId": client, "clientSecret": SECRET,
        "scopes": ["work"]})
}

fn target(server: &Server, client: &str, peers: &Peers) -> Value {
    json!({"baseUrl": peers.origin("main"), "auth": auth(server, client)})
}

/// Returns a peer with this answer to messages.
async fn answering(sends: Value) -> Peers {
    peers(json!({"main": {"card": card(), "rpc": {"message/send": sends}}})).await
}

async fn pong() -> Peers {
    answering(result(message("pong"))).await
}

/// Returns the tokens in the peer's requests of this method, in order.
fn tokens(peers: &Peers, method: &str) -> Vec<String> {
    let log = peers.log("main");
    let sent = log.iter().filter(|request| request.method == method);
    sent.map(|request| {
        let header = request.headers["authorization"].strip_prefix("Bearer ");
        header.expect("a bearer token").to_owned()
    })
    .collect()
}

#[tokio::test]
async fn one_token_serves_all_requests_unreported() {
    let server = server();
    let peer = Echo::start().await;
    let mut recorded =
        RecordedTool::with_target(&json!({"baseUrl": peer.origin, "auth": auth(server, "echo")}));
    // After a 401 the client replaces the token, which another test covers.
    let token_requests = requests().into_iter();
    for request in token_requests.filter(|request| request["parts"][0]["text"] != "challenge") {
        recorded.call(&request).await;
    }
    let seen = peer.seen();
    let token = seen[0].headers["authorization"].strip_prefix("Bearer ");
    let token = token.unwrap();
    assert!(seen.len() >= 8 && server.is_active(token));
    for request in &seen {
        assert_eq!(request.headers["authorization"], format!("Bearer {token}"));
    }
    assert_eq!(server.token_requests("echo"), 1);
    recorded.assert_omits(&[token, SECRET, "7f3a"]);
}

#[tokio::test]
async fn tokens_in_a_refusal_are_redacted() {
    let server = server();
    let peer = Echo::start().await;
    let mut recorded =
        RecordedTool::with_target(&json!({"baseUrl": peer.origin, "auth": auth(server, "wrong")}));
    let mut request = send_request();
    request["parts"][0]["text"] = json!("challenge");
    let envelope = recorded.call(&request).await;
    assert_eq!(reason(&envelope), "auth_required");
    let seen = peer.seen();
    let sends = seen.iter().filter(|seen| seen.line.starts_with("POST "));
    let sent: Vec<&str> = sends
        .map(|seen| {
            seen.headers["authorization"]
                .strip_prefix("Bearer ")
                .unwrap()
        })
        .collect();
    assert_eq!(sent.len(), 2, "refused, and refused again");
    assert_ne!(sent[0], sent[1]);
    recorded.assert_omits(&[sent[0], sent[1], SECRET]);
}

#[tokio::test]
async fn refused_token_is_replaced_and_send_succeeds() {
    let server = server();
    let refusal = json!({"status": 401, "body": "who is this?"});
    let peers = answering(json!([refusal, result(message("pong"))])).await;
    let mut recorded = RecordedTool::with_target(&target(server, "refused", &peers));
    let envelope = recorded.call(&send_request()).await;
    assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
    let sent = tokens(&peers, "POST");
    assert_eq!(sent.len(), 2);
    assert_ne!(sent[0], sent[1]);
    assert_eq!(server.token_requests("refused"), 2);
    recorded.assert_omits(&[&sent[0], &sent[1], SECRET]);
}

#[tokio::test]
async fn token_is_replaced_before_expiry() {
    let server = server();
    let peers = pong().await;
    let mut recorded = RecordedTool::with_target(&target(server, "brief", &peers));
    assert_eq!(recorded.call(&send_request()).await["ok"], true);
    let first = tokens(&peers, "POST").remove(0);
    // The server releases its answer.
    within_timeout(async {
        while server.is_active(&first) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(recorded.call(&send_request()).await["ok"], true);
    let sent = tokens(&peers, "POST");
    assert_ne!(sent[0], sent[1]);
    assert_eq!((sent.len(), server.token_requests("brief")), (2, 2));
    recorded.assert_omits(&[&sent[0], &sent[1], SECRET]);
}

#[tokio::test]
async fn concurrent_calls_wait_for_one_token() {
    let server = server();
    let peers = pong().await;
    let mut main = target(server, "slow-shared", &peers);
    main["alias"] = json!("main");
    let fixture = ToolFixture::with_target(main);
    let calls = [(); 4].map(|()| {
        let call = fixture.start(&send_request(), &CancellationToken::new(), |_| ());
        tokio::spawn(call)
    });
    within_timeout(async {
        while server.token_requests("slow-shared") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.release("slow-shared");
    for call in calls {
        assert_eq!(within_timeout(call).await.unwrap()["ok"], true);
    }
    let sent = tokens(&peers, "POST");
    assert_eq!((sent.len(), server.token_requests("slow-shared")), (4, 1));
    assert!(sent.iter().all(|token| *token == sent[0]));
}

#[tokio::test]
async fn concurrently_refused_calls_get_one_new_token() {
    let server = server();
    let peer = Echo::start().await;
    let fixture =
        ToolFixture::with_target(json!({"baseUrl": peer.origin, "auth": auth(server, "stale")}));
    assert_eq!(fixture.call(&send_request()).await["ok"], true);
    let mut stale = send_request();
    stale["parts"][0]["text"] = json!("stale");
    let calls = [(); 4].map(|()| {
        let call = fixture.start(&stale, &CancellationToken::new(), |_| ());
        tokio::spawn(call)
    });
    for call in calls {
        assert_eq!(within_timeout(call).await.unwrap()["ok"], true);
    }
    assert_eq!(server.token_requests("stale"), 2);
}

#[tokio::test]
async fn slow_authorization_server_ends_at_the_call_timeout() {
    let server = server();
    let peers = pong().await;
    let mut recorded = RecordedTool::with_target(&target(server, "slow-late", &peers));
    let mut hurried = send_request();
    hurried["timeout_ms"] = json!(300);
    let envelope = recorded.call(&hurried).await;
    assert_eq!(reason(&envelope), "timeout", "{envelope}");
    assert_eq!(peers.connections("main"), 0);
    server.release("slow-late");
    assert_eq!(recorded.call(&send_request()).await["ok"], true);
    recorded.assert_omits(&[SECRET]);
}

#[tokio::test]
async fn refused_oauth_client_is_reported_without_peer_call() {
    let server = server();
    let peers = pong().await;
    let mut main = target(server, "steady", &peers);
    main["auth"]["clientSecret"] = json!("not-the-secret-5d");
    let mut recorded = RecordedTool::with_target(&main);
    let envelope = recorded.call(&send_request()).await;
    assert_eq!(reason(&envelope), "token_unavailable", "{envelope}");
    assert_eq!(envelope["error"]["details"]["delivered"], "no");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("invalid_client"), "{message}");
    assert_eq!(peers.connections("main"), 0);
    recorded.assert_omits(&["not-the-secret-5d"]);
}

#[tokio::test]
async fn redirect_of_token_endpoint_is_not_followed() {
    let to = json!({"status": 307, "headers": {"location": "{{origin:other}}/token"}});
    let peers = peers(json!({
        "main": {"card": card()},
        "server": {"routes": {"POST /token": to}},
        "other": {"routes": {"POST /token": {"json": {"access_token": "stolen"}}}},
    }))
    .await;
    let auth = json!({"type": "oauth2", "tokenUrl": format!("{}/token", peers.origin("server")),
        "clientId": "desk", "clientSecret": SECRET});
    let mut recorded =
        RecordedTool::with_target(&json!({"baseUrl": peers.origin("main"), "auth": auth}));
    let envelope = recorded.call(&send_request()).await;
    assert_eq!(reason(&envelope), "token_unavailable", "{envelope}");
    assert_eq!(peers.connections("other"), 0);
    recorded.assert_omits(&[SECRET]);
}

#[tokio::test]
async fn card_cannot_set_the_token_endpoint() {
    let server = server();
    let mut luring = card();
    let flows = json!({"clientCredentials": {"tokenUrl": "{{origin:thief}}/token", "scopes": {}}});
    luring["securitySchemes"] = json!({"main": {"type": "oauth2", "flows": flows}});
    let rpc = json!({"message/send": {"status": 401}});
    let peers = peers(json!({"main": {"card": luring, "rpc": rpc}, "thief": {}})).await;
    let fixture = ToolFixture::with_target(target(server, "steady", &peers));
    let envelope = fixture.call(&send_request()).await;
    assert_eq!(reason(&envelope), "auth_required");
    assert_eq!(
        envelope["error"]["details"]["auth_schemes"],
        json!(["oauth2"])
    );
    assert_eq!(peers.connections("thief"), 0);
}
