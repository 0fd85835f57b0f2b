//! What a client may ask for, and the life of a task from the message to its end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::{
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, SendMessageRequest,
    SendMessageResponse, StreamResponse, Task, TaskPushNotificationConfig, TaskState,
};
use futures_util::stream::BoxStream;
use tokio::time::{Instant, timeout_at};

use crate::call_context::{CallContext, Version};
use crate::executor::{Agent, Executor};
use crate::metrics::Metrics;
use crate::push::PushSender;
use crate::store::{Cursor, Filter, TaskStore};
use a2a::{A2aError, ErrorReason};
use common::environment::Environment;

mod active_task;
mod agents;
mod background;
mod cancel;
mod clients;
mod core;
mod dedup;
mod modes;
mod operator;
mod page;
mod pushes;
mod quota;
mod running;
mod send;
mod size;
mod status;
mod submit;
mod task_runner;
mod updates;
mod validate;
mod view;
mod weight;

pub use self::agents::AGENT;
pub use self::page::TaskPage;
pub use self::status::{
    CLIENT_REMOVED, INTERRUPTED, NO_ROOM, REASON, STORE, TIMEOUT, TOO_LARGE, UNANSWERED,
};
pub use self::task_runner::DELEGATION;
pub use crate::settings::{Limits, Settings};

use self::active_task::CancelReason;
use self::cancel::canceled;
use self::core::{Core, refused};
use self::updates::updates;
use self::view::View;

/// Tasks on a page where the request does not say (1.0 §3.1.4).
const DEFAULT_PAGE_SIZE: i32 = 50;

/// The most tasks that a page may have.
const MAX_PAGE_SIZE: i32 = 100;

/// A message as a client sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct Send {
    /// The request. A 0.3 one has been read into it.
    pub request: SendMessageRequest,
    /// Whether to answer with the task at once (`returnImmediately`, the opposite of 0.3's `blocking`), where the request says.
    pub return_immediately: Option<bool>,
}

impl From<SendMessageRequest> for Send {
    fn from(request: SendMessageRequest) -> Self {
        Self {
            request,
            return_immediately: None,
        }
    }
}

/// The events of a stream, the first of them the task as it stands.
pub type Updates = BoxStream<'static, Result<StreamResponse, A2aError>>;

/// The server behind the wire. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
}

/// Says which session of OpenClaw a conversation is. The same conversation is always the same session.
pub trait Sessions: std::marker::Send + Sync + 'static {
    /// The session id; `client` is named where there may be several, and then no two clients share one.
    fn session_id(&self, client: Option<&str>, context_id: &str) -> String;

    /// A context id that leads to this session where `client` is none, so that a conversation in the operator's own session
    /// can be gone on with. `None` where no context id does.
    fn context_id(&self, session_id: &str) -> Option<String>;
}

/// What a service is made of.
pub struct Parts {
    /// What to keep to.
    pub settings: Settings,
    /// Who does the work.
    pub executor: Arc<dyn Executor>,
    /// Where tasks are kept.
    pub store: Arc<dyn TaskStore>,
    /// Who carries notifications.
    pub sender: Arc<dyn PushSender>,
    /// Which session a conversation is.
    pub sessions: Arc<dyn Sessions>,
    /// Time and randomness.
    pub env: Arc<dyn Environment>,
    /// The names of all clients; `None` where every name is one. Unfinished tasks of others are ended, also those that an
    /// earlier server left.
    pub clients: Option<HashSet<String>>,
}

