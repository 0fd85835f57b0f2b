//! Answers to sent messages.

use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::{Message, Part, Role, SendMessageResponse, StreamResponse, Task, TaskState};
use futures_util::{StreamExt, stream};

use super::active_task::{ActiveTask, TaskEnd};
use super::core::{Core, to_a2a_error};
use super::submit::Accepted;
use super::view::{View, updates};
use super::{SendMessage, TaskUpdates};
use crate::service::CallContext;
use crate::store::{TaskSubscription, TaskUpdate};
use crate::task_record::TaskRecord;
use a2a::A2aError;
use a2a::Version;

/// How much longer than the timeout of a run the server waits, so that the client receives the end of a run that times
/// out.
const END_GRACE: Duration = Duration::from_secs(1);

impl Core {
    pub(super) async fn send(
        self: &Arc<Self>,
        caller: &CallContext,
        send: SendMessage,
    ) -> Result<SendMessageResponse, A2aError> {
        let said = return_immediately(&send);
        let view = self.view(&send)?;
        let message_id = send.request.message.message_id.clone();
        let at_once = said.unwrap_or(match caller.version {
            Version::V1_0 => false,
            Version::V0_3 => self.settings.async_mode,
        });
        // For a 0.3 request without `blocking`, a server that waits for the answer returns it as a message.
        let without_history =
            said.is_none() && caller.version == Version::V0_3 && !self.settings.async_mode;
        let (task_id, end) = match self.submit(caller, send, false).await? {
            Accepted::Active(active, task_id, _) => {
                let end = match at_once {
                    true => None,
                    false => match active.end() {
                        Some(end) => Some(end),
                        None => {
                            let most = self.settings.timeout + END_GRACE;
                            let end = tokio::time::timeout(most, active.wait_ended()).await;
                            end.ok()
                        }
                    },
                };
                match end {
                    Some(end) => (task_id, end),
                    None => {
                        let end = self.current(caller, &active, &task_id).await;
                        (task_id, end)
                    }
                }
            }
            Accepted::Stored(record) => {
                let task_id = record.task.id.clone();
                let end = match at_once {
                    true => TaskEnd::Task(Arc::from(record)),
                    false => self.await_end_elsewhere(record).await?,
                };
                (task_id, end)
            }
        };
        // After the answer, another message may use the id.
        self.dedup.remove(&caller.client, &message_id, &task_id);
        match end {
            TaskEnd::Message(message) => Ok(SendMessageResponse::Message(*message)),
            TaskEnd::Error(error) => Err(error),
            TaskEnd::Task(record) => {
                let task = Arc::unwrap_or_clone(record).task;
                if without_history && task.status.state == TaskState::Completed {
                    let message = self.without_history(task);
                    return Ok(SendMessageResponse::Message(message));
                }
                Ok(SendMessageResponse::Task(view.apply(task)))
            }
        }
    }

    pub(super) async fn stream(
        self: &Arc<Self>,
        caller: &CallContext,
        send: SendMessage,
    ) -> Result<TaskUpdates, A2aError> {
        let view = self.view(&send)?;
        let message_id = send.request.message.message_id.clone();
        let (active, task_id, subscription) = match self.submit(caller, send, true).await? {
            Accepted::Active(active, task_id, subscription) => {
                (Some(active), task_id, subscription)
            }
            Accepted::Stored(record) => (None, record.task.id.clone(), None),
        };
        if let Some(active) = active {
            let end = match active.wait_visible().await {
                None if active.expose() => None,
                None => Some(active.wait_ended().await),
                Some(end) => Some(end),
            };
            if let Some(TaskEnd::Message(message)) = end {
                self.dedup.remove(&caller.client, &message_id, &task_id);
                return Ok(stream::iter([Ok(StreamResponse::Message(*message))]).boxed());
            }
        }
        let mut subscription = match subscription {
            Some(subscription) => *subscription,
            None => self.subscription(Some(&caller.client), &task_id).await?,
        };
        if subscription.record.is_interrupted() {
            // The task waits for its client, so the stream ends after the first event, which contains the question.
            subscription.updates = stream::empty().boxed();
        }
        let core = self.clone();
        let client = caller.client.clone();
        // Forget the message only at the end of the stream, so that a client whose stream broke can retry.
        let finished = stream::once(async move {
            core.dedup.remove(&client, &message_id, &task_id);
        })
        .filter_map(|()| std::future::ready(None));
        let updates = updates(
            subscription,
            view,
            self.metrics.record_stream(),
            self.ending_streams.clone(),
        );
        Ok(updates.chain(finished).boxed())
    }

