//! Resubscribing, and the assembled result.

use egress::NetFault;
use peer::PeerErrorKind;

use super::fake::status;
use super::*;

#[tokio::test]
async fn cut_stream_is_resubscribed_without_repeated_updates() {
    let shown = task("working", json!([artifact("a", &["one "])]));
    let rest = vec![shown, piece("a", "two", true), status("completed")];
    let fixture = resumed(StreamEnd::Cut, rest, StreamEnd::Hang, vec![]);

    let (result, update_events) = fixture.updates(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(update_events.len(), 4, "{update_events:?}");
    assert_eq!(result["raw"]["events"], json!(update_events));
    assert_eq!(fixture.calls(), ["stream", "subscribe"]);
}

#[tokio::test]
async fn early_closed_stream_is_resubscribed() {
    let rest = vec![task("completed", json!([artifact("a", &["one two"])]))];
    let fixture = resumed(StreamEnd::Close, rest, StreamEnd::Close, vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(state(&result), "completed", "{result}");
    assert!(result["summary"]["incomplete"].is_null(), "{result}");
}

#[tokio::test]
async fn empty_snapshot_after_a_cut_keeps_artifacts() {
    let rest = vec![task("completed", json!([]))];
    let fixture = resumed(StreamEnd::Cut, rest, StreamEnd::Close, vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one ", "{result}");
}

#[tokio::test]
async fn missed_pieces_are_fetched_at_the_end() {
    let rest = vec![piece("a", "three", true), status("completed")];
    let whole = task(
        "completed",
        json!([
            artifact("a", &["one ", "two ", "three"]),
            artifact("b", &["other"])
        ]),
    );
    let fixture = resumed(
        StreamEnd::Cut,
        rest,
        StreamEnd::Hang,
        vec![PollReply::Task(whole)],
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two three\n\nother", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn peer_with_duplicated_pieces_does_not_double_text() {
    let rest = vec![
        piece("a", "two ", true),
        piece("a", "three", true),
        status("completed"),
    ];
    let doubled = task(
        "completed",
        json!([artifact("a", &["one ", "two ", "two ", "three", "three"])]),
    );
    let fixture = resumed(
        StreamEnd::Cut,
        rest,
        StreamEnd::Hang,
        vec![PollReply::Task(doubled)],
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two three", "{result}");
}

#[tokio::test]
async fn result_is_incomplete_where_fetch_fails() {
    let rest = vec![piece("a", "three", true), status("completed")];
    let fixture = resumed(StreamEnd::Cut, rest, StreamEnd::Hang, vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(result["summary"]["incomplete"], true, "{result}");
    assert_eq!(state(&result), "completed", "{result}");
    let next = result["summary"]["next_step"].as_str().unwrap();
    assert!(next.contains("status"), "{next}");
}

#[tokio::test]
async fn productive_subscriptions_continue() {
    let more = |text: &str| SubscribeReply::Events(vec![piece("a", text, true)], StreamEnd::Cut);
    let whole = task(
        "completed",
        json!([artifact("a", &["one ", "two ", "three ", "four ", "five"])]),
    );
    let fixture = streams(
        vec![
            first_events(StreamEnd::Cut),
            more("two "),
            more("three "),
            more("four "),
            SubscribeReply::Events(vec![whole], StreamEnd::Close),
        ],
        vec![],
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two three four five", "{result}");
    assert_eq!(
        fixture.calls(),
        ["stream", "subscribe", "subscribe", "subscribe", "subscribe"]
    );
}

#[tokio::test]
async fn cut_without_resumption_is_an_error() {
    let fixture = streams(vec![first_events(StreamEnd::Cut)], vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(result["error"]["reason"], "stream_cut", "{result}");
    let details = &result["error"]["details"];
    assert_eq!(details["partial_event_count"], 2, "{result}");
    assert_eq!(details["delivered"], "yes", "{result}");
    let summary = &details["latest_event_summary"];
    assert_eq!(summary["message_text"], "one ", "{result}");
    assert_eq!(summary["protocol_version"], "1.0", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn orderly_close_without_resumption_is_incomplete() {
    let fixture = streams(vec![first_events(StreamEnd::Close)], vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(result["ok"], true, "{result}");
    assert_eq!(result["summary"]["incomplete"], true, "{result}");
    assert_eq!(state(&result), "working", "{result}");
    assert_eq!(text(&result), "one ", "{result}");
}

#[tokio::test]
async fn stream_without_events_cannot_be_resumed() {
    for end in [StreamEnd::Close, StreamEnd::Cut] {
        let fixture = streamed(vec![], end, vec![]);

        let result = fixture.call(send()).await;

        assert_eq!(result["error"]["reason"], "connection_cut", "{result}");
        assert_eq!(
            result["error"]["details"]["delivered"], "unknown",
            "{result}"
        );
        assert_eq!(fixture.calls(), ["stream"]);
    }
}

#[tokio::test]
async fn message_without_task_answer_is_not_followed() {
    let fixture = streamed(vec![], StreamEnd::Cut, vec![]);
    let mut request = send();
    request["task_id"] = "t".into();
    request["target_alias"] = "agent".into();

    let result = fixture.call(request).await;

    assert_eq!(result["error"]["reason"], "connection_cut", "{result}");
    assert_eq!(fixture.calls(), ["stream"]);
}

#[tokio::test]
async fn message_event_does_not_end_the_stream() {
    let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "well"}]});
    let events = vec![
        message,
        task("working", json!([])),
        piece("a", "one", false),
        status("completed"),
    ];
    let fixture = streamed(events, StreamEnd::Hang, vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one", "{result}");
    assert_eq!(state(&result), "completed", "{result}");
}

#[tokio::test]
async fn interrupted_task_ends_the_call() {
    for interrupted in ["input-required", "auth-required"] {
        let events = vec![task("working", json!([])), status(interrupted)];
        let fixture = streamed(events, StreamEnd::Close, vec![]);

        let result = fixture.call(send()).await;

        assert_eq!(state(&result), interrupted, "{result}");
        assert_eq!(fixture.calls(), ["stream"]);
    }
}

#[tokio::test]
async fn result_names_version_and_transport() {
    let events = vec![task("completed", json!([]))];
    let fixture = streamed(events, StreamEnd::Close, vec![]);

    let result = fixture.call(send()).await;

    assert_eq!(result["summary"]["protocol_version"], "1.0", "{result}");
    assert_eq!(result["summary"]["transport"], "HTTP+JSON", "{result}");
}

/// Returns a task that progresses at once, at a peer whose streams begin without a snapshot.
fn quick_agent(subscriptions: Vec<SubscribeReply>, polls: PollReply) -> Fixture {
    Fixture::new(Script {
        streaming: Some(true),
        answer: Some(task("working", json!([]))),
        subscriptions,
        polls: vec![polls],
        ..Script::default()
    })
}

#[tokio::test]
async fn pieces_before_subscription_are_fetched() {
    let rest = vec![piece("b", "other", false), status("completed")];
    let whole = task(
        "completed",
        json!([artifact("a", &["one "]), artifact("b", &["other"])]),
    );
    let fixture = quick_agent(
        vec![SubscribeReply::Events(rest, StreamEnd::Hang)],
        PollReply::Task(whole),
    );

    let result = fixture.call(required()).await;

    assert_eq!(text(&result), "one \n\nother", "{result}");
    assert_eq!(fixture.calls(), ["send", "subscribe", "get"]);
}

#[tokio::test]
async fn pieces_during_failed_subscription_are_fetched() {
    let rest = vec![status("completed")];
    let whole = task("completed", json!([artifact("a", &["one "])]));
    let fixture = quick_agent(
        vec![
            SubscribeReply::Refused(PeerErrorKind::Net(NetFault::Cut)),
            SubscribeReply::Events(rest, StreamEnd::Hang),
        ],
        PollReply::Task(whole),
    );

    let result = fixture.call(required()).await;

    assert_eq!(text(&result), "one ", "{result}");
    assert_eq!(fixture.calls(), ["send", "subscribe", "subscribe", "get"]);
}

#[tokio::test]
async fn required_task_streamed_at_once_is_complete() {
    let rest = vec![piece("a", "one ", false), status("completed")];
    let fixture = quick_agent(
        vec![SubscribeReply::Events(rest, StreamEnd::Hang)],
        PollReply::Refused(PeerErrorKind::Rpc),
    );

    let result = fixture.call(required()).await;

    assert_eq!(text(&result), "one ", "{result}");
    assert!(result["summary"]["incomplete"].is_null(), "{result}");
}
