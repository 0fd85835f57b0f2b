//! The conformance tests for every store:
//!
//! ```ignore
//! crate::store::tests::store_conformance_tests!(async { (Arc::new(MemoryStore::new()) as Arc<dyn TaskStore>, ()) });
//! ```
//!
//! The expression opens an empty store. Its second value lives until the end of the test. The expression may return an
//! `Option`, for a store that needs a component which may be missing.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use a2a::v1_0::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use chrono::{DateTime, Utc};

use super::{Filter, StoreError, TaskStore};
use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;

pub(crate) mod lists;
pub(crate) mod sharing;
pub(crate) mod subscriptions;
pub(crate) mod tasks;

/// Creates a test for each requirement.
macro_rules! store_conformance_tests {
    ($open:expr) => {
        $crate::store::tests::store_conformance_tests!(@each $open;
            tasks: created_task_is_loaded,
            tasks: unknown_task_is_none,
            tasks: duplicate_id_is_a_conflict,
            tasks: every_kind_of_change_is_stored,
            tasks: chunks_of_an_artifact_are_joined,
            tasks: change_of_unknown_task_is_not_found,
            tasks: change_at_other_revision_is_a_conflict,
            tasks: one_of_two_concurrent_changes_is_a_conflict,
            tasks: changes_of_one_write_are_all_stored,
            tasks: changes_of_a_rejected_write_are_not_stored,
            tasks: terminal_task_rejects_changes,
            tasks: interrupted_task_accepts_changes,
            tasks: deleted_task_is_gone,
            tasks: delete_of_unknown_task_is_false,
            tasks: concurrent_tasks_are_all_stored,
            lists: last_changed_comes_first,
            lists: list_has_excerpts,
            lists: page_has_json_of_finished_tasks,
            lists: page_lists_tasks_of_any_size,
            lists: filter_selects_owner,
            lists: filter_selects_context,
            lists: filter_selects_state,
            lists: filter_selects_by_status_timestamp,
            lists: pages_have_every_task_once,
            lists: task_changed_between_pages_comes_once,
            lists: tasks_of_one_millisecond_are_all_listed,
            lists: empty_store_lists_nothing,
            lists: prune_deletes_tasks_beyond_age,
            lists: prune_keeps_the_last_ended,
            lists: prune_counts_each_client,
            lists: prune_keeps_unfinished_tasks,
            lists: unanswered_tasks_are_found,
            lists: make_room_deletes_own_ended_tasks,
            lists: make_room_deletes_none_if_others_fill_total,
            lists: make_room_without_forget_deletes_none,
            lists: make_room_deletes_none_if_insufficient,
            lists: deleted_tasks_free_their_bytes,
            subscriptions: subscriber_receives_later_changes,
            subscriptions: subscription_to_terminal_task_is_empty,
            subscriptions: subscription_ends_with_deletion,
            subscriptions: subscription_to_unknown_task_is_none,
            subscriptions: subscribers_receive_the_same_changes,
            subscriptions: slow_subscriber_ends_with_the_whole_task,
            subscriptions: subscription_misses_no_change_after_load,
            sharing: context_belongs_to_first_client,
            sharing: context_is_deleted_with_its_last_task,
            sharing: queue_is_first_in_first_out,
            sharing: enqueue_takes_position_before_waiting,
            sharing: queues_are_independent,
            sharing: dropped_ticket_leaves_the_queue,
            sharing: push_configuration_is_stored,
            sharing: push_configurations_keep_order,
            sharing: push_configuration_with_same_id_is_replaced,
            sharing: deleted_push_configuration_is_gone,
            sharing: deleted_task_deletes_its_configurations,
            sharing: push_configuration_needs_its_task,
            sharing: push_configurations_count_in_the_budget,
            sharing: working_store_is_ready,
        );
    };
    (@each $open:expr; $($module:ident: $test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let Some((store, _guard)) = $crate::store::tests::OpenedStore::into_store($open.await)
                else {
                    return;
                };
                $crate::store::tests::$module::$test(store).await;
            }
        )*
    };
}
pub(crate) use store_conformance_tests;

