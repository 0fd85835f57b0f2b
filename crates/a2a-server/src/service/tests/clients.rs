//! Removal of clients.

use super::failing_store::FailingStore;
use super::*;
use crate::store::StoreError;

/// Removes all clients but Bob.
fn bob_alone() -> HashSet<String> {
    HashSet::from(["bob".to_owned()])
}

/// Creates a task of Alice that waits for her answer.
async fn waiting(theatre: &mut TestService) -> String {
    let id = theatre.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    theatre.ended(&id).await;
    id
}

/// Subscribes to a task of Alice, and returns its last event.
async fn last_event(theatre: &TestService, task_id: &str) -> impl Future<Output = String> + use<> {
    let updates = theatre.service.subscribe(&alice(), task_id).await.unwrap();
    async move {
        let all: Vec<_> = updates.collect().await;
        short(all.last().unwrap().as_ref().unwrap())
    }
}

#[tokio::test]
async fn run_of_removed_client_stops_and_says_why() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    theatre.service.retain_clients(bob_alone());
    run.cancel.cancelled().await;
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Canceled);
    assert!(said(&task).contains("removed"), "{}", said(&task));
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], CLIENT_REMOVED);
}

#[tokio::test]
async fn queued_task_of_removed_client_never_runs() {
    let mut theatre = theatre().await;
    let first = theatre.begin(says("hello").in_context("c")).await;
    let _run = theatre.run().await;
    let second = theatre.begin(says("more").in_context("c")).await.id;
    theatre.service.retain_clients(bob_alone());
    for id in [&first.id, &second] {
        assert_eq!(theatre.ended(id).await.status.state, TaskState::Canceled);
    }
    assert!(theatre.runs.try_recv().is_err());
}

#[tokio::test]
async fn task_that_waits_for_removed_client_is_canceled() {
    let mut theatre = theatre().await;
    let id = waiting(&mut theatre).await;
    let last = last_event(&theatre, &id).await;
    theatre.service.retain_clients(bob_alone());
    assert_eq!(last.await, "status Canceled");
}

#[tokio::test]
async fn webhooks_of_removed_client_are_deleted() {
    let mut theatre = theatre().await;
    let id = waiting(&mut theatre).await;
    let webhook = TaskPushNotificationConfig {
        url: "https://example.com/hook".to_owned(),
        id: None,
        task_id: id.clone(),
        token: None,
        authentication: None,
        tenant: None,
    };
    let created = theatre.service.create_push(&alice(), webhook).await;
    created.unwrap();
    let last = last_event(&theatre, &id).await;
    theatre.service.retain_clients(bob_alone());
    last.await;
    assert!(theatre.store.pushes(&id).await.unwrap().is_empty());
}

#[tokio::test]
async fn undeletable_webhook_keeps_no_task_open() {
    let store = FailingStore {
        no_pushes: true,
        ..FailingStore::new()
    };
    let mut theatre = store.open().await;
    let id = waiting(&mut theatre).await;
    let last = last_event(&theatre, &id).await;
    theatre.service.retain_clients(bob_alone());
    assert_eq!(last.await, "status Canceled");
}

#[tokio::test(start_paused = true)]
async fn end_of_removed_client_retries_store_errors() {
    let store = FailingStore::new();
    let mut theatre = store.open().await;
    let id = waiting(&mut theatre).await;
    let last = last_event(&theatre, &id).await;
    let away = StoreError::Failed("away".to_owned());
    store.unread.lock().insert(id.clone(), away);
    theatre.service.retain_clients(bob_alone());
    tokio::time::sleep(SECOND).await;
    store.unread.lock().clear();
    assert_eq!(theatre.state(&id).await, TaskState::InputRequired);
    assert_eq!(last.await, "status Canceled");
}

#[tokio::test]
async fn removed_client_is_rejected_and_others_are_not() {
    let mut theatre = theatre().await;
    let of_bob = theatre.begin_as(&bob(), says("hello")).await.id;
    let run = theatre.run().await;
    theatre.service.retain_clients(bob_alone());
    let refused = theatre.service.send(&alice(), says("hello")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::Unauthenticated);
    run.done();
    let task = theatre.ended(&of_bob).await;
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn added_client_is_accepted() {
    let mut theatre = theatre().await;
    theatre.service.retain_clients(bob_alone());
    let both = ["alice", "bob"].map(str::to_owned);
    theatre.service.retain_clients(both.into());
    theatre.begin(says("hello")).await;
    theatre.run().await.done();
}

#[tokio::test]
async fn recovered_run_of_removed_client_is_stopped() {
    let store = MemoryStore::new();
    let mut left = record("t");
    left.owner = "alice".to_owned();
    left.run = Some("run".to_owned());
    left.task.history = Some(vec![Message::new(Role::User, vec![Part::text("hello")])]);
    store.create(&left).await.unwrap();
    let behind = Arc::new(store.clone());
    let (settings, alive) = (Settings::default(), vec!["run".to_owned()]);
    let clients = Some(bob_alone());
    let mut theatre = TestService::for_clients(settings, store, behind, alive, clients).await;
    theatre.run().await.cancel.cancelled().await;
    let task = theatre.ended("t").await;
    assert_eq!(task.status.state, TaskState::Canceled);
    assert!(said(&task).contains("removed"), "{}", said(&task));
}
