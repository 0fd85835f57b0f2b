//! Events and answers that cannot be read, of a task that the peer can still deliver.

use egress::NetFault;
use peer::PeerErrorKind;

use super::fake::status;
use super::*;

fn done() -> PollReply {
    completed(&["one ", "two"])
}

#[tokio::test]
async fn failed_queries_are_repeated() {
    for failure in [
        PollReply::Status(500),
        PollReply::Status(524),
        PollReply::Refused(PeerErrorKind::InvalidResponse),
        PollReply::Refused(PeerErrorKind::Net(NetFault::TokenUnavailable)),
    ] {
        let fixture = polled(
            task("working", json!([])),
            vec![failure.clone(), failure, done()],
        );
        let result = fixture.call(send()).await;
        assert_eq!(state(&result), "completed", "{result}");
        assert_eq!(fixture.calls(), ["send", "get", "get", "get"]);
    }
}

#[tokio::test]
async fn queries_that_keep_failing_are_an_error_with_the_cause() {
    for (failure, reason) in [
        (PollReply::Status(500), "http_status"),
        (
            PollReply::Refused(PeerErrorKind::InvalidResponse),
            "invalid_response",
        ),
        (
            PollReply::Refused(PeerErrorKind::AuthRequired),
            "auth_required",
        ),
        (
            PollReply::Refused(PeerErrorKind::Net(NetFault::TooLarge)),
            "too_large",
        ),
    ] {
        let result = polled(task("working", json!([])), vec![failure])
            .call(send())
            .await;
        assert_eq!(result["ok"], false, "{result}");
        assert_eq!(result["error"]["reason"], reason, "{result}");
        assert_eq!(result["error"]["details"]["delivered"], "yes", "{result}");
        let partial = &result["error"]["details"]["latest_event_summary"];
        assert_eq!(partial["continuation"]["task"]["task_id"], "t", "{result}");
    }
}

#[tokio::test]
async fn wait_that_ends_among_failed_queries_is_incomplete() {
    let slow = crate::remote_agent::PollIntervals {
        longest_poll: std::time::Duration::from_secs(60),
        first_poll: std::time::Duration::from_millis(20),
        ..super::fake::quick()
    };
    for (failure, cause) in [
        (PollReply::Status(500), "no"),
        (
            PollReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
            "no",
        ),
        (PollReply::Refused(PeerErrorKind::Net(NetFault::Cut)), "no"),
        (PollReply::Never, "the agent did not answer in time"),
    ] {
        let fixture = Fixture::at(
            slow.clone(),
            Script {
                streaming: Some(false),
                answer: Some(task("working", json!([]))),
                polls: vec![failure],
                ..Script::default()
            },
        );
        let result = fixture.call(within(send(), 300)).await;
        assert_eq!(result["summary"]["wait_expired"], true, "{result}");
        assert_eq!(result["summary"]["incomplete"], true, "{result}");
        assert_eq!(result["summary"]["query_error"], cause, "{result}");
        let next_step = result["summary"]["next_step"].as_str();
        assert!(next_step.is_some_and(|step| step.contains("failed")));
    }
}

#[tokio::test]
async fn state_that_a2a_does_not_define_is_not_polled_for_ever() {
    let odd = PollReply::Task(task("pondering", json!([])));
    let fixture = polled(task("working", json!([])), vec![odd]);
    let result = fixture.call(send()).await;
    assert_eq!(state(&result), "pondering", "{result}");
    assert_eq!(result["summary"]["incomplete"], true, "{result}");
    assert_eq!(fixture.calls().len(), 5);
}

#[tokio::test]
async fn replay_up_to_a_state_that_a2a_does_not_define_is_not_read_for_ever() {
    let events = vec![
        task("working", json!([])),
        piece("a", "one two", false),
        status("pondering"),
    ];
    let replays = SubscribeReply::Events(events, StreamEnd::Close);
    let odd = PollReply::Task(task("pondering", json!([])));
    let fixture = streams(vec![replays; 20], vec![odd]);
    let result = fixture.call(send()).await;
    assert_eq!(state(&result), "pondering", "{result}");
    assert_eq!(result["summary"]["incomplete"], true, "{result}");
    assert_eq!(
        fixture.calls()[..4],
        ["stream", "subscribe", "subscribe", "get"]
    );
    assert_eq!(text(&result), "one two", "{result}");
}

#[tokio::test]
async fn new_pieces_in_a_state_that_a2a_does_not_define_are_progress() {
    let connection = |number: u64, text: &str| {
        let events = vec![piece("a", text, number > 0), status("pondering")];
        SubscribeReply::Events(events, StreamEnd::Close)
    };
    let mut connections: Vec<_> = (0..5).map(|n| connection(n, &n.to_string())).collect();
    connections[0] = SubscribeReply::Events(
        vec![
            task("working", json!([])),
            piece("a", "0", false),
            status("pondering"),
        ],
        StreamEnd::Close,
    );
    let end = vec![piece("a", "5", true), status("completed")];
    connections.push(SubscribeReply::Events(end, StreamEnd::Close));
    let whole = completed(&["0", "1", "2", "3", "4", "5"]);
    let fixture = streams(connections, vec![whole]);
    let result = fixture.call(send()).await;
    assert_eq!(state(&result), "completed", "{result}");
    let calls = fixture.calls();
    assert_eq!(calls.iter().filter(|call| **call == "subscribe").count(), 5);
}

