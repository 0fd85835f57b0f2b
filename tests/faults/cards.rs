//! The lifetime of a cached card.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::faults::rig::{Rig, card, message, peers, reason, result, send};

const CARD: &str = "GET /.well-known/agent-card.json";

/// Returns a peer with these responses for its card, in order.
async fn peer(responses: Value) -> (Peers, Rig) {
    let peers = peers(json!({"main": {
        "routes": {CARD: responses},
        "rpc": {"message/send": result(message("pong"))},
    }}))
    .await;
    let rig = Rig::at(&peers);
    (peers, rig)
}

fn with(headers: Value) -> Value {
    json!({"json": card(), "headers": headers})
}

/// Returns the values of a header in the requests for the card.
fn header_values(peers: &Peers, header: &str) -> Vec<Option<String>> {
    let log = peers.log("main").into_iter();
    log.filter(|request| request.method == "GET")
        .map(|request| request.headers.get(header).cloned())
        .collect()
}

#[tokio::test]
async fn uncacheable_card_is_fetched_each_time() {
    let (peers, rig) = peer(with(json!({"cache-control": "no-store"}))).await;
    for _ in 0..3 {
        assert_eq!(rig.call(&send()).await["ok"], true);
    }
    assert_eq!(header_values(&peers, "if-none-match").len(), 3);
}

#[tokio::test]
async fn card_is_revalidated_by_its_etag() {
    let first = with(json!({"cache-control": "max-age=0", "etag": "\"one\""}));
    let unchanged =
        json!({"status": 304, "headers": {"cache-control": "max-age=600", "etag": "\"one\""}});
    let (peers, rig) = peer(json!([first, unchanged, {"status": 500}])).await;
    for _ in 0..4 {
        assert_eq!(rig.call(&send()).await["ok"], true);
    }
    assert_eq!(
        header_values(&peers, "if-none-match"),
        [None, Some("\"one\"".to_owned())]
    );
}

#[tokio::test]
async fn stale_card_serves_while_fetching_fails() {
    let first = with(json!({"cache-control": "max-age=0"}));
    let (peers, rig) = peer(json!([first, {"status": 500}, {"end": "destroy"}])).await;
    for _ in 0..3 {
        assert_eq!(rig.call(&send()).await["ok"], true);
    }
    assert_eq!(header_values(&peers, "accept").len(), 3);
    let listed = rig.call(&json!({"action": "list_targets"})).await;
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
    let (_peers, rig) = peer(json!({"json": large})).await;
    let mut request = send();
    request["parts"] = json!([{"kind": "data", "data": {}}]);
    request["timeout_ms"] = json!(2000);
    let before = Instant::now();
    let envelope = rig.call(&request).await;
    let took = before.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
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
    let (peers, rig) = peer(json!([{"status": 500}, with(json!({}))])).await;
    assert_eq!(reason(&rig.call(&send()).await), "http_status");
    assert_eq!(rig.call(&send()).await["ok"], true);
    assert_eq!(header_values(&peers, "accept").len(), 2);
}
