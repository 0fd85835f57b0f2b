//! Invariants for cuts at any byte.

use std::collections::HashSet;

use openclaw_remote_agent::remote_agent::Reason;
use serde_json::Value;

use crate::cuts::{
    cut::{Aftermath, Cut, CutPoint, EndKind},
    fixture::Outcome,
    reader::{Artifact, Reader, artifacts},
    recording::Recording,
};

/// The maximum number of requests of one call.
const STORM: usize = 60;

/// The exchange without a cut.
pub(crate) struct Reference {
    /// The artifacts after each event; the first entry is before the first event.
    after: Vec<Vec<Artifact>>,
    text: String,
}

impl Reference {
    /// Reads it from a stream and a reply without a cut.
    pub(crate) fn of(recording: &Recording, streamed: &Outcome, answered: &Outcome) -> Self {
        let mut reader = Reader::default();
        let mut after = vec![Vec::new()];
        for update in &streamed.updates {
            reader.read(&update["raw"]);
            after.push(reader.0.clone());
        }
        let [streamed, answered] =
            [streamed, answered].map(|outcome| outcome.envelope.clone().unwrap());
        let name = recording.name;
        assert_eq!(after.len(), recording.tasks.len() + 1, "{name}: {streamed}");
        for envelope in [&streamed, &answered] {
            assert_eq!(envelope["ok"], true, "{name}: {envelope}");
            assert_eq!(
                artifacts(&envelope["summary"]["artifacts"]),
                reader.0,
                "{name}: {envelope}"
            );
            assert_eq!(
                envelope["summary"]["continuation"]["task"]["status"], "completed",
                "{name}"
            );
        }
        let text = streamed["summary"]["message_text"]
            .as_str()
            .unwrap()
            .to_owned();
        for chunk in ["Grüße, 日本語 und 🦀 am Ende.", "Fassung 2 – fertig"] {
            assert!(text.contains(chunk), "{name}: {text}");
        }
        Self { after, text }
    }
}

/// Returns the violations in the outcome of a cut.
pub(crate) fn violations(
    cut: &Cut,
    recording: &Recording,
    reference: &Reference,
    outcome: &Outcome,
) -> Vec<String> {
    let mut violations = Vec::new();
    let Some(envelope) = &outcome.envelope else {
        return vec!["no envelope".to_owned()];
    };
    let case = &outcome.case;
    if cut.end_kind == EndKind::Stall
        && case.requests.is_empty()
        && envelope["error"]["details"]["delivered"] == "no"
    {
        // The short timeout of the call passed before it began.
        return violations;
    }
    if case.sends != usize::from(cut.what != CutPoint::Watched) {
        violations.push(format!("the message was sent {} times", case.sends));
    }
    if let Some(odd) = &case.odd {
        violations.push(format!("unexpected request: {odd}"));
    }
    if case.requests.len() > STORM {
        violations.push(format!("{} requests for one call", case.requests.len()));
    }
    let at = At {
        cut,
        recording,
        reference,
        envelope,
    };
    violations.extend(match cut.what {
        CutPoint::Reply => at.reply(case.requests.len()),
        CutPoint::Stream | CutPoint::Unframed | CutPoint::Watched => {
            at.stream(outcome.updates.len())
        }
    });
    // Repeated events of a peer stay repeated.
    if cut.aftermath != Aftermath::Doubled {
        violations.extend(reported(reference, envelope, &outcome.updates));
    }
    violations
}

struct At<'a> {
    cut: &'a Cut,
    recording: &'a Recording,
    reference: &'a Reference,
    envelope: &'a Value,
}