#[tokio::test]
async fn refusal_within_a_stream_leads_to_a_query() {
    let refused = json!(403);
    let fixture = streamed(
        vec![task("working", json!([])), refused],
        StreamEnd::Hang,
        vec![done()],
    );
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get"]);
}

#[tokio::test]
async fn unreadable_event_is_named_where_the_result_lacks_it() {
    let unsupported = PollReply::Refused(PeerErrorKind::Rpc);
    for (end, polls, is_named) in [
        (StreamEnd::Hang, vec![], true),
        (StreamEnd::Close, vec![unsupported], true),
        (StreamEnd::Close, vec![done()], false),
    ] {
        let events = vec![task("working", json!([])), Value::Null];
        let fixture = streamed(events, end, polls);
        let result = fixture.call(within(send(), 300)).await;
        let cause = result["summary"]["query_error"].as_str();
        let names = cause.is_some_and(|cause| cause.starts_with("an event of the stream cannot"));
        assert_eq!(names, is_named, "{result}");
        assert_eq!(result["summary"]["incomplete"] == true, is_named);
    }
}

#[tokio::test]
async fn snapshot_has_what_an_unreadable_event_had() {
    let events = vec![Value::Null, task("working", json!([]))];
    let result = streamed(events, StreamEnd::Hang, vec![])
        .call(within(send(), 300))
        .await;
    assert_eq!(result["summary"]["wait_expired"], true, "{result}");
    assert!(result["summary"]["query_error"].is_null(), "{result}");
}

#[tokio::test]
async fn unreadable_event_is_skipped_and_the_ended_task_fetched() {
    let events = vec![
        task("working", json!([])),
        piece("a", "one ", false),
        Value::Null,
        status("completed"),
    ];
    let fixture = streamed(events, StreamEnd::Close, vec![done()]);
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get"]);
}

#[tokio::test]
async fn missing_pieces_are_requested_again_after_an_error() {
    let events = vec![task("working", json!([])), Value::Null, status("completed")];
    let fixture = streamed(
        events,
        StreamEnd::Close,
        vec![
            PollReply::Status(502),
            PollReply::Refused(PeerErrorKind::InvalidResponse),
            done(),
        ],
    );
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one two", "{result}");
    assert!(result["summary"]["incomplete"].is_null(), "{result}");
}

#[tokio::test]
async fn unreadable_first_event_does_not_hide_the_task() {
    let events = vec![Value::Null, task("working", json!([])), status("completed")];
    let fixture = streamed(events, StreamEnd::Close, vec![done()]);
    let result = fixture.call(send()).await;
    assert_eq!(state(&result), "completed", "{result}");
}

#[tokio::test]
async fn stream_of_unreadable_events_leads_to_queries() {
    let events = [vec![task("working", json!([]))], vec![Value::Null; 20]].concat();
    let fixture = streamed(events, StreamEnd::Hang, vec![done()]);
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get"]);
}

