//! W3C trace context, and spans in the log.

use serde_json::{Value, json};

use crate::callers::{
    call, received_calls, start_desk,
    tool_fixture::{ToolFixture, send_request, stream_request},
};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traceparents(peers: &testkit::conformance::Peers) -> Vec<String> {
    let sent = received_calls(peers).into_iter();
    sent.map(|request| request.headers["traceparent"].clone())
        .collect()
}

#[tokio::test]
async fn each_request_to_a_peer_carries_the_trace_of_its_call() {
    let peers = start_desk().await;
    let fixture = ToolFixture::with_peers(&peers);
    call(&fixture, &json!({}), &send_request()).await;
    call(
        &fixture,
        &json!({"traceparent": "not one"}),
        &stream_request(),
    )
    .await;
    for action in ["watch", "status", "cancel"] {
        let request = json!({"action": action, "target_alias": "main", "task_id": "t-1"});
        call(&fixture, &json!({"traceparent": TRACEPARENT}), &request).await;
    }
    let sent = traceparents(&peers);
    assert!(sent.len() >= 5, "{sent:?}");
    for header in &sent {
        let fields: Vec<_> = header.split('-').collect();
        let hex = |text: &&str| {
            text.bytes()
                .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
        };
        assert!(fields.iter().all(hex), "{header}");
        let lengths: Vec<_> = fields.iter().map(|field| field.len()).collect();
        assert_eq!(
            (lengths.as_slice(), fields[0], fields[3]),
            (&[2, 32, 16, 2][..], "00", "01")
        );
    }
    assert_ne!(sent[0][3..35], sent[1][3..35]);
    let spans: std::collections::BTreeSet<_> =
        sent[2..].iter().map(|header| &header[36..52]).collect();
    assert_eq!(
        spans.len(),
        3,
        "a call has one span id, and no other call has it: {sent:?}"
    );
    assert!(!spans.contains("b7ad6b7169203331"));
    assert!(
        sent[2..]
            .iter()
            .all(|header| header[..36] == TRACEPARENT[..36]),
        "{sent:?}"
    );
}

#[tokio::test]
async fn card_request_has_no_trace() {
    let peers = start_desk().await;
    call(
        &ToolFixture::with_peers(&peers),
        &json!({"traceparent": TRACEPARENT}),
        &send_request(),
    )
    .await;
    let log = peers.log("main");
    let cards: Vec<_> = log
        .iter()
        .filter(|request| request.method == "GET")
        .collect();
    assert_eq!(cards.len(), 1);
    assert!(!cards[0].headers.contains_key("traceparent"));
}

/// Returns the spans in the log, oldest first.
fn spans(fixture: &ToolFixture) -> Vec<String> {
    let lines = fixture.log.lines().into_iter();
    let spans = lines.filter(|(_, line)| line.starts_with("span "));
    spans
        .map(|(level, line)| format!("{level} {line}"))
        .collect()
}

#[tokio::test]
async fn log_has_call_and_exchanges_without_content() {
    let peers = start_desk().await;
    let fixture = ToolFixture::with_peers(&peers);
    let mut request = send_request();
    request["parts"][0]["text"] = json!("hush-hush");
    let envelope = call(&fixture, &json!({"traceparent": TRACEPARENT}), &request).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    let reported = spans(&fixture);
    assert_eq!(reported.len(), 2, "{reported:?}");
    let trace = "trace_id=0af7651916cd43dd8448eb211c80319c";
    let exchange = format!("{trace} transport=JSONRPC");
    assert!(
        reported[0].starts_with("debug span peer.send: ") && reported[0].ends_with(&exchange),
        "{reported:?}"
    );
    let whole = format!("{trace} action=send target=main outcome=ok");
    assert!(
        reported[1].starts_with("debug span call: ") && reported[1].ends_with(&whole),
        "{reported:?}"
    );
    let all = format!("{:?}", fixture.log.lines());
    assert!(!all.contains("hush-hush") && !all.contains("pong"), "{all}");
}

#[tokio::test]
async fn span_of_failed_call_has_its_error() {
    let peers = start_desk().await;
    let fixture = ToolFixture::with_peers(&peers);
    let request: Value = json!({"action": "status", "target_alias": "main"});
    call(&fixture, &json!({}), &request).await;
    let reported = spans(&fixture);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].ends_with("outcome=invalid_request"),
        "{reported:?}"
    );
}
