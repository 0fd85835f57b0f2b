//! The plugin in this process, as a driver of recorded cases. Validates every envelope and update against the schema of
//! results.

use std::collections::VecDeque;
use std::sync::LazyLock;

use base::validation;
use jsonschema::Validator;
use serde_json::{Value, json};
use testkit::conformance::{Driver, Failure, Step};
use tokio_util::sync::CancellationToken;

use crate::contract::{json as read_json, unchecked};

static RESULT: LazyLock<Validator> =
    LazyLock::new(|| validation::compile_value(&read_json("schema/result.schema.json")).unwrap());
/// `raw` of a result that followed a stream. The schema of results cannot distinguish it from a similar answer.
static FOLLOWED: LazyLock<Validator> = LazyLock::new(|| {
    let mut schema = read_json("schema/result.schema.json");
    schema.as_object_mut().unwrap().remove("oneOf");
    schema["$ref"] = json!("#/definitions/followed");
    validation::compile_value(&schema).unwrap()
});

/// The number of first and last updates of a long stream to validate. Those between them are alike.
const SOME: usize = 50;

/// The prefix of a violation of the schema.
pub(crate) const VIOLATION: &str = "not by schema/result.schema.json";

/// One instance at a time.
#[derive(Default)]
pub(crate) struct InProcess(unchecked::InProcess);

impl InProcess {
    /// Returns an instance with this configuration.
    pub(crate) async fn started(config: &Value) -> Self {
        let this = Self::default();
        let started = this.init(config).await;
        started.unwrap_or_else(|refused| panic!("{refused:?}"));
        this
    }

    /// Runs a request to its end.
    pub(crate) async fn call(&self, request: &Value) -> Value {
        self.execute(
            request,
            &Step::default(),
            CancellationToken::new(),
            &mut |_| {},
        )
        .await
        .unwrap_or_else(|failure| panic!("{failure:?}"))
    }
}

impl Driver for InProcess {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        self.0.init(config).await
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        self.0.parse_config(config).await
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        self.0.tool_definition().await
    }

    async fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let (mut count, mut last) = (0, VecDeque::new());
        let mut first = Ok(());
        let mut take = |update: Value| {
            if count < SOME {
                first = first.clone().and_then(|()| fits(&RESULT, &update));
            } else {
                last.push_back(update.clone());
            }
            if last.len() > SOME {
                last.pop_front();
            }
            count += 1;
            on_update(update);
        };
        let envelope = self.0.execute(request, step, abort, &mut take).await?;
        first?;
        last.iter().try_for_each(|update| fits(&RESULT, update))?;
        fits(&RESULT, &envelope)?;
        if envelope["ok"] == true && request["follow_updates"] == true {
            fits(&FOLLOWED, &envelope["raw"])?;
        }
        Ok(envelope)
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        self.0.log()
    }
}

/// Validates a value against a schema.
fn fits(schema: &Validator, value: &Value) -> Result<(), Failure> {
    if schema.is_valid(value) {
        return Ok(());
    }
    let (violations, _) = validation::violations(schema, value);
    let violations: Vec<String> = violations
        .iter()
        .map(|error| {
            format!(
                "{} {} ({})",
                error["instancePath"], error["message"], error["schemaPath"]
            )
        })
        .collect();
    Err(Failure::Broken(format!(
        "{VIOLATION}: {}\n{value}",
        violations.join("; ")
    )))
}

/// Validates an envelope or update against the schema of results.
pub(crate) fn check_result(value: &Value) {
    fits(&RESULT, value).unwrap_or_else(|failure| panic!("{failure:?}"));
}
