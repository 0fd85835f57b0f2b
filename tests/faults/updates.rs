//! Updates: in order, before the result, and safe from faults of their consumer.

use std::{
    panic,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use openclaw_remote_agent::plugin::CallInput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::faults::tool_fixture::{
    ToolFixture, WAIT_TIMEOUT, card, parse, peers, result, status, stream_request, task,
    within_timeout,
};

/// Returns a stream of `count` pieces between a task and its end.
fn chunk_stream(count: u32) -> Value {
    let mut events = vec![result(task("working"))];
    events.extend((0..count).map(|number| {
        result(json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": true,
            "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": format!("{number} ")}]}}))
    }));
    events.push(result(status("completed", true)));
    json!({"main": {"card": card(), "rpc": {"message/stream": {"sse": events}}}})
}

#[tokio::test]
async fn updates_arrive_in_order_before_the_result() {
    let peers = peers(chunk_stream(500)).await;
    let fixture = ToolFixture::with_peers(&peers);
    let (sender, received) = mpsc::channel();
    let input = CallInput {
        request: stream_request().to_string(),
        updates: Some({
            let sender = sender.clone();
            Arc::new(move |update: &str| sender.send(update.to_owned()).unwrap())
        }),
        ..CallInput::default()
    };
    let finished = CancellationToken::new();
    let on_finish = finished.clone();
    fixture.plugin.start_with(input, move |envelope| {
        sender.send(envelope).unwrap();
        on_finish.cancel();
    });
    within_timeout(finished.cancelled()).await;
    let all: Vec<Value> = received.try_iter().map(|text| parse(&text)).collect();
    assert_eq!(all.len(), 503);
    let (envelope, updates) = all.split_last().unwrap();
    assert!(envelope.get("phase").is_none(), "{envelope}");
    for (index, update) in updates.iter().enumerate() {
        assert_eq!(update["phase"], "update");
        if (1..=500).contains(&index) {
            let text = &update["raw"]["artifact"]["parts"][0]["text"];
            assert_eq!(text, &format!("{} ", index - 1));
        }
    }
}

#[tokio::test]
async fn panicking_consumer_receives_later_updates() {
    let peers = peers(chunk_stream(20)).await;
    let fixture = ToolFixture::with_peers(&peers);
    let calls = Arc::new(AtomicUsize::new(0));
    let on_update = {
        let calls = Arc::clone(&calls);
        move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            panic::resume_unwind(Box::new("no"));
        }
    };
    let envelope =
        within_timeout(fixture.start(&stream_request(), &CancellationToken::new(), on_update))
            .await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert_eq!(calls.load(Ordering::SeqCst), 22);
}

#[tokio::test]
async fn slow_consumer_delays_no_other_call() {
    let peers = peers(chunk_stream(3)).await;
    let fixture = ToolFixture::with_peers(&peers);
    let (release_sender, release_receiver) = mpsc::channel::<()>();
    let release_receiver = Mutex::new(release_receiver);
    let (started_sender, started_receiver) = mpsc::channel();
    let slow = fixture.start(&stream_request(), &CancellationToken::new(), move |_| {
        let _ = started_sender.send(());
        let _ = release_receiver.lock().unwrap().recv_timeout(WAIT_TIMEOUT);
    });
    let slow = tokio::spawn(slow);
    let started = tokio::task::spawn_blocking(move || started_receiver.recv_timeout(WAIT_TIMEOUT));
    within_timeout(started).await.unwrap().unwrap();
    let (other, _) = fixture.call_with_updates(&stream_request()).await;
    assert_eq!(other["ok"], true, "{other}");
    assert!(!slow.is_finished());
    drop(release_sender);
    assert_eq!(within_timeout(slow).await.unwrap()["ok"], true);
}
