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

use crate::faults::rig::{
    EXIT_TIMEOUT, Rig, card, parse, peers, result, soon, status, stream, task,
};

/// Returns a stream of `count` pieces between a task and its end.
fn pieces(count: u32) -> Value {
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
    let peers = peers(pieces(500)).await;
    let rig = Rig::at(&peers);
    let (tell, received) = mpsc::channel();
    let job = CallInput {
        request: stream().to_string(),
        updates: Some({
            let tell = tell.clone();
            Arc::new(move |update: &str| tell.send(update.to_owned()).unwrap())
        }),
        ..CallInput::default()
    };
    let done = CancellationToken::new();
    let reported = done.clone();
    rig.plugin.start_with(job, move |envelope| {
        tell.send(envelope).unwrap();
        reported.cancel();
    });
    soon(done.cancelled()).await;
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
    let peers = peers(pieces(20)).await;
    let rig = Rig::at(&peers);
    let asked = Arc::new(AtomicUsize::new(0));
    let take = {
        let asked = Arc::clone(&asked);
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            panic::resume_unwind(Box::new("no"));
        }
    };
    let envelope = soon(rig.begin(&stream(), &CancellationToken::new(), take)).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert_eq!(asked.load(Ordering::SeqCst), 22);
}

#[tokio::test]
async fn slow_consumer_delays_no_other_call() {
    let peers = peers(pieces(3)).await;
    let rig = Rig::at(&peers);
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let (began, beginning) = mpsc::channel();
    let slow = rig.begin(&stream(), &CancellationToken::new(), move |_| {
        let _ = began.send(());
        let _ = wait.lock().unwrap().recv_timeout(EXIT_TIMEOUT);
    });
    let slow = tokio::spawn(slow);
    let begun = tokio::task::spawn_blocking(move || beginning.recv_timeout(EXIT_TIMEOUT));
    soon(begun).await.unwrap().unwrap();
    let (other, _) = rig.follow(&stream()).await;
    assert_eq!(other["ok"], true, "{other}");
    assert!(!slow.is_finished());
    drop(release);
    assert_eq!(soon(slow).await.unwrap()["ok"], true);
}
