//! Callbacks of a host: for log lines and for updates.

use std::panic::{AssertUnwindSafe, catch_unwind};

use abi_stable::{
    sabi_trait,
    sabi_trait::TD_Opaque,
    std_types::{RBox, RStr},
};

/// Takes the progress of one call. Make one with [`updates_to`].
///
/// Called from threads of the library, in the order of the updates and never after the call's result. It should return quickly: the call waits
/// for it.
#[sabi_trait]
pub trait Updates: Send + Sync + 'static {
    /// Takes one update as JSON: `{"ok": true, "phase": "update", …}`.
    #[sabi(last_prefix_field)]
    fn update(&self, json: RStr<'_>);
}

/// An owned [`Updates`] of the host.
pub type UpdatesBox = Updates_TO<RBox<()>>;

/// Takes the library's log lines. Make one with [`log_to`].
///
/// Called from any thread, those of the library included.
#[sabi_trait]
pub trait Log: Send + Sync + 'static {
    /// Takes one line without its line end. `level` is `debug`, `info`, `warn` or `error`.
    #[sabi(last_prefix_field)]
    fn log(&self, level: RStr<'_>, line: RStr<'_>);
}

/// An owned [`Log`] of the host.
pub type LogBox = Log_TO<RBox<()>>;

/// Hands each update to `take`.
///
/// A panic in `take` loses that update and nothing else. A hand-written [`Updates`] has to see to that itself: a panic that reaches the library
/// aborts the process.
pub fn updates_to(take: impl Fn(&str) + Send + Sync + 'static) -> UpdatesBox {
    UpdatesBox::from_value(Closure(take), TD_Opaque)
}

/// Hands each log line to `take`, the level first.
///
/// A panic in `take` loses that line and nothing else, as in [`updates_to`].
pub fn log_to(take: impl Fn(&str, &str) + Send + Sync + 'static) -> LogBox {
    LogBox::from_value(Closure(take), TD_Opaque)
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
