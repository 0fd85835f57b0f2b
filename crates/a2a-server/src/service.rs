//! The operations of the A2A protocol and the tasks behind them.
//!
//! 1. `send.rs` and `submit.rs` accept a message: `validate.rs` checks it, `dedup.rs` recognizes a repeated one, `quota.rs`
//!    bounds the tasks and the JSON of its client, and the store gets the task.
//! 2. `task_runner/start.rs` waits for the turn of its session and for a slot of `base::run_slots`, which shares the runs among
//!    clients.
//! 3. `task_runner.rs` runs the executor, and `task_runner/persist.rs` stores what it reports.
//! 4. `active_task.rs` and `view.rs` show clients the changes, and `pushes.rs` calls their webhooks.

use std::collections::HashSet;
use std::sync::Arc;

use a2a::v1_0::{
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, SendMessageRequest,
    SendMessageResponse, StreamResponse, Task, TaskPushNotificationConfig, TaskState,
};
use futures_util::future::Either;
use futures_util::stream::{self, BoxStream, StreamExt as _};

use crate::executor::{Agent, Executor};
use crate::metrics::Metrics;
use crate::push::PushSender;
use crate::store::body::RawRecord;
use crate::store::{Cursor, Filter, TaskStore, TaskSubscription};
use a2a::{A2aError, Dialect, ErrorReason, Version};
use base::environment::Environment;

mod active_task;
mod agents;
mod cancel;
mod core;
mod dedup;
mod maintenance;
mod pushes;
mod quota;
mod send;
mod status;
mod submit;
mod task_runner;
mod validate;
mod view;

pub use self::agents::AGENT;
use self::agents::AgentList;
pub use self::maintenance::Closed;
pub use self::status::{
    CLIENT_REMOVED, INTERRUPTED, NO_ROOM, REASON, STORE, TIMEOUT, TOO_LARGE, UNANSWERED,
};
pub use self::view::{FinishedTask, TaskPage};
pub use crate::settings::{ServiceLimits, Settings, WhileWorking};

use self::active_task::CancelReason;
use self::cancel::canceled;
use self::core::{Core, to_a2a_error};
use self::view::{View, updates};

/// The default page size (A2A 1.0 §3.1.4).
const DEFAULT_PAGE_SIZE: i32 = 50;

/// The largest page size.
const MAX_PAGE_SIZE: i32 = 100;

/// The name of every client if the server requires no token.
pub const ANONYMOUS_CLIENT: &str = "loopback";

/// The client, the protocol version and the agent of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// The name of the client, or [`ANONYMOUS_CLIENT`]. The client owns the tasks and contexts that the request
    /// creates.
    pub client: String,
    /// Whether the request carried a valid token.
    pub authenticated: bool,
    /// The protocol version of the request.
    pub version: Version,
    /// The agent in the path of the request, or the tenant in its body.
    pub agent: Option<String>,
}

/// A request to send a message.
#[derive(Debug, Clone, PartialEq)]
pub struct SendMessage {
    /// The request. The HTTP layer has converted a 0.3 request to 1.0.
    pub request: SendMessageRequest,
    /// Whether to return the task at once: `returnImmediately` of 1.0, or the opposite of `blocking` of 0.3. `None` if
    /// the request contains neither.
    pub return_immediately: Option<bool>,
}

impl From<SendMessageRequest> for SendMessage {
    fn from(request: SendMessageRequest) -> Self {
        Self {
            request,
            return_immediately: None,
        }
    }
}

/// The events of a stream. The first event is the task.
pub type TaskUpdates = BoxStream<'static, Result<StreamResponse, A2aError>>;

/// The operations of an A2A server, independent of HTTP. Clones share the state.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
}

/// Maps contexts to sessions of the executor. The mapping must be stable: one context always has the same session.
pub trait SessionMapper: std::marker::Send + Sync + 'static {
    /// Returns the session id of a context. `client` is `Some` if the server may have several clients; no two clients
    /// may then share a session.
    fn session_id(&self, client: Option<&str>, context_id: &str) -> String;

    /// Returns the context id that maps to this session when `client` is `None`, or `None` if there is no such id. With
    /// it, a client can continue the operator's own session.
    fn context_id(&self, session_id: &str) -> Option<String>;
}

