//! Subscribing again, and what is put together then.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use peer::PeerErrorKind;

use super::fake::{Asked, Listened, Script, Stage, Then, artifact, piece, status, task};
use super::{begun, required, send, state, streams, text};

#[tokio::test]
async fn a_cut_stream_is_subscribed_to_again_and_tells_nothing_twice() {
    let shown = task("working", json!([artifact("a", &["one "])]));
    let rest = vec![shown, piece("a", "two", true), status("completed")];
    let stage = streams(
        vec![begun(Then::Cut), Listened::To(rest, Then::Hang)],
        vec![],
    );

    let (result, told) = stage.told(send(), CancellationToken::new()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(result["raw"]["events"], json!(told));
    assert_eq!(stage.calls(), ["stream", "subscribe"]);
}

#[tokio::test]
async fn a_stream_that_is_closed_early_is_subscribed_to_again() {
    let rest = vec![task("completed", json!([artifact("a", &["one two"])]))];
    let stage = streams(
        vec![begun(Then::Close), Listened::To(rest, Then::Close)],
        vec![],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(state(&result), "completed", "{result}");
    assert!(result["summary"]["incomplete"].is_null(), "{result}");
}

#[tokio::test]
async fn a_snapshot_without_artifacts_takes_none_back_after_a_cut() {
    let rest = vec![task("completed", json!([]))];
    let stage = streams(
        vec![begun(Then::Cut), Listened::To(rest, Then::Close)],
        vec![],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one ", "{result}");
}

#[tokio::test]
async fn what_was_missed_between_two_connections_is_asked_for_at_the_end() {
    let rest = vec![piece("a", "three", true), status("completed")];
    let whole = task(
        "completed",
        json!([
            artifact("a", &["one ", "two ", "three"]),
            artifact("b", &["other"])
        ]),
    );
    let stage = streams(
        vec![begun(Then::Cut), Listened::To(rest, Then::Hang)],
        vec![Asked::Task(whole)],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two three\n\nother", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn a_peer_that_stores_each_piece_twice_does_not_double_what_was_heard() {
    let rest = vec![
        piece("a", "two ", true),
        piece("a", "three", true),
        status("completed"),
    ];
    let doubled = task(
        "completed",
        json!([artifact("a", &["one ", "two ", "two ", "three", "three"])]),
    );
    let stage = streams(
        vec![begun(Then::Cut), Listened::To(rest, Then::Hang)],
        vec![Asked::Task(doubled)],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two three", "{result}");
}

#[tokio::test]
async fn a_result_says_when_what_was_missed_cannot_be_asked_for() {
    let rest = vec![piece("a", "three", true), status("completed")];
    let stage = streams(
        vec![begun(Then::Cut), Listened::To(rest, Then::Hang)],
        vec![],
    );

    let result = stage.call(send()).await;

    assert_eq!(result["summary"]["incomplete"], true, "{result}");
    assert_eq!(state(&result), "completed", "{result}");
    let next = result["summary"]["next_step"].as_str().unwrap();
    assert!(next.contains("status"), "{next}");
}

#[tokio::test]
async fn a_subscription_that_brings_something_is_worth_another() {
    let more = |text: &str| Listened::To(vec![piece("a", text, true)], Then::Cut);
    let whole = task(
        "completed",
        json!([artifact("a", &["one ", "two ", "three ", "four ", "five"])]),
    );
    let stage = streams(
        vec![
            begun(Then::Cut),
            more("two "),
            more("three "),
            more("four "),
            Listened::To(vec![whole], Then::Close),
        ],
        vec![],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two three four five", "{result}");
    assert_eq!(
        stage.calls(),
        ["stream", "subscribe", "subscribe", "subscribe", "subscribe"]
    );
}

#[tokio::test]
async fn a_cut_is_an_error_where_the_peer_tells_no_more() {
    let stage = streams(vec![begun(Then::Cut)], vec![]);

    let result = stage.call(send()).await;

    assert_eq!(result["error"]["reason"], "stream_cut", "{result}");
    let details = &result["error"]["details"];
    assert_eq!(details["partial_event_count"], 2, "{result}");
    assert_eq!(details["delivered"], "yes", "{result}");
    let summary = &details["latest_event_summary"];
    assert_eq!(summary["message_text"], "one ", "{result}");
    assert_eq!(summary["protocol_version"], "1.0", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn a_clean_close_is_an_incomplete_result_where_the_peer_tells_no_more() {
    let stage = streams(vec![begun(Then::Close)], vec![]);

    let result = stage.call(send()).await;

    assert_eq!(result["ok"], true, "{result}");
    assert_eq!(result["summary"]["incomplete"], true, "{result}");
    assert_eq!(state(&result), "working", "{result}");
    assert_eq!(text(&result), "one ", "{result}");
}

#[tokio::test]
async fn a_stream_that_ends_before_any_event_leaves_nothing_to_resume() {
    for then in [Then::Close, Then::Cut] {
        let stage = streams(vec![Listened::To(vec![], then)], vec![]);

        let result = stage.call(send()).await;

        assert_eq!(result["error"]["reason"], "connection_cut", "{result}");
        assert_eq!(
            result["error"]["details"]["delivered"], "unknown",
            "{result}"
        );
        assert_eq!(stage.calls(), ["stream"]);
    }
}

#[tokio::test]
async fn the_task_that_a_message_was_meant_for_is_not_taken_to_have_it() {
    let stage = streams(vec![Listened::To(vec![], Then::Cut)], vec![]);
    let mut request = send();
    request["task_id"] = "t".into();
    request["target_alias"] = "agent".into();

    let result = stage.call(request).await;

    assert_eq!(result["error"]["reason"], "connection_cut", "{result}");
    assert_eq!(stage.calls(), ["stream"]);
}

#[tokio::test]
async fn a_message_does_not_stop_the_reading() {
    let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "well"}]});
    let events = vec![
        message,
        task("working", json!([])),
        piece("a", "one", false),
        status("completed"),
    ];
    let stage = streams(vec![Listened::To(events, Then::Hang)], vec![]);

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one", "{result}");
    assert_eq!(state(&result), "completed", "{result}");
}

#[tokio::test]
async fn an_interrupted_task_is_not_followed_further() {
    for interrupted in ["input-required", "auth-required"] {
        let events = vec![task("working", json!([])), status(interrupted)];
        let stage = streams(vec![Listened::To(events, Then::Close)], vec![]);

        let result = stage.call(send()).await;

        assert_eq!(state(&result), interrupted, "{result}");
        assert_eq!(stage.calls(), ["stream"]);
    }
}

#[tokio::test]
async fn a_result_says_how_the_peer_was_spoken_to() {
    let events = vec![task("completed", json!([]))];
    let stage = streams(vec![Listened::To(events, Then::Close)], vec![]);

    let result = stage.call(send()).await;

    assert_eq!(result["summary"]["protocol_version"], "1.0", "{result}");
    assert_eq!(result["summary"]["transport"], "HTTP+JSON", "{result}");
}

/// A task that goes on at once, a peer that tells no snapshot when it is listened to, and what it made meanwhile.
fn quick_agent(listened: Vec<Listened>, asked: Asked) -> Stage {
    Stage::new(Script {
        streaming: Some(true),
        answer: Some(task("working", json!([]))),
        listened,
        asked: vec![asked],
    })
}

#[tokio::test]
async fn what_came_before_a_required_task_was_listened_to_is_asked_for() {
    let rest = vec![piece("b", "other", false), status("completed")];
    let whole = task(
        "completed",
        json!([artifact("a", &["one "]), artifact("b", &["other"])]),
    );
    let stage = quick_agent(vec![Listened::To(rest, Then::Hang)], Asked::Task(whole));

    let result = stage.call(required()).await;

    assert_eq!(text(&result), "one \n\nother", "{result}");
    assert_eq!(stage.calls(), ["send", "subscribe", "get"]);
}

#[tokio::test]
async fn what_came_while_listening_failed_is_asked_for() {
    let rest = vec![status("completed")];
    let whole = task("completed", json!([artifact("a", &["one "])]));
    let stage = quick_agent(
        vec![
            Listened::Refused(PeerErrorKind::Cut),
            Listened::To(rest, Then::Hang),
        ],
        Asked::Task(whole),
    );

    let result = stage.call(required()).await;

    assert_eq!(text(&result), "one ", "{result}");
    assert_eq!(stage.calls(), ["send", "subscribe", "subscribe", "get"]);
}

#[tokio::test]
async fn a_required_task_that_was_listened_to_at_once_is_whole_where_it_cannot_be_asked_for() {
    let rest = vec![piece("a", "one ", false), status("completed")];
    let stage = quick_agent(
        vec![Listened::To(rest, Then::Hang)],
        Asked::Refused(PeerErrorKind::Rpc),
    );

    let result = stage.call(required()).await;

    assert_eq!(text(&result), "one ", "{result}");
    assert!(result["summary"]["incomplete"].is_null(), "{result}");
}
