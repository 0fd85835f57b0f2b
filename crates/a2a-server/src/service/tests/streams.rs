//! The events and ends of streams, and slow subscribers.

use super::*;

/// Streams a message until its run starts.
pub(super) async fn start_stream(
    harness: &mut TestService,
    send: SendMessage,
) -> (tokio::task::JoinHandle<TaskUpdates>, Run) {
    let service = harness.service.clone();
    let updates = tokio::spawn(async move { service.stream(&alice(), send).await.unwrap() });
    let run = harness.run().await;
    (updates, run)
}

/// The events of a run with one artifact.
const ONE_ARTIFACT: [&str; 4] = [
    "task Submitted",
    "status Working",
    "artifact a",
    "status Completed",
];

/// Returns all events of a stream.
async fn collect_events(updates: TaskUpdates) -> Vec<String> {
    updates
        .map(|event| event_text(&event.unwrap()))
        .collect()
        .await
}

#[tokio::test]
async fn stream_has_all_events_in_order() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    run.report(ExecutionEvent::Working(None)).await;
    run.report(artifact("a", "one")).await;
    run.report(artifact("b", "two")).await;
    run.done();
    assert_eq!(
        collect_events(updates.await.unwrap()).await,
        [
            "task Submitted",
            "status Working",
            "artifact a",
            "artifact b",
            "status Completed"
        ]
    );
}

#[tokio::test]
async fn first_artifact_sets_working() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    run.report(artifact("a", "one")).await;
    run.done();
    assert_eq!(collect_events(updates.await.unwrap()).await, ONE_ARTIFACT);
}

#[tokio::test]
async fn stream_ends_at_question() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    run.ask();
    let mut updates = updates.await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
    assert_eq!(next(&mut updates).await, "status InputRequired");
    assert!(updates.next().await.is_none());
}

#[tokio::test]
async fn stream_of_direct_message_has_one_event() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    let id = run.input.task_id.clone();
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let mut updates = updates.await.unwrap();
    assert_eq!(next(&mut updates).await, "message hi");
    assert!(updates.next().await.is_none());
    assert_eq!(harness.store.load(&id).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn stream_of_silent_run_begins_after_a_while() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    let mut updates = updates.await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
    assert_eq!(next(&mut updates).await, "status Working");
    // The client has seen the task, so a message of the agent completes it and does not replace it.
    run.end(Outcome::Message(vec![Part::text("hi")]));
    assert_eq!(next(&mut updates).await, "status Completed");
}

#[tokio::test(start_paused = true)]
async fn stream_of_queued_message_begins_after_a_while() {
    let mut harness = harness().await;
    harness.send_in_context("one").await;
    let _run = harness.run().await;
    let send = text_message("two").with_context_id("c");
    let mut updates = harness.service.stream(&alice(), send).await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
}

#[tokio::test]
async fn metadata_comes_with_last_event() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    run.report(ExecutionEvent::Metadata(metadata("usage", "3").unwrap()))
        .await;
    run.done();
    let events: Vec<_> = updates.await.unwrap().collect().await;
    let Some(Ok(StreamResponse::StatusUpdate(last))) = events.last() else {
        unreachable!("{events:?}");
    };
    assert_eq!(last.metadata, metadata("usage", "3"));
}

#[tokio::test]
async fn cut_stream_does_not_stop_task() {
    let mut harness = harness().await;
    let (updates, run) = start_stream(&mut harness, text_message("hello")).await;
    let id = run.input.task_id.clone();
    run.report(ExecutionEvent::Working(None)).await;
    drop(updates.await.unwrap());
    assert!(!run.cancel.is_cancelled());
    run.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn subscriber_receives_task_and_updates() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    run.report(artifact("a", "one")).await;
    while harness.get(&id).await.artifacts.is_none() {
        tokio::task::yield_now().await;
    }
    let mut updates = harness.service.subscribe(&alice(), &id).await.unwrap();
    let Some(Ok(StreamResponse::Task(task))) = updates.next().await else {
        unreachable!("no task");
    };
    assert_eq!(task.artifacts.unwrap().len(), 1);
    run.report(artifact("b", "two")).await;
    assert_eq!(next(&mut updates).await, "artifact b");
    run.done();
    assert_eq!(next(&mut updates).await, "status Completed");
    assert!(updates.next().await.is_none());
}

#[tokio::test]
async fn subscribers_receive_the_same_events() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(harness.service.subscribe(&alice(), &id).await.unwrap());
    }
    run.report(artifact("a", "one")).await;
    run.done();
    for updates in all {
        assert_eq!(collect_events(updates).await, ONE_ARTIFACT);
    }
}

#[tokio::test]
async fn slow_subscriber_receives_snapshot_and_end() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    let mut updates = harness.service.subscribe(&alice(), &id).await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
    for place in 0..200 {
        run.report(artifact(&place.to_string(), "x")).await;
    }
    run.done();
    harness.ended(&id).await;
    let mut last = None;
    let mut events = 0;
    while let Some(event) = updates.next().await {
        events += 1;
        last = Some(event.unwrap());
    }
    assert!(events < 200, "{events}");
    let Some(StreamResponse::Task(task)) = last else {
        unreachable!("{last:?}");
    };
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.unwrap().len(), 200);
}

#[tokio::test]
async fn subscriber_stays_while_task_is_interrupted() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let mut updates = harness.service.subscribe(&alice(), &id).await.unwrap();
    assert_eq!(next(&mut updates).await, "task InputRequired");
    harness.answer(&id, "this one").await;
    assert_eq!(next(&mut updates).await, "status Submitted");
    harness.run().await.done();
    assert_eq!(next(&mut updates).await, "status Completed");
}

#[tokio::test]
async fn v1_0_rejects_subscription_to_terminal_task() {
    let mut harness = harness().await;
    let id = harness.complete().await;
    let refused = harness.service.subscribe(&alice(), &id).await;
    let Err(error) = refused else {
        unreachable!("subscribed");
    };
    assert_eq!(error.reason, ErrorReason::UnsupportedOperation);
}

#[tokio::test]
async fn v0_3_sends_terminal_task_once() {
    let mut harness = harness().await;
    let id = harness.complete().await;
    let mut updates = harness.service.subscribe(&alice_0_3(), &id).await.unwrap();
    assert_eq!(next(&mut updates).await, "task Completed");
    assert!(updates.next().await.is_none());
}

#[tokio::test]
async fn stream_of_deleted_task_ends() {
    let mut harness = harness().await;
    let (id, _run) = harness.start().await;
    let mut updates = harness.service.subscribe(&alice(), &id).await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
    harness.service.delete(&id).await.unwrap();
    assert_eq!(next(&mut updates).await, "status Canceled");
    assert!(updates.next().await.is_none());
}
