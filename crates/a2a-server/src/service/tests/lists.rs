//! Pages of lists.

use std::sync::atomic::Ordering;

use super::failing_store::FailingStore;
use super::*;
use crate::store::StoreError;

pub(super) fn all() -> ListTasksRequest {
    ListTasksRequest {
        context_id: None,
        status: None,
        page_size: None,
        page_token: None,
        history_length: None,
        status_timestamp_after: None,
        include_artifacts: None,
        tenant: None,
    }
}

/// Returns a request for all tasks, changed so.
fn listing(change: impl FnOnce(&mut ListTasksRequest)) -> ListTasksRequest {
    let mut request = all();
    change(&mut request);
    request
}

fn ids(listed: &ListTasksResponse) -> Vec<&str> {
    listed.tasks.iter().map(|task| task.id.as_str()).collect()
}

async fn list(harness: &TestService, request: ListTasksRequest) -> ListTasksResponse {
    let page = harness
        .service
        .list(&alice(), request, Dialect::V1_0)
        .await
        .unwrap();
    whole_page(page).await.unwrap()
}

/// Sends messages of these sizes, lists them page by page, and returns the sizes of the pages.
async fn page_sizes(harness: &TestService, sent: &[usize], page_size: Option<i32>) -> Vec<usize> {
    let mut ids = Vec::new();
    for size in sent {
        let send = text_message(&"x".repeat(*size));
        ids.push(harness.send_immediate(send).await.id);
    }
    let (mut seen, mut sizes) = (Vec::new(), Vec::new());
    let mut request = listing(|request| request.page_size = page_size);
    loop {
        let page = list(harness, request.clone()).await;
        assert_eq!(page.page_size, page_size.unwrap_or(50));
        assert_eq!(page.total_size, i32::try_from(sent.len()).unwrap());
        sizes.push(page.tasks.len());
        seen.extend(page.tasks.into_iter().map(|task| task.id));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = Some(page.next_page_token);
    }
    seen.sort();
    ids.sort();
    assert_eq!(seen, ids, "each task once");
    sizes
}

#[tokio::test]
async fn pages_contain_every_task_once() {
    let sizes = page_sizes(&harness().await, &[1; 7], Some(3)).await;
    assert_eq!(sizes, [3, 3, 1]);
}

#[tokio::test]
async fn list_begins_with_last_changed() {
    let mut harness = harness().await;
    let first = harness.send_immediate(text_message("one")).await;
    let run = harness.run().await;
    harness.send_immediate(text_message("two")).await;
    harness.clock.advance(SECOND);
    run.done();
    harness.ended(&first.id).await;
    assert_eq!(ids(&list(&harness, all()).await)[0], first.id);
}

#[tokio::test]
async fn page_size_is_1_to_100_and_50_by_default() {
    let harness = harness().await;
    assert_eq!(list(&harness, all()).await.page_size, 50);
    for size in [1, 100] {
        let request = listing(|request| request.page_size = Some(size));
        assert_eq!(list(&harness, request).await.page_size, size);
    }
    for size in [i32::MIN, -1, 0, 101, i32::MAX] {
        let request = listing(|request| request.page_size = Some(size));
        let error = harness
            .service
            .list(&alice(), request, Dialect::V1_0)
            .await
            .unwrap_err();
        assert_eq!(error.reason, ErrorReason::InvalidParams);
        assert_eq!(error.field.as_deref(), Some("pageSize"));
    }
}

#[tokio::test]
async fn unknown_page_token_is_rejected() {
    let harness = harness().await;
    for token in ["x", "12", "a.b"] {
        let request = listing(|request| request.page_token = Some(token.to_owned()));
        let error = harness
            .service
            .list(&alice(), request, Dialect::V1_0)
            .await
            .unwrap_err();
        assert_eq!(error.reason, ErrorReason::InvalidParams);
        assert_eq!(error.field.as_deref(), Some("pageToken"));
    }
}

#[tokio::test]
async fn empty_page_token_is_the_first_page() {
    let harness = harness().await;
    harness.send_immediate(text_message("one")).await;
    let request = listing(|request| request.page_token = Some(String::new()));
    assert_eq!(list(&harness, request).await.tasks.len(), 1);
}

#[tokio::test]
async fn list_filters_by_context_and_state() {
    let mut harness = harness().await;
    let done = harness.send_in_context("one").await;
    harness.run().await.done();
    harness.ended(&done.id).await;
    let waits = harness.send_in_context("two").await;
    let other = harness
        .send_immediate(text_message("three").with_context_id("d"))
        .await;
    let of_c = listing(|request| request.context_id = Some("c".to_owned()));
    let listed = list(&harness, of_c.clone()).await;
    assert_eq!(listed.total_size, 2);
    assert!(!ids(&listed).contains(&other.id.as_str()));
    let completed = listing(|request| request.status = Some(TaskState::Completed));
    assert_eq!(ids(&list(&harness, completed).await), [&done.id]);
    let both = ListTasksRequest {
        status: Some(TaskState::Submitted),
        ..of_c
    };
    assert_eq!(ids(&list(&harness, both).await), [&waits.id]);
}

#[tokio::test]
async fn list_filters_by_status_timestamp() {
    let harness = harness().await;
    let task = harness.send_immediate(text_message("one")).await;
    let at = task.status.timestamp.unwrap();
    let since = |at| listing(|request| request.status_timestamp_after = Some(at));
    assert_eq!(list(&harness, since(at)).await.tasks.len(), 1);
    let later = at + chrono::Duration::milliseconds(1);
    assert_eq!(list(&harness, since(later)).await.tasks.len(), 0);
}

