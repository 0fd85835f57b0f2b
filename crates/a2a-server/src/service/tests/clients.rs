//! Removal of clients.

use super::failing_store::FailingStore;
use super::*;
use crate::store::StoreError;

/// Removes all clients but Bob.
fn only_bob() -> HashSet<String> {
    HashSet::from(["bob".to_owned()])
}

/// Subscribes to a task of Alice, and returns its last event.
async fn last_event(harness: &TestService, task_id: &str) -> impl Future<Output = String> + use<> {
    let updates = harness.service.subscribe(&alice(), task_id).await.unwrap();
    async move {
        let all: Vec<_> = updates.collect().await;
        event_text(all.last().unwrap().as_ref().unwrap())
    }
}

#[tokio::test]
async fn run_of_removed_client_stops_with_reason() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    harness.service.retain_clients(only_bob());
    run.cancel.cancelled().await;
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Canceled);
    assert!(
        status_text(&task).contains("removed"),
        "{}",
        status_text(&task)
    );
    assert_eq!(reason(&task), Some(CLIENT_REMOVED));
}

#[tokio::test]
async fn queued_task_of_removed_client_never_runs() {
    let mut harness = harness().await;
    let first = harness.send_in_context("hello").await;
    let _run = harness.run().await;
    let second = harness.send_in_context("more").await.id;
    harness.service.retain_clients(only_bob());
    for id in [&first.id, &second] {
        assert_eq!(harness.end_state(id).await, TaskState::Canceled);
    }
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn task_that_waits_for_removed_client_is_canceled() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let last = last_event(&harness, &id).await;
    harness.service.retain_clients(only_bob());
    assert_eq!(last.await, "status Canceled");
}

#[tokio::test]
async fn webhooks_of_removed_client_are_deleted() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let created = harness
        .service
        .create_push(&alice(), pushes::webhook(&id, None))
        .await;
    created.unwrap();
    let last = last_event(&harness, &id).await;
    harness.service.retain_clients(only_bob());
    last.await;
    assert!(harness.store.pushes(&id).await.unwrap().is_empty());
}

#[tokio::test]
async fn undeletable_webhook_keeps_no_task_open() {
    let store = FailingStore {
        no_pushes: true,
        ..FailingStore::new()
    };
    let mut harness = store.open().await;
    let id = harness.ask().await;
    let last = last_event(&harness, &id).await;
    harness.service.retain_clients(only_bob());
    assert_eq!(last.await, "status Canceled");
}

#[tokio::test(start_paused = true)]
async fn end_of_removed_client_retries_store_errors() {
    let store = FailingStore::new();
    let mut harness = store.open().await;
    let id = harness.ask().await;
    let last = last_event(&harness, &id).await;
    let away = StoreError::Failed("away".to_owned());
    store.unread.lock().insert(id.clone(), away);
    harness.service.retain_clients(only_bob());
    tokio::time::sleep(SECOND).await;
    store.unread.lock().clear();
    assert_eq!(harness.state(&id).await, TaskState::InputRequired);
    assert_eq!(last.await, "status Canceled");
}

#[tokio::test]
async fn removed_client_is_rejected_and_others_are_not() {
    let mut harness = harness().await;
    let of_bob = harness
        .send_immediate_as(&bob(), text_message("hello"))
        .await
        .id;
    let run = harness.run().await;
    harness.service.retain_clients(only_bob());
    let refusal = harness.refusal(text_message("hello")).await;
    assert_eq!(refusal.reason, ErrorReason::Unauthenticated);
    run.done();
    let task = harness.ended(&of_bob).await;
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn added_client_is_accepted() {
    let mut harness = harness().await;
    harness.service.retain_clients(only_bob());
    let both = ["alice", "bob"].map(str::to_owned);
    harness.service.retain_clients(both.into());
    harness.send_immediate(text_message("hello")).await;
    harness.run().await.done();
}

#[tokio::test]
async fn recovered_run_of_removed_client_is_stopped() {
    let store = MemoryStore::new();
    let mut record = record("t");
    record.owner = "alice".to_owned();
    record.run = Some("run".to_owned());
    record.task.history = Some(vec![Message::new(Role::User, vec![Part::text("hello")])]);
    store.create(&record).await.unwrap();
    let task_store = Arc::new(store.clone());
    let (settings, live_runs) = (Settings::default(), vec!["run".to_owned()]);
    let clients = Some(only_bob());
    let mut harness =
        TestService::for_clients(settings, store, task_store, live_runs, clients).await;
    harness.run().await.cancel.cancelled().await;
    let task = harness.ended("t").await;
    assert_eq!(task.status.state, TaskState::Canceled);
    assert!(
        status_text(&task).contains("removed"),
        "{}",
        status_text(&task)
    );
}