#[tokio::test]
async fn task_of_the_request_is_queried_after_an_unreadable_answer() {
    let events = SubscribeReply::Events(vec![Value::Null], StreamEnd::Close);
    let fixture = streams(vec![events], vec![done()]);
    let mut request = send();
    request["task_id"] = "t".into();
    let result = fixture.call(request).await;
    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn another_task_than_the_requested_one_ends_nothing() {
    let mut other = task("completed", json!([]));
    other["id"] = "other".into();
    let fixture = polled(
        task("working", json!([])),
        vec![PollReply::Task(other.clone()), done()],
    );
    assert_eq!(text(&fixture.call(send()).await), "one two");
    let open = SubscribeReply::Events(vec![task("working", json!([]))], StreamEnd::Hang);
    let silent = crate::remote_agent::PollIntervals {
        idle: std::time::Duration::from_millis(1),
        ..super::fake::quick()
    };
    let fixture = streams_at(silent, vec![open], vec![PollReply::Task(other), done()]);
    assert_eq!(text(&fixture.call(send()).await), "one two");
}

#[tokio::test]
async fn event_of_another_task_is_skipped() {
    for mut other in [
        status("completed"),
        task("completed", json!([])),
        piece("a", "no", false),
    ] {
        let id = match other["kind"] == "task" {
            true => "id",
            false => "taskId",
        };
        other[id] = "other".into();
        let events = vec![other, piece("a", "two", true), status("completed")];
        let fixture = resumed(StreamEnd::Cut, events, StreamEnd::Close, vec![done()]);
        let result = fixture.call(send()).await;
        assert_eq!(text(&result), "one two", "{result}");
        let known = &result["summary"]["continuation"]["task"]["task_id"];
        assert_eq!(known, "t", "{result}");
    }
}

#[tokio::test]
async fn events_of_sub_tasks_leave_the_task_of_a_message_alone() {
    for mut other in [
        status("completed"),
        status("failed"),
        task("completed", json!([artifact("b", &["no"])])),
        piece("b", "no", false),
        piece("a", "no", true),
    ] {
        let id = match other["kind"] == "task" {
            true => "id",
            false => "taskId",
        };
        other[id] = "sub-7".into();
        let mut events = vec![task("working", json!([])), piece("a", "one ", false)];
        events.extend(vec![other.clone(); 9]);
        events.extend([piece("a", "two", true), status("completed")]);
        let fixture = streamed(events, StreamEnd::Close, vec![]);
        let result = fixture.call(send()).await;
        assert_eq!(text(&result), "one two", "{result}");
        assert_eq!(state(&result), "completed", "{result}");
        let known = &result["summary"]["continuation"]["task"]["task_id"];
        assert_eq!(known, "t", "{result}");
        assert_eq!(fixture.calls(), ["stream"], "{other}");
    }
}

#[tokio::test]
async fn answer_about_another_task_is_refused() {
    for action in ["cancel", "watch"] {
        let mut other = task("completed", json!([]));
        other["id"] = "other".into();
        let fixture = streams(
            vec![SubscribeReply::Events(
                vec![other.clone()],
                StreamEnd::Answer,
            )],
            vec![PollReply::Task(other)],
        );
        let mut request = watch();
        request["action"] = action.into();
        let result = fixture.call(request).await;
        let reason = &result["error"]["reason"];
        assert_eq!(reason, "invalid_response", "{action}: {result}");
    }
}

#[tokio::test]
async fn page_in_place_of_an_answer_is_queried_again_once() {
    for (status, known) in [(404, true), (400, true), (410, false)] {
        let polls = vec![PollReply::Status(status), done()];
        let fixture = polled(task("working", json!([])), polls);
        let result = fixture.call(send()).await;
        assert_eq!(state(&result) == "completed", known, "{result}");
    }
    let fixture = polled(task("working", json!([])), vec![PollReply::Status(404)]);
    fixture.call(send()).await;
    assert_eq!(fixture.calls(), ["send", "get", "get"]);
}

#[tokio::test]
async fn stream_without_a_readable_event_is_an_error_with_the_cause() {
    let events = vec![Value::Null, Value::Null];
    let fixture = streamed(events, StreamEnd::Close, vec![]);
    let result = fixture.call(send()).await;
    assert_eq!(result["error"]["reason"], "invalid_response", "{result}");
}

/// Returns an event of a kind that A2A does not define.
fn unknown() -> Value {
    json!({"kind": "foo", "taskId": "t", "status": {"state": "completed"}})
}

#[tokio::test]
async fn event_of_an_unknown_kind_is_no_progress() {
    let working = || task("working", json!([]));
    for events in [
        vec![unknown()],
        vec![json!({"kind": "foo"})],
        vec![unknown(), working()],
        vec![unknown(), unknown(), working()],
    ] {
        let subscription = || SubscribeReply::Events(events.clone(), StreamEnd::Close);
        let fixture = streams((0..9).map(|_| subscription()).collect(), vec![done()]);
        let result = fixture.call(watch()).await;
        assert_eq!(text(&result), "one two", "{result}");
        let calls = ["subscribe", "subscribe", "subscribe", "get"];
        assert_eq!(fixture.calls(), calls, "{events:?}");

        let first = SubscribeReply::Events(vec![working()], StreamEnd::Close);
        let all = std::iter::once(first).chain((0..9).map(|_| subscription()));
        let fixture = streams(all.collect(), vec![done()]);
        let result = fixture.call(send()).await;
        assert_eq!(text(&result), "one two", "{result}");
        let calls = ["stream", "subscribe", "subscribe", "get"];
        assert_eq!(fixture.calls(), calls, "{events:?}");
    }
}

#[tokio::test]
async fn event_of_an_unknown_kind_names_the_task_to_follow() {
    let fixture = streams(
        vec![SubscribeReply::Events(vec![unknown()], StreamEnd::Close)],
        vec![done()],
    );
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn event_of_an_unknown_kind_does_not_change_the_task() {
    let mut other = unknown();
    other["taskId"] = "other".into();
    let events = vec![task("working", json!([])), other.clone()];
    let answer = SubscribeReply::Events(events, StreamEnd::Close);
    let resumed = SubscribeReply::Events(vec![other], StreamEnd::Close);
    let fixture = streams(vec![answer, resumed], vec![done()]);
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one two", "{result}");
    let known = &result["summary"]["continuation"]["task"]["task_id"];
    assert_eq!(known, "t", "{result}");
}
