//! Checks the invariants.

use std::time::Duration;

use serde_json::{Value, json};

use super::instance::{INSTANCES, start_instance};
use super::random::Random;
use super::world::Attempt;
use super::{Call, Known, Simulation};

/// The maximum time that a server lets a task run, with a margin.
const MAX_RUN: Duration = Duration::from_secs(299);

impl Simulation {
    /// Checks that the network carried no message twice, and that the delivery status in an error is correct.
    pub(super) fn check_sent(&self, id: &str, envelope: &Value) {
        let error = &envelope["error"];
        let delivered = error["details"]["delivered"].as_str().unwrap_or_default();
        let claim = if envelope["ok"] == true {
            "yes"
        } else {
            delivered
        };
        if error["retryable"] == true && delivered != "no" {
            let violation = format!("{id} is retryable, and delivered `{delivered}`: {error}");
            self.world.violation(violation);
        }
        self.claims
            .lock()
            .unwrap()
            .push((id.to_owned(), claim.to_owned()));
    }

    /// Checks that a lost connection does not end a followed task.
    pub(super) fn check_followed(&self, call: &Call, envelope: &Value) {
        let summary = &envelope["summary"];
        let status = summary["continuation"]["task"]["status"].as_str();
        let open = ["wait_expired", "incomplete"]
            .iter()
            .any(|flag| summary[flag] == true);
        let is_over = matches!(
            status,
            Some("completed" | "failed" | "rejected" | "canceled" | "input-required")
        );
        if !open && !is_over && summary["response_kind"] != "message" {
            let request = &call.request;
            self.world.violation(format!(
                "a call ended before its task: {request} {envelope}"
            ));
        }
    }

    /// Checks that the task has complete artifacts, each once, and the state that its script leads to.
    pub(super) fn check_task(
        &self,
        task: &Known,
        summary: &Value,
        follows: bool,
        envelope: &Value,
    ) {
        if task.unpredictable {
            return;
        }
        let status = summary["continuation"]["task"]["status"]
            .as_str()
            .unwrap_or_default();
        let restarted = self.world.servers.starts.lock().unwrap()[task.server] > task.starts
            || !self.world.servers.is_up(task.server);
        let possible = ["submitted", "working", task.command.state()].contains(&status)
            // A watch may time out before it receives a status.
            || status.is_empty() && summary["wait_expired"] == true
            || status == "canceled" && task.canceled
            || status == "failed" && (restarted || task.sent.elapsed() > MAX_RUN);
        let mut mismatches = Vec::new();
        if !possible {
            mismatches.push(format!("the state `{status}`"));
        }
        let artifacts = summary["artifacts"].as_array();
        let texts = artifacts.into_iter().flatten().flat_map(|artifact| {
            let parts = artifact["parts"].as_array().cloned().unwrap_or_default();
            parts
                .into_iter()
                .filter_map(|part| part["text"].as_str().map(str::to_owned))
        });
        let text: String = texts.collect();
        if let Some(whole) = task.command.artifact(&task.id) {
            let complete = status == "completed" && summary["incomplete"] != true;
            if complete && text != whole || !whole.starts_with(&text) {
                mismatches.push(format!("the artifact `{text}`"));
            }
        }
        if !mismatches.is_empty() {
            let (command, id) = (task.command, &task.id);
            let mismatches = mismatches.join(", ");
            self.world.violation(format!(
                "{id} {command:?} follows {follows}: {mismatches} in {envelope}"
            ));
        }
    }

    /// Checks the invariants after the end of the faults: the number of deliveries of each message, and every task by its
    /// continuation.
    pub(super) async fn check_final_state(&self) {
        let world = &self.world;
        for number in 0..INSTANCES {
            *self.instances[number].lock().unwrap() =
                start_instance(world, number, self.settings.faults);
        }
        for (id, attempts) in world.attempts.lock().unwrap().iter() {
            let deliveries = attempts
                .iter()
                .filter(|attempt| **attempt == Attempt::Sent)
                .count();
            if deliveries > 1 {
                world.violation(format!("{id} was sent {deliveries} times: {attempts:?}"));
            }
        }
        let runs = world.servers.runs.lock().unwrap().clone();
        for (id, count) in &runs {
            if *count > 1 && !world.duplicated.lock().unwrap().contains(id) {
                world.violation(format!("{id} ran {count} times"));
            }
        }
        for id in world.broken.lock().unwrap().iter() {
            // A client may send a refused message again, unchanged.
            let once = world.attempts.lock().unwrap()[id].len() == 1;
            if once && runs.contains_key(id) {
                world.violation(format!("{id} ran, and did not arrive whole"));
            }
        }
        for (id, claim) in self.claims.lock().unwrap().iter() {
            if claim == "no" && runs.contains_key(id) {
                world.violation(format!(
                    "{id} ran, and its error says that it was not delivered"
                ));
            }
        }
        let known = std::mem::take(&mut *self.known.lock().unwrap());
        for (number, mut task) in known.into_iter().enumerate() {
            let call = Call {
                request: json!({"action": "status", "continuation": task.continuation}),
                id: None,
                limit: Duration::from_secs(120),
                follows: false,
            };
            let mut calm = Random::new(1);
            let outcome = self.call(number % INSTANCES, &call, &mut calm).await;
            let envelope = outcome.map(|outcome| outcome.envelope).unwrap_or_default();
            if task.unpredictable {
                continue;
            }
            if envelope["ok"] != true {
                let violation = format!("{} is lost after a restart: {envelope}", task.id);
                world.violation(violation);
                continue;
            }
            task.starts = task.starts.min(1);
            self.check_task(&task, &envelope["summary"], false, &envelope);
        }
    }
}
