//! Shutdown of the service.

use std::sync::atomic::Ordering;

use super::failing_store::FailingStore;
use super::*;
use crate::store::TaskStore;

/// Starts the process that continues the tasks of `store`, where the executor still has these runs.
async fn successor(store: &FailingStore, live_runs: &[&str]) -> TestService {
    let live_runs = live_runs.iter().map(|run| (*run).to_owned()).collect();
    let task_store: Arc<dyn TaskStore> = Arc::new(store.clone());
    TestService::with_store(
        Settings::default(),
        store.memory.clone(),
        task_store,
        live_runs,
    )
    .await
}

/// Sends a message in the context `c`, and names its run.
async fn start_named(harness: &mut TestService, run_name: &str) -> (Task, Run) {
    let task = harness.send_in_context(run_name).await;
    let run = harness.run().await;
    run.report(ExecutionEvent::Run(run_name.to_owned())).await;
    // A later message has a later time.
    harness.clock.advance(Duration::from_millis(1));
    (task, run)
}

#[tokio::test]
async fn close_leaves_named_run_to_successor() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let (task, run) = start_named(&mut harness, "one").await;
    let closed = harness.service.close(10 * SECOND).await;
    assert_eq!(closed, Closed { left: 1, failed: 0 });
    assert!(harness.executor.detached.load(Ordering::SeqCst) && run.is_dropped());
    let stored = store.memory.load(&task.id).await.unwrap().unwrap();
    assert!(!stored.is_terminal(), "{stored:?}");
    let mut next = successor(&store, &["one"]).await;
    let run = next.run().await;
    assert_eq!(run.reattached.as_deref(), Some("one"));
    run.done();
    assert_eq!(
        next.ended(&task.id).await.status.state,
        TaskState::Completed
    );
}

#[tokio::test]
async fn successor_starts_queued_task() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let (_, _run) = start_named(&mut harness, "one").await;
    let queued = harness.send_in_context("two").await;
    let closed = harness.service.close(10 * SECOND).await;
    assert_eq!(closed, Closed { left: 2, failed: 0 });
    let mut next = successor(&store, &["one"]).await;
    next.run().await.done();
    let run = next.run().await;
    assert_eq!(run.reattached, None);
    assert_eq!(text(&run.input.message), "two");
    run.done();
    let ended = next.ended(&queued.id).await;
    assert_eq!(ended.status.state, TaskState::Completed);
}

#[tokio::test]
async fn queued_task_is_started_by_one_successor() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let (_, _run) = start_named(&mut harness, "one").await;
    let queued = harness.send_in_context("two").await;
    harness.service.close(10 * SECOND).await;
    let mut next = successor(&store, &["one"]).await;
    next.run().await.done();
    let _run = next.run().await;
    let after_kill = successor(&store, &[]).await;
    let ended = after_kill.ended(&queued.id).await;
    assert_eq!(ended.status.state, TaskState::Failed);
}

#[tokio::test]
async fn close_fails_what_no_successor_can_continue() {
    let durable = FailingStore::new().open().await;
    let memory = harness().await;
    for (mut harness, run_name) in [(durable, None), (memory, Some("one"))] {
        let id = harness.send_immediate(text_message("hello")).await.id;
        let run = harness.run().await;
        if let Some(name) = run_name {
            run.report(ExecutionEvent::Run(name.to_owned())).await;
        }
        let stopped = async {
            run.cancel.cancelled().await;
            run.done();
        };
        let (closed, ()) = tokio::join!(harness.service.close(10 * SECOND), stopped);
        assert_eq!(closed, Closed { left: 0, failed: 1 }, "{run_name:?}");
        let task = harness.stored(&id).await.task;
        assert_eq!(task.status.state, TaskState::Failed, "{run_name:?}");
    }
}

