//! What every store has to keep to. Each store tries all of it, on itself:
//!
//! ```ignore
//! crate::store::conformance::store_laws!(async { (Arc::new(Memory::new()) as Arc<dyn Store>, ()) });
//! ```
//!
//! The expression opens an empty store; what it hands out beside the store lives until the law is tried. It may be an
//! `Option`, for a store that needs something that is not everywhere.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use a2a::v1_0::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use chrono::{DateTime, Utc};

use super::{Filter, StoreError, TaskStore};
use crate::call_context::Version;
use crate::task_record::{TaskChange, TaskRecord};

pub(crate) mod keeping;
pub(crate) mod lists;
pub(crate) mod sharing;
pub(crate) mod subscriptions;

/// Makes one test of each law.
macro_rules! store_laws {
    ($open:expr) => {
        $crate::store::conformance::store_laws!(@each $open;
            keeping: a_new_task_is_there,
            keeping: a_task_that_never_was_is_not_there,
            keeping: an_id_is_given_once,
            keeping: every_kind_of_change_is_kept,
            keeping: chunks_of_an_artifact_are_joined,
            keeping: a_change_needs_a_task,
            keeping: a_change_at_another_revision_is_a_conflict,
            keeping: of_two_changes_at_once_one_is_a_conflict,
            keeping: a_settled_task_stays_as_it_is,
            keeping: a_task_that_waits_for_an_answer_goes_on,
            keeping: a_deleted_task_is_gone,
            keeping: a_task_that_was_never_there_is_not_deleted,
            keeping: many_tasks_at_once_are_all_kept,
            lists: the_last_changed_comes_first,
            lists: a_list_has_excerpts_of_its_tasks,
            lists: an_owner_sees_its_own,
            lists: a_context_is_picked_out,
            lists: a_state_is_picked_out,
            lists: it_is_the_status_that_has_to_be_newer,
            lists: pages_hold_every_task_once,
            lists: a_task_that_changes_between_pages_does_not_come_twice,
            lists: tasks_of_one_moment_are_all_listed,
            lists: nothing_is_listed_of_nothing,
            lists: retention_by_age_takes_what_is_too_old,
            lists: retention_by_count_leaves_the_last_settled,
            lists: retention_counts_each_client_apart,
            lists: retention_leaves_what_is_not_settled,
            lists: tasks_that_wait_too_long_are_found,
            lists: room_is_made_of_ones_own_settled_tasks,
            lists: others_who_fill_the_total_cost_nobody_a_task,
            lists: room_that_is_only_asked_for_costs_no_task,
            lists: no_room_is_made_where_it_would_not_do,
            lists: bytes_of_forgotten_tasks_are_free,
            subscriptions: a_follower_hears_what_follows,
            subscriptions: a_follower_of_a_settled_task_hears_nothing,
            subscriptions: a_follower_hears_the_end_of_a_deleted_task,
            subscriptions: nobody_follows_what_is_not_there,
            subscriptions: every_follower_hears_the_same,
            subscriptions: a_follower_that_falls_behind_ends_with_the_whole,
            subscriptions: nothing_is_missed_between_the_whole_and_the_news,
            sharing: a_context_belongs_to_who_came_first,
            sharing: a_context_outlives_its_tasks_while_one_is_kept,
            sharing: turns_come_in_order,
            sharing: a_place_is_taken_before_it_is_waited_for,
            sharing: queues_do_not_wait_for_one_another,
            sharing: who_gives_up_waiting_keeps_nobody,
            sharing: a_configuration_is_kept,
            sharing: configurations_come_in_order,
            sharing: a_configuration_of_the_same_id_is_replaced,
            sharing: a_deleted_configuration_is_gone,
            sharing: a_deleted_task_takes_its_configurations_along,
            sharing: a_configuration_needs_a_task,
            sharing: a_store_that_works_is_ready,
        );
    };
    (@each $open:expr; $($part:ident: $law:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                let Some((store, _kept)) = $crate::store::conformance::Opened::opened($open.await)
                else {
                    return;
                };
                $crate::store::conformance::$part::$law(store).await;
            }
        )*
    };
}
pub(crate) use store_laws;

/// A store of any kind.
pub(crate) type Any = Arc<dyn TaskStore>;

/// What a store is opened as.
pub(crate) trait Opened<K> {
    /// The store, and what has to live as long; `None` where it cannot be had here.
    fn opened(self) -> Option<(Any, K)>;
}

impl<K> Opened<K> for (Any, K) {
    fn opened(self) -> Option<(Any, K)> {
        Some(self)
    }
}

impl<K> Opened<K> for Option<(Any, K)> {
    fn opened(self) -> Option<(Any, K)> {
        self
    }
}

/// A moment of the day everything here happens on.
pub(crate) fn moment(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_790_000_000_000 + ms).unwrap()
}

/// The same in milliseconds since 1970.
pub(crate) fn ms(ms: i64) -> i64 {
    moment(ms).timestamp_millis()
}

/// A status that was reached `at`.
pub(crate) fn status(state: TaskState, at: i64) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: Some(moment(at)),
    }
}

/// A message that says `text`.
pub(crate) fn message(id: &str, text: &str) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.message_id = id.to_owned();
    message
}

/// An artifact of one part of text.
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

/// A task that has just been submitted.
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

/// Creates a task.
pub(crate) async fn create(
    store: &Any,
    id: &str,
    owner: &str,
    context: &str,
    at: i64,
) -> TaskRecord {
    let record = record(id, owner, context, at);
    store.create(&record).await.unwrap();
    record
}

/// Appends a change to the store and to what is expected of it.
pub(crate) async fn append(store: &Any, record: &mut TaskRecord, change: TaskChange, at: i64) {
    store
        .append(&record.task.id, record.revision, ms(at), &change)
        .await
        .unwrap();
    record.apply(change, ms(at));
}

/// Brings a task to an end.
pub(crate) async fn settle(store: &Any, record: &mut TaskRecord, state: TaskState, at: i64) {
    append(store, record, TaskChange::Status(status(state, at)), at).await;
}

/// The task as the store has it.
pub(crate) async fn load(store: &Any, id: &str) -> Option<TaskRecord> {
    store.load(id).await.unwrap()
}

/// Everything, on one page.
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

/// The ids that a filter picks out, in order.
pub(crate) async fn ids(store: &Any, filter: &Filter) -> Vec<String> {
    let listed = store.list(filter).await.unwrap();
    listed.tasks.into_iter().map(|task| task.id).collect()
}

/// What a change at the wrong time is answered with.
pub(crate) async fn refused(store: &Any, id: &str, revision: u64) -> StoreError {
    store
        .append(id, revision, ms(900), &TaskChange::Run("late".to_owned()))
        .await
        .unwrap_err()
}
