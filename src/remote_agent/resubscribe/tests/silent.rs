//! Peers that keep a connection and say nothing.

use std::time::Duration;

use serde_json::json;

use crate::remote_agent::Pace;
use peer::PeerErrorKind;

use super::fake::{Asked, Listened, Script, Stage, Then, artifact, quick, task};
use super::{begun, send, state, text};

/// A stream with nothing to say is soon asked about.
fn impatient() -> Pace {
    Pace {
        idle: Duration::from_millis(1),
        ..quick()
    }
}

#[tokio::test]
async fn a_silent_stream_of_a_settled_task_is_not_waited_for() {
    let stage = Stage::at(
        impatient(),
        Script {
            streaming: Some(true),
            listened: vec![begun(Then::Hang)],
            asked: vec![
                Asked::Task(task("working", json!([]))),
                Asked::Refused(PeerErrorKind::Unreachable),
                Asked::Task(task("canceled", json!([artifact("a", &["one ", "two"])]))),
            ],
            ..Script::default()
        },
    );

    let result = stage.call(send()).await;

    assert_eq!(state(&result), "canceled", "{result}");
    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(stage.calls(), ["stream", "get", "get", "get"]);
}

#[tokio::test]
async fn a_peer_that_never_answers_a_subscription_is_polled() {
    let stage = Stage::at(
        impatient(),
        Script {
            streaming: Some(true),
            listened: vec![begun(Then::Cut), Listened::Nothing],
            asked: vec![Asked::Task(task(
                "completed",
                json!([artifact("a", &["one two"])]),
            ))],
            ..Script::default()
        },
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "get"]);
}

#[tokio::test]
async fn a_silent_stream_of_a_working_task_is_listened_to_further() {
    let stage = Stage::at(
        impatient(),
        Script {
            streaming: Some(true),
            listened: vec![begun(Then::Later(&["working", "completed"]))],
            asked: vec![Asked::Task(task("working", json!([])))],
            ..Script::default()
        },
    );

    let result = stage.call(send()).await;

    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(text(&result), "one ", "{result}");
    assert!(!stage.calls().contains(&"subscribe"), "{result}");
}

#[tokio::test]
async fn a_stream_that_tells_the_end_itself_is_heard_out() {
    let patient = Pace {
        settle: Duration::from_secs(60),
        ..impatient()
    };
    let stage = Stage::at(
        patient,
        Script {
            streaming: Some(true),
            listened: vec![begun(Then::Later(&["completed"]))],
            asked: vec![Asked::Task(task(
                "completed",
                json!([artifact("a", &["one ", "one "])]),
            ))],
            ..Script::default()
        },
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one ", "{result}");
}
