//! One fixture: a config, scripted peers, requests, and the expected results. Checks its strict expectations.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::compare::{check, check_at};
use super::peers::{Peers, Recorded};

/// Matchers by JSON Pointer.
pub type Places = Map<String, Value>;

/// A parsed case file; `fixtures/README.md` describes each field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The file's name without its ending.
    pub name: String,
    /// The behaviour that the case shows, in one sentence.
    pub description: String,
    /// The plugin's config, with `{{origin:NAME}}` and `{{port:NAME}}`.
    pub config: Value,
    /// Whether the runner's own config is merged over `config`.
    #[serde(default = "yes")]
    pub overlay: bool,
    /// The peers.
    #[serde(default = "no_peers")]
    pub mock_script: Value,
    /// Tool inputs, run in order against one instance.
    #[serde(default)]
    pub requests: Vec<Value>,
    /// The options of each request.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// One envelope for each request, compared in what the contract fixes; `null` is not compared.
    #[serde(default)]
    pub expected: Vec<Value>,
    /// The updates of each request, compared the same way; an empty list is not compared.
    #[serde(default)]
    pub updates: Vec<Vec<Value>>,
    /// The requests that each peer received, compared only with [`Options::wire`](super::Options).
    pub wire: Option<Value>,
    /// The expected refusal of the config: `true`, or matchers for it.
    pub init_error: Option<Value>,
    /// The result of `parse_config`, or `{"init_error": …}`.
    pub parsed_config: Option<Value>,
    /// The tool's definition.
    pub tool_definition: Option<Value>,
    /// Matchers for each envelope.
    #[serde(default)]
    pub expect_contains: Vec<Option<Places>>,
    /// The places that each envelope must lack.
    #[serde(default)]
    pub expect_absent: Vec<Option<Vec<String>>>,
    /// Matchers for the list of each request's updates.
    #[serde(default)]
    pub expect_updates: Vec<Option<Places>>,
    /// A number or a matcher for the count of each request's updates.
    #[serde(default)]
    pub expect_updates_count: Vec<Option<Value>>,
    /// Milliseconds that each request may take.
    #[serde(default)]
    pub expect_within_ms: Vec<Option<u64>>,
    /// By peer: how many requests of `METHOD /path`, of a JSON-RPC method, or (`*`) in all.
    #[serde(default)]
    pub expect_requests: BTreeMap<String, BTreeMap<String, Value>>,
    /// By peer: matchers for the list of requests it received, as `{method, path, headers, body}`.
    #[serde(default)]
    pub expect_received: BTreeMap<String, Places>,
    /// By peer: how many connections it accepted.
    #[serde(default)]
    pub expect_connections: BTreeMap<String, Value>,
    /// By level: how many lines the implementation may log in the whole case.
    #[serde(default)]
    pub expect_log_lines: BTreeMap<String, Value>,
    /// The texts that no envelope, update, refusal, definition or log line may contain.
    #[serde(default)]
    pub expect_nowhere: Vec<String>,
    #[serde(default, rename = "record_parsed_config")]
    _record_parsed_config: bool,
    #[serde(default, rename = "record_tool_definition")]
    _record_tool_definition: bool,
}

/// The options of one request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// Milliseconds to wait first.
    pub sleep_before_ms: u64,
    /// The caller cancels after this time, in milliseconds.
    pub abort_after_ms: Option<u64>,
    /// By peer: the number of requests in the whole case after which the caller cancels.
    pub abort_after_requests: BTreeMap<String, usize>,
    /// The number of updates after which the caller cancels.
    pub abort_after_updates: Option<usize>,
    /// The caller's consumer of updates fails at the first one.
    pub updates_fail: bool,
    /// The next request starts at the same time.
    pub with_next: bool,
}

