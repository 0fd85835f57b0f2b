//! The updates of a task for a client.

use std::collections::HashMap;
use std::pin::Pin;

use a2a::v1_0::{StreamResponse, TaskArtifactUpdateEvent, TaskStatusUpdateEvent};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, future};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::TaskUpdates;
use super::view::View;
use crate::metrics::OpenStream;
use crate::store::{TaskSubscription, TaskUpdate};
use crate::task_record::{TaskChange, is_interrupted};

/// Returns the task and its updates until it is terminal or interrupted (A2A 1.0 §3.1.2), or until `ending` is
/// cancelled.
pub(super) fn updates(
    subscription: TaskSubscription,
    view: View,
    listening: OpenStream,
    ending: CancellationToken,
) -> TaskUpdates {
    let TaskSubscription { record, updates } = subscription;
    let state = UpdateStream {
        task_id: record.task.id.clone(),
        context_id: record.task.context_id.clone(),
        metadata: record.task.metadata.clone().unwrap_or_default(),
        updates,
        view,
        excess: false,
        ending: Box::pin(ending.cancelled_owned()),
        _listening: listening,
    };
    let first = StreamResponse::Task(view.apply(record.task));
    stream::once(future::ready(Ok(first)))
        .chain(stream::unfold(state, |mut state| async move {
            let update = state.next().await?;
            Some((Ok(update), state))
        }))
        .boxed()
}

struct UpdateStream {
    task_id: String,
    context_id: String,
    /// The metadata of the run. The next status carries it, because streams have no other field for it.
    metadata: HashMap<String, Value>,
    updates: BoxStream<'static, TaskUpdate>,
    view: View,
    excess: bool,
    /// Resolves when the server stops.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    _listening: OpenStream,
}

impl UpdateStream {
    async fn next(&mut self) -> Option<StreamResponse> {
        while !self.excess {
            let update = tokio::select! {
                biased;
                update = self.updates.next() => update?,
                () = &mut self.ending => return None,
            };
            let update = match update {
                TaskUpdate::Snapshot(record) => {
                    self.excess = record.is_terminal() || record.is_interrupted();
                    self.metadata = record.task.metadata.clone().unwrap_or_default();
                    Some(StreamResponse::Task(self.view.apply(record.task)))
                }
                // Other subscribers may share the change, so clone it only if necessary.
                TaskUpdate::Change(_, change) => {
                    self.response(std::sync::Arc::unwrap_or_clone(change))
                }
            };
            if update.is_some() {
                return update;
            }
        }
        None
    }

    fn response(&mut self, change: TaskChange) -> Option<StreamResponse> {
        match change {
            TaskChange::Status(status) => {
                let settled = status.state.is_terminal();
                self.excess = settled || is_interrupted(&status.state);
                let metadata = std::mem::take(&mut self.metadata);
                Some(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                    task_id: self.task_id.clone(),
                    context_id: self.context_id.clone(),
                    status,
                    metadata: (!metadata.is_empty()).then_some(metadata),
                }))
            }
            TaskChange::Artifact {
                artifact,
                append,
                last_chunk,
            } => Some(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: self.task_id.clone(),
                context_id: self.context_id.clone(),
                artifact,
                append: Some(append),
                last_chunk: Some(last_chunk),
                metadata: None,
            })),
            TaskChange::Metadata(more) => {
                self.metadata.extend(more);
                None
            }
            TaskChange::Message(_) | TaskChange::Run(_) | TaskChange::Started => None,
        }
    }
}
