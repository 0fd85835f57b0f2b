//! Streams that end without the answer, or send it after the end.

use egress::NetFault;
use peer::PeerErrorKind;

use super::fake::status;
use super::*;

/// Returns an event with a message about the state.
fn said(state: &str, text: &str) -> Value {
    let mut event = status(state);
    event["status"]["message"] = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": text}]});
    event
}

#[tokio::test]
async fn completed_task_without_an_answer_is_queried_once() {
    let mut whole = task("completed", json!([]));
    whole["history"] = json!([said("working", "THE ANSWER")["status"]["message"]]);
    let working = task("working", json!([]));
    for events in [
        vec![
            working.clone(),
            said("working", "THE ANSWER"),
            status("completed"),
        ],
        vec![
            working.clone(),
            said("working", "THE "),
            said("working", "ANSWER"),
            status("completed"),
        ],
    ] {
        let fixture = streamed(
            events.clone(),
            StreamEnd::Close,
            vec![PollReply::Task(whole.clone())],
        );
        let result = fixture.call(send()).await;
        assert_eq!(text(&result), "THE ANSWER", "{events:?}: {result}");
        assert_eq!(fixture.calls(), ["stream", "get"]);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_query_for_the_answer_leaves_the_result_alone() {
    for failure in [
        PollReply::Status(500),
        PollReply::Refused(PeerErrorKind::Rpc),
        PollReply::Refused(PeerErrorKind::Net(NetFault::Cut)),
        PollReply::Never,
    ] {
        let events = vec![said("working", "THE ANSWER"), status("completed")];
        let fixture = streamed(events, StreamEnd::Close, vec![failure.clone()]);
        let result = fixture.call(within(send(), 20_000)).await;
        assert_eq!(state(&result), "completed", "{failure:?}: {result}");
        assert!(result["summary"]["incomplete"].is_null(), "{result}");
        assert!(result["summary"]["wait_expired"].is_null(), "{result}");
        assert_eq!(fixture.calls(), ["stream", "get"]);
    }
}

#[tokio::test]
async fn task_that_has_answered_or_failed_is_not_queried() {
    for last in [
        vec![said("completed", "done")],
        vec![piece("a", "done", false), status("completed")],
        vec![status("completed")],
        vec![task("completed", json!([]))],
        vec![said("working", "so far"), status("failed")],
        vec![status("canceled")],
    ] {
        let events = [vec![task("working", json!([]))], last].concat();
        let fixture = streamed(events, StreamEnd::Close, vec![]);
        fixture.call(send()).await;
        assert_eq!(fixture.calls(), ["stream"]);
    }
}

#[tokio::test]
async fn artifact_after_the_end_belongs_to_the_task() {
    // The scripted peer speaks A2A 1.0, whose events have no mark of the last one.
    let events = vec![
        task("working", json!([])),
        status("completed"),
        piece("a", "one ", false),
        piece("a", "two", true),
    ];
    for end in [StreamEnd::Close, StreamEnd::Hang] {
        let fixture = streamed(events.clone(), end, vec![]);
        let result = fixture.call(send()).await;
        assert_eq!(text(&result), "one two", "{result}");
        assert_eq!(fixture.calls(), ["stream"]);
    }
}

#[tokio::test]
async fn state_after_the_end_changes_nothing() {
    for late in [
        status("working"),
        status("failed"),
        task("working", json!([])),
    ] {
        let events = vec![
            task("working", json!([])),
            piece("a", "done", false),
            status("completed"),
            late,
        ];
        let fixture = streamed(events, StreamEnd::Hang, vec![]);
        let result = fixture.call(send()).await;
        assert_eq!(state(&result), "completed", "{result}");
        assert_eq!(text(&result), "done", "{result}");
    }
}
