//! One configured instance: configuration in, tool out, with the threads it runs on.

mod assembly;
mod directories;
mod settings;

use std::{
    future::{Future, poll_fn},
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    task::Poll,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::config::{Config, ConfigError};
use crate::remote_agent::{Pace, Reason, RemoteAgent, ToolCall};
use common::log::{Level, Log};
use common::panics::{self, Panicked};

pub use assembly::{assemble, assemble_over};

/// How long calls that were running when the instance closed may take to finish. They are cancelled, so they need far less.
const GRACE: Duration = Duration::from_secs(5);

/// How long a host whose process ends now waits for the leave-taking, which itself takes a second at most.
const FAREWELL: Duration = Duration::from_secs(1);

/// Two, so that a call that works through a large answer, or whose updates are taken slowly, does not hold up the others.
const WORKERS: usize = 2;

/// The name of every thread that an instance starts. Linux shows 15 bytes of it.
const THREAD_NAME: &str = "remote-agent";

/// A configuration with every default filled in and every secret left out, as JSON.
///
/// # Errors
/// The configuration is wrong; the error names the place.
pub fn parse_config(config_json: &str) -> Result<String, ConfigError> {
    let config = Config::parse(config_json)?;
    serde_json::to_string(&config).map_err(|e| ConfigError::at("", e.to_string()))
}

/// Takes the updates of one call, each as JSON.
pub type Updates = Arc<dyn Fn(&str) + Send + Sync>;

/// One tool call, as a host makes it.
#[derive(Default)]
pub struct Job {
    /// The tool's input as JSON.
    pub request: String,
    /// On whose behalf, as JSON.
    pub caller: Option<String>,
    /// Takes the call's progress. A panic in it loses one update.
    pub updates: Option<Updates>,
    /// Ends the call early.
    pub cancel: CancellationToken,
}

/// One configured instance.
///
/// Its threads start with the first call and end with [`close`](Self::close), or with the last call once nobody else holds the instance.
pub struct Plugin {
    agent: RemoteAgent,
    log: Arc<dyn Log>,
    calls: TaskTracker,
    closing: CancellationToken,
    engine: Mutex<Engine>,
}

enum Engine {
    Idle,
    Running(Runtime),
    Closed,
}

/// Why a call was not started.
enum NotStarted {
    Closed,
    NoThreads(io::Error),
}

impl Plugin {
    /// Makes an instance. Starts no thread and opens no socket.
    ///
    /// # Errors
    /// The configuration is wrong; the error names the place.
    pub fn new(config_json: &str, log: Arc<dyn Log>) -> Result<Self, ConfigError> {
        Ok(Self {
            agent: assemble(config_json, Pace::default(), Arc::clone(&log))?,
            log,
            calls: TaskTracker::new(),
            closing: CancellationToken::new(),
            engine: Mutex::new(Engine::Idle),
        })
    }

    /// The tool's definition as JSON.
    #[must_use]
    pub fn definition(&self) -> String {
        self.agent.definition()
    }

    /// What a model reads of an envelope or update of this instance. Starts no thread.
    #[must_use]
    pub fn render(&self, envelope: &str) -> String {
        panics::catch(|| self.agent.render(envelope)).unwrap_or_else(|panicked| {
            let _ = self.report(&panicked);
            "remote_agent: the result cannot be shown as text; this is a bug of the plugin."
                .to_owned()
        })
    }

    /// Where the instance's log lines go.
    #[must_use]
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    /// Starts a call. The future ends with its envelope; dropping it cancels the call. Any executor may poll it.
    pub fn start(self: &Arc<Self>, job: Job) -> impl Future<Output = String> + Send + 'static {
        let (give, take) = oneshot::channel();
        let abandoned = job.cancel.clone().drop_guard();
        self.start_with(job, move |envelope| {
            // Nobody waits any more when the future was dropped.
            let _ = give.send(envelope);
        });
        async move {
            let envelope = take.await.unwrap_or_else(|_| lost());
            abandoned.disarm();
            envelope
        }
    }

    /// Starts a call and hands its envelope to `done`, which is called exactly once whatever happens, in most cases from one of the instance's
    /// threads.
    pub fn start_with(self: &Arc<Self>, job: Job, done: impl FnOnce(String) + Send + 'static) {
        let Job {
            request,
            caller,
            updates,
            cancel,
        } = job;
        let reply_guard = ReplyGuard {
            request,
            envelope: None,
            done: Some(done),
        };
        match panics::catch(|| self.engine()) {
            Ok(Ok(engine)) => {
                let run = Arc::clone(self).run(reply_guard, caller, updates, cancel);
                engine.spawn(self.calls.track_future(run));
            }
            Ok(Err(NotStarted::Closed)) => drop(reply_guard),
            Ok(Err(NotStarted::NoThreads(error))) => reply_guard.fail(
                Reason::InternalFault,
                &format!("the plugin cannot start its threads: {error}"),
            ),
            Err(panicked) => reply_guard.fail(Reason::InternalFault, &self.report(&panicked)),
        }
    }

    /// Cancels running calls, which still finish with an envelope, takes leave of the local gateway, and ends the instance's
    /// threads. Returns at once.
    ///
    /// Later calls are answered with a `shutting_down` envelope. Closing twice does nothing.
    pub fn close(&self) {
        let _ = self.end();
    }

    /// As [`close`](Self::close), but returns when leave of the local gateway has been taken, or after a second.
    /// Blocks the thread, for hosts whose process ends now.
    pub fn close_and_leave(&self) {
        if let Some(left) = self.end() {
            // Nothing is ever sent: its other end is dropped when all is done.
            let _ = left.recv_timeout(FAREWELL);
        }
    }

    /// Ends the instance. What it gives back is done when leave of the local gateway has been taken.
    fn end(&self) -> Option<mpsc::Receiver<()>> {
        let engine = mem::replace(&mut *self.lock(), Engine::Closed);
        self.closing.cancel();
        self.calls.close();
        // A call that has been answered may count as running for a moment more, and its host may end the process now.
        if let Some(audit) = self.agent.audit() {
            audit.close();
        }
        let Engine::Running(runtime) = engine else {
            return None;
        };
        let leave = self.agent.close();
        if self.calls.is_empty() && leave.is_none() {
            runtime.shutdown_background();
            return None;
        }
        let (leaving, left) = mpsc::channel::<()>();
        let left = leave.is_some().then_some(left);
        let calls = self.calls.clone();
        runtime.handle().clone().spawn(async move {
            // What is left after that is dropped, and `ReplyGuard` answers for it.
            let _ = tokio::time::timeout(GRACE, calls.wait()).await;
            if let Some(leave) = leave {
                // Whatever goes wrong, the threads end.
                let _ = panics::catch_async(leave).await;
            }
            drop(leaving);
            runtime.shutdown_background();
        });
        left
    }

    async fn run(
        self: Arc<Self>,
        mut reply_guard: ReplyGuard<impl FnOnce(String)>,
        caller: Option<String>,
        updates: Option<Updates>,
        cancel: CancellationToken,
    ) {
        // Boxed, since each of the layers around it would be twice as large as what it holds, and is moved several times.
        let call = Box::pin(self.agent.execute(ToolCall {
            request: &reply_guard.request,
            caller: caller.as_deref(),
            updates: updates.as_deref(),
            cancel,
            closing: self.closing.clone(),
        }));
        let envelope = match self.guarded(call).await {
            Ok(envelope) => envelope,
            Err(message) => {
                RemoteAgent::failure(&reply_guard.request, Reason::InternalFault, &message)
            }
        };
        reply_guard.envelope = Some(envelope);
        // Calls whose answers came together are told of together: the host is woken once for all of them.
        behind_the_others().await;
    }

    /// Runs a call. If it panics, logs that and returns the sentence for the envelope as the error.
    async fn guarded(&self, call: impl Future<Output = String>) -> Result<String, String> {
        let outcome = panics::catch_async(call).await;
        outcome.map_err(|panicked| self.report(&panicked))
    }

    /// Logs a panic and returns the sentence for the envelope.
    fn report(&self, panicked: &Panicked) -> String {
        let message = format!("the call failed inside the plugin {panicked}");
        let _ = panics::catch(|| self.log.log(Level::Error, &message));
        message
    }

    fn engine(&self) -> Result<Handle, NotStarted> {
        let mut engine = self.lock();
        match &*engine {
            Engine::Running(runtime) => Ok(runtime.handle().clone()),
            Engine::Closed => Err(NotStarted::Closed),
            Engine::Idle => {
                let runtime = Builder::new_multi_thread()
                    .worker_threads(WORKERS)
                    .thread_name(THREAD_NAME)
                    .enable_all()
                    .build()
                    .map_err(NotStarted::NoThreads)?;
                let handle = runtime.handle().clone();
                *engine = Engine::Running(runtime);
                Ok(handle)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Engine> {
        // Nothing is left half done under this lock, so a panic there spoils nothing.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = panics::catch(|| self.close());
    }
}

/// Waits until what is ready now has been worked on, by whichever thread. tokio's `yield_now` would tie the call to its thread.
async fn behind_the_others() {
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

/// Owes one answer, and gives it when it is dropped. Where there is none by then, as when the instance closes under a call,
/// it answers `shutting_down`.
struct ReplyGuard<F: FnOnce(String)> {
    request: String,
    envelope: Option<String>,
    done: Option<F>,
}

impl<F: FnOnce(String)> ReplyGuard<F> {
    fn fail(mut self, reason: Reason, message: &str) {
        self.envelope = Some(RemoteAgent::failure(&self.request, reason, message));
    }
}

impl<F: FnOnce(String)> Drop for ReplyGuard<F> {
    fn drop(&mut self) {
        let envelope = self.envelope.take().unwrap_or_else(|| {
            let message = "the plugin is shutting down; call again once it is loaded anew";
            RemoteAgent::failure(&self.request, Reason::ShuttingDown, message)
        });
        if let Some(done) = self.done.take() {
            let _ = panics::catch(|| done(envelope));
        }
    }
}

/// The answer of a call whose answer was lost, which takes a panic in the hand-over itself.
fn lost() -> String {
    RemoteAgent::failure("", Reason::InternalFault, "the call's result was lost")
}

#[cfg(test)]
mod tests;
