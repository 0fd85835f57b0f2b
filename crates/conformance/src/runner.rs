//! Runs one case against a driver.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::case::{self, Outcome};
use super::case::{Case, Step};
use super::compare::{
    Normaliser, Subset, check_at, compare_error_locations, definition, envelope, update, wire,
};
use super::driver::{Driver, Failure};
use super::peers::{Peers, Recorded, lookup_origin};
use super::refs;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The settings to merge over the config of every case with `overlay`.
    pub overlay: Value,
    /// Whether to compare the requests that the peers received, too.
    pub wire: bool,
    /// The timeout of one call.
    pub call_limit: Duration,
    /// Runs only cases whose name contains this.
    pub filter: Option<String>,
    /// The number of concurrent cases.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            overlay: serde_json::json!({"policy": {"allowPrivateTargetUrls": true}, "toolSchema": "full"}),
            wire: false,
            call_limit: Duration::from_secs(30),
            filter: None,
            jobs: 4,
        }
    }
}

impl Options {
    /// Returns whether the filter selects the case of this name.
    pub fn selects(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|part| name.contains(part))
    }
}

/// Runs a case with its peers.
///
/// # Errors
/// A sentence about the first violated expectation.
pub async fn run_case<D: Driver>(case: &Case, driver: &D, options: &Options) -> Result<(), String> {
    let peers = Peers::start(&case.mock_script)
        .await
        .map_err(|error| format!("the peers cannot start: {error}"))?;
    let origins = peers.origins().clone();
    let normaliser = Normaliser::new(&origins);
    Run {
        case,
        driver,
        options,
        peers,
        origins,
        normaliser,
        subset: Subset::default(),
    }
    .all()
    .await
}

struct Run<'a, D> {
    case: &'a Case,
    driver: &'a D,
    options: &'a Options,
    peers: Peers,
    origins: BTreeMap<String, String>,
    normaliser: Normaliser,
    subset: Subset,
}

/// The result of one request.
struct Answer {
    envelope: Value,
    updates: Vec<Value>,
    took: Duration,
}

