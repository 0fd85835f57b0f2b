//! Peers that keep a connection open and send nothing.

use std::time::Duration;

use egress::NetFault;
use peer::PeerErrorKind;

use super::*;

/// Polls a silent stream soon.
fn poll_soon() -> PollIntervals {
    PollIntervals {
        idle: Duration::from_millis(1),
        ..quick()
    }
}

#[tokio::test]
async fn silent_stream_of_ended_task_is_closed() {
    let fixture = streams_at(
        poll_soon(),
        vec![first_events(StreamEnd::Hang)],
        vec![
            PollReply::Task(task("working", json!([]))),
            PollReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
            PollReply::Task(task("canceled", json!([artifact("a", &["one ", "two"])]))),
        ],
    );

    let result = fixture.call(send()).await;

    assert_eq!(state(&result), "canceled", "{result}");
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get", "get", "get"]);
}

#[tokio::test]
async fn unanswered_subscription_is_polled() {
    let fixture = streams_at(
        poll_soon(),
        vec![first_events(StreamEnd::Cut), SubscribeReply::Never],
        vec![completed(&["one two"])],
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn silent_stream_of_working_task_stays_open() {
    let fixture = streams_at(
        poll_soon(),
        vec![first_events(StreamEnd::Later(&["working", "completed"]))],
        vec![PollReply::Task(task("working", json!([])))],
    );

    let result = fixture.call(send()).await;

    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(text(&result), "one ", "{result}");
    assert!(!fixture.calls().contains(&"subscribe"), "{result}");
}

#[tokio::test]
async fn stream_that_reports_the_end_is_read_to_it() {
    let patient = PollIntervals {
        final_wait: Duration::from_secs(60),
        ..poll_soon()
    };
    let fixture = streams_at(
        patient,
        vec![first_events(StreamEnd::Later(&["completed"]))],
        vec![completed(&["one ", "one "])],
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one ", "{result}");
}

#[tokio::test]
async fn message_is_the_answer_of_an_open_stream() {
    let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]});
    let fixture = streamed(vec![message], StreamEnd::Hang, vec![]);
    let result = fixture.call(within(send(), 5000)).await;
    assert_eq!(text(&result), "hi", "{result}");
    assert!(result["summary"]["wait_expired"].is_null(), "{result}");
    assert_eq!(fixture.calls(), ["stream"]);
}

#[tokio::test(start_paused = true)]
async fn stream_of_unknown_events_is_polled_like_a_silent_one() {
    let intervals = PollIntervals {
        idle: Duration::from_secs(15),
        ..quick()
    };
    for (request, first) in [(send(), "stream"), (watch(), "subscribe")] {
        let fixture = streams_at(
            intervals.clone(),
            vec![first_events(StreamEnd::Unknown)],
            vec![
                PollReply::Task(task("working", json!([]))),
                completed(&["one ", "two"]),
            ],
        );
        let result = fixture.call(within(request, 100_000)).await;
        assert_eq!(state(&result), "completed", "{result}");
        assert_eq!(text(&result), "one two", "{result}");
        assert_eq!(fixture.calls(), [first, "get", "get"]);
    }
}

#[tokio::test]
async fn flood_of_unknown_events_delays_neither_polls_nor_the_end() {
    let working = PollReply::Task(task("working", json!([])));
    for (state_so_far, polls, calls) in [
        (
            "working",
            vec![working, completed(&["one "])],
            &["stream", "get", "get"][..],
        ),
        ("completed", vec![], &["stream"]),
    ] {
        let events = vec![piece("a", "one ", false), fake::status(state_so_far)];
        let flood = SubscribeReply::Events(events, StreamEnd::UnknownFlood);
        let fixture = streams_at(poll_soon(), vec![flood], polls);
        let result = fixture.call(within(send(), 20_000)).await;
        assert_eq!(state(&result), "completed", "{result}");
        assert_eq!(text(&result), "one ", "{result}");
        assert_eq!(fixture.calls(), calls);
    }
}

#[tokio::test]
async fn ended_task_that_a_poll_found_is_requested_once() {
    let ended = PollReply::Task(task("completed", json!([])));
    let fixture = streams_at(
        poll_soon(),
        vec![first_events(StreamEnd::Hang)],
        vec![ended],
    );
    let result = fixture.call(send()).await;
    assert_eq!(text(&result), "one ", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get"]);
}
