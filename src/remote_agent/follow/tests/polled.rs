//! Polling, where subscribing fails.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use peer::PeerErrorKind;

use super::fake::{Listened, PollReply, Script, Stage, Then, artifact, task};
use super::{begun, required, send, state, streams, text, watch};

#[tokio::test]
async fn refused_subscription_is_polled() {
    let stage = streams(
        vec![begun(Then::Cut), Listened::Refused(PeerErrorKind::Rpc)],
        vec![
            PollReply::Task(task("working", json!([artifact("a", &["one ", "two "])]))),
            PollReply::Task(task("working", json!([artifact("a", &["one ", "two "])]))),
            PollReply::Task(task(
                "completed",
                json!([artifact("a", &["one ", "two ", "three"])]),
            )),
        ],
    );

    let (result, update_events) = stage.update_events(send(), CancellationToken::new()).await;

    assert_eq!(text(&result), "one two three", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "get", "get", "get"]);
    assert_eq!(
        update_events.len(),
        4,
        "a poll without news sends no update: {update_events:?}"
    );
}

#[tokio::test]
async fn two_empty_subscriptions_lead_to_polling() {
    let known = task("working", json!([artifact("a", &["one "])]));
    let nothing = || Listened::To(vec![known.clone()], Then::Close);
    let stage = streams(
        vec![
            begun(Then::Cut),
            nothing(),
            Listened::To(vec![], Then::Cut),
            nothing(),
        ],
        vec![PollReply::Task(task(
            "completed",
            json!([artifact("a", &["one "])]),
        ))],
    );

    let result = stage.call(send()).await;

    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(stage.calls(), ["stream", "subscribe", "subscribe", "get"]);
}

#[tokio::test]
async fn watch_polls_a_peer_without_streaming() {
    let stage = Stage::new(Script {
        streaming: Some(false),
        asked: vec![
            PollReply::Task(task("working", json!([]))),
            PollReply::Task(task("completed", json!([artifact("a", &["done"])]))),
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
async fn watch_polls_where_announced_streaming_fails() {
    let stage = streams(
        vec![Listened::Refused(PeerErrorKind::Rpc)],
        vec![PollReply::Task(task(
            "completed",
            json!([artifact("a", &["done"])]),
        ))],
    );

    let result = stage.call(watch()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(stage.calls(), ["subscribe", "get"]);
}

#[tokio::test]
async fn watch_fails_where_stream_and_poll_are_refused() {
    let stage = streams(vec![Listened::Refused(PeerErrorKind::Rpc)], vec![]);

    let result = stage.call(watch()).await;

    assert_eq!(result["error"]["reason"], "rpc_error", "{result}");
}

#[tokio::test]
async fn watch_of_unreachable_peer_fails_at_once() {
    let stage = streams(vec![Listened::Refused(PeerErrorKind::Unreachable)], vec![]);

    let result = stage.call(watch()).await;

    assert_eq!(result["error"]["reason"], "unreachable", "{result}");
    assert_eq!(stage.calls(), ["subscribe"]);
}

#[tokio::test]
async fn required_task_without_streaming_is_polled() {
    for request in [required(), send()] {
        let stage = Stage::new(Script {
            streaming: Some(false),
            answer: Some(task("submitted", json!([]))),
            asked: vec![PollReply::Task(task(
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
async fn plain_response_of_working_task_is_polled() {
    let working = Listened::To(vec![task("working", json!([]))], Then::Answer);
    let done = PollReply::Task(task("completed", json!([artifact("a", &["done"])])));
    let stage = streams(vec![working], vec![done]);

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(stage.calls(), ["stream", "get"]);
}

#[tokio::test]
async fn temporarily_unreachable_peer_is_polled_again() {
    let stage = streams(
        vec![
            begun(Then::Cut),
            Listened::Refused(PeerErrorKind::Unreachable),
            Listened::Refused(PeerErrorKind::Unreachable),
        ],
        vec![
            PollReply::Refused(PeerErrorKind::Unreachable),
            PollReply::Refused(PeerErrorKind::Cut),
            PollReply::Task(task("completed", json!([artifact("a", &["one two"])]))),
        ],
    );

    let result = stage.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(
        stage.calls(),
        ["stream", "subscribe", "subscribe", "get", "get", "get"]
    );
}