impl<D: Driver> Run<'_, D> {
    async fn all(mut self) -> Result<(), String> {
        let config = self.filled(&self.case.config);
        self.parse(&config).await?;
        let laid = if self.case.overlay && config.is_object() {
            merged(&config, &self.options.overlay)
        } else {
            config
        };
        let started = self.limited(self.driver.init(&laid)).await?;
        if let Some(expected) = &self.case.init_error {
            return self.check_init_error(expected, started);
        }
        started.map_err(|failure| reported("cannot start with the config", &failure))?;
        self.definition().await?;
        let mut results = Vec::new();
        while results.len() < self.case.requests.len() {
            let answers = self.group(&results).await?;
            for answer in answers {
                let index = results.len();
                self.judge(index, &answer)
                    .map_err(|error| format!("request {index}: {error}"))?;
                results.push(answer.envelope);
            }
        }
        case::check_peers(self.case, &self.peers)?;
        case::check_log(self.case, self.driver.log().as_deref())?;
        self.wire()
    }

    async fn parse(&mut self, config: &Value) -> Result<(), String> {
        let Some(expected) = &self.case.parsed_config else {
            return Ok(());
        };
        let parsed = self.limited(self.driver.parse_config(config)).await?;
        match parsed {
            Err(Failure::Refused(_)) if expected.get("init_error").is_some() => Ok(()),
            Ok(_) if expected.get("init_error").is_some() => {
                Err("the config should have been refused".to_owned())
            }
            Ok(parsed) => {
                let parsed = self.normaliser.full(&parsed);
                self.subset
                    .compare(expected, Some(&parsed), "/parsed_config")
            }
            Err(failure) => Err(reported("cannot parse the config", &failure)),
        }
    }

    fn check_init_error(
        &mut self,
        expected: &Value,
        started: Result<(), Failure>,
    ) -> Result<(), String> {
        match started {
            Ok(()) => Err("the config should have been refused".to_owned()),
            Err(Failure::Refused(error)) => {
                let error = self.normaliser.names(&error);
                case::check_no_answer(self.case, &error)?;
                let mut places = expected.as_object().into_iter().flatten();
                places.try_for_each(|(pointer, matcher)| check_at(&error, pointer, matcher))
            }
            Err(failure) => Err(reported("cannot read the config", &failure)),
        }
    }

    async fn definition(&mut self) -> Result<(), String> {
        if self.case.tool_definition.is_none() && self.case.expect_nowhere.is_empty() {
            return Ok(());
        }
        let defined = self.limited(self.driver.tool_definition()).await?;
        let answer = defined.map_err(|failure| reported("no definition of the tool", &failure))?;
        case::check_no_answer(self.case, &answer)?;
        match &self.case.tool_definition {
            Some(expected) => {
                let answer = definition(&self.normaliser.full(&answer));
                self.subset
                    .compare(&definition(expected), Some(&answer), "/tool_definition")
            }
            None => Ok(()),
        }
    }

    /// Returns the next request, and those that start with it.
    async fn group(&self, results: &[Value]) -> Result<Vec<Answer>, String> {
        let first = results.len();
        let mut last = first;
        while last + 1 < self.case.requests.len() && self.case.step(last).with_next {
            last += 1;
        }
        let calls = (first..=last).map(|index| async move {
            let answer = self.call(index, results).await;
            answer.map_err(|error| format!("request {index}: {error}"))
        });
        join_all(calls).await.into_iter().collect()
    }

    async fn call(&self, index: usize, results: &[Value]) -> Result<Answer, String> {
        let step = self.case.step(index);
        if step.sleep_before_ms > 0 {
            sleep(Duration::from_millis(step.sleep_before_ms)).await;
        }
        let request = refs::resolve(&self.filled(&self.case.requests[index]), results);
        let mut updates = Vec::new();
        let abort = CancellationToken::new();
        let mut keep = |reported: Value| {
            updates.push(reported);
            if step.abort_after_updates == Some(updates.len()) {
                abort.cancel();
            }
        };
        let call = self
            .driver
            .execute(&request, &step, abort.clone(), &mut keep);
        let before = Instant::now();
        let envelope_result = tokio::select! {
            envelope_result = self.limited(call) => envelope_result?,
            never = self.abort_on_condition(&step, &abort) => match never {},
        };
        let took = before.elapsed();
        let envelope = envelope_result.map_err(|failure| reported("no envelope", &failure))?;
        Ok(Answer {
            envelope,
            updates,
            took,
        })
    }

    /// Cancels `abort` when the step's time is up or its peers have their requests.
    async fn abort_on_condition(&self, step: &Step, abort: &CancellationToken) -> Infallible {
        let time = step.abort_after_ms.map(Duration::from_millis);
        let time_is_up = async {
            match time {
                Some(time) => sleep(time).await,
                None => pending().await,
            }
        };
        let requests_came = async {
            for (name, count) in &step.abort_after_requests {
                self.peers.wait_for(name, *count).await;
            }
            if step.abort_after_requests.is_empty() {
                pending().await
            }
        };
        tokio::select! {
            () = time_is_up => {}
            () = requests_came => {}
        }
        abort.cancel();
        pending().await
    }

    fn judge(&mut self, index: usize, answer: &Answer) -> Result<(), String> {
        // Updates precede the result, so their handles get names first.
        if self.case.is_recorded() {
            let updates: Vec<Value> = answer
                .updates
                .iter()
                .map(|reported| self.normaliser.full(reported))
                .collect();
            let result = self.normaliser.full(&answer.envelope);
            self.recorded(index, &result, &updates)?;
        }
        let outcome = Outcome {
            envelope: self.normaliser.names(&answer.envelope),
            updates: answer
                .updates
                .iter()
                .map(|reported| self.normaliser.names(reported))
                .collect(),
            took: answer.took,
        };
        case::check_no_answer(self.case, &answer.envelope)?;
        answer
            .updates
            .iter()
            .try_for_each(|reported| case::check_no_answer(self.case, reported))?;
        case::check_request(self.case, index, &outcome)
    }

    fn recorded(&mut self, index: usize, result: &Value, updates: &[Value]) -> Result<(), String> {
        if let Some(expected) = self.case.expected.get(index).filter(|e| !e.is_null()) {
            compare_error_locations(expected, result)?;
            self.subset
                .compare(&envelope(expected), Some(&envelope(result)), "")?;
        }
        if let Some(recorded) = self.case.updates.get(index).filter(|r| !r.is_empty()) {
            let recorded = recorded.iter().map(update).collect();
            let updates = updates.iter().map(update).collect();
            self.subset.compare(&recorded, Some(&updates), "/updates")?;
        }
        Ok(())
    }

    fn wire(&mut self) -> Result<(), String> {
        let Some(recorded) = self.case.wire.as_ref().filter(|_| self.options.wire) else {
            return Ok(());
        };
        let log: Map<String, Value> = self
            .origins
            .keys()
            .map(|name| {
                (
                    name.clone(),
                    self.peers.log(name).iter().map(Recorded::to_json).collect(),
                )
            })
            .collect();
        let log = self.normaliser.full(&Value::Object(log));
        self.subset
            .compare(&wire(recorded), Some(&wire(&log)), "/wire")
    }

    fn filled(&self, value: &Value) -> Value {
        refs::fill_value(value, &|name| lookup_origin(&self.origins, name))
    }

    async fn limited<T>(&self, call: impl Future<Output = T>) -> Result<T, String> {
        let limit = self.options.call_limit;
        timeout(limit, call)
            .await
            .map_err(|_| format!("no answer within {} s", limit.as_secs_f32()))
    }
}

fn reported(what: &str, failure: &Failure) -> String {
    match failure {
        Failure::Refused(error) => format!("{what}: {error}"),
        Failure::Broken(error) => format!("{what}: the implementation broke: {error}"),
    }
}

/// Merges `over` into `under`, object by object.
fn merged(under: &Value, over: &Value) -> Value {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            let mut all = under.clone();
            for (key, value) in over {
                let laid = merged(under.get(key).unwrap_or(&Value::Null), value);
                all.insert(key.clone(), laid);
            }
            Value::Object(all)
        }
        // An object replaces a value of another type.
        (_, over) => over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overlay_merges_objects_and_replaces_the_rest() {
        let under = json!({"a": {"b": 1, "c": [1, 2]}, "d": 2});
        let over = json!({"a": {"c": [3]}, "e": {"f": 4}, "d": {"g": 5}});
        assert_eq!(
            merged(&under, &over),
            json!({"a": {"b": 1, "c": [3]}, "d": {"g": 5}, "e": {"f": 4}})
        );
    }
}