/// The components of a service.
pub struct ServiceComponents {
    /// Settings and limits.
    pub settings: Settings,
    /// Executes the messages.
    pub executor: Arc<dyn Executor>,
    /// Stores the tasks.
    pub store: Arc<dyn TaskStore>,
    /// Posts notifications.
    pub sender: Arc<dyn PushSender>,
    /// Maps contexts to sessions.
    pub sessions: Arc<dyn SessionMapper>,
    /// The clock and the source of ids.
    pub env: Arc<dyn Environment>,
    /// The names of all clients; `None` admits every name. The service ends the unfinished tasks of other clients,
    /// including tasks of an earlier process.
    pub clients: Option<HashSet<String>>,
}

impl Service {
    /// Starts the service: recovers the unfinished tasks of earlier processes and begins to delete old ones.
    ///
    /// # Errors
    /// The store failed.
    pub async fn start(parts: ServiceComponents) -> Result<Self, A2aError> {
        let core = Arc::new(Core::new(parts));
        core.recover().await?;
        core.spawn_maintenance();
        Ok(Self { core })
    }

    /// Sends a message (A2A 1.0 §3.1.1). Waits for the end of the run, unless the request or the settings say
    /// otherwise. After the timeout of a run, returns the task as it is.
    ///
    /// # Errors
    /// The server rejects the message and creates no task for it.
    pub async fn send(
        &self,
        caller: &CallContext,
        send: SendMessage,
    ) -> Result<SendMessageResponse, A2aError> {
        // Boxed, like that of `stream`: these futures have kilobytes, and each layer above would move them.
        Box::pin(self.core.send(caller, send)).await
    }

    /// Sends a message and returns the updates of its task (A2A 1.0 §3.1.2).
    ///
    /// # Errors
    /// The same errors as [`send`](Self::send).
    pub async fn stream(
        &self,
        caller: &CallContext,
        send: SendMessage,
    ) -> Result<TaskUpdates, A2aError> {
        Box::pin(self.core.stream(caller, send)).await
    }

    /// Returns a task (A2A 1.0 §3.1.3) with at most `history_length` of its newest messages; 0 omits the history.
    ///
    /// # Errors
    /// The client has no such task.
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

    /// Returns the same task for an answer in `dialect`: the JSON of a finished task as the store has it, if the dialect is that
    /// of the store.
    ///
    /// # Errors
    /// The client has no such task.
    pub async fn get_for(
        &self,
        caller: &CallContext,
        task_id: &str,
        history_length: Option<i32>,
        dialect: Dialect,
    ) -> Result<Either<FinishedTask, Task>, A2aError> {
        if dialect != Dialect::V1_0 {
            let task = self.get(caller, task_id, history_length).await?;
            return Ok(Either::Right(task));
        }
        let view = self.view(history_length)?;
        self.show(task_id)?;
        let finished = |raw: RawRecord<'_>| view.finished(raw);
        let found = self
            .core
            .owned_or_finished(caller, task_id, finished)
            .await?;
        Ok(match found {
            Either::Left(finished) => Either::Left(finished),
            Either::Right(record) => Either::Right(view.apply(record.task)),
        })
    }

    /// Lists the client's tasks in `dialect` (A2A 1.0 §3.1.4). The page loads each task only when the HTTP layer writes it.
    ///
    /// # Errors
    /// A parameter is out of range, or the store failed.
    pub async fn list(
        &self,
        caller: &CallContext,
        request: ListTasksRequest,
        dialect: Dialect,
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
        TaskPage::open(self.clone(), view, filter, page_size, dialect).await
    }

    /// Cancels a task (A2A 1.0 §3.1.5) and returns the canceled task.
    ///
    /// # Errors
    /// The client has no such task, or the task is in another terminal state.
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

    /// Subscribes to a task (A2A 1.0 §3.1.6). The first event is the task.
    ///
    /// # Errors
    /// The client has no such task. For a client of 1.0, also a task in a terminal state.
    pub async fn subscribe(
        &self,
        caller: &CallContext,
        task_id: &str,
    ) -> Result<TaskUpdates, A2aError> {
        let view = self.view(None)?;
        self.show(task_id)?;
        let ended = || {
            let text =
                format!("the task `{task_id}` has ended and has no more updates; get it instead");
            A2aError::new(ErrorReason::UnsupportedOperation, text)
        };
        let record = match caller.version {
            Version::V0_3 => self.core.owned(caller, task_id).await?,
            Version::V1_0 => {
                let found = self.core.owned_or_finished(caller, task_id, |_| Ok(()));
                match found.await? {
                    Either::Left(()) => return Err(ended()),
                    Either::Right(record) => record,
                }
            }
        };
        let subscription = match record.is_terminal() {
            // It has no more changes.
            true => TaskSubscription {
                record,
                updates: stream::empty().boxed(),
            },
            false => {
                let client = Some(caller.client.as_str());
                self.core.subscription(client, task_id).await?
            }
        };
        if subscription.record.is_terminal() && caller.version == Version::V1_0 {
            return Err(ended());
        }
        Ok(updates(
            subscription,
            view,
            self.core.metrics.record_stream(),
            self.core.ending_streams.clone(),
        ))
    }

