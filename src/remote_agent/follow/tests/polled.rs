//! Polling, where subscribing fails.

use egress::NetFault;
use peer::PeerErrorKind;

use super::*;

#[tokio::test]
async fn refused_subscription_is_polled() {
    let fixture = streams(
        vec![
            first_events(StreamEnd::Cut),
            SubscribeReply::Refused(PeerErrorKind::Rpc),
        ],
        vec![
            PollReply::Task(task("working", json!([artifact("a", &["one ", "two "])]))),
            PollReply::Task(task("working", json!([artifact("a", &["one ", "two "])]))),
            completed(&["one ", "two ", "three"]),
        ],
    );

    let (result, update_events) = fixture.updates(send()).await;

    assert_eq!(text(&result), "one two three", "{result}");
    assert_eq!(
        fixture.calls(),
        ["stream", "subscribe", "get", "get", "get"]
    );
    assert_eq!(
        update_events.len(),
        4,
        "a poll without news sends no update: {update_events:?}"
    );
}

#[tokio::test]
async fn two_empty_subscriptions_lead_to_polling() {
    let known = task("working", json!([artifact("a", &["one "])]));
    let nothing = || SubscribeReply::Events(vec![known.clone()], StreamEnd::Close);
    let fixture = streams(
        vec![
            first_events(StreamEnd::Cut),
            nothing(),
            SubscribeReply::Events(vec![], StreamEnd::Cut),
            nothing(),
        ],
        vec![completed(&["one "])],
    );

    let result = fixture.call(send()).await;

    assert_eq!(state(&result), "completed", "{result}");
    assert_eq!(fixture.calls(), ["stream", "subscribe", "subscribe", "get"]);
}

#[tokio::test]
async fn watch_polls_a_peer_without_streaming() {
    let fixture = Fixture::new(Script {
        streaming: Some(false),
        polls: vec![
            PollReply::Task(task("working", json!([]))),
            completed(&["done"]),
        ],
        ..Script::default()
    });

    let result = fixture.call(watch()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(
        result["raw"]["events"].as_array().unwrap().len(),
        2,
        "{result}"
    );
    assert_eq!(fixture.calls(), ["get", "get"]);
}

#[tokio::test]
async fn first_poll_of_a_watch_is_repeated_like_later_ones() {
    for failure in [
        PollReply::Status(500),
        PollReply::Status(524),
        PollReply::Refused(PeerErrorKind::InvalidResponse),
        PollReply::Refused(PeerErrorKind::Net(NetFault::Cut)),
    ] {
        for streaming in [false, true] {
            let fixture = Fixture::new(Script {
                streaming: Some(streaming),
                subscriptions: vec![SubscribeReply::Refused(PeerErrorKind::HttpStatus)],
                polls: vec![failure.clone(), completed(&["done"])],
                ..Script::default()
            });
            let result = fixture.call(watch()).await;
            assert_eq!(text(&result), "done", "{failure:?}: {result}");
        }
        let fixture = Fixture::new(Script {
            streaming: Some(false),
            polls: vec![failure.clone()],
            ..Script::default()
        });
        let result = fixture.call(watch()).await;
        assert_eq!(result["ok"], false, "{failure:?}: {result}");
        assert_eq!(fixture.calls(), ["get"; 6], "{failure:?}");
    }
}

#[tokio::test]
async fn watch_of_an_unknown_task_fails_at_the_first_poll() {
    for refusal in [
        PollReply::Refused(PeerErrorKind::Rpc),
        PollReply::Refused(PeerErrorKind::AuthRequired),
        PollReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
        PollReply::Status(404),
    ] {
        let fixture = Fixture::new(Script {
            streaming: Some(false),
            polls: vec![refusal],
            ..Script::default()
        });
        let result = fixture.call(watch()).await;
        assert_eq!(result["ok"], false, "{result}");
        assert_eq!(fixture.calls(), ["get"]);
    }
}

#[tokio::test]
async fn watch_polls_where_announced_streaming_fails() {
    let fixture = streams(
        vec![SubscribeReply::Refused(PeerErrorKind::Rpc)],
        vec![completed(&["done"])],
    );

    let result = fixture.call(watch()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(fixture.calls(), ["subscribe", "get"]);
}

#[tokio::test]
async fn watch_fails_where_stream_and_poll_are_refused() {
    let fixture = streams(vec![SubscribeReply::Refused(PeerErrorKind::Rpc)], vec![]);

    let result = fixture.call(watch()).await;

    assert_eq!(result["error"]["reason"], "rpc_error", "{result}");
}

#[tokio::test]
async fn watch_of_unreachable_peer_fails_at_once() {
    let fixture = streams(
        vec![SubscribeReply::Refused(PeerErrorKind::Net(
            NetFault::Unreachable,
        ))],
        vec![],
    );

    let result = fixture.call(watch()).await;

    assert_eq!(result["error"]["reason"], "unreachable", "{result}");
    assert_eq!(fixture.calls(), ["subscribe"]);
}

#[tokio::test]
async fn required_task_without_streaming_is_polled() {
    for request in [required(), send()] {
        let fixture = polled(task("submitted", json!([])), vec![completed(&["done"])]);

        let result = fixture.call(request).await;

        assert_eq!(text(&result), "done", "{result}");
        assert_eq!(fixture.calls(), ["send", "get"]);
    }
}

#[tokio::test]
async fn plain_response_of_working_task_is_polled() {
    let working = SubscribeReply::Events(vec![task("working", json!([]))], StreamEnd::Answer);
    let done = completed(&["done"]);
    let fixture = streams(vec![working], vec![done]);

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "done", "{result}");
    assert_eq!(fixture.calls(), ["stream", "get"]);
}

#[tokio::test]
async fn temporarily_unreachable_peer_is_polled_again() {
    let fixture = streams(
        vec![
            first_events(StreamEnd::Cut),
            SubscribeReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
            SubscribeReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
        ],
        vec![
            PollReply::Refused(PeerErrorKind::Net(NetFault::Unreachable)),
            PollReply::Refused(PeerErrorKind::Net(NetFault::Cut)),
            completed(&["one two"]),
        ],
    );

    let result = fixture.call(send()).await;

    assert_eq!(text(&result), "one two", "{result}");
    assert_eq!(
        fixture.calls(),
        ["stream", "subscribe", "subscribe", "get", "get", "get"]
    );
}
