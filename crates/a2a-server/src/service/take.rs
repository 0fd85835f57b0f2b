//! Taking messages: which task one begins or answers, and that it is kept before its sender is told so.

use chrono::{DateTime, Utc};
use std::sync::Arc;

use a2a::{Message, Task, TaskPushNotificationConfig, TaskState};
use tokio::sync::oneshot;

use super::accept::{answers, waits};
use super::core::{Core, refused};
use super::life::{Life, Lost, RunRequest};
use super::live::{CancelReason, End, Live};
use super::recent::Before;
use super::size::bytes;
use super::weight::WeightPermit;
use super::{Send, words};
use crate::caller::{Caller, Version};
use crate::record::{Change, Record};
use crate::refusal::{A2aError, ErrorReason};
use crate::store::{Feed, Waiting};

/// Where a message says where it stands in a row of delegations.
pub const DELEGATION: &str = "openclaw-remote-agent/delegation";

/// What became of a message.
pub(super) enum Taken {
    /// It is worked on here.
    Live(Arc<Live>, String, Option<Box<Feed>>),
    /// It came before, and its task is not worked on here any more.
    Known(Box<Record>),
}

/// A message that is to be worked on.
struct New {
    caller: Caller,
    send: Send,
    /// The agent that it names.
    agent: Option<String>,
    push: Option<TaskPushNotificationConfig>,
    /// The id of the task, if it begins one.
    fresh: String,
    /// The sender follows the task.
    follow: bool,
    /// The work on it.
    live: Arc<Live>,
    /// Its place in memory.
    weight: Option<WeightPermit>,
}

impl New {
    /// The task that it begins or answers.
    fn task_id(&self) -> &str {
        given(self.send.request.message.task_id.as_ref()).unwrap_or(&self.fresh)
    }
}

/// A message that is kept, and whose work can begin.
struct Entered {
    life: Life,
    waiting: Waiting,
    request: RunRequest,
    feed: Option<Feed>,
}

impl Core {
    /// Takes a message, unless it came before, and sees to it that it is worked on.
    pub(super) async fn take(
        self: &Arc<Self>,
        caller: &Caller,
        send: Send,
        follow: bool,
    ) -> Result<Taken, A2aError> {
        if self.closing.is_cancelled() {
            return Err(stopping());
        }
        self.check(&send.request.message)?;
        let weight = self
            .weights
            .try_acquire(&caller.client, &send.request.message)?;
        let agent = self.agent(caller, &send).await?;
        self.fits(&send, agent.as_deref()).await?;
        let push = self.wanted_push(caller, &send)?;
        let fresh = self.env.uuid().to_string();
        let new = New {
            caller: caller.clone(),
            send,
            agent,
            push,
            fresh,
            follow,
            live: Arc::new(Live::new()),
            weight,
        };
        while let Some(before) = self.claim(&new) {
            let task_id = before.task_id.clone();
            if let Some(taken) = self.known(caller, before, follow).await? {
                return Ok(taken);
            }
            // Its task is gone, so it is a new message after all.
            let message_id = &new.send.request.message.message_id;
            self.recent.forget(&caller.client, message_id, &task_id);
        }
        let (begun, begins) = oneshot::channel();
        // In the background, where no client that goes away can cut it short.
        self.tasks.spawn(self.clone().whole(new, begun));
        begins.await.unwrap_or_else(|_| Err(stopping()))
    }

    fn claim(&self, new: &New) -> Option<Before> {
        let (client, message) = (&new.caller.client, &new.send.request.message);
        self.recent.claim(
            client,
            message,
            new.agent.as_deref(),
            new.task_id(),
            &new.live,
        )
    }

