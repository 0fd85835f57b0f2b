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
const MAX_REQUESTS: usize = 60;

/// The exchange without a cut.
pub(crate) struct Reference {
    /// The artifacts after each event; the first entry is before the first event.
    after: Vec<Vec<Artifact>>,
    text: String,
}

impl Reference {
    /// Reads it from a stream and a reply without a cut.
    pub(crate) fn from_outcomes(
        recording: &Recording,
        stream_outcome: &Outcome,
        reply_outcome: &Outcome,
    ) -> Self {
        let mut reader = Reader::default();
        let mut after = vec![Vec::new()];
        for update in &stream_outcome.updates {
            reader.read(&update["raw"]);
            after.push(reader.0.clone());
        }
        let [stream_outcome, reply_outcome] =
            [stream_outcome, reply_outcome].map(|outcome| outcome.envelope.clone().unwrap());
        let name = recording.name;
        assert_eq!(
            after.len(),
            recording.tasks.len() + 1,
            "{name}: {stream_outcome}"
        );
        for envelope in [&stream_outcome, &reply_outcome] {
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
        let text = stream_outcome["summary"]["message_text"]
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
    if case.sends != usize::from(cut.point != CutPoint::Watched) {
        violations.push(format!("the message was sent {} times", case.sends));
    }
    if let Some(unexpected) = &case.unexpected {
        violations.push(format!("unexpected request: {unexpected}"));
    }
    if case.requests.len() > MAX_REQUESTS {
        violations.push(format!("{} requests for one call", case.requests.len()));
    }
    let check = CutCheck {
        cut,
        recording,
        reference,
        envelope,
    };
    violations.extend(match cut.point {
        CutPoint::Reply => check.reply(case.requests.len()),
        CutPoint::Stream | CutPoint::Unframed | CutPoint::Watched => {
            check.stream(outcome.updates.len())
        }
    });
    // Repeated events of a peer stay repeated.
    if cut.aftermath != Aftermath::Doubled {
        violations.extend(check_updates(reference, envelope, &outcome.updates));
    }
    violations
}

struct CutCheck<'a> {
    cut: &'a Cut,
    recording: &'a Recording,
    reference: &'a Reference,
    envelope: &'a Value,
}

impl CutCheck<'_> {
    /// Checks a cut reply: it is unknown whether the message arrived, so the client must not repeat it.
    fn reply(&self, requests: usize) -> Vec<String> {
        let mut violations = self.check_error();
        if requests != 1 {
            violations.push(format!("{requests} requests for one reply"));
        }
        violations.extend(self.check_delivery());
        violations
    }

    fn stream(&self, update_count: usize) -> Vec<String> {
        let stream = self.recording.answer(self.cut.point).unwrap();
        let arrived = match (self.cut.end_kind, self.cut.aftermath) {
            // The timeout may pass before the client has read all bytes.
            (EndKind::Stall, Aftermath::Lost) => stream.arrived(self.cut.offset).min(update_count),
            _ => stream.arrived(self.cut.offset),
        };
        let started = stream.started(self.cut.offset);
        let has_task = arrived > 0 || self.cut.point == CutPoint::Watched;
        if !has_task && self.envelope["ok"] == false {
            let mut violations = self.check_error();
            violations.extend(self.check_delivery());
            return violations;
        }
        let all = self.recording.tasks.len();
        let lost = self.cut.aftermath == Aftermath::Lost && arrived < all;
        match (self.envelope["ok"] == true, lost) {
            (true, false) => self.check_complete(),
            (true, true) if arrived + 1 == all && started == all => {
                // The stream may have ended without the blank line after the last event.
                let task = &self.envelope["summary"];
                if task["incomplete"] == true || task["wait_expired"] == true {
                    self.check_partial(task, arrived, started)
                } else {
                    self.check_complete()
                }
            }
            (true, true) => {
                let mut violations =
                    self.check_partial(&self.envelope["summary"], arrived, started);
                let summary = &self.envelope["summary"];
                // A body that ends where its framing allows it looks complete; a silent one times out.
                let is_reported = match self.cut.end_kind {
                    EndKind::Stall => summary["wait_expired"] == true,
                    EndKind::Fin => {
                        self.cut.point == CutPoint::Unframed && summary["incomplete"] == true
                    }
                    EndKind::Rst => false,
                };
                if !is_reported {
                    violations.push("the result does not report the lost task".to_owned());
                }
                violations
            }
            (false, true) => {
                let mut violations = self.check_error();
                let details = &self.envelope["error"]["details"];
                if arrived > 0 {
                    violations.extend(self.check_partial(
                        &details["latest_event_summary"],
                        arrived,
                        started,
                    ));
                }
                if self.cut.point != CutPoint::Watched && details["delivered"] != "yes" {
                    violations.push(
                        "the message had arrived, but the error reports another delivery"
                            .to_owned(),
                    );
                }
                violations
            }
            (false, false) => vec!["the peer was reachable, but the call failed".to_owned()],
        }
    }

