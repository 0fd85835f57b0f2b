//! Recovery of the tasks of an earlier process.

use super::*;

/// Returns a store with an unfinished task of an earlier process, and the id of the task.
async fn left(run: Option<&str>, state: TaskState) -> (MemoryStore, String) {
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
    for state in [TaskState::Submitted, TaskState::Working] {
        let (store, id) = left(None, state).await;
        let theatre = TestService::over(Settings::default(), store, Vec::new()).await;
        let task = theatre.get(&id).await;
        assert_eq!(task.status.state, TaskState::Failed);
        let metadata = task.status.message.unwrap().metadata.unwrap();
        assert_eq!(metadata[REASON], INTERRUPTED);
    }
}

#[tokio::test]
async fn living_run_is_reattached() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let alive = vec!["run-7".to_owned()];
    let mut theatre = TestService::over(Settings::default(), store, alive).await;
    let run = theatre.run().await;
    assert_eq!(run.reattached.as_deref(), Some("run-7"));
    assert_eq!(run.input.task_id, id);
    assert_eq!(text(&run.input.message), "hello");
    run.done();
    assert_eq!(theatre.ended(&id).await.status.state, TaskState::Completed);
}

#[tokio::test]
async fn missing_run_fails_as_interrupted() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let theatre = TestService::over(Settings::default(), store, Vec::new()).await;
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], INTERRUPTED);
}

#[tokio::test]
async fn reattached_run_can_be_canceled() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let alive = vec!["run-7".to_owned()];
    let mut theatre = TestService::over(Settings::default(), store, alive).await;
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &id).await.unwrap();
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn direct_message_after_restart_completes_task() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let alive = vec!["run-7".to_owned()];
    let mut theatre = TestService::over(Settings::default(), store, alive).await;
    let run = theatre.run().await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    assert_eq!(said(&theatre.ended(&id).await), "hi");
}

#[tokio::test]
async fn interrupted_task_survives_restart() {
    let (store, id) = left(None, TaskState::InputRequired).await;
    let mut theatre = TestService::over(Settings::default(), store, Vec::new()).await;
    assert_eq!(theatre.state(&id).await, TaskState::InputRequired);
    theatre.begin(says("this one").answering(&id)).await;
    assert_eq!(theatre.run().await.input.task_id, id);
}

#[tokio::test]
async fn terminal_task_survives_restart() {
    let (store, id) = left(None, TaskState::Completed).await;
    let before = store.load(&id).await.unwrap();
    let theatre = TestService::over(Settings::default(), store, Vec::new()).await;
    assert_eq!(theatre.store.load(&id).await.unwrap(), before);
}

#[tokio::test]
async fn recovered_tasks_count_against_quota() {
    let (store, _) = left(None, TaskState::InputRequired).await;
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let theatre = TestService::over(settings, store, Vec::new()).await;
    let refused = theatre.service.send(&alice(), says("one")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn old_tasks_are_pruned_periodically() {
    let mut settings = Settings::default();
    settings.retention.count = 1;
    let mut theatre = TestService::with(settings).await;
    let mut sent = Vec::new();
    for text in ["one", "two"] {
        let id = theatre.begin(says(text)).await.id;
        theatre.run().await.done();
        theatre.ended(&id).await;
        sent.push(id);
    }
    tokio::time::sleep(120 * SECOND).await;
    let kept = theatre.service.list(&alice(), lists::all()).await.unwrap();
    assert_eq!(kept.total_size(), 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_are_pruned_by_age() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("one")).await.id;
    theatre.run().await.done();
    theatre.ended(&id).await;
    theatre.clock.resume(Settings::default().retention.age);
    tokio::time::sleep(120 * SECOND).await;
    theatre.get(&id).await;
    theatre.clock.resume(SECOND);
    tokio::time::sleep(120 * SECOND).await;
    let refused = theatre.service.get(&alice(), &id, None).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn unfinished_task_is_never_pruned() {
    let mut settings = Settings::default();
    settings.retention.count = 0;
    let theatre = TestService::with(settings).await;
    let id = theatre.begin(says("one")).await.id;
    theatre.clock.resume(Duration::from_secs(365 * 24 * 3600));
    tokio::time::sleep(120 * SECOND).await;
    theatre.get(&id).await;
}