impl At<'_> {
    /// Checks a cut reply: it is unknown whether the message arrived, so the client must not repeat it.
    fn reply(&self, requests: usize) -> Vec<String> {
        let mut violations = self.error();
        if requests != 1 {
            violations.push(format!("{requests} requests for one reply"));
        }
        violations.extend(self.unknown());
        violations
    }

    fn stream(&self, reported: usize) -> Vec<String> {
        let stream = self.recording.answer(self.cut.what).unwrap();
        let arrived = match (self.cut.end_kind, self.cut.aftermath) {
            // The timeout may pass before the client has read all bytes.
            (EndKind::Stall, Aftermath::Lost) => stream.arrived(self.cut.offset).min(reported),
            _ => stream.arrived(self.cut.offset),
        };
        let started = stream.started(self.cut.offset);
        let has_task = arrived > 0 || self.cut.what == CutPoint::Watched;
        if !has_task && self.envelope["ok"] == false {
            let mut violations = self.error();
            violations.extend(self.unknown());
            return violations;
        }
        let all = self.recording.tasks.len();
        let lost = self.cut.aftermath == Aftermath::Lost && arrived < all;
        match (self.envelope["ok"] == true, lost) {
            (true, false) => self.whole(),
            (true, true) if arrived + 1 == all && started == all => {
                // The stream may have ended without the blank line after the last event.
                let task = &self.envelope["summary"];
                if task["incomplete"] == true || task["wait_expired"] == true {
                    self.partly(task, arrived, started)
                } else {
                    self.whole()
                }
            }
            (true, true) => {
                let mut violations = self.partly(&self.envelope["summary"], arrived, started);
                let shown = &self.envelope["summary"];
                // A body that ends where its framing allows it looks complete; a silent one times out.
                let reported = match self.cut.end_kind {
                    EndKind::Stall => shown["wait_expired"] == true,
                    EndKind::Fin => {
                        self.cut.what == CutPoint::Unframed && shown["incomplete"] == true
                    }
                    EndKind::Rst => false,
                };
                if !reported {
                    violations.push("a lost task is reported as well".to_owned());
                }
                violations
            }
            (false, true) => {
                let mut violations = self.error();
                let details = &self.envelope["error"]["details"];
                if arrived > 0 {
                    violations.extend(self.partly(
                        &details["latest_event_summary"],
                        arrived,
                        started,
                    ));
                }
                if self.cut.what != CutPoint::Watched && details["delivered"] != "yes" {
                    violations.push("the message had arrived".to_owned());
                }
                violations
            }
            (false, false) => vec!["the peer could be asked, and the call failed".to_owned()],
        }
    }

    /// Checks that the result is that of the run without a cut.
    fn whole(&self) -> Vec<String> {
        let summary = &self.envelope["summary"];
        let mut violations = self.named(summary);
        for flag in ["incomplete", "wait_expired"] {
            if summary[flag] == true {
                violations.push(format!("the task has finished, and the result says {flag}"));
            }
        }
        if summary["message_text"] != *self.reference.text {
            violations.push("the text is another than without the cut".to_owned());
        }
        if artifacts(&summary["artifacts"]) != *self.reference.after.last().unwrap() {
            violations.push("the artifacts are others than without the cut".to_owned());
        }
        if summary["continuation"]["task"]["status"] != "completed" {
            violations.push("the task has completed, and the result does not say so".to_owned());
        }
        violations
    }

    /// Checks that the result contains the events that arrived: the complete ones, and at most the cut one.
    fn partly(&self, summary: &Value, arrived: usize, started: usize) -> Vec<String> {
        let mut violations = self.named(summary);
        let shown = artifacts(&summary["artifacts"]);
        if !(arrived..=started).any(|events| shown == self.reference.after[events]) {
            violations.push(format!(
                "{arrived} events had arrived, and other artifacts are reported"
            ));
        }
        violations
    }

    /// Checks that a later call can refer to the known task.
    fn named(&self, summary: &Value) -> Vec<String> {
        let task = &summary["continuation"]["task"];
        if task["task_id"] == *self.recording.task_id && task["task_handle"].is_string() {
            return Vec::new();
        }
        vec!["the task's id had arrived, and there is no way to go on with it".to_owned()]
    }

    /// Checks that the error is in the table.
    fn error(&self) -> Vec<String> {
        let reason = &self.envelope["error"]["reason"];
        if Reason::ALL
            .iter()
            .any(|has_task| *reason == has_task.as_str())
        {
            return Vec::new();
        }
        vec!["the call did not fail with a reason that is known".to_owned()]
    }

    /// Checks that the error advises against repeating the message, which may have arrived.
    fn unknown(&self) -> Vec<String> {
        let error = &self.envelope["error"];
        if error["details"]["delivered"] == "unknown" && error["retryable"] == false {
            return Vec::new();
        }
        vec!["it is unknown whether the message arrived, and the error says otherwise".to_owned()]
    }
}

/// Checks the updates: no part twice, and together equal to the result.
fn reported(reference: &Reference, envelope: &Value, updates: &[Value]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut pieces = HashSet::new();
    let mut reader = Reader::default();
    for update in updates {
        let event = &update["raw"];
        if event["kind"] == "artifact-update" && !pieces.insert(event["artifact"].to_string()) {
            violations.push(format!("a part is reported twice: {event}"));
        }
        reader.read(event);
        let doubled = reader
            .0
            .iter()
            .any(|artifact| artifact.text.len() > longest(reference, &artifact.id));
        if doubled {
            violations.push(format!("the updates contain a part twice: {:?}", reader.0));
        }
    }
    let summary = match envelope["ok"] == true {
        true => &envelope["summary"],
        false => &envelope["error"]["details"]["latest_event_summary"],
    };
    if !summary.is_null() && !updates.is_empty() && artifacts(&summary["artifacts"]) != reader.0 {
        violations.push(format!(
            "the updates tell {:?}, the result something else",
            reader.0
        ));
    }
    violations
}

/// Returns the maximum length of an artifact's text.
fn longest(reference: &Reference, id: &str) -> usize {
    let versions = reference
        .after
        .iter()
        .flatten()
        .filter(|artifact| artifact.id == id);
    versions
        .map(|artifact| artifact.text.len())
        .max()
        .unwrap_or(0)
}
