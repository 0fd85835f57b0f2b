//! The end of the caller's time, and of its patience.

use serde_json::json;

use super::fake::{Asked, Listened, Then, task};
use super::{begun, send, state, streams, text, watch, within};

#[tokio::test]
async fn the_deadline_gives_what_came_and_how_to_go_on() {
    let stage = streams(vec![begun(Then::Hang)], vec![]);

    let result = stage.call(within(send(), 30)).await;

    assert_eq!(result["ok"], true, "{result}");
    let summary = &result["summary"];
    assert_eq!(summary["wait_expired"], true, "{result}");
    assert_eq!(state(&result), "working", "{result}");
    assert_eq!(text(&result), "one ", "{result}");
    assert!(
        summary["next_step"].as_str().unwrap().contains("watch"),
        "{result}"
    );
    assert_eq!(
        summary["continuation"]["task"]["can_watch"], true,
        "{result}"
    );
}

#[tokio::test]
async fn a_deadline_while_polling_is_no_error_either() {
    let stage = streams(
        vec![begun(Then::Cut)],
        vec![Asked::Task(task("working", json!([])))],
    );

    let result = stage.call(within(send(), 30)).await;

    assert_eq!(result["summary"]["wait_expired"], true, "{result}");
}

#[tokio::test]
async fn a_send_that_heard_nothing_by_the_deadline_is_an_error() {
    let stage = streams(vec![Listened::To(vec![], Then::Hang)], vec![]);

    let result = stage.call(within(send(), 30)).await;

    assert_eq!(result["error"]["reason"], "timeout", "{result}");
    assert_eq!(
        result["error"]["details"]["delivered"], "unknown",
        "{result}"
    );
    let hint = result["error"]["details"]["hint"].as_str().unwrap();
    assert!(hint.contains("task_requirement"), "{hint}");
}

#[tokio::test]
async fn a_watch_that_heard_nothing_by_the_deadline_can_go_on() {
    for listened in [Listened::To(vec![], Then::Hang), Listened::Nothing] {
        let stage = streams(vec![listened], vec![]);

        let result = stage.call(within(watch(), 30)).await;

        assert_eq!(result["ok"], true, "{result}");
        assert_eq!(result["summary"]["wait_expired"], true, "{result}");
        assert_eq!(
            result["summary"]["continuation"]["task"]["task_id"], "t",
            "{result}"
        );
        assert_eq!(result["raw"], json!({"events": []}), "{result}");
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_while_the_peer_is_asked_again_keeps_what_came() {
    let stage = streams(vec![begun(Then::Cut), Listened::Nothing], vec![]);

    let (result, _) = stage.told(send(), stage.peer.rejoined.clone()).await;

    assert_eq!(result["error"]["reason"], "aborted", "{result}");
    let summary = &result["error"]["details"]["latest_event_summary"];
    assert_eq!(summary["message_text"], "one ", "{result}");
}

#[tokio::test]
async fn a_peer_that_never_stops_talking_is_not_heard_past_the_deadline() {
    let stage = streams(vec![begun(Then::Flood)], vec![]);

    let result = stage.call(within(send(), 20)).await;

    assert_eq!(result["summary"]["wait_expired"], true, "{result}");
    assert_eq!(text(&result), "one ");
}
