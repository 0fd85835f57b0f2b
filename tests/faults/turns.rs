//! The limit of concurrent calls.

use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::faults::rig::{NEVER_MS, Rig, card, peers, reason, send, soon};

/// Returns a peer that receives every message and answers none.
async fn silent() -> Peers {
    peers(json!({"main": {"card": card(), "rpc": {"message/send": {"delay_ms": NEVER_MS, "json": {}}}}})).await
}

fn limited(peers: &Peers, limits: &Value) -> Rig {
    let origin = peers.origin("main");
    Rig::new(&json!({
        "targets": [{"alias": "main", "baseUrl": origin, "default": true}],
        "limits": limits,
    }))
}

/// Returns a message with a short timeout.
fn with_timeout() -> Value {
    let mut request = send();
    request["timeout_ms"] = json!(50);
    request
}

#[tokio::test]
async fn call_beyond_limit_waits_then_fails() {
    let peers = silent().await;
    for limits in [
        json!({"concurrencyPerTarget": 2}),
        json!({"concurrency": 2}),
    ] {
        let rig = limited(&peers, &limits);
        let before = peers.log("main").len();
        let cancel = CancellationToken::new();
        let calls = [(); 2].map(|()| tokio::spawn(rig.begin(&send(), &cancel, |_| ())));
        // Requests for the card and both messages.
        soon(peers.wait_for("main", before + 3)).await;
        let envelope = rig.call(&with_timeout()).await;
        assert_eq!(reason(&envelope), "busy", "{envelope}");
        assert_eq!(envelope["error"]["retryable"], true, "{envelope}");
        assert_eq!(
            envelope["error"]["details"]["delivered"], "no",
            "{envelope}"
        );
        assert_eq!(peers.log("main").len(), before + 3);
        cancel.cancel();
        for call in calls {
            assert_eq!(reason(&soon(call).await.unwrap()), "aborted");
        }
    }
}

#[tokio::test]
async fn finished_call_frees_its_permit() {
    let peers = silent().await;
    let rig = limited(&peers, &json!({"concurrencyPerTarget": 1}));
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let running = tokio::spawn(rig.begin(&send(), &first, |_| ()));
    soon(peers.wait_for("main", 2)).await;
    let waiting = tokio::spawn(rig.begin(&send(), &second, |_| ()));
    first.cancel();
    assert_eq!(reason(&soon(running).await.unwrap()), "aborted");
    soon(peers.wait_for("main", 3)).await;
    second.cancel();
    assert_eq!(reason(&soon(waiting).await.unwrap()), "aborted");
}

#[tokio::test]
async fn busy_target_can_still_be_listed() {
    let peers = silent().await;
    let rig = limited(&peers, &json!({"concurrency": 1}));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(rig.begin(&send(), &cancel, |_| ()));
    soon(peers.wait_for("main", 2)).await;
    let envelope = rig.call(&json!({"action": "list_targets"})).await;
    assert_eq!(
        envelope["summary"]["targets"][0]["target_name"], "Desk",
        "{envelope}"
    );
    cancel.cancel();
    soon(running).await.unwrap();
}
