//! The environment of the demo: three agents on loopback, a gateway with three more agents, an instance of the plugin, and
//! calls whose results are checked.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use a2a::text_part;
use collective::Vote;
use conformance::Peers;
use gateway_bridge::client::{Ballot, Script};
use openclaw_remote_agent_interface::{CallOptions, updates_to};
use serde_json::{Map, Value, json};

use super::Printer;
use crate::{
    exit::Failure,
    gateway::embedded::Embedded,
    instance::{Instance, Library},
};

/// The scripted agents; `fixtures/README.md` has the format.
const SCRIPT: &str = include_str!("peers.json");

/// The agents, the gateway and the instance of the demo.
pub(super) struct Fixture {
    library: Library,
    pub(super) peers: Peers,
    gateway: Embedded,
    printer: Arc<Printer>,
    /// `None` only during a restart.
    instance: Option<Instance>,
    step: usize,
}

/// The members of the triad with vote, reasoning and delay in milliseconds. The delays determine the order of the votes.
const MEMBERS: [(&str, Vote, &str, u64); 3] = [
    (
        "alpha",
        Vote::Approve,
        "The cause is known and repaired.",
        150,
    ),
    ("beta", Vote::Reject, "It is Friday.", 250),
    ("charlie", Vote::Approve, "The tests are green.", 350),
];

/// Starts a gateway in this process with three agents that vote.
async fn collective() -> Result<Embedded, Failure> {
    let mut gateway = Embedded::start().await?;
    for (name, vote, reasoning, millis) in MEMBERS {
        let script = Script {
            name: name.to_owned(),
            ballot: Some(Ballot {
                vote,
                reasoning: reasoning.to_owned(),
                confidence: None,
            }),
            delay: Duration::from_millis(millis),
            reply: "Ask us together.".to_owned(),
        };
        gateway.agent(script).await?;
    }
    Ok(gateway)
}

/// The result of a step, with methods that check it.
pub(super) struct StepResult {
    step: usize,
    updates: usize,
    envelope: Value,
}

impl Fixture {
    /// Starts the agents and the first instance.
    pub(super) async fn start(library: Library, printer: Arc<Printer>) -> Result<Self, Failure> {
        let failed =
            |purpose: String| Failure::new(format!("cannot start the demo's agents: {purpose}"));
        let script = serde_json::from_str(SCRIPT).map_err(|error| failed(error.to_string()))?;
        let peers = Peers::start(&script)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let mut fixture = Self {
            library,
            peers,
            gateway: collective().await?,
            printer,
            instance: None,
            step: 0,
        };
        fixture.restart(&json!({}))?;
        Ok(fixture)
    }

    /// Closes the instance and creates a new one, like a restart of the host.
    pub(super) fn restart(&mut self, task_handles: &Value) -> Result<(), Failure> {
        self.instance = None;
        let targets = json!([
            {"alias": "triage", "baseUrl": self.peers.origin("triage"), "default": true},
            {"alias": "writer", "baseUrl": self.peers.origin("writer")},
            {"alias": "archive", "baseUrl": self.peers.origin("archive")},
        ]);
        let gateway = json!({"enabled": true, "url": self.gateway.url(), "dialect": "a2a-v1"});
        let config = json!({"targets": targets, "taskHandles": task_handles, "gateway": gateway});
        self.instance = Some(
            self.library
                .interactive_instance(&config.to_string(), None)?,
        );
        Ok(())
    }

    /// Announces the next step.
    pub(super) fn step(&mut self, action: &str, purpose: &str) {
        self.step += 1;
        self.printer.step(self.step, action, purpose);
    }

    /// Returns the number of steps.
    pub(super) fn steps(&self) -> usize {
        self.step
    }

    /// Prints a message of an agent.
    pub(super) fn received(&self, by: &str, message: &str) {
        self.printer.received(by, message);
    }

    /// Prints a status change.
    pub(super) fn status_change(&self, what: &str) {
        self.printer.status_change(what);
    }

    /// Prints what the step showed.
    pub(super) fn step_passed(&self, what: &str) {
        self.printer.step_passed(what);
    }

