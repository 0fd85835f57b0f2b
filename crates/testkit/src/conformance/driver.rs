//! The interface of an implementation under test.

use std::future::Future;
use std::panic;

use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::case::Step;

/// One implementation of `remote_agent`, driven from outside. A value runs one case.
///
/// Calls may overlap: where a case says so, several [`execute`](Driver::execute) run at once.
pub trait Driver: Send + Sync {
    /// Starts an instance with `config`, in place of any earlier one.
    fn init(&self, config: &Value) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Returns the config with its defaults.
    fn parse_config(&self, config: &Value) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// Returns `{name, label, description, parameters}` of the instance.
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

    /// Returns the log as level and line; `None` if the driver has no access to it.
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

impl Failure {
    /// The config was refused, with this error as JSON.
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

/// Returns a consumer of one call's updates, which fails at each where `step` says so, and where they can be read.
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
            // A panic as the library sees it. Nothing is printed about this one.
            panic::resume_unwind(Box::new("the consumer fails"));
        }
    };
    (take, received)
}

/// Waits for the envelope of a call and hands on its updates as they come.
///
/// # Errors
/// The implementation answered nonsense.
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
