//! Invariants for cuts at any byte.

use std::collections::HashSet;

use openclaw_remote_agent::remote_agent::Reason;
use serde_json::Value;

use crate::cuts::{
    cut::{Cut, CutPoint, How, Then},
    reader::{Artifact, Reader, artifacts},
    recording::Recording,
    stage::Came,
};

/// The maximum number of requests of one call.
const STORM: usize = 60;

/// The exchange without a cut.
pub(crate) struct Truth {
    /// The artifacts after each event; the first entry is before the first event.
    after: Vec<Vec<Artifact>>,
    text: String,
}

impl Truth {
    /// Reads it from a stream and a reply without a cut.
    pub(crate) fn of(recording: &Recording, streamed: &Came, answered: &Came) -> Self {
        let mut reader = Reader::default();
        let mut after = vec![Vec::new()];
        for update in &streamed.updates {
            reader.read(&update["raw"]);
            after.push(reader.0.clone());
        }
        let [streamed, answered] = [streamed, answered].map(|came| came.envelope.clone().unwrap());
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
    truth: &Truth,
    came: &Came,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(envelope) = &came.envelope else {
        return vec!["no envelope".to_owned()];
    };
    let case = &came.case;
    if cut.how == How::Stall
        && case.requests.is_empty()
        && envelope["error"]["details"]["delivered"] == "no"
    {
        // The short timeout of the call passed before it began.
        return wrong;
    }
    if case.sends != usize::from(cut.what != CutPoint::Watched) {
        wrong.push(format!("the message was sent {} times", case.sends));
    }
    if let Some(odd) = &case.odd {
        wrong.push(format!("unexpected request: {odd}"));
    }
    if case.requests.len() > STORM {
        wrong.push(format!("{} requests for one call", case.requests.len()));
    }
    let at = At {
        cut,
        recording,
        truth,
        envelope,
    };
    wrong.extend(match cut.what {
        CutPoint::Reply => at.reply(case.requests.len()),
        CutPoint::Stream | CutPoint::Unframed | CutPoint::Watched => at.stream(came.updates.len()),
    });
    // Repeated events of a peer stay repeated.
    if cut.then != Then::Doubled {
        wrong.extend(reported(truth, envelope, &came.updates));
    }
    wrong
}

struct At<'a> {
    cut: &'a Cut,
    recording: &'a Recording,
    truth: &'a Truth,
    envelope: &'a Value,
}

impl At<'_> {
    /// Checks a cut reply: it is unknown whether the message arrived, so the client must not repeat it.
    fn reply(&self, requests: usize) -> Vec<String> {
        let mut wrong = self.error();
        if requests != 1 {
            wrong.push(format!("{requests} requests for one reply"));
        }
        wrong.extend(self.unknown());
        wrong
    }

    fn stream(&self, reported: usize) -> Vec<String> {
        let stream = self.recording.answer(self.cut.what).unwrap();
        let arrived = match (self.cut.how, self.cut.then) {
            // The timeout may pass before the client has read all bytes.
            (How::Stall, Then::Gone) => stream.arrived(self.cut.offset).min(reported),
            _ => stream.arrived(self.cut.offset),
        };
        let begun = stream.begun(self.cut.offset);
        let known = arrived > 0 || self.cut.what == CutPoint::Watched;
        if !known && self.envelope["ok"] == false {
            let mut wrong = self.error();
            wrong.extend(self.unknown());
            return wrong;
        }
        let all = self.recording.tasks.len();
        let lost = self.cut.then == Then::Gone && arrived < all;
        match (self.envelope["ok"] == true, lost) {
            (true, false) => self.whole(),
            (true, true) if arrived + 1 == all && begun == all => {
                // The stream may have ended without the blank line after the last event.
                let task = &self.envelope["summary"];
                if task["incomplete"] == true || task["wait_expired"] == true {
                    self.partly(task, arrived, begun)
                } else {
                    self.whole()
                }
            }
            (true, true) => {
                let mut wrong = self.partly(&self.envelope["summary"], arrived, begun);
                let shown = &self.envelope["summary"];
                // A body that ends where its framing allows it looks complete; a silent one times out.
                let reported = match self.cut.how {
                    How::Stall => shown["wait_expired"] == true,
                    How::Fin => self.cut.what == CutPoint::Unframed && shown["incomplete"] == true,
                    How::Rst => false,
                };
                if !reported {
                    wrong.push("a lost task is reported as well".to_owned());
                }
                wrong
            }
            (false, true) => {
                let mut wrong = self.error();
                let details = &self.envelope["error"]["details"];
                if arrived > 0 {
                    wrong.extend(self.partly(&details["latest_event_summary"], arrived, begun));
                }
                if self.cut.what != CutPoint::Watched && details["delivered"] != "yes" {
                    wrong.push("the message had arrived".to_owned());
                }
                wrong
            }
            (false, false) => vec!["the peer could be asked, and the call failed".to_owned()],
        }
    }

    /// Checks that the result is that of the run without a cut.
    fn whole(&self) -> Vec<String> {
        let summary = &self.envelope["summary"];
        let mut wrong = self.named(summary);
        for flag in ["incomplete", "wait_expired"] {
            if summary[flag] == true {
                wrong.push(format!("the task has finished, and the result says {flag}"));
            }
        }
        if summary["message_text"] != *self.truth.text {
            wrong.push("the text is another than without the cut".to_owned());
        }
        if artifacts(&summary["artifacts"]) != *self.truth.after.last().unwrap() {
            wrong.push("the artifacts are others than without the cut".to_owned());
        }
        if summary["continuation"]["task"]["status"] != "completed" {
            wrong.push("the task has completed, and the result does not say so".to_owned());
        }
        wrong
    }

    /// Checks that the result contains the events that arrived: the complete ones, and at most the cut one.
    fn partly(&self, summary: &Value, arrived: usize, begun: usize) -> Vec<String> {
        let mut wrong = self.named(summary);
        let shown = artifacts(&summary["artifacts"]);
        if !(arrived..=begun).any(|events| shown == self.truth.after[events]) {
            wrong.push(format!(
                "{arrived} events had arrived, and other artifacts are reported"
            ));
        }
        wrong
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
        if Reason::ALL.iter().any(|known| *reason == known.as_str()) {
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
fn reported(truth: &Truth, envelope: &Value, updates: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut pieces = HashSet::new();
    let mut reader = Reader::default();
    for update in updates {
        let event = &update["raw"];
        if event["kind"] == "artifact-update" && !pieces.insert(event["artifact"].to_string()) {
            wrong.push(format!("a part is reported twice: {event}"));
        }
        reader.read(event);
        let doubled = reader
            .0
            .iter()
            .any(|artifact| artifact.text.len() > longest(truth, &artifact.id));
        if doubled {
            wrong.push(format!("the updates contain a part twice: {:?}", reader.0));
        }
    }
    let summary = match envelope["ok"] == true {
        true => &envelope["summary"],
        false => &envelope["error"]["details"]["latest_event_summary"],
    };
    if !summary.is_null() && !updates.is_empty() && artifacts(&summary["artifacts"]) != reader.0 {
        wrong.push(format!(
            "the updates tell {:?}, the result something else",
            reader.0
        ));
    }
    wrong
}

/// Returns the maximum length of an artifact's text.
fn longest(truth: &Truth, id: &str) -> usize {
    let versions = truth
        .after
        .iter()
        .flatten()
        .filter(|artifact| artifact.id == id);
    versions
        .map(|artifact| artifact.text.len())
        .max()
        .unwrap_or(0)
}
