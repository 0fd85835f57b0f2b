//! The interface of an implementation under test.

use std::future::Future;
use std::panic;

use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::case::Step;

/// An implementation of `remote_agent` under test. A driver runs one case.
///
/// Calls may overlap: a case can run several [`execute`](Driver::execute) at once.
pub trait Driver: Send + Sync {
    /// Starts an instance with `config`, in place of any earlier one.
    fn init(&self, config: &Value) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Returns the config with its defaults.
    fn parse_config(&self, config: &Value) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// Returns `{name, label, description, parameters}` of the instance.
    fn tool_definition(&self) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// Runs one request and returns its envelope. Passes each update to `on_update` when it arrives. The caller cancels
    /// the call with `abort`.
    ///
    /// Obeys `updates_fail` of `step`: the caller's consumer of updates fails. The runner decides when the call begins and
    /// when it is cancelled.
    fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// Returns the log as level and line; `None` if the driver has no access to it.
    fn log(&self) -> Option<Vec<(String, String)>> {
        None
    }
}

/// The reason that a driver has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The config was refused, with the error of the implementation.
    Refused(Value),
    /// The implementation ended or its answer is invalid.
    Broken(String),
}

impl Failure {
    /// Creates a refusal of the config from the JSON of the error.
    pub fn refused(error: &str) -> Self {
        read(error).map_or_else(|failure| failure, Self::Refused)
    }
}

/// Parses the JSON of a result.
///
/// # Errors
/// The text is not JSON.
pub fn read(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::Broken(format!("{error} in: {text}")))
}

/// Returns a consumer of one call's updates, which fails at each if `step` requires that, and their receiver.
pub fn consumer(
    step: &Step,
) -> (
    impl Fn(&str) + Send + Sync + 'static,
    UnboundedReceiver<String>,
) {
    let (reported, received) = mpsc::unbounded_channel();
    let fails = step.updates_fail;
    let take = move |update: &str| {
        let _ = reported.send(update.to_owned());
        if fails {
            // A panic without output, which the library has to catch.
            panic::resume_unwind(Box::new("the consumer fails"));
        }
    };
    (take, received)
}

/// Waits for the envelope of a call and passes on its updates when they arrive.
///
/// # Errors
/// The answer of the implementation is invalid.
pub async fn followed(
    envelope: impl Future<Output = String>,
    mut received: UnboundedReceiver<String>,
    on_update: &mut (dyn FnMut(Value) + Send),
) -> Result<Value, Failure> {
    tokio::pin!(envelope);
    let envelope = loop {
        tokio::select! {
            biased;
            Some(update) = received.recv() => on_update(read(&update)?),
            envelope = &mut envelope => break envelope,
        }
    };
    while let Ok(update) = received.try_recv() {
        on_update(read(&update)?);
    }
    read(&envelope)
}