#[tokio::test]
async fn drain_waits_for_running_tasks_and_rejects_messages() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    let draining = harness.service.drain(3600 * SECOND);
    let clients = async {
        while !harness.service.is_stopping() {
            tokio::task::yield_now().await;
        }
        let error = harness.refusal(text_message("more")).await;
        assert_eq!(error.reason, ErrorReason::Unavailable);
        assert!(error.retry_after_s.is_some());
        assert!(harness.service.ready().await.is_err());
        assert_eq!(harness.state(&id).await, TaskState::Submitted);
        run.done();
    };
    tokio::join!(draining, clients);
    let closed = harness.service.close(SECOND).await;
    assert_eq!(closed, Closed { left: 0, failed: 0 });
    let task = harness.stored(&id).await.task;
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn close_answers_sender_with_the_task_it_left() {
    let mut harness = FailingStore::new().open().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    run.report(ExecutionEvent::Run("one".to_owned())).await;
    harness.service.close(SECOND).await;
    let task = received(response).await;
    assert!(!task.status.state.is_terminal(), "{task:?}");
}

#[tokio::test]
async fn close_ends_stream_of_left_task_without_terminal_event() {
    let mut harness = FailingStore::new().open().await;
    let task = start_named(&mut harness, "one").await.0;
    let mut updates = harness.service.subscribe(&alice(), &task.id).await.unwrap();
    harness.service.close(SECOND).await;
    while let Some(update) = updates.next().await {
        let event = event_text(&update.unwrap());
        assert!(!event.contains("Failed"), "{event}");
    }
}

#[tokio::test]
async fn left_task_cannot_be_canceled_here() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let task = start_named(&mut harness, "one").await.0;
    harness.service.close(SECOND).await;
    let refused = harness.service.cancel(&alice(), &task.id).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn forced_close_drops_stuck_run_at_once() {
    let mut harness = harness().await;
    harness.send_immediate(text_message("hello")).await;
    let run = harness.run().await;
    let force = CancellationToken::new();
    force.cancel();
    let before = tokio::time::Instant::now();
    harness.service.close_until(3600 * SECOND, &force).await;
    assert!(before.elapsed() <= SECOND);
    assert!(run.is_dropped());
}

#[tokio::test]
async fn close_stops_and_marks_runs() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    let stopped = tokio::spawn(async move {
        run.cancel.cancelled().await;
        run.done();
    });
    harness.service.close(10 * SECOND).await;
    stopped.await.unwrap();
    let task = harness.stored(&id).await.task;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(INTERRUPTED));
}

#[tokio::test]
async fn close_marks_queued_tasks() {
    let mut harness = harness().await;
    harness.send_in_context("one").await;
    let second = harness.send_in_context("two").await;
    harness.run().await.done();
    harness.service.close(SECOND).await;
    let state = harness.stored(&second.id).await;
    assert!(state.is_terminal());
}

#[tokio::test]
async fn close_keeps_interrupted_tasks() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    harness.service.close(SECOND).await;
    let stored = harness.stored(&id).await;
    assert_eq!(stored.task.status.state, TaskState::InputRequired);
}

#[tokio::test(start_paused = true)]
async fn close_drops_stuck_run_in_time() {
    let mut harness = harness().await;
    harness.send_immediate(text_message("hello")).await;
    let run = harness.run().await;
    let before = tokio::time::Instant::now();
    harness.service.close(5 * SECOND).await;
    assert!(before.elapsed() <= 5 * SECOND);
    assert!(run.is_dropped());
}

#[tokio::test]
async fn close_rejects_messages() {
    let harness = harness().await;
    harness.service.close(SECOND).await;
    let error = harness.refusal(text_message("hello")).await;
    assert_eq!(error.reason, ErrorReason::Unavailable);
    assert!(error.retry_after_s.is_some());
    assert!(harness.service.ready().await.is_err());
}

#[tokio::test]
async fn close_answers_waiting_sender() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let closing = harness.service.close(SECOND);
    let stopping = async {
        run.cancel.cancelled().await;
        run.done();
    };
    tokio::join!(closing, stopping);
    let task = received(response).await;
    assert_eq!(task.status.state, TaskState::Failed);
}

#[tokio::test]
async fn running_service_is_ready() {
    let harness = harness().await;
    assert_eq!(harness.service.ready().await, Ok(()));
}
