//! The plugin in this process, as the runner of recorded cases drives it. Every envelope and update is held against the schema of results.

use std::{
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use jsonschema::Validator;
use openclaw_remote_agent::{
    conformance::{Driver, Failure, Step},
    log::{Level, Log},
    plugin::{self, Job, Plugin},
    validation,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::json as read_json;

static RESULT: LazyLock<Validator> =
    LazyLock::new(|| validation::compile_value(&read_json("schema/result.schema.json")).unwrap());
/// `raw` of a result that followed a stream. The schema of results cannot tell it from an answer that looks alike.
static FOLLOWED: LazyLock<Validator> = LazyLock::new(|| {
    let mut schema = read_json("schema/result.schema.json");
    schema.as_object_mut().unwrap().remove("oneOf");
    schema["$ref"] = json!("#/definitions/followed");
    validation::compile_value(&schema).unwrap()
});

/// Of a long stream's updates so many of the first and the last are held against the schema: those between them are alike.
const SOME: usize = 50;

/// How a violation of the schema begins.
pub(crate) const VIOLATION: &str = "not by schema/result.schema.json";

/// One instance at a time.
#[derive(Default)]
pub(crate) struct InProcess {
    plugin: Mutex<Option<Arc<Plugin>>>,
    log: Arc<Lines>,
}

#[derive(Default)]
struct Lines(Mutex<Vec<(String, String)>>);

impl Log for Lines {
    fn log(&self, level: Level, line: &str) {
        lock(&self.0).push((level.as_str().to_owned(), line.to_owned()));
    }
}

impl InProcess {
    /// An instance with this configuration.
    pub(crate) fn started(config: &Value) -> Self {
        let this = Self::default();
        this.start(config)
            .unwrap_or_else(|refused| panic!("{refused:?}"));
        this
    }

    /// Runs a request to its end.
    pub(crate) async fn call(&self, request: &Value) -> Value {
        self.execute(request, Step::default(), &mut |_| {})
            .await
            .unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    fn start(&self, config: &Value) -> Result<(), Failure> {
        // The old one closes first, as in a host.
        lock(&self.plugin).take();
        let log: Arc<dyn Log> = Arc::clone(&self.log) as _;
        let made = Plugin::new(&config.to_string(), log);
        let plugin = made.map_err(|error| refused(&error.to_json()))?;
        *lock(&self.plugin) = Some(Arc::new(plugin));
        Ok(())
    }

    fn plugin(&self) -> Arc<Plugin> {
        lock(&self.plugin).clone().expect("an instance")
    }
}

impl Driver for InProcess {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        self.start(config)
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        let parsed = plugin::parse_config(&config.to_string());
        parsed
            .map(|parsed| parse(&parsed))
            .map_err(|error| refused(&error.to_json()))
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        Ok(parse(&self.plugin().definition()))
    }

    async fn execute(
        &self,
        request: &Value,
        step: Step,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let updates = {
            let told = Arc::clone(&told);
            move |update: &str| {
                lock(&told).push(parse(update));
                assert!(!step.updates_fail, "this consumer of updates fails");
            }
        };
        let cancel = CancellationToken::new();
        let call = self.plugin().start(Job {
            request: request.to_string(),
            caller: None,
            updates: Some(Arc::new(updates)),
            cancel: cancel.clone(),
        });
        let give_up = async {
            match step.abort_after_ms {
                Some(after) => tokio::time::sleep(Duration::from_millis(after)).await,
                None => std::future::pending().await,
            }
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let envelope = tokio::select! {
            envelope = call => parse(&envelope),
            () = give_up => unreachable!("giving up only cancels"),
        };
        let told = std::mem::take(&mut *lock(&told));
        let count = told.len();
        for (index, update) in told.into_iter().enumerate() {
            if index < SOME || index + SOME >= count {
                fits(&RESULT, &update)?;
            }
            on_update(update);
        }
        fits(&RESULT, &envelope)?;
        if envelope["ok"] == true && request["follow_updates"] == true {
            fits(&FOLLOWED, &envelope["raw"])?;
        }
        Ok(envelope)
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        Some(lock(&self.log.0).clone())
    }
}

/// Holds a value against a schema.
fn fits(schema: &Validator, value: &Value) -> Result<(), Failure> {
    if schema.is_valid(value) {
        return Ok(());
    }
    let (complaints, _) = validation::complaints(schema, value);
    let complaints: Vec<String> = complaints
        .iter()
        .map(|wrong| {
            format!(
                "{} {} ({})",
                wrong["instancePath"], wrong["message"], wrong["schemaPath"]
            )
        })
        .collect();
    Err(Failure::Broken(format!(
        "{VIOLATION}: {}\n{value}",
        complaints.join("; ")
    )))
}

/// Whether an envelope or update is as the schema of results says.
pub(crate) fn check_result(value: &Value) {
    fits(&RESULT, value).unwrap_or_else(|failure| panic!("{failure:?}"));
}

fn refused(error: &str) -> Failure {
    Failure::Refused(parse(error))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
