//! Redacts in updates the secrets that a peer echoes in pieces.
//!
//! The reader of an event redacts it. This module redacts what spans several events. An update cannot be taken back, so
//! the end of a piece that may be the start of a secret waits for the next piece of the same artifact. The result of
//! the call is redacted as a whole ([`Collected::redact`](super::collected::Collected::redact)), and holds nothing
//! back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use a2a::texts_mut;
use base::redact::{Redactor, Secrets};

/// Up to this many bytes of a secret's start are shown at the end of a message, because no later piece completes it.
pub(super) const MAX_SHOWN_PREFIX_BYTES: usize = 3;

/// The state of the updates of one call.
#[derive(Debug, Default)]
pub(super) struct UpdateRedaction {
    artifacts: BTreeMap<String, Redactor>,
    /// The end of the messages so far.
    collected: String,
}

impl UpdateRedaction {
    /// Returns an event for an update. `is_last` marks the end of the task.
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

    /// Counts the text of an event that does not become an update: a secret may begin in it and end in a later one.
    pub(super) fn skip(&mut self, secrets: &Arc<Secrets>, event: &Value) {
        if !secrets.is_empty() {
            self.event(secrets, event, false);
        }
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
        redactor.set_secrets(secrets);
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
            let from = self.collected.len();
            self.collected.push_str(text);
            let start = secrets.incomplete_from(&self.collected).max(from);
            let is_whole = self.collected.len() - start < MAX_SHOWN_PREFIX_BYTES && start > from;
            let to = match (is_last && i == last) || is_whole {
                true => self.collected.len(),
                false => start,
            };
            **text = secrets.redact_part(&self.collected, from..to);
            let done = self.collected.len().saturating_sub(secrets.longest());
            let done = done.min(secrets.incomplete_from(&self.collected));
            self.collected
                .drain(..self.collected.floor_char_boundary(done));
        }
    }

    /// Returns the text that was held back, as the last pieces of its artifacts.
    pub(super) fn flush(&mut self, task_id: &str, context_id: Option<&str>) -> Vec<Value> {
        let flushed = self.artifacts.iter_mut();
        let flushed = flushed.map(|(id, redactor)| (id, redactor.finish()));
        let flushed = flushed.filter(|(_, rest)| !rest.is_empty());
        flushed
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
    fn holds_back_only_the_start_of_a_secret() {
        let (mut shown, secrets) = (UpdateRedaction::default(), secrets());
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
    fn secret_that_begins_in_a_skipped_event_is_redacted() {
        let (mut shown, secrets) = (UpdateRedaction::default(), secrets());
        shown.skip(&secrets, &piece("a", "one s3", false));
        let next = piece("a", "cret-one!", true);
        let next = shown.event(&secrets, &next, false);
        assert_eq!(texts(&next), ["[redacted]!"]);
    }

    #[test]
    fn held_back_text_is_flushed_at_the_end() {
        let (mut shown, secrets) = (UpdateRedaction::default(), secrets());
        shown.event(&secrets, &piece("a", "one s3", false), false);
        shown.event(&secrets, &piece("b", "two", false), false);
        let rest = shown.flush("t", None);
        assert_eq!(rest.len(), 1);
        assert_eq!(
            (texts(&rest[0]), &rest[0]["append"]),
            (vec!["s3"], &json!(true))
        );
        assert!(shown.flush("t", None).is_empty());
    }

    #[test]
    fn snapshot_replaces_held_back_text() {
        let (mut shown, secrets) = (UpdateRedaction::default(), secrets());
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
    fn event_is_borrowed_without_secrets() {
        let (mut shown, event) = (UpdateRedaction::default(), piece("a", "s3cret-one", false));
        let same = shown.event(&Arc::default(), &event, false);
        assert!(matches!(same, Cow::Borrowed(same) if *same == event));
    }
}
