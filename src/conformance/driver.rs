//! What the runner needs of an implementation.

use std::future::Future;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::case::Step;

/// One implementation of `remote_agent`, driven from outside. A value runs one case.
///
/// Calls may overlap: where a case says so, several [`execute`](Driver::execute) run at once.
pub trait Driver: Send + Sync {
    /// Starts an instance with `config`, in place of any earlier one.
    fn init(&self, config: &Value) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The config with its defaults.
    fn parse_config(&self, config: &Value) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// `{name, label, description, parameters}` of the instance.
    fn tool_definition(&self) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// Runs one request and returns its envelope; `on_update` sees each update as it comes. The caller gives up when
    /// `abort` is cancelled.
    ///
    /// Honours `updates_fail` of `step`: the caller's consumer of updates fails. When to begin and when to give up is the
    /// runner's business.
    fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// What was logged so far, as level and line; `None` where the driver cannot see it.
    fn log(&self) -> Option<Vec<(String, String)>> {
        None
    }
}

/// Why a driver has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The config was refused; the value says why, as the implementation puts it.
    Refused(Value),
    /// The implementation died or answered nonsense.
    Broken(String),
}
