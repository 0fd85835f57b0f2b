//! The Node door: what `process.dlopen` finds in the library.
//!
//! Everything here runs on the thread of the JavaScript environment, except what the plugin calls back from its own: an update, a log line and the
//! settling of a promise each go through a queue of Node's.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use napi::{
    Env, Error, JsDeferred, Result, Status,
    bindgen_prelude::{FnArgs, Object},
    threadsafe_function::{
        ThreadsafeFunction, ThreadsafeFunctionCallMode::NonBlocking, UnknownReturnValue,
    },
};
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use crate::plugin::{self, Job, Plugin, Updates};
use common::log::{Level, Log, Silent};
use common::panics;

/// A JavaScript function that any thread may have called. It takes its values without an error in front of them, and it is weak: it does not keep
/// the process alive.
type Callback<Values> =
    ThreadsafeFunction<Values, UnknownReturnValue, Values, Status, false, true, WAITING>;

/// So many values may wait for the thread of the JavaScript environment. While it is busy, what comes beyond that is
/// dropped: updates and log lines are best effort, and memory is not.
const WAITING: usize = 256;

/// Names the sources that the library was built from.
#[napi(catch_unwind)]
pub fn build_id() -> &'static str {
    crate::BUILD_ID
}

/// Checks a configuration and returns it as JSON, with every default filled in.
///
/// # Errors
/// Throws an `Error` whose message is JSON, `{"code", "message", "path"}`.
#[napi(catch_unwind)]
pub fn parse_config(config_json: String) -> Result<String> {
    panics::silence();
    plugin::parse_config(&config_json).map_err(|error| Error::from_reason(error.to_json()))
}

/// Ends a call early: `signal.addEventListener("abort", () => token.cancel())`.
///
/// A class of our own, because napi's `AbortSignal` replaces the signal's `onabort` and does not notice a signal that is aborted already.
#[napi]
#[derive(Default)]
pub struct CancelToken(CancellationToken);

#[napi]
impl CancelToken {
    /// Makes a token for one call.
    #[napi(constructor, catch_unwind)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the call that the token was given to, at once if it starts later.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

/// One configured tool.
#[napi]
pub struct RemoteAgent(Arc<Plugin>);

#[napi]
impl RemoteAgent {
    /// Makes a tool of a configuration. Starts no thread.
    ///
    /// # Errors
    /// Throws like [`parse_config`].
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: &Env,
        config_json: String,
        log: Option<Callback<FnArgs<(String, String)>>>,
    ) -> Result<Self> {
        panics::silence();
        let log: Arc<dyn Log> = match log {
            Some(callback) => Arc::new(HostLog(callback)),
            None => Arc::new(Silent),
        };
        let plugin = Plugin::new(&config_json, log);
        let plugin = plugin.map_err(|error| Error::from_reason(error.to_json()))?;
        let plugin = Arc::new(plugin);
        // A worker can be terminated in the middle of a call, which nobody would wait for any more.
        let weak = Arc::downgrade(&plugin);
        env.add_env_cleanup_hook(weak, |plugin| {
            if let Some(plugin) = plugin.upgrade() {
                let _ = panics::catch(|| plugin.close());
            }
        })?;
        Ok(Self(plugin))
    }

    /// The tool's definition as JSON. Starts no thread.
    #[napi(catch_unwind)]
    #[must_use]
    pub fn definition(&self) -> String {
        self.0.definition()
    }

    /// What a model reads of an envelope or update of this tool. Starts no thread, and never throws over what it is given.
    #[napi(catch_unwind)]
    #[must_use]
    pub fn render(&self, envelope_json: String) -> String {
        self.0.render(&envelope_json)
    }

    /// Starts a call. The promise always resolves, with the envelope as JSON, after the last update was taken.
    ///
    /// # Errors
    /// Throws when Node cannot make a promise, as while its environment ends.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn execute<'env>(
        &self,
        env: &'env Env,
        request_json: String,
        caller_json: Option<String>,
        cancel: &CancelToken,
        on_update: Option<Callback<String>>,
    ) -> Result<Object<'env>> {
        let (deferred, promise) = env.create_deferred()?;
        let answer = Arc::new(Answer {
            deferred: Mutex::new(Some(deferred)),
            envelope: OnceLock::new(),
        });
        let updates = on_update
            .map(|callback| forward(callback, Arc::clone(&answer), Arc::clone(self.0.log())));
        let job = Job {
            request: request_json,
            caller: caller_json,
            updates,
            cancel: cancel.0.clone(),
        };
        self.0.start_with(job, move |envelope| {
            // Only the first envelope counts, and there is only one.
            let _ = answer.envelope.set(envelope);
        });
        Ok(promise)
    }

    /// Cancels running calls, whose promises still resolve, and ends the tool's threads. Closing twice does nothing.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.0.close();
    }
}

/// Makes the callback for updates: each waits in Node's queue and holds the answer back until it was taken.
fn forward(callback: Callback<String>, answer: Arc<Answer>, log: Arc<dyn Log>) -> Updates {
    let complained = Arc::new(AtomicBool::new(false));
    Arc::new(move |json: &str| {
        let (held, complained, log) = (answer.clone(), complained.clone(), log.clone());
        let taken = move |returned: Result<UnknownReturnValue>, _: Env| {
            if returned.is_err() && !complained.swap(true, Ordering::Relaxed) {
                log.log(
                    Level::Warn,
                    "the host's update callback threw; the call goes on",
                );
            }
            drop(held);
            Ok(())
        };
        callback.call_with_return_value(json.to_owned(), NonBlocking, taken);
    })
}

type Deferred = JsDeferred<String, Box<dyn FnOnce(Env) -> Result<String> + Send>>;

/// The promise of one call. It settles when the last holder lets go: the call itself, its callback for updates, and each update that still waits
/// to be taken. So no update comes after the result, and no promise is left open, which would keep Node from exiting.
struct Answer {
    deferred: Mutex<Option<Deferred>>,
    envelope: OnceLock<String>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let deferred = self
            .deferred
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let (Some(deferred), Some(envelope)) = (deferred.take(), self.envelope.take()) else {
            return;
        };
        deferred.resolve(Box::new(move |_| Ok(envelope)));
    }
}

struct HostLog(Callback<FnArgs<(String, String)>>);

impl Log for HostLog {
    fn log(&self, level: Level, line: &str) {
        let values = FnArgs::from((level.as_str().to_owned(), line.to_owned()));
        // A host whose logger throws has no log; that must not become an uncaught exception.
        self.0
            .call_with_return_value(values, NonBlocking, |_, _| Ok(()));
    }
}
