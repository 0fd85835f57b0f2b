//! Peers that keep a connection open and send nothing.

use std::time::Duration;

use serde_json::json;

use crate::remote_agent::PollIntervals;
use egress::NetFault;
use peer::PeerErrorKind;

use super::fake::{Fixture, PollReply, Script, StreamEnd, SubscribeReply, artifact, quick, task};
use super::{first_events, send, state, text};

/// Polls a silent stream soon.
fn poll_soon() -> PollIntervals {
    PollIntervals {
        idle: Duration::from_millis(1),
        ..quick()
    }
}

#[tokio::test]
async fn silent_stream_of_ended_task_is_closed() {
    let fixture = Fixture::at(
        poll_soon(),
        Script {
            streaming: Some(true),
            subscriptions: vec![first_events(StreamEnd::Hang)],
            polls: vec![
                PollReply::Task(task("working", json!([]))),
                PollReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
                PollReply::Task(task("canceled", json!([artifact("a", &["one ", "two"])]))),
            ],
            ..Script::default()
        },
    );

    let result = fixture.call(send()).await;

    assert_eq!(state(&result), "canceled", "{result}");
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get", "get", "get"]);
}

#[tokio::test]
async fn unanswered_subscription_is_polled() {
    let fixture = Fixture::at(
        poll_soon(),
        Script {
            streaming: Some(true),
            subscriptions: vec![first_events(StreamEnd::Cut), SubscribeReply::Never],
            polls: vec![PollReply::Task(task(
                "completed",
                json!([artifact("a", &["one two"])]),
            ))],
            ..Script::default()
        },
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn silent_stream_of_working_task_stays_open() {
    let fixture = Fixture::at(
        poll_soon(),
        Script {
            streaming: Some(true),
            subscriptions: vec![first_events(StreamEnd::Later(&["working", "completed"]))],
            polls: vec![PollReply::Task(task("working", json!([])))],
            ..Script::default()
        },
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
    let fixture = Fixture::at(
        patient,
        Script {
            streaming: Some(true),
            subscriptions: vec![first_events(StreamEnd::Later(&["completed"]))],
            polls: vec![PollReply::Task(task(
                "completed",
                json!([artifact("a", &["one ", "one "])]),
            ))],
            ..Script::default()
        },
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one ", "{result}");
}
