//! Polling, where listening is not to be had.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use peer::PeerErrorKind;

use super::fake::{Asked, Listened, Script, Stage, Then, artifact, task};
use super::{begun, required, send, state, streams, text, watch};

#[tokio::test]
async fn a_peer_that_refuses_to_be_listened_to_is_polled() {
    let stage = streams(
        vec![begun(Then::Cut), Listened::Refused(PeerErrorKind::Rpc)],
        vec![
            Asked::Task(task("working", json!([artifact("a", &["one ", "two "])]))),
            Asked::Task(task("working", json!([artifact("a", &["one ", "two "])]))),
            Asked::Task(task(
                "completed",
                json!([artifact("a", &["one ", "two ", "three"])]),
            )),
        ],
    );

    let (result, told) = stage.told(send(), CancellationToken::new()).await;

    assert_eq!(text(&result), "one two three", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "get", "get", "get"]);
    assert_eq!(
        told.len(),
        4,
        "an answer without news is not told: {told:?}"
    );
}

#[tokio::test]
async fn two_subscriptions_in_a_row_without_anything_new_are_the_last() {
    let known = task("working", json!([artifact("a", &["one "])]));
    let nothing = || Listened::To(vec![known.clone()], Then::Close);
    let stage = streams(
        vec![
            begun(Then::Cut),
            nothing(),
            Listened::To(vec![], Then::Cut),
            nothing(),
        ],
        vec![Asked::Task(task(
            "completed",
            json!([artifact("a", &["one "])]),
        ))],
    );

    let result = stage.call(send()).await;

    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "subscribe", "get"]);
}

#[tokio::test]
async fn a_peer_that_does_not_stream_is_polled_by_a_watch() {
    let stage = Stage::new(Script {
        streaming: Some(false),
        asked: vec![
            Asked::Task(task("working", json!([]))),
            Asked::Task(task("completed", json!([artifact("a", &["done"])]))),
        ],
        ..Script::default()
    });

    let result = stage.call(watch()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(
        result["raw"]["events"].as_array().unwrap().len(),
        2,
        "{result}"
    );
    assert_eq!(stage.calls(), ["get", "get"]);
}

#[tokio::test]
async fn a_peer_whose_card_promises_more_than_it_keeps_is_polled_by_a_watch() {
    let stage = streams(
        vec![Listened::Refused(PeerErrorKind::Rpc)],
        vec![Asked::Task(task(
            "completed",
            json!([artifact("a", &["done"])]),
        ))],
    );

    let result = stage.call(watch()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(stage.calls(), ["subscribe", "get"]);
}

#[tokio::test]
async fn a_watch_that_is_refused_both_ways_is_an_error() {
    let stage = streams(vec![Listened::Refused(PeerErrorKind::Rpc)], vec![]);

    let result = stage.call(watch()).await;

    assert_eq!(result["error"]["reason"], "rpc_error", "{result}");
}

#[tokio::test]
async fn a_watch_of_a_peer_that_is_not_there_fails_at_once() {
    let stage = streams(vec![Listened::Refused(PeerErrorKind::Unreachable)], vec![]);

    let result = stage.call(watch()).await;

    assert_eq!(result["error"]["reason"], "unreachable", "{result}");
    assert_eq!(stage.calls(), ["subscribe"]);
}

#[tokio::test]
async fn a_required_task_of_a_peer_that_does_not_stream_is_polled() {
    for request in [required(), send()] {
        let stage = Stage::new(Script {
            streaming: Some(false),
            answer: Some(task("submitted", json!([]))),
            asked: vec![Asked::Task(task(
                "completed",
                json!([artifact("a", &["done"])]),
            ))],
            ..Script::default()
        });

        let result = stage.call(request).await;

        assert_eq!(text(&result), "done", "{result}");
        assert_eq!(stage.calls(), ["send", "get"]);
    }
}

#[tokio::test]
async fn a_plain_answer_of_a_working_task_is_followed_by_polls() {
    let working = Listened::To(vec![task("working", json!([]))], Then::Answer);
    let done = Asked::Task(task("completed", json!([artifact("a", &["done"])])));
    let stage = streams(vec![working], vec![done]);

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(stage.calls(), ["stream", "get"]);
}

#[tokio::test]
async fn a_peer_that_is_away_for_a_while_is_asked_again() {
    let stage = streams(
        vec![
            begun(Then::Cut),
            Listened::Refused(PeerErrorKind::Unreachable),
            Listened::Refused(PeerErrorKind::Unreachable),
        ],
        vec![
            Asked::Refused(PeerErrorKind::Unreachable),
            Asked::Refused(PeerErrorKind::Cut),
            Asked::Task(task("completed", json!([artifact("a", &["one two"])]))),
        ],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(
        stage.calls(),
        ["stream", "subscribe", "subscribe", "get", "get", "get"]
    );
}