    /// Subscribes to a task, for `client` or for the operator.
    pub(super) async fn subscription(
        &self,
        client: Option<&str>,
        task_id: &str,
    ) -> Result<TaskSubscription, A2aError> {
        let subscribed = self.read(client, self.store.subscribe(task_id)).await;
        self.ok_or_not_found(subscribed, task_id)
    }

    /// Subscribes to the task that the caller has just created as `record`.
    pub(super) async fn created_subscription(
        &self,
        record: &TaskRecord,
    ) -> Result<TaskSubscription, A2aError> {
        let subscribed = self.store.subscribe_created(record).await;
        self.ok_or_not_found(subscribed, &record.task.id)
    }

    fn view(&self, send: &SendMessage) -> Result<View, A2aError> {
        let configuration = send.request.configuration.as_ref();
        let length = configuration.and_then(|configuration| configuration.history_length);
        View::new(length, self.settings.limits.history)
    }

    /// Returns the current task, for a client that does not wait.
    async fn current(&self, caller: &CallContext, active: &ActiveTask, task_id: &str) -> TaskEnd {
        if !active.expose() {
            return active.wait_ended().await;
        }
        let load = self.store.load(task_id);
        match self.read(Some(&caller.client), load).await {
            Ok(Some(record)) => TaskEnd::Task(Arc::new(record)),
            Ok(None) => TaskEnd::Error(A2aError::task_not_found(task_id)),
            Err(error) => TaskEnd::Error(to_a2a_error(error, task_id)),
        }
    }

    /// Waits until a task that another server runs is terminal or interrupted.
    async fn await_end_elsewhere(&self, record: Box<TaskRecord>) -> Result<TaskEnd, A2aError> {
        let TaskSubscription {
            mut record,
            mut updates,
        } = self
            .subscription(Some(&record.owner), &record.task.id)
            .await?;
        let follow = async {
            while !record.is_terminal() && !record.is_interrupted() {
                match updates.next().await {
                    Some(TaskUpdate::Snapshot(snapshot)) => record = *snapshot,
                    Some(TaskUpdate::Change(_, change)) => {
                        let at_ms = self.now_ms(&record);
                        record.apply(Arc::unwrap_or_clone(change), at_ms);
                    }
                    None => break,
                }
            }
        };
        let follow = self.ending_streams.run_until_cancelled(follow);
        // After the timeout, or when this server stops, return the task as it is. Its run continues.
        let _ = tokio::time::timeout(self.settings.timeout + END_GRACE, follow).await;
        Ok(TaskEnd::Task(Arc::new(record)))
    }

    /// Converts the answer of a task to a message.
    fn without_history(&self, task: Task) -> Message {
        let mut parts: Vec<Part> = task
            .artifacts
            .into_iter()
            .flatten()
            .flat_map(|artifact| artifact.parts)
            .collect();
        parts.extend(task.status.message.into_iter().flat_map(|said| said.parts));
        if parts.is_empty() {
            // A message must have at least one part.
            parts.push(Part::text(""));
        }
        Message {
            message_id: self.env.uuid().to_string(),
            context_id: Some(task.context_id),
            task_id: Some(task.id),
            role: Role::Agent,
            parts,
            metadata: task.metadata,
            extensions: None,
            reference_task_ids: None,
        }
    }
}

/// Returns whether the request wants the task at once; `None` if it does not specify this.
fn return_immediately(send: &SendMessage) -> Option<bool> {
    send.return_immediately.or_else(|| {
        let configuration = send.request.configuration.as_ref()?;
        configuration.return_immediately
    })
}
