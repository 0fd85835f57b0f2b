//! The strict expectations of fixtures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::case::{Case, Places};
use super::compare::{check, check_at};
use super::peers::{Peers, Recorded};

/// The outcome of one request, unchanged except for the names of handles and peers.
pub(super) struct Outcome {
    pub(super) envelope: Value,
    pub(super) updates: Vec<Value>,
    pub(super) took: Duration,
}

/// Checks the expectations of request `index`.
pub(super) fn of_request(case: &Case, index: usize, outcome: &Outcome) -> Result<(), String> {
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
pub(super) fn of_peers(case: &Case, peers: &Peers) -> Result<(), String> {
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
pub(super) fn of_log(case: &Case, log: Option<&[(String, String)]>) -> Result<(), String> {
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
