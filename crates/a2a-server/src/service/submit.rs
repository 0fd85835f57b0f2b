//! Accepts messages: decides which task a message creates or continues. The store has the message before the client
//! receives an answer.

use chrono::{DateTime, Utc};
use std::sync::Arc;

use a2a::v1_0::{Message, Task, TaskPushNotificationConfig, TaskState};
use base::panics::catch_async;
use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use super::active_task::{ActiveTask, CancelReason, Steering, SteeringSender, TaskEnd};
use super::core::{Core, to_a2a_error};
use super::dedup::Duplicate;
use super::quota::ValuePermit;
use super::task_runner::{RunRequest, TaskRunner, WriteError, is_retry};
use super::validate::{check_accepts_message, check_has_room, check_matches_task, delegation_of};
use super::{SendMessage, status};
use crate::service::CallContext;
use crate::store::{QueueTicket, TaskSubscription};
use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;
use a2a::{A2aError, ErrorReason};
use base::json::encoded_bytes;

/// An accepted message.
pub(super) enum Accepted {
    /// This process runs the task.
    Active(Arc<ActiveTask>, String, Option<Box<TaskSubscription>>),
    /// The message is a retry, and this process no longer runs its task.
    Stored(Box<TaskRecord>),
}

/// A message that the server checks and stores.
struct Submission {
    caller: CallContext,
    send: SendMessage,
    /// The size of the message as JSON, in bytes.
    size: usize,
    /// The agent that the message names.
    agent: Option<String>,
    /// The position in a chain of delegations.
    delegation: Option<serde_json::Value>,
    push: Option<TaskPushNotificationConfig>,
    /// The id of the task, if the message creates one.
    new_task_id: String,
    /// Whether the client subscribes to the task.
    follow: bool,
    active: Arc<ActiveTask>,
    /// The quota for the JSON values of the message.
    weight: Option<ValuePermit>,
}

impl Submission {
    /// Returns the id of the task that the message creates or continues.
    fn task_id(&self) -> &str {
        non_empty(self.send.request.message.task_id.as_ref()).unwrap_or(&self.new_task_id)
    }
}

/// What the server does with an accepted message.
enum Admitted {
    /// Starts a run.
    Run(Box<QueuedTask>),
    /// Nothing now: the message waits for a turn of a task that is working.
    Queued(Arc<ActiveTask>, Option<Box<TaskSubscription>>),
}

/// A stored message whose run can start.
struct QueuedTask {
    runner: Box<TaskRunner>,
    waiting: QueueTicket,
    request: RunRequest,
    subscription: Option<TaskSubscription>,
}

impl Core {
    /// Accepts a message and starts the work on it, unless the message is a retry.
    pub(super) async fn submit(
        self: &Arc<Self>,
        caller: &CallContext,
        send: SendMessage,
        follow: bool,
    ) -> Result<Accepted, A2aError> {
        if self.draining.is_cancelled() {
            return Err(stopping());
        }
        self.check(&send.request.message)?;
        let delegation = delegation_of(&send)?;
        let weight = self
            .value_quota
            .try_acquire(&caller.client, &send.request.message)?;
        let agent = self.agent(caller, &send).await?;
        self.check_output_modes(&send, agent.as_deref()).await?;
        let push = self.requested_push_config(caller, &send)?;
        let new_task_id = self.env.ordered_uuid().to_string();
        let new = Box::new(Submission {
            caller: caller.clone(),
            size: encoded_bytes(&send.request.message),
            send,
            agent,
            delegation,
            push,
            new_task_id,
            follow,
            active: Arc::new(ActiveTask::new()),
            weight,
        });
        while let Some(duplicate) = self.find_duplicate(&new) {
            let task_id = duplicate.task_id.clone();
            if let Some(accepted) = self.resolve_duplicate(caller, duplicate, follow).await? {
                return Ok(accepted);
            }
            // The task of the earlier message has been deleted, so this is a new message.
            let message_id = &new.send.request.message.message_id;
            self.dedup.remove(&caller.client, message_id, &task_id);
        }
        let (reply, response) = oneshot::channel();
        // Boxed, because each call would move the future. What is boxed inside of it is large, or rarely needed.
        let work = self.clone().process(new, reply);
        let mut work = Box::pin(self.tasks.track_future(work));
        // Work that never waits ends here, without spawning a task. In both cases it continues if the client
        // disconnects.
        if (&mut work).now_or_never().is_none() {
            tokio::spawn(work);
        }
        response.await.unwrap_or_else(|_| Err(stopping()))
    }

