//! The plugin, linked into the test, with its log lines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::log::{Level, Log};
use openclaw_remote_agent::plugin::{self, CallInput, Plugin};
use serde_json::Value;
use testkit::conformance::{Driver, Failure, Step, driver};
use tokio_util::sync::CancellationToken;

/// A log that records its lines.
#[derive(Default)]
pub(crate) struct RecordedLog(Mutex<Vec<(String, String)>>);

impl RecordedLog {
    /// Returns the level and text of each line so far.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        lock(&self.0).clone()
    }
}

impl Log for RecordedLog {
    fn log(&self, level: Level, line: &str) {
        lock(&self.0).push((level.as_str().to_owned(), line.to_owned()));
    }
}

/// One configured instance for a case.
#[derive(Default)]
pub(crate) struct InProcess {
    plugin: Mutex<Option<Arc<Plugin>>>,
    log: Arc<RecordedLog>,
}

impl InProcess {
    fn plugin(&self) -> Result<Arc<Plugin>, Failure> {
        let plugin = lock(&self.plugin).clone();
        plugin.ok_or_else(|| Failure::Broken("there is no instance".to_owned()))
    }
}

impl Driver for InProcess {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        let made = Plugin::new(&config.to_string(), Arc::clone(&self.log) as Arc<dyn Log>);
        let plugin = made.map_err(|error| Failure::refused(&error.to_json()))?;
        *lock(&self.plugin) = Some(Arc::new(plugin));
        Ok(())
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        let parsed = plugin::parse_config(&config.to_string());
        driver::read(&parsed.map_err(|error| Failure::refused(&error.to_json()))?)
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        driver::read(&self.plugin()?.definition())
    }

    async fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let (take, received) = driver::consumer(step);
        let envelope = self.plugin()?.start(CallInput {
            request: request.to_string(),
            updates: Some(Arc::new(take)),
            cancel: abort,
            ..CallInput::default()
        });
        driver::followed(envelope, received, on_update).await
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        Some(self.log.lines())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
