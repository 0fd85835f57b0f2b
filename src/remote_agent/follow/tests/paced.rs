//! Hosts that take fewer updates than a stream has events.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::remote_agent::ToolCall;

use super::fake::TOKEN;
use super::*;

/// Calls at an interval of 100 ms. Returns the result, and each update's event with the time at which it came.
async fn paced(fixture: &Fixture, request: Value) -> (Value, Vec<(Value, Duration)>) {
    let (start, updates) = (Instant::now(), Mutex::new(Vec::new()));
    let take = |update: &str| {
        let update: Value = serde_json::from_str(update).unwrap();
        let event = (update["raw"].clone(), start.elapsed());
        updates.lock().unwrap().push(event);
    };
    let call = ToolCall {
        request: &request.to_string(),
        caller: Some(r#"{"update_interval_ms": 100}"#),
        updates: Some(&take),
        person: None,
        cancel: CancellationToken::new(),
        closing: CancellationToken::new(),
    };
    let result = serde_json::from_str(&fixture.agent.execute(call).await).unwrap();
    (result, updates.into_inner().unwrap())
}

fn burst() -> Fixture {
    let mut events = vec![task("working", json!([]))];
    events.extend((0..500).map(|n| piece("a", &format!("{n} "), n > 0)));
    events.push(task("completed", json!([])));
    streamed(events, StreamEnd::Close, vec![])
}

#[tokio::test(start_paused = true)]
async fn burst_delivers_its_first_and_last_event() {
    let (result, updates) = paced(&burst(), send()).await;

    let states: Vec<_> = updates
        .iter()
        .map(|(event, _)| &event["status"]["state"])
        .collect();
    assert_eq!(states, ["working", "completed"]);
    let (unpaced, all) = burst()
        .update_events(send(), CancellationToken::new())
        .await;
    assert_eq!(
        (&result["raw"], all.len()),
        (&unpaced["raw"], 502),
        "{result}"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_event_is_delivered_while_the_stream_is_silent() {
    let events = vec![
        task("working", json!([])),
        piece("a", "one", false),
        piece("a", "two", true),
    ];
    let fixture = streamed(events, StreamEnd::Hang, vec![]);

    let (_, updates) = paced(&fixture, within(send(), 5000)).await;

    assert_eq!(updates.len(), 2, "{updates:?}");
    let (event, after) = &updates[1];
    assert_eq!(event["artifact"]["parts"][0]["text"], "two");
    assert!((100..150).contains(&after.as_millis()), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_event_is_delivered_when_the_connection_is_lost() {
    let events = vec![task("working", json!([])), piece("a", "one", false)];
    let fixture = streams(
        vec![
            SubscribeReply::Events(events, StreamEnd::Cut),
            SubscribeReply::Never,
        ],
        vec![],
    );

    let (_, updates) = paced(&fixture, within(send(), 5000)).await;

    let after: Vec<_> = updates.iter().map(|(_, after)| after.as_millis()).collect();
    assert!(after.len() == 2 && after[1] < 50, "{updates:?}");
}

#[tokio::test(start_paused = true)]
async fn credential_that_begins_in_a_skipped_event_is_hidden() {
    let (start, end) = TOKEN.split_at(4);
    let events = vec![
        task("working", json!([])),
        piece("a", start, false),
        piece("a", end, true),
    ];
    let fixture = streamed(events, StreamEnd::Hang, vec![]);

    let (_, updates) = paced(&fixture, within(send(), 5000)).await;

    let (event, _) = &updates[1];
    assert_eq!(event["artifact"]["parts"][0]["text"], "[redacted]");
}