impl Service {
    /// Starts: takes up or marks what an earlier process left, and begins to forget what retention does not keep.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn start(parts: Parts) -> Result<Self, A2aError> {
        let core = Arc::new(Core::new(parts));
        core.recover().await?;
        core.resume();
        Ok(Self { core })
    }

    /// Takes a message (1.0 §3.1.1). Waits for the answer unless the request or the settings say otherwise, at most as long
    /// as a run may take; then the answer is the task as it stands.
    ///
    /// # Errors
    /// The message is refused; no task was made of it.
    pub async fn send(
        &self,
        caller: &CallContext,
        send: Send,
    ) -> Result<SendMessageResponse, A2aError> {
        self.core.send(caller, send).await
    }

    /// Takes a message and follows what becomes of it (1.0 §3.1.2).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn stream(&self, caller: &CallContext, send: Send) -> Result<Updates, A2aError> {
        self.core.stream(caller, send).await
    }

    /// A task (1.0 §3.1.3), with at most `history_length` of its newest messages where that is said; 0 leaves history out.
    ///
    /// # Errors
    /// There is no such task of this caller.
    pub async fn get(
        &self,
        caller: &CallContext,
        task_id: &str,
        history_length: Option<i32>,
    ) -> Result<Task, A2aError> {
        let view = self.view(history_length)?;
        self.show(task_id)?;
        let record = self.core.owned(caller, task_id).await?;
        Ok(view.apply(record.task))
    }

    /// The caller's tasks (1.0 §3.1.4), loaded while they are written.
    ///
    /// # Errors
    /// The request is out of its bounds, or the store failed.
    pub async fn list(
        &self,
        caller: &CallContext,
        request: ListTasksRequest,
    ) -> Result<TaskPage, A2aError> {
        let view = self
            .view(request.history_length)?
            .with_artifacts(request.include_artifacts == Some(true));
        let page_size = request.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
        let filter = Filter {
            owner: Some(caller.client.clone()),
            context_id: request.context_id.filter(|id| !id.is_empty()),
            state: request
                .status
                .filter(|state| *state != TaskState::Unspecified),
            changed_after: request.status_timestamp_after,
            page_size: page(page_size)?,
            after: cursor(request.page_token.as_deref())?,
        };
        let listed = self.tasks(&filter).await?;
        TaskPage::open(self.clone(), view, listed, page_size).await
    }

    /// Cancels a task (1.0 §3.1.5) and answers once it is canceled.
    ///
    /// # Errors
    /// There is no such task of this caller, or it is settled otherwise.
    pub async fn cancel(&self, caller: &CallContext, task_id: &str) -> Result<Task, A2aError> {
        self.show(task_id)?;
        let record = self.core.owned(caller, task_id).await?;
        let task = canceled(
            self.core
                .cancel_task(record, CancelReason::Requested)
                .await?,
        )?;
        Ok(self.view(None)?.apply(task))
    }

    /// Follows a task (1.0 §3.1.6). The first event is the task as it stands.
    ///
    /// # Errors
    /// There is no such task of this caller, or, for a caller of 1.0, it is settled.
    pub async fn subscribe(
        &self,
        caller: &CallContext,
        task_id: &str,
    ) -> Result<Updates, A2aError> {
        let view = self.view(None)?;
        self.show(task_id)?;
        self.core.owned(caller, task_id).await?;
        let subscription = self.core.subscription(task_id).await?;
        if subscription.record.is_terminal() && caller.version == Version::V1_0 {
            return Err(A2aError::new(
                ErrorReason::UnsupportedOperation,
                format!(
                    "the task `{task_id}` is settled, nothing more comes of it; get it instead"
                ),
            ));
        }
        Ok(updates(
            subscription,
            view,
            self.core.metrics.record_stream(),
        ))
    }

    /// Registers a webhook (1.0 §3.1.7). Without an id it gets a fresh one.
    ///
    /// # Errors
    /// There is no such task, or notifications may not go there.
    pub async fn create_push(
        &self,
        caller: &CallContext,
        config: TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        self.core.owned(caller, &config.task_id).await?;
        let config = self.core.checked(config, "")?;
        self.core.keep_push(&config, caller.version).await?;
        Ok(config)
    }

    /// A registered webhook (1.0 §3.1.8); in 0.3 the id may be missing, which means the first.
    ///
    /// # Errors
    /// There is none.
    pub async fn get_push(
        &self,
        caller: &CallContext,
        task_id: &str,
        config_id: Option<&str>,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        self.core.owned(caller, task_id).await?;
        let known = self.core.push_configs(task_id).await?;
        known
            .into_iter()
            .find(|config| config_id.is_none_or(|id| config.id.as_deref() == Some(id)))
            .ok_or_else(|| pushes::unknown(task_id))
    }

    /// The webhooks of a task (1.0 §3.1.9).
    ///
    /// # Errors
    /// There is no such task of this caller.
    pub async fn list_pushes(
        &self,
        caller: &CallContext,
        task_id: &str,
    ) -> Result<ListTaskPushNotificationConfigsResponse, A2aError> {
        self.core.owned(caller, task_id).await?;
        Ok(ListTaskPushNotificationConfigsResponse {
            configs: self.core.push_configs(task_id).await?,
            next_page_token: None,
        })
    }

    /// Forgets a webhook (1.0 §3.1.10). There being none is no error.
    ///
    /// # Errors
    /// There is no such task of this caller.
    pub async fn delete_push(
        &self,
        caller: &CallContext,
        task_id: &str,
        config_id: &str,
    ) -> Result<(), A2aError> {
        self.core.owned(caller, task_id).await?;
        self.core
            .store
            .delete_push(task_id, config_id)
            .await
            .map_err(|error| refused(error, task_id))?;
        Ok(())
    }

    /// The agents behind the server; kept for a while.
    ///
    /// # Errors
    /// The executor cannot say.
    pub async fn agents(&self) -> Result<Arc<[Agent]>, A2aError> {
        self.core.agents.get(&*self.core.executor).await
    }

    /// What the server counts.
    pub fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }

    /// How many tasks are being worked on here, or wait for their turn.
    pub fn under_way(&self) -> usize {
        self.core.active_tasks.len()
    }

    /// Whether the executor and the store can work.
    ///
    /// # Errors
    /// Why not.
    pub async fn ready(&self) -> Result<(), String> {
        if self.core.closing.is_cancelled() {
            return Err("the server is being stopped".to_owned());
        }
        let store = self.core.store.ready().await;
        store.map_err(|error| format!("the task store: {error}"))?;
        let executor = self.core.executor.ready().await;
        executor.map_err(|error| format!("the executor: {error}"))
    }

    /// Ends: takes no more messages, stops what runs and marks it, finishes or marks notifications, closes the store. Takes
    /// at most `patience`.
    pub async fn close(&self, patience: Duration) {
        let core = &self.core;
        let until = Instant::now() + patience;
        core.closing.cancel();
        core.tasks.close();
        // The last fifth is for what did not stop, for notifications that still go out, and for the store.
        if timeout_at(until - patience / 5, core.tasks.wait())
            .await
            .is_err()
        {
            core.dropping.cancel();
            if timeout_at(until, core.tasks.wait()).await.is_err() {
                tracing::error!(tasks = core.tasks.len(), "not everything has stopped");
            }
        }
        core.notifier
            .close(until.saturating_duration_since(Instant::now()))
            .await;
        core.executor.close().await;
        if let Err(error) = core.store.close().await {
            tracing::error!(%error, "the task store did not close");
        }
    }

    fn view(&self, history_length: Option<i32>) -> Result<View, A2aError> {
        View::new(history_length, self.core.settings.limits.history)
    }

    /// A task is about to be shown, so that no message can stand in its place any more.
    fn show(&self, task_id: &str) -> Result<(), A2aError> {
        match self.core.active_tasks.get(task_id) {
            Some(active) if !active.expose() => Err(A2aError::task_not_found(task_id)),
            _ => Ok(()),
        }
    }
}

fn page(size: i32) -> Result<usize, A2aError> {
    match usize::try_from(size) {
        Ok(found) if (1..=MAX_PAGE_SIZE).contains(&size) => Ok(found),
        _ => Err(A2aError::new(
            ErrorReason::InvalidParams,
            format!("`pageSize` is {size}; it has to be 1 to {MAX_PAGE_SIZE}"),
        )
        .at("pageSize")),
    }
}

fn cursor(token: Option<&str>) -> Result<Option<Cursor>, A2aError> {
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    token.parse().map(Some).map_err(|_| {
        let text = "`pageToken` is none that this server gave; leave it out for the first page";
        A2aError::new(ErrorReason::InvalidParams, text).at("pageToken")
    })
}

#[cfg(test)]
mod tests;
