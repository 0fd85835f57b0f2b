//! The lifetime of a cached card.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::faults::tool_fixture::{
    ToolFixture, card, message, peers, reason, result, send_request,
};

const CARD: &str = "GET /.well-known/agent-card.json";

/// Returns a peer with these responses for its card, in order.
async fn peer(responses: Value) -> (Peers, ToolFixture) {
    let peers = peers(json!({"main": {
        "routes": {CARD: responses},
        "rpc": {"message/send": result(message("pong"))},
    }}))
    .await;
    let fixture = ToolFixture::with_peers(&peers);
    (peers, fixture)
}

fn card_with(headers: Value) -> Value {
    json!({"json": card(), "headers": headers})
}

/// Returns the values of a header in the requests for the card.
fn card_request_headers(peers: &Peers, header: &str) -> Vec<Option<String>> {
    let log = peers.log("main").into_iter();
    log.filter(|request| request.method == "GET")
        .map(|request| request.headers.get(header).cloned())
        .collect()
}

#[tokio::test]
async fn uncacheable_card_is_fetched_each_time() {
    let (peers, fixture) = peer(card_with(json!({"cache-control": "no-store"}))).await;
    for _ in 0..3 {
        assert_eq!(fixture.call(&send_request()).await["ok"], true);
    }
    assert_eq!(card_request_headers(&peers, "if-none-match").len(), 3);
}

#[tokio::test]
async fn card_is_revalidated_by_its_etag() {
    let first = card_with(json!({"cache-control": "max-age=0", "etag": "\"one\""}));
    let unchanged =
        json!({"status": 304, "headers": {"cache-control": "max-age=600", "etag": "\"one\""}});
    let (peers, fixture) = peer(json!([first, unchanged, {"status": 500}])).await;
    for _ in 0..4 {
        assert_eq!(fixture.call(&send_request()).await["ok"], true);
    }
    assert_eq!(
        card_request_headers(&peers, "if-none-match"),
        [None, Some("\"one\"".to_owned())]
    );
}

#[tokio::test]
async fn stale_card_serves_while_fetching_fails() {
    let first = card_with(json!({"cache-control": "max-age=0"}));
    let (peers, fixture) = peer(json!([first, {"status": 500}, {"end": "destroy"}])).await;
    for _ in 0..3 {
        assert_eq!(fixture.call(&send_request()).await["ok"], true);
    }
    assert_eq!(card_request_headers(&peers, "accept").len(), 3);
    let listed = fixture.call(&json!({"action": "list_targets"})).await;
    let target = &listed["summary"]["targets"][0];
    assert_eq!(target["target_name"], "Desk");
    assert!(
        target["last_refresh_error"]["message"].is_string(),
        "{target}"
    );
}

/// No deadline interrupts the parsing of a card, so it must be fast.
#[tokio::test]
async fn huge_card_does_not_outlast_the_deadline() {
    let mut large = card();
    large["defaultInputModes"] = (0..60_000).map(|n| json!(format!("x-{n}/y"))).collect();
    let (_peers, fixture) = peer(json!({"json": large})).await;
    let mut request = send_request();
    request["parts"] = json!([{"kind": "data", "data": {}}]);
    request["timeout_ms"] = json!(2000);
    let started = Instant::now();
    let envelope = fixture.call(&request).await;
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    assert!(
        envelope["ok"] == true
            || reason(&envelope) == "timeout"
            || reason(&envelope) == "too_large",
        "{}",
        envelope["error"]
    );
}

#[tokio::test]
async fn failed_fetch_is_not_cached() {
    let (peers, fixture) = peer(json!([{"status": 500}, card_with(json!({}))])).await;
    assert_eq!(reason(&fixture.call(&send_request()).await), "http_status");
    assert_eq!(fixture.call(&send_request()).await["ok"], true);
    assert_eq!(card_request_headers(&peers, "accept").len(), 2);
}