/// A store of any kind.
pub(crate) type SharedStore = Arc<dyn TaskStore>;

/// The result of opening a store.
pub(crate) trait OpenedStore<K> {
    /// Returns the store and a value that must live as long as the store; `None` if the store is not available.
    fn into_store(self) -> Option<(SharedStore, K)>;
}

impl<K> OpenedStore<K> for (SharedStore, K) {
    fn into_store(self) -> Option<(SharedStore, K)> {
        Some(self)
    }
}

impl<K> OpenedStore<K> for Option<(SharedStore, K)> {
    fn into_store(self) -> Option<(SharedStore, K)> {
        self
    }
}

/// Returns a time on the day of these tests.
pub(crate) fn test_time(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_790_000_000_000 + ms).unwrap()
}

/// Returns the time of [`test_time`] in milliseconds since 1970.
pub(crate) fn ms(ms: i64) -> i64 {
    test_time(ms).timestamp_millis()
}

/// Creates a status with the timestamp `at`.
pub(crate) fn status(state: TaskState, at: i64) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: Some(test_time(at)),
    }
}

/// Creates a message.
pub(crate) fn message(id: &str, text: &str) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.message_id = id.to_owned();
    message
}

/// Creates an artifact of one text part.
pub(crate) fn artifact(id: &str, text: &str) -> Artifact {
    Artifact {
        artifact_id: id.to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    }
}

/// Creates a submitted task.
pub(crate) fn record(id: &str, owner: &str, context: &str, at: i64) -> TaskRecord {
    TaskRecord {
        task: Task {
            id: id.to_owned(),
            context_id: context.to_owned(),
            status: status(TaskState::Submitted, at),
            artifacts: None,
            history: Some(vec![message(&format!("message-of-{id}"), "do it")]),
            metadata: None,
        },
        owner: owner.to_owned(),
        agent: Some("main".to_owned()),
        session: format!("session-of-{context}"),
        version: Version::V1_0,
        run: None,
        created_ms: ms(at),
        changed_ms: ms(at),
        revision: 0,
    }
}

/// Stores a new task.
pub(crate) async fn create(
    store: &SharedStore,
    id: &str,
    owner: &str,
    context: &str,
    at: i64,
) -> TaskRecord {
    let record = record(id, owner, context, at);
    store.create(&record).await.unwrap();
    record
}

/// Appends a change to the store and to the expected record.
pub(crate) async fn append(
    store: &SharedStore,
    record: &mut TaskRecord,
    change: TaskChange,
    at: i64,
) {
    store
        .append(
            &record.task.id,
            record.revision,
            ms(at),
            std::slice::from_ref(&change),
        )
        .await
        .unwrap();
    record.apply(change, ms(at));
}

/// Sets a terminal status.
pub(crate) async fn set_final_state(
    store: &SharedStore,
    record: &mut TaskRecord,
    state: TaskState,
    at: i64,
) {
    let changes = [TaskChange::Status(status(state, at))];
    record.apply(changes[0].clone(), ms(at));
    store.finish(record, &changes).await.unwrap();
}

/// Loads a task.
pub(crate) async fn load(store: &SharedStore, id: &str) -> Option<TaskRecord> {
    store.load(id).await.unwrap()
}

/// Returns a filter for all tasks on one page.
pub(crate) fn all() -> Filter {
    Filter {
        owner: None,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: 100,
        after: None,
    }
}

/// Returns the ids of the tasks that match a filter, in order.
pub(crate) async fn ids(store: &SharedStore, filter: &Filter) -> Vec<String> {
    let listed = store.list(filter).await.unwrap();
    listed.tasks.into_iter().map(|task| task.id).collect()
}

/// Appends a change that the store must reject, and returns the error.
pub(crate) async fn refused(store: &SharedStore, id: &str, revision: u64) -> StoreError {
    store
        .append(id, revision, ms(900), &[TaskChange::Run("late".to_owned())])
        .await
        .unwrap_err()
}
