//! Clients cannot see tasks of other clients.

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::failing_store::FailingStore;
use super::pushes::webhook;
use super::*;
use crate::store::StoreError;
use crate::store::sqlite::{self, SqliteStore};

/// Returns the errors of all operations of Bob on a task.
async fn refusals(service: &Service, id: &str) -> [A2aError; 8] {
    let bob = bob();
    let more = text_message("more").with_task_id(id);
    [
        service.get(&bob, id, None).await.unwrap_err(),
        service.cancel(&bob, id).await.unwrap_err(),
        service.subscribe(&bob, id).await.err().unwrap(),
        service.send(&bob, more).await.unwrap_err(),
        service
            .create_push(&bob, webhook(id, Some("w")))
            .await
            .unwrap_err(),
        service.get_push(&bob, id, Some("w")).await.unwrap_err(),
        service.list_pushes(&bob, id).await.unwrap_err(),
        service.delete_push(&bob, id, "w").await.unwrap_err(),
    ]
}

#[tokio::test]
async fn task_of_other_client_is_unknown() {
    let harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let service = &harness.service;
    let created = service.create_push(&alice(), webhook(&id, Some("w"))).await;
    created.unwrap();
    let unknown = refusals(service, "none").await;
    for (error, unknown) in refusals(service, &id).await.into_iter().zip(unknown) {
        assert_eq!(error.reason, ErrorReason::TaskNotFound);
        assert_eq!(error.text.replace(&id, "none"), unknown.text);
    }
    assert_eq!(harness.state(&id).await, TaskState::Submitted);
    let listed = service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [webhook(&id, Some("w"))]);
}

/// Only its record names its owner.
#[tokio::test]
async fn damaged_task_is_unknown() {
    let store = FailingStore::new();
    let harness = store.open().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let damaged = StoreError::Damaged("secret place: torn".to_owned());
    store.unread.lock().insert(id.clone(), damaged);
    for error in refusals(&harness.service, &id).await {
        assert_eq!(error.reason, ErrorReason::TaskNotFound, "{error}");
    }
    // An operator can delete it.
    assert!(harness.service.delete(&id).await.unwrap());
    assert_eq!(store.memory.load(&id).await, Ok(None));
}

#[tokio::test]
async fn client_lists_own_tasks() {
    let harness = harness().await;
    let hers = harness.send_immediate(text_message("hers")).await;
    let his = harness.send_immediate_as(&bob(), text_message("his")).await;
    for (caller, own) in [(alice(), hers), (bob(), his)] {
        let listed = harness
            .service
            .list(&caller, lists::all(), Dialect::V1_0)
            .await
            .unwrap();
        let listed = whole_page(listed).await.unwrap();
        let ids: Vec<String> = listed.tasks.into_iter().map(|task| task.id).collect();
        assert_eq!(ids, [own.id]);
        assert_eq!(listed.total_size, 1);
    }
}

/// Alice's reads are polled once, so that they keep the permits that they have or get.
#[tokio::test]
async fn pending_reads_of_one_client_do_not_delay_another() {
    let settings = Settings {
        several_clients: true,
        ..Settings::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let options = sqlite::Options::new(directory.path());
    let store = Arc::new(SqliteStore::open(&options, chrono::Utc::now()).unwrap());
    let harness = TestService::with_store(settings, MemoryStore::new(), store, Vec::new()).await;
    let service = &harness.service;
    let hers = harness.send_immediate(text_message("hers")).await.id;
    let his = harness.send_immediate_as(&bob(), text_message("his")).await;
    let get = async |caller: CallContext, id: &str| {
        service.get(&caller, id, None).await.unwrap();
    };
    let list = async |caller: CallContext| {
        let listed = service.list(&caller, lists::all(), Dialect::V1_0).await;
        listed.unwrap();
    };
    let summaries = async |caller: CallContext| {
        let filter = tasks_of(Some(caller.client));
        service.tasks(&filter).await.unwrap();
    };
    for name in ["get", "list", "summaries"] {
        let read = |_| match name {
            "get" => get(alice(), &hers).boxed_local(),
            "list" => list(alice()).boxed_local(),
            _ => summaries(alice()).boxed_local(),
        };
        let mut reads: Vec<LocalBoxFuture<'_, ()>> = (0..20).map(read).collect();
        for read in &mut reads {
            let _ = read.now_or_never();
        }
        let others = async {
            get(bob(), &his.id).await;
            list(bob()).await;
            summaries(bob()).await;
        };
        let answered = tokio::time::timeout(Duration::from_secs(30), others).await;
        assert!(answered.is_ok(), "{name}: Bob waits for Alice");
    }
}

#[tokio::test]
async fn operator_lists_all_tasks() {
    let harness = harness().await;
    harness.send_immediate(text_message("hers")).await;
    harness.send_immediate_as(&bob(), text_message("his")).await;
    let listed = harness.service.tasks(&tasks_of(None)).await.unwrap();
    assert_eq!(listed.total, 2);
}

fn tasks_of(owner: Option<String>) -> Filter {
    Filter {
        owner,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: 10,
        after: None,
    }
}
