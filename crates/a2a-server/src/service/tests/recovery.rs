//! What an earlier process left.

use super::*;

/// A store with a task that was under way.
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
async fn a_task_that_was_under_way_has_failed_as_interrupted() {
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
async fn a_run_that_still_lives_is_gone_on_with() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let alive = vec!["run-7".to_owned()];
    let mut theatre = TestService::over(Settings::default(), store, alive).await;
    let run = theatre.run().await;
    assert_eq!(run.reattached.as_deref(), Some("run-7"));
    assert_eq!(run.job.task_id, id);
    assert_eq!(text(&run.job.message), "hello");
    run.done();
    assert_eq!(theatre.ended(&id).await.status.state, TaskState::Completed);
}

#[tokio::test]
async fn a_run_that_is_gone_leaves_its_task_interrupted() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let theatre = TestService::over(Settings::default(), store, Vec::new()).await;
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], INTERRUPTED);
}

#[tokio::test]
async fn a_run_that_is_gone_on_with_can_be_canceled() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let alive = vec!["run-7".to_owned()];
    let mut theatre = TestService::over(Settings::default(), store, alive).await;
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &id).await.unwrap();
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn an_answer_at_once_after_a_restart_completes_the_task() {
    let (store, id) = left(Some("run-7"), TaskState::Working).await;
    let alive = vec!["run-7".to_owned()];
    let mut theatre = TestService::over(Settings::default(), store, alive).await;
    let run = theatre.run().await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    assert_eq!(said(&theatre.ended(&id).await), "hi");
}

#[tokio::test]
async fn a_task_that_waited_for_its_client_still_waits() {
    let (store, id) = left(None, TaskState::InputRequired).await;
    let mut theatre = TestService::over(Settings::default(), store, Vec::new()).await;
    assert_eq!(theatre.state(&id).await, TaskState::InputRequired);
    theatre.begin(says("this one").answering(&id)).await;
    assert_eq!(theatre.run().await.job.task_id, id);
}

#[tokio::test]
async fn what_is_settled_is_left_alone() {
    let (store, id) = left(None, TaskState::Completed).await;
    let before = store.load(&id).await.unwrap();
    let theatre = TestService::over(Settings::default(), store, Vec::new()).await;
    assert_eq!(theatre.store.load(&id).await.unwrap(), before);
}

#[tokio::test]
async fn a_clients_tasks_from_before_count() {
    let (store, _) = left(None, TaskState::InputRequired).await;
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let theatre = TestService::over(settings, store, Vec::new()).await;
    let refused = theatre.service.send(&alice(), says("one")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn old_tasks_are_forgotten_from_time_to_time() {
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
async fn tasks_are_forgotten_when_they_are_old_enough() {
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
async fn a_task_that_is_not_settled_is_never_forgotten() {
    let mut settings = Settings::default();
    settings.retention.count = 0;
    let theatre = TestService::with(settings).await;
    let id = theatre.begin(says("one")).await.id;
    theatre.clock.resume(Duration::from_secs(365 * 24 * 3600));
    tokio::time::sleep(120 * SECOND).await;
    theatre.get(&id).await;
}
