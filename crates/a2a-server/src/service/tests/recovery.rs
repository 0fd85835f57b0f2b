//! Recovery of the tasks of an earlier process.

use super::*;

/// Returns a store with an unfinished task of an earlier process, and the id of the task.
async fn store_with_task(run: Option<&str>, state: TaskState) -> (MemoryStore, String) {
    let store = MemoryStore::new();
    let mut record = record("t");
    record.run = run.map(str::to_owned);
    record.task.status.state = state;
    record.changed_ms = TestClock::new().millis();
    store.create(&record).await.unwrap();
    (store, record.task.id)
}

#[tokio::test]
async fn lost_run_fails_as_interrupted() {
    for (run, state) in [
        (None, TaskState::Submitted),
        (None, TaskState::Working),
        (Some("run-7"), TaskState::Working),
    ] {
        let (store, id) = store_with_task(run, state.clone()).await;
        let harness = TestService::recovering(store, &[]).await;
        let task = harness.ended(&id).await;
        assert_eq!(task.status.state, TaskState::Failed, "{run:?} {state:?}");
        assert_eq!(reason(&task), Some(INTERRUPTED), "{run:?} {state:?}");
    }
}

#[tokio::test]
async fn live_run_is_reattached() {
    let (store, id) = store_with_task(Some("run-7"), TaskState::Working).await;
    let mut harness = TestService::recovering(store, &["run-7"]).await;
    let run = harness.run().await;
    assert_eq!(run.reattached.as_deref(), Some("run-7"));
    assert_eq!(run.input.task_id, id);
    assert_eq!(text(&run.input.message), "hello");
    run.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn reattached_run_can_be_canceled() {
    let (store, id) = store_with_task(Some("run-7"), TaskState::Working).await;
    let mut harness = TestService::recovering(store, &["run-7"]).await;
    let run = harness.run().await;
    harness.service.cancel(&alice(), &id).await.unwrap();
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn direct_message_after_restart_completes_task() {
    let (store, id) = store_with_task(Some("run-7"), TaskState::Working).await;
    let mut harness = TestService::recovering(store, &["run-7"]).await;
    let run = harness.run().await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    assert_eq!(status_text(&harness.ended(&id).await), "hi");
}

#[tokio::test]
async fn interrupted_task_survives_restart() {
    let (store, id) = store_with_task(None, TaskState::InputRequired).await;
    let mut harness = TestService::recovering(store, &[]).await;
    assert_eq!(harness.state(&id).await, TaskState::InputRequired);
    harness.answer(&id, "this one").await;
    assert_eq!(harness.run().await.input.task_id, id);
}

#[tokio::test]
async fn terminal_task_survives_restart() {
    let (store, id) = store_with_task(None, TaskState::Completed).await;
    let before = store.load(&id).await.unwrap();
    let harness = TestService::recovering(store, &[]).await;
    assert_eq!(harness.store.load(&id).await.unwrap(), before);
}

#[tokio::test]
async fn recovered_tasks_count_against_quota() {
    let (store, _) = store_with_task(None, TaskState::InputRequired).await;
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let harness = TestService::with_memory_store(settings, store, Vec::new()).await;
    let refusal = harness.refusal(text_message("one")).await;
    assert_eq!(refusal.reason, ErrorReason::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn old_tasks_are_pruned_periodically() {
    let mut settings = Settings::default();
    settings.retention.count = 1;
    let mut harness = TestService::with(settings).await;
    let mut sent = Vec::new();
    for text in ["one", "two"] {
        let id = harness.send_immediate(text_message(text)).await.id;
        harness.run().await.done();
        harness.ended(&id).await;
        sent.push(id);
    }
    tokio::time::sleep(120 * SECOND).await;
    let page = harness
        .service
        .list(&alice(), lists::all(), Dialect::V1_0)
        .await
        .unwrap();
    assert_eq!(page.total_size(), 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_are_pruned_by_age() {
    let mut harness = harness().await;
    let id = harness.complete().await;
    harness.clock.advance(Settings::default().retention.age);
    tokio::time::sleep(120 * SECOND).await;
    harness.get(&id).await;
    harness.clock.advance(SECOND);
    tokio::time::sleep(120 * SECOND).await;
    let refused = harness.service.get(&alice(), &id, None).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn unfinished_task_is_never_pruned() {
    let mut settings = Settings::default();
    settings.retention.count = 0;
    let harness = TestService::with(settings).await;
    let id = harness.send_immediate(text_message("one")).await.id;
    harness.clock.advance(Duration::from_secs(365 * 24 * 3600));
    tokio::time::sleep(120 * SECOND).await;
    harness.get(&id).await;
}
