//! Stores that fail, and stores that other servers share.

use super::failing_store::FailingStore;
use super::*;
use crate::settings::ServiceLimits;
use crate::store::StoreError;
use crate::task_record::TaskChange;

#[tokio::test(start_paused = true)]
async fn brief_store_failure_loses_no_task() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let (id, run) = harness.start().await;
    store.fail(3);
    run.report(artifact("a", "one")).await;
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.unwrap().len(), 1);
}

#[tokio::test]
async fn panic_fails_one_message_and_its_retry_runs() {
    // The store has the task in both cases.
    for operation in ["create", "enqueue"] {
        let store = FailingStore::new();
        store.panics.lock().push(operation);
        let settings = Settings {
            limits: ServiceLimits {
                tasks_per_client: 1,
                ..ServiceLimits::default()
            },
            ..Settings::default()
        };
        let mut harness = store.open_with(settings).await;
        let message = || text_message("hello").with_message_id("m");
        let error = harness.refusal(message()).await;
        assert_eq!(error.reason, ErrorReason::InternalError);
        let retry = harness.spawn_send(alice(), message());
        harness.run().await.done();
        let task = task(retry.await.unwrap().unwrap());
        assert_eq!(task.status.state, TaskState::Completed);
        let listed = harness
            .service
            .list(&alice(), lists::all(), Dialect::V1_0)
            .await
            .unwrap();
        assert_eq!(whole_page(listed).await.unwrap().tasks.len(), 1);
    }
}

#[tokio::test]
async fn panic_after_acceptance_fails_the_task() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let (id, run) = harness.start().await;
    store.panics.lock().push("append");
    run.report(artifact("a", "one")).await;
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    let message = task.status.message.unwrap();
    assert_eq!(message.metadata.unwrap()[status::REASON], "internal");
    // The server starts further runs of the session.
    let next = harness.spawn_send(alice(), text_message("next"));
    harness.run().await.done();
    next.await.unwrap().unwrap();
}

#[tokio::test]
async fn panic_with_an_answer_fails_its_task() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let id = harness.ask().await;
    store.panics.lock().push("enqueue");
    let answer = text_message("this one").with_task_id(&id);
    let error = harness.refusal(answer).await;
    assert!(error.text.contains("get the task"), "{error:?}");
    assert_eq!(harness.state(&id).await, TaskState::Failed);
}

#[tokio::test(start_paused = true)]
async fn waiting_events_are_stored_in_one_write() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let (id, run) = harness.start().await;
    for name in ["a", "b", "c"] {
        run.report(artifact(name, "one")).await;
    }
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.artifacts.unwrap().len(), 3);
    // Submitted, working, three artifacts and completed: revisions 0 to 5.
    assert_eq!(store.load(&id).await.unwrap().unwrap().revision, 5);
    // One append for the events and one for the end.
    assert_eq!(store.appends.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn append_with_lost_reply_is_stored_once() {
    let store = FailingStore {
        loses_reply: true,
        ..FailingStore::new()
    };
    let mut harness = store.open().await;
    let (id, run) = harness.start().await;
    run.report(ExecutionEvent::Working(None)).await;
    while harness.state(&id).await != TaskState::Working {
        tokio::task::yield_now().await;
    }
    store.fail(1);
    run.report(artifact("a", "one")).await;
    while harness.get(&id).await.artifacts.is_none() {
        tokio::task::yield_now().await;
    }
    store.fail(1);
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.unwrap()[0].parts.len(), 1);
    // Submitted, working, artifact and completed.
    let stored = store.load(&id).await.unwrap().unwrap();
    assert_eq!(stored.revision, 3);
}

#[tokio::test(start_paused = true)]
async fn slow_store_delays_the_answer_of_a_timed_out_run() {
    let store = FailingStore::new();
    let settings = Settings {
        timeout: 10 * SECOND,
        ..Settings::default()
    };
    let mut harness = store.open_with(settings).await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    run.report(artifact("a", "one")).await;
    tokio::time::sleep(SECOND).await;
    store.fail(1);
    let answer = received(response).await;
    assert_eq!(answer.status.state, TaskState::Failed);
}

#[tokio::test(start_paused = true)]
async fn lasting_store_failure_stops_run() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    store.fail(usize::MAX);
    run.report(artifact("a", "one")).await;
    run.cancel.cancelled().await;
    let error = response.await.unwrap().unwrap_err();
    assert_eq!(error.reason, ErrorReason::Unavailable);
    assert!(!error.text.contains("secret"), "{error}");
}

#[tokio::test]
async fn failing_store_is_not_ready() {
    let harness = FailingStore::new().open().await;
    let error = harness.service.ready().await.unwrap_err();
    assert_eq!(error, "the task store: no room");
}

#[tokio::test]
async fn list_skips_damaged_tasks() {
    let store = FailingStore::new();
    let harness = store.open().await;
    for (n, id) in ["t0", "t1", "t2"].into_iter().enumerate() {
        let mut made = record(id);
        made.owner = alice().client;
        made.changed_ms += i64::try_from(n).unwrap();
        store.create(&made).await.unwrap();
    }
    let fails = |id: &str, error| store.unread.lock().insert(id.to_owned(), error);
    let list = async || {
        harness
            .service
            .list(&alice(), lists::all(), Dialect::V1_0)
            .await
    };
    fails("t2", StoreError::Damaged("secret place: torn".to_owned()));
    let listed = whole_page(list().await.unwrap()).await.unwrap();
    let ids: Vec<&str> = listed.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["t1", "t0"]);
    // A later failure ends the task, whose run has started.
    fails("t0", StoreError::Failed("secret place: away".to_owned()));
    let error = whole_page(list().await.unwrap()).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::Unavailable);
    assert!(!error.text.contains("secret"), "{error}");
    // The first message is rejected, and no run starts.
    fails("t1", StoreError::Failed("secret place: away".to_owned()));
    assert_eq!(list().await.unwrap_err().reason, ErrorReason::Unavailable);
}