    /// Checks that the result is that of the run without a cut.
    fn check_complete(&self) -> Vec<String> {
        let summary = &self.envelope["summary"];
        let mut violations = self.check_task_reference(summary);
        for flag in ["incomplete", "wait_expired"] {
            if summary[flag] == true {
                violations.push(format!("the task has finished, but the result has {flag}"));
            }
        }
        if summary["message_text"] != *self.reference.text {
            violations.push("the text differs from that without the cut".to_owned());
        }
        if artifacts(&summary["artifacts"]) != *self.reference.after.last().unwrap() {
            violations.push("the artifacts differ from those without the cut".to_owned());
        }
        if summary["continuation"]["task"]["status"] != "completed" {
            violations.push("the task completed, but the result has another status".to_owned());
        }
        violations
    }

    /// Checks that the result contains the events that arrived: the complete ones, and at most the cut one.
    fn check_partial(&self, summary: &Value, arrived: usize, started: usize) -> Vec<String> {
        let mut violations = self.check_task_reference(summary);
        let reported_artifacts = artifacts(&summary["artifacts"]);
        if !(arrived..=started).any(|events| reported_artifacts == self.reference.after[events]) {
            violations.push(format!(
                "{arrived} events had arrived, but the result has other artifacts"
            ));
        }
        violations
    }

    /// Checks that a later call can refer to the known task.
    fn check_task_reference(&self, summary: &Value) -> Vec<String> {
        let task = &summary["continuation"]["task"];
        if task["task_id"] == *self.recording.task_id && task["task_handle"].is_string() {
            return Vec::new();
        }
        vec!["the task id had arrived, but the result has no handle for it".to_owned()]
    }

    /// Checks that the error is in the table.
    fn check_error(&self) -> Vec<String> {
        let reason = &self.envelope["error"]["reason"];
        if Reason::ALL
            .iter()
            .any(|has_task| *reason == has_task.as_str())
        {
            return Vec::new();
        }
        vec!["the reason of the error is not in the table".to_owned()]
    }

    /// Checks that the error advises against repeating the message, which may have arrived.
    fn check_delivery(&self) -> Vec<String> {
        let error = &self.envelope["error"];
        if error["details"]["delivered"] == "unknown" && error["retryable"] == false {
            return Vec::new();
        }
        vec!["the delivery is unknown, but the error reports another value".to_owned()]
    }
}

/// Checks the updates: no part twice, and together equal to the result.
fn check_updates(reference: &Reference, envelope: &Value, updates: &[Value]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut seen_artifacts = HashSet::new();
    let mut reader = Reader::default();
    for update in updates {
        let event = &update["raw"];
        if event["kind"] == "artifact-update"
            && !seen_artifacts.insert(event["artifact"].to_string())
        {
            violations.push(format!("a part is reported twice: {event}"));
        }
        reader.read(event);
        let doubled = reader
            .0
            .iter()
            .any(|artifact| artifact.text.len() > max_text_length(reference, &artifact.id));
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
            "the updates contain {:?}, the result differs",
            reader.0
        ));
    }
    violations
}

/// Returns the maximum length of an artifact's text.
fn max_text_length(reference: &Reference, id: &str) -> usize {
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
