#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
use std::sync::Arc;

use a2a::v1_0::{TaskState, TaskStatus};
use futures_util::{FutureExt, StreamExt};

use super::TaskEvents;
use crate::store::TaskUpdate;
use crate::task_record::tests::record;
use crate::task_record::{TaskChange, TaskRecord};

fn working() -> TaskChange {
    status(TaskState::Working)
}

fn status(state: TaskState) -> TaskChange {
    TaskChange::Status(TaskStatus {
        state,
        message: None,
        timestamp: None,
    })
}

/// A task that changes, and its subscribers.
struct Task {
    events: TaskEvents,
    record: Arc<Mutex<TaskRecord>>,
}

impl Task {
    fn new(capacity: usize) -> Self {
        Self {
            events: TaskEvents::new(capacity),
            record: Arc::new(Mutex::new(record("t"))),
        }
    }

    fn change(&self, change: &TaskChange) {
        let mut record = self.record.lock();
        record.apply(change.clone(), 0);
        self.events.publish("t", record.revision, change);
    }

    fn subscribe(&self) -> futures_util::stream::BoxStream<'static, TaskUpdate> {
        let listener = self.events.subscribe("t");
        let now = self.record.lock().clone();
        let record = self.record.clone();
        let reload = move |_| std::future::ready(Some(record.lock().clone())).boxed();
        listener.subscription(now, reload).updates
    }
}

#[tokio::test]
async fn listeners_receive_changes_in_order() {
    let task = Task::new(8);
    let mut updates = task.subscribe();
    task.change(&TaskChange::Run("one".into()));
    task.change(&working());
    assert_eq!(
        updates.next().await,
        Some(TaskUpdate::Change(
            1,
            Arc::new(TaskChange::Run("one".into()))
        ))
    );
    assert_eq!(
        updates.next().await,
        Some(TaskUpdate::Change(2, Arc::new(working())))
    );
    assert_eq!(updates.next().now_or_never(), None);
}

#[tokio::test]
async fn slow_listener_continues_after_snapshot() {
    let task = Task::new(2);
    let mut updates = task.subscribe();
    for _ in 0..5 {
        task.change(&working());
    }
    let whole = task.record.lock().clone();
    assert_eq!(
        updates.next().await,
        Some(TaskUpdate::Snapshot(Box::new(whole)))
    );
    task.change(&TaskChange::Run("six".into()));
    assert_eq!(
        updates.next().await,
        Some(TaskUpdate::Change(
            6,
            Arc::new(TaskChange::Run("six".into()))
        ))
    );
}

#[tokio::test]
async fn lost_change_causes_snapshot() {
    let task = Task::new(8);
    let mut updates = task.subscribe();
    // Stored but not published.
    task.record.lock().apply(working(), 0);
    task.change(&working());
    assert!(
        matches!(updates.next().await, Some(TaskUpdate::Snapshot(record)) if record.revision == 2)
    );
}

#[tokio::test]
async fn loaded_change_is_not_repeated() {
    let task = Task::new(8);
    let listener = task.events.subscribe("t");
    task.change(&working());
    let now = task.record.lock().clone();
    let mut updates = listener
        .subscription(now, |_| std::future::ready(None).boxed())
        .updates;
    task.change(&TaskChange::Run("two".into()));
    assert_eq!(
        updates.next().await,
        Some(TaskUpdate::Change(
            2,
            Arc::new(TaskChange::Run("two".into()))
        ))
    );
}

#[tokio::test]
async fn stream_ends_after_terminal_change() {
    let task = Task::new(8);
    let mut updates = task.subscribe();
    task.change(&status(TaskState::Failed));
    assert!(matches!(
        updates.next().await,
        Some(TaskUpdate::Change(1, _))
    ));
    assert_eq!(updates.next().await, None);
    assert_eq!(task.events.senders.lock().len(), 0);
}

#[tokio::test]
async fn slow_listener_receives_terminal_task() {
    let task = Task::new(1);
    let mut updates = task.subscribe();
    task.change(&working());
    task.change(&status(TaskState::Completed));
    assert!(
        matches!(updates.next().await, Some(TaskUpdate::Snapshot(record)) if record.is_terminal())
    );
    assert_eq!(updates.next().await, None);
}

#[tokio::test]
async fn subscription_to_deleted_task_ends() {
    let task = Task::new(8);
    let mut updates = task.subscribe();
    task.events.forget("t");
    assert_eq!(updates.next().await, None);
}

#[tokio::test]
async fn last_listener_frees_the_entry() {
    let task = Task::new(8);
    let one = task.subscribe();
    let other = task.subscribe();
    assert_eq!(task.events.senders.lock().len(), 1);
    drop(one);
    assert_eq!(task.events.senders.lock().len(), 1);
    drop(other);
    assert_eq!(task.events.senders.lock().len(), 0);
}
