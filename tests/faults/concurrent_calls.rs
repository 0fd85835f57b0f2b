//! Concurrent calls.

use futures_util::future::join_all;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::faults::tool_fixture::{
    NEVER_MS, ToolFixture, card, message, peers, reason, result, send_request, within_timeout,
};

#[tokio::test]
async fn missing_card_delays_only_its_target() {
    let never = json!({"delay_ms": NEVER_MS, "json": {}});
    let peers = peers(json!({
        "hangs": {"routes": {"GET /.well-known/agent-card.json": never}},
        "main": {"card": card(), "rpc": {"message/send": result(message("pong"))}},
    }))
    .await;
    let fixture = ToolFixture::new(&json!({"targets": [
        {"alias": "hangs", "baseUrl": peers.origin("hangs")},
        {"alias": "main", "baseUrl": peers.origin("main"), "default": true},
    ]}));
    let cancel = CancellationToken::new();
    let mut request = send_request();
    request["target_alias"] = json!("hangs");
    let hanging_call = tokio::spawn(fixture.start(&request, &cancel, |_| ()));
    within_timeout(peers.wait_for("hangs", 1)).await;

    let others = join_all((0..200).map(|_| async { fixture.call(&send_request()).await })).await;
    assert_eq!(others.len(), 200);
    for envelope in &others {
        assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
    }
    assert!(!hanging_call.is_finished());
    cancel.cancel();
    assert_eq!(
        reason(&within_timeout(hanging_call).await.unwrap()),
        "aborted"
    );
}

#[tokio::test]
async fn calls_waiting_for_a_card_keep_their_deadlines() {
    let never = json!({"delay_ms": NEVER_MS, "json": {}});
    let peers =
        peers(json!({"main": {"routes": {"GET /.well-known/agent-card.json": never}}})).await;
    let fixture = ToolFixture::with_peers(&peers);
    let cancel = CancellationToken::new();
    let long_call = tokio::spawn(fixture.start(&send_request(), &cancel, |_| ()));
    within_timeout(peers.wait_for("main", 1)).await;
    let mut request = send_request();
    request["timeout_ms"] = json!(100);
    // Together with the long call, the maximum number for one target.
    let short_calls = join_all((0..15).map(|_| async { fixture.call(&request).await })).await;
    for envelope in &short_calls {
        assert_eq!(reason(envelope), "timeout", "{envelope}");
    }
    assert!(!long_call.is_finished());
    cancel.cancel();
    assert_eq!(reason(&within_timeout(long_call).await.unwrap()), "aborted");
}

#[tokio::test]
async fn fifty_first_sends_fetch_one_card() {
    let slow_card = json!({"delay_ms": 200, "json": card()});
    let peers = peers(json!({"main": {
        "routes": {"GET /.well-known/agent-card.json": slow_card},
        "rpc": {"message/send": result(message("pong"))},
    }}))
    .await;
    let fixture = ToolFixture::with_peers(&peers);
    let all = join_all((0..50).map(|_| async { fixture.call(&send_request()).await })).await;
    assert!(all.iter().all(|envelope| envelope["ok"] == true), "{all:?}");
    let log = peers.log("main");
    let cards = log.iter().filter(|request| request.method == "GET");
    assert_eq!(cards.count(), 1);
    assert_eq!(log.len(), 51);
}
