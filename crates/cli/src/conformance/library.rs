//! Drives the library through its Rust interface in the conformance runner.

use std::sync::Arc;

use openclaw_remote_agent_interface::log_to;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::instance::{Instance, Library};
use conformance::{Driver, Failure, Step, driver};

/// One instance of the library.
pub(super) struct InProcessDriver {
    library: Library,
    instance: Mutex<Option<Instance>>,
    log: Arc<Mutex<Vec<(String, String)>>>,
}

impl InProcessDriver {
    pub(super) fn new(library: Library) -> Self {
        Self {
            library,
            instance: Mutex::default(),
            log: Arc::default(),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Instance) -> T) -> Result<T, Failure> {
        let instance = self.instance.lock();
        let instance = instance.as_ref();
        instance
            .map(act)
            .ok_or_else(|| Failure::Broken("there is no instance".to_owned()))
    }
}

impl Driver for InProcessDriver {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        self.instance.lock().take();
        let log = Arc::clone(&self.log);
        let log = log_to(move |level, line| log.lock().push((level.to_owned(), line.to_owned())));
        let made = self.library.instance_with(&config.to_string(), log);
        *self.instance.lock() = Some(made.map_err(|error| Failure::refused(&error))?);
        Ok(())
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        let parsed = self.library.parse_config(&config.to_string());
        driver::read(&parsed.map_err(|error| Failure::refused(&error))?)
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        driver::read(&self.with(Instance::definition)?)
    }

    async fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let (take, received) = driver::consumer(step);
        let request = request.to_string();
        let running = self.with(|instance| instance.execute(&request, None, Some(take)))?;
        let stop = async {
            abort.cancelled().await;
            true
        };
        let envelope = running.run_until(stop);
        driver::followed(envelope, received, on_update).await
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        Some(self.log.lock().clone())
    }
}