    /// The task of a message that came before, if there still is one.
    async fn known(
        &self,
        caller: &Caller,
        before: Before,
        follow: bool,
    ) -> Result<Option<Taken>, A2aError> {
        let task_id = before.task_id;
        if let Some(live) = before.live {
            // It may be on its way into the store only now, and be refused there.
            if let Some(End::Lost(refusal)) = live.begun().await {
                return Err(refusal);
            }
            let feed = if follow {
                self.store
                    .follow(&task_id)
                    .await
                    .map_err(|error| refused(error, &task_id))?
            } else {
                None
            };
            return Ok(Some(Taken::Live(live, task_id, feed.map(Box::new))));
        }
        match self.owned(caller, &task_id).await {
            Ok(record) => Ok(Some(Taken::Known(Box::new(record)))),
            Err(refusal) if refusal.reason == ErrorReason::TaskNotFound => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Keeps a message, tells its sender that it is kept, and works on it.
    async fn whole(self: Arc<Self>, new: New, begun: oneshot::Sender<Result<Taken, A2aError>>) {
        let client = new.caller.client.clone();
        let message_id = new.send.request.message.message_id.clone();
        let task_id = new.task_id().to_owned();
        let live = new.live.clone();
        match self.enter(new).await {
            Ok(entered) => {
                live.begin();
                if !self.open.is_client(&client) {
                    // Removed after it was let in, and perhaps before its task could be found.
                    live.cancel(CancelReason::ClientRemoved);
                }
                let feed = entered.feed.map(Box::new);
                // A client that is gone already does not stop its task.
                let _ = begun.send(Ok(Taken::Live(live, task_id, feed)));
                entered.life.run(entered.waiting, entered.request).await;
            }
            Err(refusal) => {
                self.recent.forget(&client, &message_id, &task_id);
                live.done(End::Lost(refusal.clone()));
                let _ = begun.send(Err(refusal));
            }
        }
    }

    async fn enter(self: &Arc<Self>, new: New) -> Result<Entered, A2aError> {
        // Asked again, where the end waits for this one: what begins later would be kept by a store that is closed.
        if self.closing.is_cancelled() {
            return Err(stopping());
        }
        let message = &new.send.request.message;
        // Room is made once the message is not refused for anything else: nothing is forgotten for one that is.
        let size = bytes(message);
        self.room(&new.caller.client, size, false).await?;
        if let Some(task_id) = given(message.task_id.as_ref()) {
            let agent = new.agent.as_deref();
            let context = given(message.context_id.as_ref());
            let record = self.owned(&new.caller, task_id).await?;
            answers(&record, context, agent)?;
            waits(&record, self.settings.limits.history)?;
            self.room(&new.caller.client, size, true).await?;
            return self.keep(new, record, true).await;
        }
        // Counted before a context is opened, so that a client who may have no more opens none.
        let client = new.caller.client.clone();
        let task_id = new.fresh.clone();
        self.opened(&client, &task_id).await?;
        let entered = self.begin(new).await;
        if entered.is_err() {
            self.settled(&client, &task_id);
        }
        entered
    }

    async fn begin(self: &Arc<Self>, new: New) -> Result<Entered, A2aError> {
        let context = given(new.send.request.message.context_id.as_ref());
        let (context_id, session) = self.conversation(&new.caller, context).await?;
        let size = bytes(&new.send.request.message);
        self.room(&new.caller.client, size, true).await?;
        let named = new.agent.clone();
        let agent = named.or_else(|| self.settings.agent_id.clone());
        let fresh = new.fresh.clone();
        let record = self.fresh(&new.caller, fresh, context_id, session, agent);
        self.keep(new, record, false).await
    }

    /// Keeps the message with its task, and takes the task's place in the queue of its session.
    async fn keep(
        self: &Arc<Self>,
        new: New,
        record: Record,
        answers: bool,
    ) -> Result<Entered, A2aError> {
        let delegation = delegation(&new.send);
        let mut message = new.send.request.message;
        message.task_id = Some(record.task.id.clone());
        message.context_id = Some(record.task.context_id.clone());
        let push = new.push.map(|mut push| {
            push.task_id.clone_from(&record.task.id);
            (push, new.caller.version)
        });
        let request = RunRequest::New { delegation };
        let mut life = Life::new(self.clone(), new.live, record);
        life.weight = new.weight;
        let kept = if answers {
            life.answer_with(message, push).await
        } else {
            life.begin_with(message, push).await
        };
        let placed = match kept {
            Ok(()) => life.place(new.follow).await,
            Err(refusal) => Err(refusal),
        };
        match placed {
            Ok((waiting, feed)) => Ok(Entered {
                life,
                waiting,
                request,
                feed,
            }),
            Err(refusal) => {
                life.give_up(answers).await;
                Err(refusal)
            }
        }
    }

    fn fresh(
        &self,
        caller: &Caller,
        id: String,
        context_id: String,
        session: String,
        agent: Option<String>,
    ) -> Record {
        let now = DateTime::<Utc>::from(self.env.system_time());
        Record {
            task: Task {
                id,
                context_id,
                status: a2a::TaskStatus {
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

impl Life {
    /// Keeps a new task with its first message.
    async fn begin_with(&mut self, message: Message, push: Push) -> Result<(), A2aError> {
        let id = &self.record.task.id;
        self.core.lives.put(id, self.live.clone());
        self.record.task.history = Some(vec![message]);
        let created = self.core.store.create(&self.record).await;
        created.map_err(|error| refused(error, id))?;
        self.core.metrics.entered(&TaskState::Submitted);
        match push {
            Some((push, version)) => self.core.keep_push(&push, version).await,
            None => Ok(()),
        }
    }

    /// Keeps the answer to a task's question.
    async fn answer_with(&mut self, message: Message, push: Push) -> Result<(), A2aError> {
        if let Some((push, version)) = push {
            self.core.keep_push(&push, version).await?;
        }
        // Of two answers at the same time the store takes one; that one has the task.
        self.add(Change::Message(message)).await?;
        let id = &self.record.task.id;
        self.core.lives.put(id, self.live.clone());
        let env = &*self.core.env;
        let status = words::status(env, &self.record, TaskState::Submitted, None);
        self.add(Change::Status(status)).await
    }

    /// Takes a place in the queue of the session, and begins to follow the task for whoever wants that.
    async fn place(&self, follow: bool) -> Result<(Waiting, Option<Feed>), A2aError> {
        let id = &self.record.task.id;
        let feed = match follow {
            true => Some(self.core.feed(id).await?),
            false => None,
        };
        let queue = &self.record.session;
        let waiting = self.core.store.enter(queue, id).await;
        Ok((waiting.map_err(|error| refused(error, id))?, feed))
    }

    /// The message was refused halfway: nobody is to find a task that nobody works on.
    async fn give_up(mut self, answers: bool) {
        let id = self.record.task.id.clone();
        if !answers {
            // Where that fails too it is found by whoever looks for what is left.
            if let Err(error) = self.core.store.delete(&id).await {
                tracing::warn!(task_id = id, %error, "a task that was refused stays for now");
            }
        } else if self.record.task.status.state == TaskState::Submitted {
            let status = words::interrupted(&*self.core.env, &self.record);
            self.core.lives.remove(&id, &self.live);
            if let Err(Lost::Store(_)) = self.write(Change::Status(status)).await {
                self.core.clone().tasks.spawn(self.keep_at_last());
            }
            return;
        }
        self.core.lives.remove(&id, &self.live);
    }

    async fn add(&mut self, change: Change) -> Result<(), A2aError> {
        self.write(change).await.map_err(|lost| match lost {
            Lost::Store(refusal) => refusal,
            Lost::Elsewhere => A2aError::new(
                ErrorReason::UnsupportedOperation,
                format!(
                    "the task `{}` changed in the meantime; get it and ask again",
                    self.record.task.id
                ),
            ),
        })
    }
}

fn given(id: Option<&String>) -> Option<&str> {
    id.map(String::as_str).filter(|id| !id.is_empty())
}

fn delegation(send: &Send) -> Option<serde_json::Value> {
    let request = &send.request;
    [&request.message.metadata, &request.metadata]
        .into_iter()
        .flatten()
        .find_map(|metadata| metadata.get(DELEGATION).cloned())
}

fn stopping() -> A2aError {
    let mut refusal = A2aError::new(
        ErrorReason::Unavailable,
        "the server is being stopped and takes no more messages; ask again in a moment",
    );
    refusal.retry_after_s = Some(5);
    refusal
}