#[tokio::test]
async fn list_includes_artifacts_on_request() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    run.report(artifact("a", "text")).await;
    run.done();
    harness.ended(&id).await;
    assert_eq!(list(&harness, all()).await.tasks[0].artifacts, None);
    let request = listing(|request| request.include_artifacts = Some(true));
    let listed = list(&harness, request).await;
    assert_eq!(listed.tasks[0].artifacts.as_ref().unwrap().len(), 1);
}

/// Creates a task with three messages: two of the client, and the question between them.
async fn add_history(harness: &mut TestService) -> String {
    let id = harness.send_immediate(text_message("one")).await.id;
    harness.run().await.ask();
    harness.ended(&id).await;
    harness.answer(&id, "two").await;
    id
}

#[tokio::test]
async fn history_length_bounds_history() {
    let mut harness = harness().await;
    let id = add_history(&mut harness).await;
    let shown = async |length| {
        let task = harness.service.get(&alice(), &id, length).await.unwrap();
        task.history.map(|history| history.len())
    };
    assert_eq!(shown(None).await, Some(3));
    assert_eq!(shown(Some(0)).await, None);
    assert_eq!(shown(Some(2)).await, Some(2));
    assert_eq!(shown(Some(1_000_000)).await, Some(3));
    let error = harness.service.get(&alice(), &id, Some(-1)).await;
    assert_eq!(error.unwrap_err().reason, ErrorReason::InvalidParams);
}

#[tokio::test]
async fn history_keeps_newest_messages() {
    let mut harness = harness().await;
    let id = add_history(&mut harness).await;
    let whole_page = harness.get(&id).await.history.unwrap();
    let some = harness.service.get(&alice(), &id, Some(2)).await.unwrap();
    assert_eq!(some.history.unwrap(), whole_page[1..]);
}

#[tokio::test]
async fn list_has_requested_history() {
    let mut harness = harness().await;
    add_history(&mut harness).await;
    let request = listing(|request| request.history_length = Some(1));
    let listed = list(&harness, request).await;
    assert_eq!(listed.tasks[0].history.as_ref().unwrap().len(), 1);
}

#[tokio::test]
async fn page_ends_before_byte_limit() {
    let harness = TestService::limited(|limits| limits.page_bytes = 3_000).await;
    let sizes = page_sizes(&harness, &[900, 900, 900, 900, 9_000, 900], None).await;
    assert!(
        sizes.len() >= 3 && sizes.iter().all(|size| *size <= 2),
        "{sizes:?}"
    );
}

/// Creates finished tasks with messages of these sizes, the first one last.
async fn create_finished(store: &FailingStore, sizes: &[usize]) {
    for (n, size) in (0..).zip(sizes) {
        let mut made = record(&format!("t{n}"));
        made.owner = alice().client;
        made.changed_ms -= n;
        made.task.status.state = TaskState::Completed;
        made.task.status.timestamp = chrono::DateTime::from_timestamp_millis(1);
        let text = vec![Part::text("x".repeat(*size))];
        made.task.history = Some(vec![Message::new(Role::Agent, text)]);
        store.create(&made).await.unwrap();
    }
}

/// One request lists its tasks once, however large they are, and holds the JSON of a bounded part of them.
#[tokio::test]
async fn large_tasks_are_listed_once_and_read_in_parts() {
    let store = FailingStore::new();
    let harness = store.open().await;
    let sizes = [
        1,
        1,
        200 << 10,
        200 << 10,
        10,
        1 << 20,
        10,
        90 << 10,
        300 << 10,
    ];
    create_finished(&store, &sizes).await;
    let request = listing(|request| {
        request.status_timestamp_after = chrono::DateTime::from_timestamp_millis(0);
        request.history_length = Some(0);
    });
    let listed = list(&harness, request).await;
    let expected: Vec<String> = (0..sizes.len()).map(|n| format!("t{n}")).collect();
    assert_eq!(ids(&listed), expected);
    assert_eq!(store.pages.load(Ordering::SeqCst), 1);
    let parts = store.parts.lock();
    assert!(parts.len() <= sizes.len(), "{parts:?}");
    assert_eq!(parts.concat().len(), sizes.len(), "each task once");
    for part in &*parts {
        let bytes: usize = part.iter().sum();
        assert!(part.len() == 1 || bytes <= 256 << 10, "{parts:?}");
    }
}

/// The store bounds how many tasks are decoded at once, so that no list decodes a task by itself.
#[tokio::test]
async fn decoded_tasks_of_a_list_come_from_loads() {
    let store = FailingStore::new();
    let harness = store.open().await;
    let sizes = [1, 300 << 10, 1, 1];
    create_finished(&store, &sizes).await;
    let damage = |id: &str| {
        let error = StoreError::Damaged("no decoded task".to_owned());
        store.unread.lock().insert(id.to_owned(), error);
    };
    let count = async |dialect| {
        let mut page = harness
            .service
            .list(&alice(), all(), dialect)
            .await
            .unwrap();
        let mut count = 0;
        while page.next().await.unwrap().is_some() {
            count += 1;
        }
        count
    };
    for loaded in (0..=sizes.len()).rev() {
        assert_eq!(count(Dialect::V1_0).await, sizes.len());
        assert_eq!(count(Dialect::V0_3(a2a::V03Dialect::Rpc)).await, loaded);
        damage(&format!("t{}", sizes.len() - loaded));
    }
}