    fn find_duplicate(&self, new: &Submission) -> Option<Duplicate> {
        let (client, message) = (&new.caller.client, &new.send.request.message);
        self.dedup.get_or_insert(
            client,
            message,
            new.agent.as_deref(),
            new.task_id(),
            &new.active,
        )
    }

    /// Returns the task of an earlier message, if it still exists.
    async fn resolve_duplicate(
        &self,
        caller: &CallContext,
        duplicate: Duplicate,
        follow: bool,
    ) -> Result<Option<Accepted>, A2aError> {
        let task_id = duplicate.task_id;
        if let Some(active) = duplicate.active {
            // The store may not have the earlier message yet, and may still reject it.
            if let Some(TaskEnd::Error(refusal)) = active.wait_stored().await {
                return Err(refusal);
            }
            let subscription = if follow {
                self.read(Some(&caller.client), self.store.subscribe(&task_id))
                    .await
                    .map_err(|error| to_a2a_error(error, &task_id))?
            } else {
                None
            };
            return Ok(Some(Accepted::Active(
                active,
                task_id,
                subscription.map(Box::new),
            )));
        }
        match self.owned(caller, &task_id).await {
            Ok(record) => Ok(Some(Accepted::Stored(Box::new(record)))),
            Err(refusal) if refusal.reason == ErrorReason::TaskNotFound => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Stores a message, returns the accepted task to the client through `reply`, and runs the task.
    ///
    /// A panic fails only this message, and requests that wait for it get an error or the failed task. If it occurs before the message is
    /// accepted, a retry is a new message; otherwise the task fails.
    async fn process(
        self: Arc<Self>,
        new: Box<Submission>,
        reply: oneshot::Sender<Result<Accepted, A2aError>>,
    ) {
        let client = new.caller.client.clone();
        let message_id = new.send.request.message.message_id.clone();
        let task_id = new.task_id().to_owned();
        let active = new.active.clone();
        let is_new_task = task_id == new.new_task_id;
        let mut reply = Some(reply);
        let work = async {
            let admitted = Box::pin(self.admit(new)).await?;
            active.mark_stored();
            if !self.quota.is_client(&client) {
                // The operator may have removed the client before the task was registered.
                active.cancel(CancelReason::ClientRemoved);
            }
            let (of_task, subscription, run) = match admitted {
                Admitted::Run(mut queued) => {
                    let subscription = queued.subscription.take().map(Box::new);
                    (active.clone(), subscription, Some(queued))
                }
                Admitted::Queued(of_task, subscription) => (of_task, subscription, None),
            };
            let accepted = Accepted::Active(of_task.clone(), task_id.clone(), subscription);
            // The send fails if the client has disconnected. The task continues.
            let _ = reply.take().map(|reply| reply.send(Ok(accepted)));
            match run {
                Some(queued) => {
                    let run = queued.runner.run_to_end(queued.waiting, queued.request);
                    Box::pin(run).await;
                }
                // A retry of the message waits for the same task.
                None => active.finish(of_task.wait_ended().await),
            }
            Ok(())
        };
        let refusal = match catch_async(Box::pin(work)).await {
            Ok(Ok(())) => return,
            Ok(Err(refusal)) => refusal,
            Err(error) => {
                tracing::error!(%error, task_id, "the work on a task panicked");
                if is_new_task && reply.is_some() {
                    self.active_tasks.remove(&task_id, &active);
                    // The store may have the task already. If this fails, the recovery finds the task.
                    let deleted = catch_async(self.store.delete(&task_id)).await;
                    if !matches!(deleted, Ok(Ok(_))) {
                        tracing::warn!(task_id, "cannot delete a rejected task");
                    }
                    self.release_quota(&client, &task_id);
                    not_accepted()
                } else {
                    self.end_panicked(&task_id, &active).await;
                    if reply.is_none() {
                        // The task is stored, and a retry of the message finds it.
                        return;
                    }
                    maybe_accepted()
                }
            }
        };
        self.dedup.remove(&client, &message_id, &task_id);
        active.finish(TaskEnd::Error(refusal.clone()));
        let _ = reply.map(|reply| reply.send(Err(refusal)));
    }

    async fn admit(self: &Arc<Self>, new: Box<Submission>) -> Result<Admitted, A2aError> {
        // Check again: the shutdown waits for this tokio task before it closes the store.
        if self.draining.is_cancelled() {
            return Err(stopping());
        }
        let message = &new.send.request.message;
        // Reserve room last, so that a message that fails another check deletes no old tasks.
        let size = new.size;
        // Otherwise `begin` asks for the room before it stores anything.
        let names_stored = message.task_id.is_some() || message.context_id.is_some();
        if names_stored || self.settings.session_id.is_some() {
            self.make_room(&new.caller.client, size, false).await?;
        }
        if let Some(task_id) = non_empty(message.task_id.as_ref()) {
            let agent = new.agent.as_deref();
            let context = non_empty(message.context_id.as_ref());
            let record = self.owned(&new.caller, task_id).await?;
            check_matches_task(&record, context, agent)?;
            if let Some((active, steering)) = self.steering(&record) {
                if is_retry(message, &record)? {
                    let subscription = self
                        .subscription_if(new.follow, &new.caller.client, task_id)
                        .await?;
                    return Ok(Admitted::Queued(active, subscription));
                }
                check_has_room(&record, self.settings.limits.history)?;
                self.make_room(&new.caller.client, size, true).await?;
                let subscription = Box::pin(self.steer(new, record, steering)).await?;
                return Ok(Admitted::Queued(active, subscription));
            }
            check_accepts_message(&record, self.settings.limits.history)?;
            self.make_room(&new.caller.client, size, true).await?;
            let queued = Box::pin(self.store_message(new, record, true)).await?;
            return Ok(Admitted::Run(Box::new(queued)));
        }
        // Check the quota before creating the context, so that a client over its quota creates none.
        let client = new.caller.client.clone();
        let task_id = new.new_task_id.clone();
        self.acquire_quota(&client, &task_id).await?;
        let queued = self.begin(new).await;
        if queued.is_err() {
            self.release_quota(&client, &task_id);
        }
        queued.map(|queued| Admitted::Run(Box::new(queued)))
    }

    /// Returns what takes messages for later turns of a task, if this process runs it and the settings permit that.
    fn steering(&self, record: &TaskRecord) -> Option<(Arc<ActiveTask>, SteeringSender)> {
        let active = self.active_tasks.get(&record.task.id)?;
        let steering = active.steering()?;
        let is_working = !record.is_terminal() && !record.is_interrupted();
        is_working.then_some((active, steering))
    }

    /// Gives the message to the runner of its task, and subscribes to the task if the client wants its updates.
    async fn steer(
        self: &Arc<Self>,
        new: Box<Submission>,
        record: TaskRecord,
        steering: SteeringSender,
    ) -> Result<Option<Box<TaskSubscription>>, A2aError> {
        let id = record.task.id;
        let client = new.caller.client;
        let place = self.steering_quota.try_reserve(client.clone(), 1);
        let place = place.map_err(|_| {
            let text =
                "too many of your messages wait for a turn; wait until one of them has its turn";
            A2aError::new(ErrorReason::ResourceExhausted, text)
        })?;
        if let Some(mut push) = new.push {
            push.task_id.clone_from(&id);
            let version = new.caller.version;
            self.put_push_config(&client, &push, version).await?;
        }
        let mut message = new.send.request.message;
        message.task_id = Some(id.clone());
        message.context_id = Some(record.task.context_id);
        let (reply, accepted) = oneshot::channel();
        let sent = steering.send(Steering {
            message,
            place,
            reply,
        });
        let accepted = match sent.await {
            Ok(()) => accepted.await.ok(),
            Err(_) => None,
        };
        accepted.unwrap_or_else(|| {
            Err(A2aError::new(
                ErrorReason::UnsupportedOperation,
                format!(
                    "the turn of the task `{id}` ended before it took the message; get the task, and send the message again"
                ),
            ))
        })?;
        self.subscription_if(new.follow, &client, &id).await
    }

    async fn subscription_if(
        &self,
        follow: bool,
        client: &str,
        id: &str,
    ) -> Result<Option<Box<TaskSubscription>>, A2aError> {
        if !follow {
            return Ok(None);
        }
        let subscription = self.subscription(Some(client), id).await?;
        Ok(Some(Box::new(subscription)))
    }

    async fn begin(self: &Arc<Self>, new: Box<Submission>) -> Result<QueuedTask, A2aError> {
        let context = non_empty(new.send.request.message.context_id.as_ref());
        let (context_id, session) = self.conversation(&new.caller, context).await?;
        self.make_room(&new.caller.client, new.size, true).await?;
        let requested = new.agent.clone();
        let agent = requested.or_else(|| self.settings.agent_id.clone());
        let new_task_id = new.new_task_id.clone();
        let record = self.new_record(&new.caller, new_task_id, context_id, session, agent);
        self.store_message(new, record, false).await
    }

    /// Stores the message with its task, and joins the queue of the session.
    async fn store_message(
        self: &Arc<Self>,
        new: Box<Submission>,
        record: TaskRecord,
        answers: bool,
    ) -> Result<QueuedTask, A2aError> {
        let delegation = new.delegation;
        let mut message = new.send.request.message;
        message.task_id = Some(record.task.id.clone());
        message.context_id = Some(record.task.context_id.clone());
        let push = new.push.map(|mut push| {
            push.task_id.clone_from(&record.task.id);
            (push, new.caller.version)
        });
        let request = RunRequest::New { delegation };
        let mut runner = TaskRunner::new(self.clone(), new.active, record);
        runner.weight = new.weight;
        runner.message_size = (!answers).then_some(new.size);
        let stored = if answers {
            Box::pin(runner.answer_with(message, push)).await
        } else {
            runner.begin_with(message, push).await
        };
        let queued = match stored {
            Ok(()) => runner.enqueue(new.follow, !answers).await,
            Err(refusal) => Err(refusal),
        };
        match queued {
            Ok((waiting, subscription)) => Ok(QueuedTask {
                runner,
                waiting,
                request,
                subscription,
            }),
            Err(refusal) => {
                Box::pin(runner.roll_back(answers)).await;
                Err(refusal)
            }
        }
    }

    fn new_record(
        &self,
        caller: &CallContext,
        id: String,
        context_id: String,
        session: String,
        agent: Option<String>,
    ) -> TaskRecord {
        let now = DateTime::<Utc>::from(self.env.system_time());
        TaskRecord {
            task: Task {
                id,
                context_id,
                status: a2a::v1_0::TaskStatus {
                    state: TaskState::Submitted,
                    message: None,
                    timestamp: Some(now),
                },
                artifacts: None,
                history: None,
                metadata: None,
            },
            owner: caller.client.clone(),
            agent,
            session,
            version: caller.version,
            run: None,
            created_ms: now.timestamp_millis(),
            changed_ms: now.timestamp_millis(),
            revision: 0,
        }
    }
}

type Push = Option<(TaskPushNotificationConfig, Version)>;

impl TaskRunner {
    /// Stores a new task with its first message.
    async fn begin_with(&mut self, message: Message, push: Push) -> Result<(), A2aError> {
        let id = &self.record.task.id;
        self.core.active_tasks.insert(id, self.active.clone());
        self.record.task.history = Some(vec![message]);
        let created = self.core.store.create(&self.record).await;
        created.map_err(|error| to_a2a_error(error, id))?;
        self.core.metrics.record_state(&TaskState::Submitted);
        status::log_change(&self.record, None);
        match push {
            Some((push, version)) => {
                let owner = &self.record.owner;
                self.core.put_push_config(owner, &push, version).await
            }
            None => Ok(()),
        }
    }

    /// Stores the client's answer to the question of a task.
    async fn answer_with(&mut self, message: Message, push: Push) -> Result<(), A2aError> {
        if let Some((push, version)) = push {
            let owner = &self.record.owner;
            self.core.put_push_config(owner, &push, version).await?;
        }
        // If two answers arrive concurrently, the store accepts one of them, and only that one continues the task.
        self.write_or_refuse(TaskChange::Message(message)).await?;
        let id = &self.record.task.id;
        self.core.active_tasks.insert(id, self.active.clone());
        let env = &*self.core.env;
        let status = status::new(env, &self.record, TaskState::Submitted, None);
        self.write_or_refuse(TaskChange::Status(status)).await
    }

    /// Joins the queue of the session, and subscribes to the task if the client wants its updates.
    async fn enqueue(
        &self,
        follow: bool,
        created: bool,
    ) -> Result<(QueueTicket, Option<TaskSubscription>), A2aError> {
        let id = &self.record.task.id;
        let subscription = match (follow, created) {
            (true, true) => Some(self.core.created_subscription(&self.record).await?),
            (true, false) => {
                let client = Some(self.record.owner.as_str());
                Some(self.core.subscription(client, id).await?)
            }
            (false, _) => None,
        };
        let queue = &self.record.session;
        let waiting = self.core.store.enqueue(queue, id).await;
        Ok((
            waiting.map_err(|error| to_a2a_error(error, id))?,
            subscription,
        ))
    }

    /// Undoes the storage of a message that the server rejects later, so that no task remains without a run.
    async fn roll_back(mut self: Box<Self>, answers: bool) {
        let id = self.record.task.id.clone();
        if !answers {
            // If this fails too, the recovery finds the task.
            if let Err(error) = self.core.store.delete(&id).await {
                tracing::warn!(task_id = id, %error, "cannot delete a rejected task");
            }
        } else if self.record.task.status.state == TaskState::Submitted {
            let status =
                status::failed(&*self.core.env, &self.record, status::Failure::Interrupted);
            self.core.active_tasks.remove(&id, &self.active);
            if let Err(WriteError::Store(_)) = self.write(TaskChange::Status(status)).await {
                self.core.clone().tasks.spawn(self.persist_until_stored());
            }
            return;
        }
        self.core.active_tasks.remove(&id, &self.active);
    }

    async fn write_or_refuse(&mut self, change: TaskChange) -> Result<(), A2aError> {
        self.write(change).await.map_err(|lost| match lost {
            WriteError::Store(refusal) => refusal,
            WriteError::Superseded => A2aError::new(
                ErrorReason::UnsupportedOperation,
                format!(
                    "the task `{}` changed concurrently; get it and try again",
                    self.record.task.id
                ),
            ),
        })
    }
}

fn non_empty(id: Option<&String>) -> Option<&str> {
    id.map(String::as_str).filter(|id| !id.is_empty())
}

fn not_accepted() -> A2aError {
    A2aError::new(
        ErrorReason::InternalError,
        "the server failed before it accepted the message; send it again",
    )
}

fn maybe_accepted() -> A2aError {
    A2aError::new(
        ErrorReason::InternalError,
        "the server failed while it accepted the message; get the task before you send another one",
    )
}

/// Returns the error of a request that the next process can serve.
pub(super) fn stopping() -> A2aError {
    let mut refusal = A2aError::new(
        ErrorReason::Unavailable,
        "the server is stopping; send the request again in a moment",
    );
    refusal.retry_after_s = Some(5);
    refusal
}
