//! Callbacks of a host: for log lines and updates, and for questions to a person.

use std::panic::{AssertUnwindSafe, catch_unwind};

use abi_stable::{
    sabi_trait,
    sabi_trait::TD_Opaque,
    std_types::{RBox, RStr, RString},
};
use async_ffi::{FfiFuture, FutureExt as _};

/// Receives the progress of one call. Create one with [`updates_to`].
///
/// The library calls it from its own threads, in the order of the updates, and never after the result of the call. It
/// should return quickly: the call waits for it.
#[sabi_trait]
pub trait Updates: Send + Sync + 'static {
    /// Receives one update as JSON: `{"ok": true, "phase": "update", …}`.
    #[sabi(last_prefix_field)]
    fn update(&self, json: RStr<'_>);
}

/// An owned [`Updates`] of the host.
pub type UpdatesBox = Updates_TO<RBox<()>>;

/// Receives the library's log lines. Create one with [`log_to`].
///
/// Any thread may call it, including those of the library.
#[sabi_trait]
pub trait Log: Send + Sync + 'static {
    /// Receives one line without its line end. `level` is `debug`, `info`, `warn` or `error`.
    #[sabi(last_prefix_field)]
    fn log(&self, level: RStr<'_>, line: RStr<'_>);
}

/// An owned [`Log`] of the host.
pub type LogBox = Log_TO<RBox<()>>;

/// Asks a person for an agent. Create one with [`ask_with`].
#[sabi_trait]
pub trait Asker: Send + Sync + 'static {
    /// Asks the question, as JSON: `{"id", "kind", "origin", "text", "fields", "timeout_ms", …}`. The future resolves to the
    /// answer as JSON: `{"action": "answer", "content": {…}, "by"?}`, or an action of `decline`, `model`, `timeout` and
    /// `unreachable` alone.
    ///
    /// The call waits no longer than the question says, and drops the future when it ends.
    #[sabi(last_prefix_field)]
    fn ask(&self, question: RString) -> FfiFuture<RString>;
}

/// An owned [`Asker`] of the host.
pub type AskerBox = Asker_TO<RBox<()>>;

/// Passes each question to `ask`, whose future resolves to the answer.
///
/// A panic in `ask` or its future counts as `unreachable`.
pub fn ask_with<F>(ask: impl Fn(String) -> F + Send + Sync + 'static) -> AskerBox
where
    F: Future<Output = String> + Send + 'static,
{
    AskerBox::from_value(AskClosure(ask), TD_Opaque)
}

struct AskClosure<A>(A);

impl<A, F> Asker for AskClosure<A>
where
    A: Fn(String) -> F + Send + Sync + 'static,
    F: Future<Output = String> + Send + 'static,
{
    fn ask(&self, question: RString) -> FfiFuture<RString> {
        let asked = catch_unwind(AssertUnwindSafe(|| (self.0)(question.into())));
        async move {
            match asked {
                Ok(answer) => RString::from(answer.await),
                Err(_) => RString::new(),
            }
        }
        .into_ffi()
    }
}

/// Passes each update to `receive`.
///
/// A panic in `receive` loses only that update. An implementation of [`Updates`] by hand must catch panics itself: a
/// panic that reaches the library aborts the process.
pub fn updates_to(receive: impl Fn(&str) + Send + Sync + 'static) -> UpdatesBox {
    UpdatesBox::from_value(Closure(receive), TD_Opaque)
}

/// Passes each log line to `receive`, the level first.
///
/// A panic in `receive` loses only that line, as in [`updates_to`].
pub fn log_to(receive: impl Fn(&str, &str) + Send + Sync + 'static) -> LogBox {
    LogBox::from_value(Closure(receive), TD_Opaque)
}

struct Closure<F>(F);

impl<F: Fn(&str) + Send + Sync + 'static> Updates for Closure<F> {
    fn update(&self, json: RStr<'_>) {
        // The panic hook of the host has already reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0)(json.as_str())));
    }
}

impl<F: Fn(&str, &str) + Send + Sync + 'static> Log for Closure<F> {
    fn log(&self, level: RStr<'_>, line: RStr<'_>) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0)(level.as_str(), line.as_str())));
    }
}
