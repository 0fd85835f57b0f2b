//! The limit of concurrent calls.

use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::faults::tool_fixture::{
    NEVER_MS, ToolFixture, card, peers, reason, send_request, within_timeout,
};

/// Returns a peer that receives every message and answers none.
async fn start_silent_peer() -> Peers {
    peers(json!({"main": {"card": card(), "rpc": {"message/send": {"delay_ms": NEVER_MS, "json": {}}}}})).await
}

fn fixture_with_limits(peers: &Peers, limits: &Value) -> ToolFixture {
    let origin = peers.origin("main");
    ToolFixture::new(&json!({
        "targets": [{"alias": "main", "baseUrl": origin, "default": true}],
        "limits": limits,
    }))
}

/// Returns a message with a short timeout.
fn request_with_timeout() -> Value {
    let mut request = send_request();
    request["timeout_ms"] = json!(50);
    request
}

#[tokio::test]
async fn call_beyond_limit_waits_then_fails() {
    let peers = start_silent_peer().await;
    for limits in [
        json!({"concurrencyPerTarget": 2}),
        json!({"concurrency": 2}),
    ] {
        let fixture = fixture_with_limits(&peers, &limits);
        let request_count = peers.log("main").len();
        let cancel = CancellationToken::new();
        let calls = [(); 2].map(|()| tokio::spawn(fixture.start(&send_request(), &cancel, |_| ())));
        // Requests for the card and both messages.
        within_timeout(peers.wait_for("main", request_count + 3)).await;
        let envelope = fixture.call(&request_with_timeout()).await;
        assert_eq!(reason(&envelope), "busy", "{envelope}");
        assert_eq!(envelope["error"]["retryable"], true, "{envelope}");
        assert_eq!(
            envelope["error"]["details"]["delivered"], "no",
            "{envelope}"
        );
        assert_eq!(peers.log("main").len(), request_count + 3);
        cancel.cancel();
        for call in calls {
            assert_eq!(reason(&within_timeout(call).await.unwrap()), "aborted");
        }
    }
}

#[tokio::test]
async fn finished_call_frees_its_permit() {
    let peers = start_silent_peer().await;
    let fixture = fixture_with_limits(&peers, &json!({"concurrencyPerTarget": 1}));
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let running = tokio::spawn(fixture.start(&send_request(), &first, |_| ()));
    within_timeout(peers.wait_for("main", 2)).await;
    let waiting = tokio::spawn(fixture.start(&send_request(), &second, |_| ()));
    first.cancel();
    assert_eq!(reason(&within_timeout(running).await.unwrap()), "aborted");
    within_timeout(peers.wait_for("main", 3)).await;
    second.cancel();
    assert_eq!(reason(&within_timeout(waiting).await.unwrap()), "aborted");
}

#[tokio::test]
async fn busy_target_can_still_be_listed() {
    let peers = start_silent_peer().await;
    let fixture = fixture_with_limits(&peers, &json!({"concurrency": 1}));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(fixture.start(&send_request(), &cancel, |_| ()));
    within_timeout(peers.wait_for("main", 2)).await;
    let envelope = fixture.call(&json!({"action": "list_targets"})).await;
    assert_eq!(
        envelope["summary"]["targets"][0]["target_name"], "Desk",
        "{envelope}"
    );
    cancel.cancel();
    within_timeout(running).await.unwrap();
}