    /// Registers a webhook (A2A 1.0 §3.1.7). Generates an id if the configuration has none.
    ///
    /// # Errors
    /// The client has no such task, or the address policy forbids the URL.
    pub async fn create_push(
        &self,
        caller: &CallContext,
        config: TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        self.core.owned(caller, &config.task_id).await?;
        let config = self.core.validate_push_config(config, "")?;
        self.core
            .put_push_config(&caller.client, &config, caller.version)
            .await?;
        Ok(config)
    }

    /// Returns a webhook (A2A 1.0 §3.1.8). Without an id, which 0.3 allows, returns the first webhook of the task.
    ///
    /// # Errors
    /// The webhook does not exist.
    pub async fn get_push(
        &self,
        caller: &CallContext,
        task_id: &str,
        config_id: Option<&str>,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        self.core.owned(caller, task_id).await?;
        let known = self.core.push_configs(task_id).await?;
        let found = match config_id {
            Some(id) => pushes::find(&known, id, caller.version),
            None => known.first(),
        };
        found.cloned().ok_or_else(|| pushes::unknown(task_id))
    }

    /// Lists the webhooks of a task (A2A 1.0 §3.1.9).
    ///
    /// # Errors
    /// The client has no such task.
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

    /// Deletes a webhook (A2A 1.0 §3.1.10). Succeeds even if the webhook does not exist.
    ///
    /// # Errors
    /// The client has no such task.
    pub async fn delete_push(
        &self,
        caller: &CallContext,
        task_id: &str,
        config_id: &str,
    ) -> Result<(), A2aError> {
        self.core.owned(caller, task_id).await?;
        let known = self.core.push_configs(task_id).await?;
        let found = pushes::find(&known, config_id, caller.version);
        let config_id = found
            .and_then(|config| config.id.as_deref())
            .unwrap_or(config_id);
        self.core
            .store
            .delete_push(task_id, config_id)
            .await
            .map_err(|error| to_a2a_error(error, task_id))?;
        Ok(())
    }

    /// Returns the agents of the executor. The service caches the list for 30 seconds.
    ///
    /// # Errors
    /// The executor cannot list its agents.
    pub async fn agents(&self) -> Result<Arc<[Agent]>, A2aError> {
        Ok(self.core.agents().await?.agents)
    }

    /// Returns the agents and the time when the list last changed.
    pub(crate) async fn agent_list(&self) -> Result<AgentList, A2aError> {
        self.core.agents().await
    }

    /// Returns the time of the service's clock.
    pub(crate) fn now(&self) -> std::time::Instant {
        self.core.env.now()
    }

    /// Returns the maximum size of the tasks on a page, in bytes.
    pub(crate) fn max_page_bytes(&self) -> usize {
        self.core.settings.limits.page_bytes
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }

    /// Returns the number of tasks that run or wait for a run in this process.
    pub fn active_task_count(&self) -> usize {
        self.core.active_tasks.len()
    }

    /// Checks that the executor and the store are ready.
    ///
    /// # Errors
    /// The executor or the store is not ready. The error contains the cause.
    pub async fn ready(&self) -> Result<(), String> {
        if self.is_stopping() {
            return Err("the server is stopping".to_owned());
        }
        let store = self.core.store.ready().await;
        store.map_err(|error| format!("the task store: {error}"))?;
        let executor = self.core.executor.ready().await;
        executor.map_err(|error| format!("the executor: {error}"))
    }

    fn view(&self, history_length: Option<i32>) -> Result<View, A2aError> {
        View::new(history_length, self.core.settings.limits.history)
    }

    /// Records that a client has seen the task, so that a message can no longer replace it.
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
            format!("`pageSize` is {size}; it must be 1 to {MAX_PAGE_SIZE}"),
        )
        .at("pageSize")),
    }
}

fn cursor(token: Option<&str>) -> Result<Option<Cursor>, A2aError> {
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    token.parse().map(Some).map_err(|_| {
        let text = "unknown `pageToken`; omit it for the first page";
        A2aError::new(ErrorReason::InvalidParams, text).at("pageToken")
    })
}

#[cfg(test)]
mod tests;
