//! One configured instance: the tool and the threads that it runs on.

mod assembly;

use std::{
    future::{Future, poll_fn},
    io, mem,
    num::NonZeroUsize,
    pin::Pin,
    sync::{Arc, mpsc},
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::config::{Config, ConfigError};
use crate::remote_agent::{Person, PollIntervals, Reason, RemoteAgent, SignIn, ToolCall};
use crate::targets::{CardCache, Catalog};
use a2a_client::ai_catalog::{AgentQuery, find_agents};
use base::log::{Level, Log};
use base::panics::{self, Panicked};
use egress::auth::REFRESH_TIMEOUT;

pub use a2a_client::ai_catalog::{FoundAgent, FoundAgents};
pub(crate) use assembly::peers;
pub use assembly::{assemble, assemble_with_network, network};

/// How long running calls may take to finish after the instance closed. They are cancelled, so they need far less.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// How long [`Plugin::close_and_wait`] blocks at most.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Two threads, so that a call with a large answer, or with a slow host, does not block the others.
const WORKER_THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// The name of every thread that an instance starts. Linux shows 15 bytes of it.
const THREAD_NAME: &str = "remote-agent";

/// Returns a configuration as JSON, with every default filled in and every secret left out.
///
/// # Errors
/// The configuration is invalid; the error names the place.
pub fn parse_config(config_json: &str) -> Result<String, ConfigError> {
    let config = Config::parse(config_json)?;
    serde_json::to_string(&config).map_err(|e| ConfigError::at("", e.to_string()))
}

/// A task of a call.
pub(crate) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A callback for the updates of one call, each as JSON.
pub type UpdateCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// The arguments of one tool call.
#[derive(Default)]
pub struct CallInput {
    /// The tool's input as JSON.
    pub request: String,
    /// The caller as JSON.
    pub caller: Option<String>,
    /// The callback for updates. A panic in it loses one update.
    pub updates: Option<UpdateCallback>,
    /// The person that answers questions of the agent.
    pub person: Option<Arc<dyn Person>>,
    /// Cancels the call.
    pub cancel: CancellationToken,
}

/// One configured instance.
///
/// The first call starts its threads. They end with [`close`](Self::close), or with the last call after the instance
/// was dropped.
pub struct Plugin {
    agent: RemoteAgent,
    log: Arc<dyn Log>,
    calls: TaskTracker,
    closing: CancellationToken,
    worker_threads: NonZeroUsize,
    runtime: Mutex<RuntimeState>,
    ending: Mutex<Option<Ending>>,
}

enum RuntimeState {
    Idle,
    Running(Runtime),
    Closed,
}

/// What a host may wait for. A receiver disconnects at once if there is nothing to wait for.
struct Ending {
    /// Disconnects when the plugin has disconnected from the local gateway.
    disconnected: mpsc::Receiver<()>,
    /// Disconnects when the refreshes of sign-ins are stored.
    refreshed: mpsc::Receiver<()>,
}

/// Returns a channel, without its sender unless `is_open`.
fn channel_if(is_open: bool) -> (Option<mpsc::Sender<()>>, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (Some(sender).filter(|_| is_open), receiver)
}

/// The reason that a call was not started.
enum StartError {
    Closed,
    NoThreads(io::Error),
}

impl Plugin {
    /// Creates an instance. Starts no thread and opens no socket.
    ///
    /// # Errors
    /// The configuration is invalid; the error names the place.
    pub fn new(config_json: &str, log: Arc<dyn Log>) -> Result<Self, ConfigError> {
        Ok(Self {
            agent: assemble(config_json, PollIntervals::default(), Arc::clone(&log))?,
            log,
            calls: TaskTracker::new(),
            closing: CancellationToken::new(),
            worker_threads: WORKER_THREADS,
            runtime: Mutex::new(RuntimeState::Idle),
            ending: Mutex::default(),
        })
    }

    /// Runs the calls on one thread, for a host that receives updates without blocking. Each call then wakes one thread
    /// instead of two.
    #[must_use]
    pub fn on_one_thread(mut self) -> Self {
        self.worker_threads = NonZeroUsize::MIN;
        self
    }

    /// Returns the tool's definition as JSON.
    #[must_use]
    pub fn definition(&self) -> String {
        self.agent.definition()
    }

    /// Returns the health of the configured targets that were called, as a JSON object by alias. Starts no thread.
    #[must_use]
    pub fn health(&self) -> String {
        self.agent.health()
    }

    /// Returns the text that a model reads of an envelope or update of this instance. Starts no thread.
    #[must_use]
    pub fn render(&self, envelope: &str) -> String {
        self.render_within(envelope, usize::MAX)
    }

    /// Renders like [`render`](Self::render), in at most `max_chars` characters, and at least 1000.
    #[must_use]
    pub fn render_within(&self, envelope: &str, max_chars: usize) -> String {
        panics::catch(|| self.agent.render(envelope, max_chars)).unwrap_or_else(|panicked| {
            let _ = self.log_panic(&panicked);
            "remote_agent: the result cannot be shown as text; this is a bug of the plugin."
                .to_owned()
        })
    }

    #[must_use]
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    /// Opens the sign-in of the target `alias`, or of the only one that needs a sign-in, for `user`.
    ///
    /// # Errors
    /// The target needs no sign-in; a sentence.
    pub fn sign_in(&self, alias: Option<&str>, user: Option<&str>) -> Result<SignIn, String> {
        self.agent.sign_in(alias, user)
    }

    /// Returns the agents that a query asks for, for a person who adds one; the query is an [`AgentQuery`] as JSON.
    ///
    /// # Errors
    /// The query is invalid; a sentence.
    pub fn find_agents(
        &self,
        query_json: &str,
    ) -> impl Future<Output = Result<FoundAgents, String>> + Send + use<> {
        let net = self.agent.network();
        let query = AgentQuery::from_json(query_json);
        async move {
            let net = net.ok_or("there is no network")?;
            find_agents(&*net, &query?).await
        }
    }

    /// Returns the targets, and what reads their cards.
    pub(crate) fn targets(&self) -> (&Catalog, &CardCache) {
        self.agent.targets()
    }

    /// Starts a call. The future resolves to the envelope; dropping it cancels the call. Any executor may poll it.
    pub fn start(
        self: &Arc<Self>,
        job: CallInput,
    ) -> impl Future<Output = String> + Send + 'static {
        let (give, take) = oneshot::channel();
        let abandoned = job.cancel.clone().drop_guard();
        self.start_with(job, move |envelope| {
            // The receiver is gone when the future was dropped.
            let _ = give.send(envelope);
        });
        async move {
            let envelope = take.await.unwrap_or_else(|_| lost_result_envelope());
            abandoned.disarm();
            envelope
        }
    }

    /// Starts a call and passes its envelope to `done`, which is always called exactly once, usually on one of the
    /// instance's threads.
    pub fn start_with(
        self: &Arc<Self>,
        job: CallInput,
        done: impl FnOnce(String) + Send + 'static,
    ) {
        // Boxed, because the code of a call would otherwise be in the library once for each callback.
        self.start_boxed(job, Box::new(done));
    }

    fn start_boxed(self: &Arc<Self>, mut job: CallInput, done: Box<dyn FnOnce(String) + Send>) {
        let reply_guard = ReplyGuard {
            request: mem::take(&mut job.request),
            envelope: None,
            done: Some(done),
        };
        match panics::catch(|| self.runtime_handle()) {
            Ok(Ok(handle)) => {
                let run = Arc::clone(self).run(reply_guard, job);
                self.spawn_on(&handle, Box::pin(run));
            }
            Ok(Err(StartError::Closed)) => drop(reply_guard),
            Ok(Err(StartError::NoThreads(error))) => reply_guard.fail(
                Reason::InternalFault,
                &format!("the plugin cannot start its threads: {error}"),
            ),
            Err(panicked) => reply_guard.fail(Reason::InternalFault, &self.log_panic(&panicked)),
        }
    }

    /// Returns what ends when the instance is closed.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Runs a task that belongs to a call on the instance's threads. A closed instance drops it.
    pub(crate) fn spawn(&self, task: BoxedTask) {
        if let Ok(Ok(handle)) = panics::catch(|| self.runtime_handle()) {
            self.spawn_on(&handle, task);
        }
    }

    fn spawn_on(&self, handle: &Handle, task: BoxedTask) {
        handle.spawn(self.calls.track_future(task));
    }

    /// Cancels running calls, which still return an envelope, disconnects from the local gateway, and ends the instance's
    /// threads. Returns at once.
    ///
    /// Later calls return a `shutting_down` envelope. A second call does nothing.
    pub fn close(&self) {
        if let Some(ending) = self.shut_down() {
            *self.ending.lock() = Some(ending);
        }
    }

    /// Closes like [`close`](Self::close), and blocks until the plugin has disconnected from the local gateway, at most one
    /// second, and has stored the sign-ins that it is renewing, at most [`REFRESH_TIMEOUT`]. For hosts whose process is about to
    /// exit, which may have closed the instance before.
    pub fn close_and_wait(&self) {
        self.close();
        let ending = self.ending.lock().take();
        if let Some(ending) = ending {
            // Nothing is ever sent.
            let _ = ending.disconnected.recv_timeout(DISCONNECT_TIMEOUT);
            let _ = ending.refreshed.recv_timeout(REFRESH_TIMEOUT);
        }
    }

    /// Ends the instance.
    fn shut_down(&self) -> Option<Ending> {
        let state = mem::replace(&mut *self.runtime.lock(), RuntimeState::Closed);
        self.closing.cancel();
        self.calls.close();
        // An answered call can still count as running, and its host may end the process now.
        if let Some(audit) = self.agent.audit() {
            audit.close();
        }
        let RuntimeState::Running(runtime) = state else {
            return None;
        };
        let (disconnect, refreshes) = (self.agent.close(), self.agent.end_refreshes());
        if self.calls.is_empty() && disconnect.is_none() && refreshes.is_none() {
            runtime.shutdown_background();
            return None;
        }
        let (mut disconnecting, disconnected) = channel_if(disconnect.is_some());
        let (refreshing, refreshed) = channel_if(refreshes.is_some());
        let calls = self.calls.clone();
        runtime.handle().clone().spawn(async move {
            let ended = async {
                // A call that is still running is dropped, and its `ReplyGuard` answers.
                let _ = tokio::time::timeout(SHUTDOWN_GRACE, calls.wait()).await;
                if let Some(disconnect) = disconnect {
                    // The threads end even if this panics.
                    let _ = panics::catch_async(disconnect).await;
                }
                disconnecting.take();
            };
            let stored = async {
                if let Some(refreshes) = refreshes {
                    refreshes.await;
                }
                drop(refreshing);
            };
            tokio::join!(ended, stored);
            runtime.shutdown_background();
        });
        Some(Ending {
            disconnected,
            refreshed,
        })
    }

    /// Runs a call, whose request the guard has.
    async fn run(self: Arc<Self>, mut reply_guard: ReplyGuard, job: CallInput) {
        // Boxed, because each future around it would be twice as large, and is moved several times.
        let call = Box::pin(self.agent.execute(ToolCall {
            request: &reply_guard.request,
            caller: job.caller.as_deref(),
            updates: job.updates.as_deref(),
            person: job.person.as_deref(),
            cancel: job.cancel.clone(),
            closing: self.closing.clone(),
        }));
        let envelope = match self.catch_panic(call).await {
            Ok(envelope) => envelope,
            Err(message) => {
                RemoteAgent::failure(&reply_guard.request, Reason::InternalFault, &message)
            }
        };
        reply_guard.envelope = Some(envelope);
        // The host is woken once for all calls that end together.
        yield_once().await;
    }

    /// Runs a call. Logs a panic and returns its message for the envelope as the error.
    async fn catch_panic(&self, call: impl Future<Output = String>) -> Result<String, String> {
        let outcome = panics::catch_async(call).await;
        outcome.map_err(|panicked| self.log_panic(&panicked))
    }

    /// Logs a panic and returns the message for the envelope.
    fn log_panic(&self, panicked: &Panicked) -> String {
        let message = format!("the call failed inside the plugin {panicked}");
        let _ = panics::catch(|| self.log.log(Level::Error, &message));
        message
    }

    fn runtime_handle(&self) -> Result<Handle, StartError> {
        let mut state = self.runtime.lock();
        match &*state {
            RuntimeState::Running(runtime) => Ok(runtime.handle().clone()),
            RuntimeState::Closed => Err(StartError::Closed),
            RuntimeState::Idle => {
                let runtime = Builder::new_multi_thread()
                    .worker_threads(self.worker_threads.get())
                    .thread_name(THREAD_NAME)
                    .enable_all()
                    .build()
                    .map_err(StartError::NoThreads)?;
                let handle = runtime.handle().clone();
                *state = RuntimeState::Running(runtime);
                Ok(handle)
            }
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = panics::catch(|| self.close());
    }
}

/// Yields once, so that other ready tasks run first. tokio's `yield_now` would keep the call on its thread.
async fn yield_once() {
    let mut waited = false;
    poll_fn(|cx| {
        if mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Sends the answer of a call when it is dropped. Without an envelope, as when the instance closes during a call, it
/// answers `shutting_down`.
struct ReplyGuard {
    request: String,
    envelope: Option<String>,
    done: Option<Box<dyn FnOnce(String) + Send>>,
}

impl ReplyGuard {
    fn fail(mut self, reason: Reason, message: &str) {
        self.envelope = Some(RemoteAgent::failure(&self.request, reason, message));
    }
}

impl Drop for ReplyGuard {
    fn drop(&mut self) {
        let envelope = self.envelope.take().unwrap_or_else(|| {
            let message = "the plugin is shutting down; call again after it is reloaded";
            RemoteAgent::failure(&self.request, Reason::ShuttingDown, message)
        });
        if let Some(done) = self.done.take() {
            let _ = panics::catch(|| done(envelope));
        }
    }
}

/// Returns the envelope for a call whose result did not reach the host.
pub(crate) fn lost_result_envelope() -> String {
    RemoteAgent::failure("", Reason::InternalFault, "the call's result was lost")
}

#[cfg(test)]
mod tests;