#[tokio::test]
async fn run_stops_when_task_ended_elsewhere() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    let status = TaskChange::Status(TaskStatus {
        state: TaskState::Canceled,
        message: None,
        timestamp: None,
    });
    let revision = store.load(&id).await.unwrap().unwrap().revision;
    store.append(&id, revision, 0, &[status]).await.unwrap();
    run.report(artifact("a", "late")).await;
    run.cancel.cancelled().await;
    let answer = received(response).await;
    assert_eq!(answer.status.state, TaskState::Canceled);
    assert_eq!(answer.artifacts, None);
}

#[tokio::test]
async fn cancel_reaches_the_running_server() {
    let store = FailingStore::shared();
    let mut one = store.open().await;
    let other = store.open().await;
    let (id, run) = one.start().await;
    let task = other.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.cancel.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn cancel_works_without_the_running_server() {
    let store = FailingStore::shared();
    let harness = store.open().await;
    let mut record = record("t");
    record.task.status.state = TaskState::Working;
    store.create(&record).await.unwrap();
    let task = harness.service.cancel(&alice(), "t").await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn task_of_another_server_can_be_followed() {
    let store = FailingStore::shared();
    let mut one = store.open().await;
    let other = store.open().await;
    let id = one.send_immediate(text_message("hello")).await.id;
    assert_eq!(other.state(&id).await, TaskState::Submitted);
    let mut updates = other.service.subscribe(&alice(), &id).await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
    one.run().await.done();
    assert_eq!(next(&mut updates).await, "status Completed");
}

#[tokio::test]
async fn question_is_answered_at_another_server() {
    let store = FailingStore::shared();
    let mut one = store.open().await;
    let mut other = store.open().await;
    let id = one.ask().await;
    other.answer(&id, "this one").await;
    assert_eq!(other.run().await.input.task_id, id);
}

#[tokio::test]
async fn message_without_queue_slot_leaves_no_task() {
    let store = FailingStore {
        full: true,
        ..FailingStore::new()
    };
    let harness = store.open().await;
    let refusal = harness.refusal(text_message("hello")).await;
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    let listed = harness
        .service
        .list(&alice(), lists::all(), Dialect::V1_0)
        .await
        .unwrap();
    assert_eq!(listed.total_size(), 0);
    assert_eq!(harness.service.active_task_count(), 0);
}

#[tokio::test]
async fn answer_without_queue_slot_fails_its_task() {
    let store = FailingStore {
        full: true,
        ..FailingStore::new()
    };
    let mut record = record("t");
    record.task.status.state = TaskState::InputRequired;
    record.changed_ms = TestClock::new().millis();
    store.create(&record).await.unwrap();
    let harness = store.open().await;
    let send = text_message("this one").with_task_id("t");
    let refusal = harness.refusal(send).await;
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    assert_eq!(harness.state("t").await, TaskState::Failed);
}

#[tokio::test(start_paused = true)]
async fn end_is_stored_once_the_store_recovers() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    store.fail(20);
    run.done();
    let error = response.await.unwrap().unwrap_err();
    assert_eq!(error.reason, ErrorReason::Unavailable);
    let mut updates = harness.service.subscribe(&alice(), &id).await.unwrap();
    let mut last = next(&mut updates).await;
    while let Some(update) = updates.next().await {
        last = event_text(&update.unwrap());
    }
    assert_eq!(last, "status Completed");
}

/// The end is left to the next process, whose store may work.
#[tokio::test(start_paused = true)]
async fn close_waits_for_no_store_that_lost_an_end() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    store.fail(100);
    run.done();
    response.await.unwrap().unwrap_err();
    harness.service.close(3600 * SECOND).await;
    let state = harness.stored(&id).await.task.status.state;
    assert!(!state.is_terminal(), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn task_with_lost_event_fails() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    store.fail(5);
    run.report(artifact("a", "one")).await;
    response.await.unwrap().unwrap_err();
    let mut updates = harness.service.subscribe(&alice(), &id).await.unwrap();
    while updates.next().await.is_some() {}
    let task = harness.get(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(STORE));
}

#[tokio::test]
async fn task_that_ended_elsewhere_leaves_the_quota() {
    let store = FailingStore::shared();
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let mut one = store.open_with(settings).await;
    let other = store.open().await;
    let id = one.ask().await;
    other.service.cancel(&alice(), &id).await.unwrap();
    one.send_immediate(text_message("another")).await;
}

#[tokio::test]
async fn task_of_another_server_is_not_counted() {
    let store = FailingStore::shared();
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let mut one = store.open().await;
    let mut other = store.open_with(settings).await;
    let id = one.ask().await;
    other.send_immediate(text_message("mine")).await;
    let _running = other.run().await;
    other.service.cancel(&alice(), &id).await.unwrap();
    let refusal = other.refusal(text_message("one more")).await;
    assert_eq!(refusal.reason, ErrorReason::ResourceExhausted);
}