impl Case {
    /// Reads a case file.
    ///
    /// # Errors
    /// A sentence about the fault: the file, its JSON, an unknown field, or lists of unequal length.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes =
            std::fs::read(path).map_err(|error| format!("cannot read the case: {error}"))?;
        let case: Self = serde_json::from_slice(&bytes)
            .map_err(|error| format!("cannot parse the case: {error}"))?;
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        if case.name != stem {
            return Err(format!(
                "the name `{}` of the case differs from the file name `{stem}`",
                case.name
            ));
        }
        case.check()?;
        Ok(case)
    }

    /// Returns the options of request `index`.
    pub fn step(&self, index: usize) -> Step {
        self.steps.get(index).cloned().unwrap_or_default()
    }

    /// Returns whether the case compares answers with recorded ones.
    pub(super) fn is_recorded(&self) -> bool {
        !self.expected.is_empty() || !self.updates.is_empty()
    }

    /// Checks that no list has more entries than there are requests, and no strict list fewer.
    fn check(&self) -> Result<(), String> {
        let count = self.requests.len();
        let strict = [
            ("expected", self.expected.len()),
            ("expect_contains", self.expect_contains.len()),
            ("expect_absent", self.expect_absent.len()),
            ("expect_updates", self.expect_updates.len()),
            ("expect_updates_count", self.expect_updates_count.len()),
            ("expect_within_ms", self.expect_within_ms.len()),
        ];
        for (name, length) in strict {
            if length != 0 && length != count {
                return Err(format!(
                    "`{name}` has {length} entries beside {count} requests"
                ));
            }
        }
        if self.steps.len() > count || self.updates.len() > count {
            return Err(format!(
                "`steps` or `updates` has more entries than the {count} requests"
            ));
        }
        let expects_rejection = self.init_error.is_some()
            || self.parsed_config.is_some()
            || self.tool_definition.is_some();
        let looks = !self.expected.is_empty() || !self.expect_contains.is_empty();
        if !expects_rejection && !looks {
            return Err("the case expects nothing".to_owned());
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}

fn no_peers() -> Value {
    json!({"peers": {}})
}

/// The outcome of one request, unchanged except for the names of handles and peers.
pub(super) struct Outcome {
    pub(super) envelope: Value,
    pub(super) updates: Vec<Value>,
    pub(super) took: Duration,
}

/// Checks the expectations of request `index`.
pub(super) fn check_request(case: &Case, index: usize, outcome: &Outcome) -> Result<(), String> {
    if let Some(Some(places)) = case.expect_contains.get(index) {
        all(&outcome.envelope, places)?;
    }
    for place in case
        .expect_absent
        .get(index)
        .into_iter()
        .flatten()
        .flatten()
    {
        check_at(&outcome.envelope, place, &json!({"$absent": true}))?;
    }
    if let Some(Some(places)) = case.expect_updates.get(index) {
        all(&Value::from(outcome.updates.clone()), places)
            .map_err(|reason| format!("updates {reason}"))?;
    }
    if let Some(Some(count)) = case.expect_updates_count.get(index) {
        check(Some(&outcome.updates.len().into()), count)
            .map_err(|reason| format!("the count of updates: {reason}"))?;
    }
    if let Some(Some(limit)) = case.expect_within_ms.get(index)
        && outcome.took > Duration::from_millis(*limit)
    {
        return Err(format!(
            "took {} ms, at most {limit} are allowed",
            outcome.took.as_millis()
        ));
    }
    Ok(())
}

/// Checks the expectations of the peers after the last request.
pub(super) fn check_peers(case: &Case, peers: &Peers) -> Result<(), String> {
    for (name, counts) in &case.expect_requests {
        check_peer_exists(peers, name)?;
        requests(&peers.log(name), counts).map_err(|reason| format!("peer `{name}`: {reason}"))?;
    }
    for (name, places) in &case.expect_received {
        check_peer_exists(peers, name)?;
        let log: Value = peers.log(name).iter().map(Recorded::to_json).collect();
        all(&log, places).map_err(|reason| format!("peer `{name}`: {reason}"))?;
    }
    for (name, count) in &case.expect_connections {
        check_peer_exists(peers, name)?;
        check(Some(&peers.connections(name).into()), count)
            .map_err(|reason| format!("peer `{name}`: connections: {reason}"))?;
    }
    Ok(())
}

/// Checks the expectations of the log.
pub(super) fn check_log(case: &Case, log: Option<&[(String, String)]>) -> Result<(), String> {
    let lines = log.unwrap_or_default();
    lines
        .iter()
        .try_for_each(|(_, line)| check_no_answer(case, &Value::from(line.as_str())))?;
    if log.is_none() && !case.expect_log_lines.is_empty() {
        return Err(
            "the case counts log lines, but the driver has no access to the log".to_owned(),
        );
    }
    for (level, expected) in &case.expect_log_lines {
        let of_level: Vec<&str> = lines
            .iter()
            .filter(|(of, _)| of == level)
            .map(|(_, line)| line.as_str())
            .collect();
        check(Some(&of_level.len().into()), expected)
            .map_err(|reason| format!("log lines of level `{level}`: {reason}: {of_level:?}"))?;
    }
    Ok(())
}

/// Checks that an envelope contains none of the forbidden texts.
pub(super) fn check_no_answer(case: &Case, reported: &Value) -> Result<(), String> {
    let reported = reported.to_string();
    match case
        .expect_nowhere
        .iter()
        .find(|text| reported.contains(text.as_str()))
    {
        Some(text) => Err(format!("`{text}` must not appear: {reported}")),
        None => Ok(()),
    }
}

fn all(value: &Value, places: &Places) -> Result<(), String> {
    places
        .iter()
        .try_for_each(|(pointer, matcher)| check_at(value, pointer, matcher))
}

fn requests(log: &[Recorded], counts: &BTreeMap<String, Value>) -> Result<(), String> {
    for (what, expected) in counts {
        let count = log.iter().filter(|request| is(request, what)).count();
        check(Some(&count.into()), expected)
            .map_err(|reason| format!("requests of `{what}`: {reason}"))?;
    }
    Ok(())
}

/// Returns whether a request matches `*`, `METHOD /path`, or a JSON-RPC method.
fn is(request: &Recorded, what: &str) -> bool {
    match what.split_once(' ') {
        Some((method, path)) => {
            request.method == method && request.path.split('?').next() == Some(path)
        }
        None => what == "*" || request.rpc_method() == Some(what),
    }
}

fn check_peer_exists(peers: &Peers, name: &str) -> Result<(), String> {
    if peers.origins().contains_key(name) {
        Ok(())
    } else {
        Err(format!("no peer is named `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn case(value: Value) -> Result<Case, String> {
        let case: Case = serde_json::from_value(value).map_err(|error| error.to_string())?;
        case.check().map(|()| case)
    }

    #[test]
    fn refuses_case_without_expectations() {
        let problem = case(json!({"name": "a", "description": "", "config": {}, "requests": [{}]}))
            .unwrap_err();
        assert_eq!(problem, "the case expects nothing");
    }

    #[test]
    fn lists_beside_the_requests_have_their_length() {
        let short = json!({"name": "a", "description": "", "config": {}, "requests": [{}, {}], "expect_contains": [{"/ok": true}]});
        assert!(
            case(short)
                .unwrap_err()
                .contains("1 entries beside 2 requests")
        );
    }

    #[test]
    fn misspelled_field_is_refused() {
        let unknown_field = json!({"name": "a", "description": "", "config": {}, "init_error": true, "expect_contain": []});
        assert!(case(unknown_field).unwrap_err().contains("expect_contain"));
    }
}
