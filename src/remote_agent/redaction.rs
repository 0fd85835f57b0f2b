//! Updates without what a peer was sent to prove who calls, also where it repeats that in pieces.
//!
//! What one event holds is redacted where it is read. Here is what several events hold together. An update cannot be taken
//! back, so the end of a piece that a secret may begin with waits for the next piece of the same artifact. The result of
//! the call is redacted as a whole ([`Collected::redact`](super::collected::Collected::redact)), and holds nothing back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use a2a::texts_mut;
use common::redact::{Redactor, Secrets};

/// A message whose end is no more of a secret's beginning than this many bytes is shown with it, for nothing comes after
/// it that could bring it.
pub(super) const FEW_BYTES: usize = 3;

/// What the updates of one call have shown.
#[derive(Debug, Default)]
pub(super) struct Redaction {
    artifacts: BTreeMap<String, Redactor>,
    /// The end of what messages said before.
    said: String,
}

impl Redaction {
    /// Returns an event as an update shows it. `is_last` says that the task is over with it.
    pub(super) fn event<'a>(
        &mut self,
        secrets: &Arc<Secrets>,
        event: &'a Value,
        is_last: bool,
    ) -> Cow<'a, Value> {
        if secrets.is_empty() {
            return Cow::Borrowed(event);
        }
        let mut shown = event.clone();
        let appends = event["append"] == true;
        if let Some(artifact) = shown.get_mut("artifact") {
            self.artifact(secrets, artifact, appends, false);
        }
        if let Some(Value::Array(artifacts)) = shown.get_mut("artifacts") {
            for artifact in artifacts {
                self.artifact(secrets, artifact, false, is_last);
            }
        }
        for place in ["/status/message/parts", "/parts"] {
            if let Some(parts) = shown.pointer_mut(place) {
                self.message(secrets, parts, is_last);
            }
        }
        Cow::Owned(shown)
    }

    fn artifact(
        &mut self,
        secrets: &Arc<Secrets>,
        artifact: &mut Value,
        appends: bool,
        is_last: bool,
    ) {
        let id = artifact["artifactId"].as_str().unwrap_or_default();
        if !appends || !self.artifacts.contains_key(id) {
            let new = Redactor::exact(Arc::clone(secrets));
            self.artifacts.insert(id.to_owned(), new);
        }
        let Some(redactor) = self.artifacts.get_mut(id) else {
            return;
        };
        redactor.renew(secrets);
        let mut texts = texts_mut(artifact);
        for text in &mut texts {
            **text = redactor.push(text);
        }
        if let Some(text) = texts.last_mut().filter(|_| is_last) {
            text.push_str(&redactor.finish());
        }
    }

    fn message(&mut self, secrets: &Secrets, parts: &mut Value, is_last: bool) {
        let mut texts = texts_mut(parts);
        let last = texts.len().saturating_sub(1);
        for (i, text) in texts.iter_mut().enumerate() {
            let from = self.said.len();
            self.said.push_str(text);
            let begun = secrets.begun(&self.said).max(from);
            let shows_all = self.said.len() - begun < FEW_BYTES && begun > from;
            let to = match (is_last && i == last) || shows_all {
                true => self.said.len(),
                false => begun,
            };
            **text = secrets.redact_part(&self.said, from..to);
            let known = self.said.len().saturating_sub(secrets.longest());
            let known = known.min(secrets.begun(&self.said));
            self.said.drain(..self.said.floor_char_boundary(known));
        }
    }

    /// Returns what waits for another piece, as the last pieces of their artifacts.
    pub(super) fn rest(&mut self, task_id: &str, context_id: Option<&str>) -> Vec<Value> {
        let rests = self.artifacts.iter_mut();
        let rests = rests.map(|(id, redactor)| (id, redactor.finish()));
        let rests = rests.filter(|(_, rest)| !rest.is_empty());
        rests
            .map(|(id, rest)| {
                let artifact = json!({"artifactId": id, "parts": [{"kind": "text", "text": rest}]});
                json!({"kind": "artifact-update", "taskId": task_id, "contextId": context_id, "append": true, "artifact": artifact})
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Arc<Secrets> {
        Arc::new(Secrets::new(["s3cret-one".to_owned().into()]))
    }

    fn piece(id: &str, text: &str, append: bool) -> Value {
        json!({"append": append, "artifact": {"artifactId": id, "parts": [{"kind": "text", "text": text}]}})
    }

    fn texts(shown: &Value) -> Vec<&str> {
        let parts = shown["artifact"]["parts"].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).collect()
    }

    #[test]
    fn keeps_no_more_than_a_secret_begins_with() {
        let (mut shown, secrets) = (Redaction::default(), secrets());
        let mut show = |event: &Value| {
            let shown = shown.event(&secrets, event, false).into_owned();
            texts(&shown).concat()
        };
        assert_eq!(show(&piece("a", "one s3", false)), "one ");
        assert_eq!(show(&piece("b", "other s3cret", false)), "other ");
        assert_eq!(show(&piece("a", "cret-one!", true)), "[redacted]!");
        assert_eq!(show(&piece("b", " ok", true)), "s3cret ok");
    }

    #[test]
    fn what_waits_comes_at_the_end() {
        let (mut shown, secrets) = (Redaction::default(), secrets());
        shown.event(&secrets, &piece("a", "one s3", false), false);
        shown.event(&secrets, &piece("b", "two", false), false);
        let rest = shown.rest("t", None);
        assert_eq!(rest.len(), 1);
        assert_eq!(
            (texts(&rest[0]), &rest[0]["append"]),
            (vec!["s3"], &json!(true))
        );
        assert!(shown.rest("t", None).is_empty());
    }

    #[test]
    fn snapshot_takes_the_place_of_what_waits() {
        let (mut shown, secrets) = (Redaction::default(), secrets());
        shown.event(&secrets, &piece("a", "one s3", false), false);
        let whole = json!({"artifacts": [{"artifactId": "a", "parts": [{"text": "one s3cr"}]}]});
        let snapshot = shown.event(&secrets, &whole, false).into_owned();
        assert_eq!(snapshot["artifacts"][0]["parts"][0]["text"], "one ");
        let next = piece("a", "et-one", true);
        let next = shown.event(&secrets, &next, false);
        assert_eq!(texts(&next), ["[redacted]"]);
        let last = shown.event(&secrets, &whole, true);
        assert_eq!(*last, whole);
    }

    #[test]
    fn without_secrets_an_event_is_not_copied() {
        let (mut shown, event) = (Redaction::default(), piece("a", "s3cret-one", false));
        let same = shown.event(&Arc::default(), &event, false);
        assert!(matches!(same, Cow::Borrowed(same) if *same == event));
    }
}
