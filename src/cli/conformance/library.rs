//! The library behind the Rust door, as the runner of cases drives it.

use std::{
    panic,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use openclaw_remote_agent_interface::log_to;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::door::{Door, Instance},
    conformance::{Driver, Failure, Step},
};

/// One instance of the library.
pub(super) struct Library {
    door: Door,
    instance: Mutex<Option<Instance>>,
    log: Arc<Mutex<Vec<(String, String)>>>,
}

impl Library {
    pub(super) fn new(door: Door) -> Self {
        Self {
            door,
            instance: Mutex::default(),
            log: Arc::default(),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Instance) -> T) -> Result<T, Failure> {
        let instance = lock(&self.instance);
        let instance = instance.as_ref();
        instance
            .map(act)
            .ok_or_else(|| Failure::Broken("there is no instance".to_owned()))
    }
}

impl Driver for Library {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        lock(&self.instance).take();
        let log = Arc::clone(&self.log);
        let log = log_to(move |level, line| lock(&log).push((level.to_owned(), line.to_owned())));
        let made = self.door.instance_with(&config.to_string(), log);
        *lock(&self.instance) = Some(made.map_err(|error| refused(&error))?);
        Ok(())
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        let parsed = self.door.parse_config(&config.to_string());
        json(&parsed.map_err(|error| refused(&error))?)
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        json(&self.with(Instance::definition)?)
    }

    async fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let (told, mut heard) = mpsc::unbounded_channel();
        let fails = step.updates_fail;
        let take = move |update: &str| {
            let _ = told.send(update.to_owned());
            if fails {
                // A panic as the library sees it. Nothing is printed about this one.
                panic::resume_unwind(Box::new("the consumer fails"));
            }
        };
        let request = request.to_string();
        let running = self.with(|instance| instance.execute(&request, None, Some(take)))?;
        let stop = async {
            abort.cancelled().await;
            true
        };
        let envelope = running.cancelled_by(stop);
        tokio::pin!(envelope);
        let envelope = loop {
            tokio::select! {
                biased;
                Some(update) = heard.recv() => on_update(json(&update)?),
                envelope = &mut envelope => break envelope,
            }
        };
        while let Ok(update) = heard.try_recv() {
            on_update(json(&update)?);
        }
        json(&envelope)
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        Some(lock(&self.log).clone())
    }
}

fn refused(error: &str) -> Failure {
    json(error).map_or_else(|failure| failure, Failure::Refused)
}

fn json(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::Broken(format!("{error} in: {text}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