    /// Calls the tool and prints its updates as they arrive.
    pub(super) async fn call(&self, request: &Value) -> Result<StepResult, Failure> {
        let Some(instance) = &self.instance else {
            return Err(Failure::new("the demo has no instance of the plugin"));
        };
        let printer = Arc::clone(&self.printer);
        let updates = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&updates);
        let on_update = move |update: &str| {
            count.fetch_add(1, Ordering::Relaxed);
            if let Ok(update) = serde_json::from_str(update) {
                printer.update(&update);
            }
        };
        let options = CallOptions {
            updates: Some(updates_to(on_update)),
            ..CallOptions::default()
        };
        let running = instance.start(&request.to_string(), options);
        let envelope = running.envelope().await;
        self.printer.envelope(&envelope);
        let envelope = serde_json::from_str(&envelope).unwrap_or(Value::String(envelope));
        Ok(StepResult {
            step: self.step,
            updates: updates.load(Ordering::Relaxed),
            envelope,
        })
    }

    /// Fails unless `holds`, a condition on what the agents received.
    pub(super) fn check(&self, holds: bool, what: &str) -> Result<(), Failure> {
        check(self.step, holds, || what.to_owned())
    }
}

/// Sends a message to an agent, in a request with more fields. Null leaves out the field of that name.
pub(super) async fn ask(
    fixture: &Fixture,
    agent: &str,
    message: &str,
    more: Value,
) -> Result<StepResult, Failure> {
    fixture.printer.sent(agent, message);
    let mut request = Map::from_iter([
        ("action".to_owned(), json!("send")),
        ("target_alias".to_owned(), json!(agent)),
        ("parts".to_owned(), json!([text_part(message)])),
    ]);
    request.extend(more.as_object().cloned().unwrap_or_default());
    request.retain(|_, value| !value.is_null());
    fixture.call(&Value::Object(request)).await
}

/// Fails the step unless `holds`.
fn check(step: usize, holds: bool, fault: impl FnOnce() -> String) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "step {step} of the demo failed: {}",
            fault()
        ))),
    }
}

impl StepResult {
    /// Checks the value at a JSON Pointer.
    pub(super) fn is(&self, pointer: &str, expected: impl Into<Value>) -> Result<&Self, Failure> {
        let (found, expected) = (self.at(pointer), expected.into());
        let envelope = &self.envelope;
        let fault = || format!("`{pointer}` is {found} instead of {expected} in {envelope}");
        check(self.step, *found == expected, fault).map(|()| self)
    }

    /// Checks the number of updates before the result.
    pub(super) fn after_updates(&self, expected: usize) -> Result<&Self, Failure> {
        let updates = self.updates;
        let fault = || format!("{updates} updates arrived instead of {expected}");
        check(self.step, updates == expected, fault).map(|()| self)
    }

    /// Checks the minimum number of updates before the result.
    pub(super) fn after_at_least(&self, minimum: usize) -> Result<&Self, Failure> {
        let updates = self.updates;
        let fault = || format!("{updates} updates arrived, and it expects at least {minimum}");
        check(self.step, updates >= minimum, fault).map(|()| self)
    }

    /// Returns the value at a JSON Pointer, or `null`.
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.envelope.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Returns the text at a JSON Pointer, or an empty string.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }
}

/// A temporary file, removed on drop.
pub(super) struct TempFile(PathBuf);

impl TempFile {
    pub(super) fn new() -> Self {
        let name = format!("remote-agent-demo-{}.json", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn seen() -> StepResult {
        StepResult {
            step: 3,
            updates: 1,
            envelope: json!({"ok": true, "summary": {"message_text": "hi"}}),
        }
    }

    #[test]
    fn unexpected_value_names_step_and_pointer() {
        let seen = seen();
        assert!(seen.is("/summary/message_text", "hi").is_ok());
        for (pointer, expected) in [("/summary/message_text", "ho"), ("/summary/none", "hi")] {
            let message = seen.is(pointer, expected).err().unwrap().message;
            assert!(
                message.contains("step 3") && message.contains(pointer),
                "{message}"
            );
        }
        assert!(seen.after_updates(2).is_err());
    }
}
