//! Updates about a call: their content, their pace, and the secrets in them that a peer echoes in pieces.
//!
//! The reader of an event redacts it. [`UpdateRedaction`] redacts what spans several events. An update cannot be taken
//! back, so the end of a piece that may be the start of a secret waits for the next piece of the same artifact. The
//! result of the call is redacted as a whole ([`Collected::redact`]), and holds nothing back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use a2a::{TaskState, text_at, texts_mut};
use base::panics;
use base::redact::{Redactor, Secrets};
use peer::NegotiatedProtocol;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Call;
use crate::handles::Handle;
use crate::remote_agent::UpdateCallback;
use crate::remote_agent::collected::{Collected, Kind, MAX_SHOWN_PREFIX_BYTES};
use crate::remote_agent::envelope::UpdateWriter;

/// Sends updates that show the target and the continuation of the call.
#[derive(Default)]
pub(super) struct UpdateSender {
    writer: UpdateWriter,
    /// What the writer shows of the call; `None` before the first update.
    header: Option<UpdateHeader>,
}

impl UpdateSender {
    fn send(&mut self, updates: UpdateCallback<'_>, event: &Value) {
        // Repeating earlier events would make the cost of a stream quadratic.
        let status = event.get("status");
        let status = status.and_then(|status| text_at(status, &["message", "parts"]));
        let update = self.writer.write(status.as_deref(), event);
        let _ = panics::catch(|| updates(update));
    }
}

/// What updates show of a call, beside the event.
struct UpdateHeader {
    protocol: Option<NegotiatedProtocol>,
    kind: Option<Kind>,
    state: Option<TaskState>,
    handle: Option<Handle>,
    task_id: Option<String>,
    context_id: Option<String>,
}

impl Call<'_> {
    /// Sends an update for the newest event. Updates are best effort.
    pub(super) fn notify(&mut self) {
        let Some(updates) = self.updates else {
            return;
        };
        self.store_handle();
        self.refresh_writer();
        let is_last = self.collected.is_terminal_or_interrupted();
        let secrets = self.secrets();
        let Some(event) = self.collected.last_event() else {
            return;
        };
        let is_last = is_last && event.get("status").is_some();
        let event = self.redaction.event(&secrets, event, is_last);
        let flushed = match is_last {
            true => flush_redaction(&mut self.redaction, &self.collected),
            false => Vec::new(),
        };
        for event in flushed.iter().chain([&*event]) {
            self.update_sender.send(updates, event);
        }
    }

    /// Returns the time at which the newest event becomes an update, if it waits for that.
    pub(in crate::remote_agent) fn update_due(&self) -> Option<Instant> {
        self.pacer.waits_until()
    }

    /// Sends an update for the newest event, if it waits.
    pub(in crate::remote_agent) fn release_update(&mut self) {
        if self.pacer.release() {
            self.notify();
        }
    }

    /// Gives up the update for the newest event, which waits. Its text counts: a secret may span several events.
    pub(super) fn skip_update(&mut self) {
        let secrets = self.secrets();
        if let Some(event) = self.collected.last_event() {
            self.redaction.skip(&secrets, event);
        }
    }

    /// Sends an update for everything that waits or was held back.
    pub(super) fn flush_updates(&mut self) {
        self.release_update();
        if let Some(updates) = self.updates {
            self.refresh_writer();
            for event in flush_redaction(&mut self.redaction, &self.collected) {
                self.update_sender.send(updates, &event);
            }
        }
    }

    /// Lets further updates show the target and the task as they are now. Most events of a stream change neither.
    fn refresh_writer(&mut self) {
        let collected = &self.collected;
        let protocol = self.peer.as_ref().map(|peer| peer.protocol());
        let is_current = self.update_sender.header.as_ref().is_some_and(|shown| {
            shown.protocol == protocol
                && shown.kind == collected.kind
                && shown.state == collected.state
                && shown.handle == self.handle
                && shown.task_id == collected.task_id
                && shown.context_id == collected.context_id
        });
        if is_current {
            return;
        }
        let header = UpdateHeader {
            protocol,
            kind: collected.kind,
            state: collected.state.clone(),
            handle: self.handle,
            task_id: collected.task_id.clone(),
            context_id: collected.context_id.clone(),
        };
        self.update_sender = UpdateSender {
            writer: UpdateWriter::new(self.action.as_str(), self.base_summary()),
            header: Some(header),
        };
    }
}

/// Returns the text that updates held back, as the last pieces of the task's artifacts.
fn flush_redaction(redaction: &mut UpdateRedaction, collected: &Collected) -> Vec<Value> {
    let task_id = collected.task_id.as_deref().unwrap_or_default();
    redaction.flush(task_id, collected.context_id.as_deref())
}

/// Decides which events become updates: the first at once, then at most one in each interval. An event that comes too
/// early waits, and a later one replaces it.
#[derive(Debug)]
pub(super) struct UpdatePacer {
    interval: Duration,
    next: Option<Instant>,
    waits: bool,
}

impl UpdatePacer {
    /// Creates a pacer. Without an interval, every event becomes an update.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: None,
            waits: false,
        }
    }

    /// Returns whether a new event becomes an update now. Otherwise it waits.
    pub(super) fn is_due(&mut self) -> bool {
        if self.interval.is_zero() {
            return true;
        }
        let now = Instant::now();
        self.waits = self.next.is_some_and(|next| now < next);
        if !self.waits {
            self.next = Some(now + self.interval);
        }
        !self.waits
    }

    /// Returns the time at which the waiting event becomes an update; `None` if no event waits.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.next.filter(|_| self.waits)
    }

    /// Returns whether an event waits, and lets it become an update now, whatever the time.
    fn release(&mut self) -> bool {
        let waited = mem::take(&mut self.waits);
        if waited {
            self.next = Some(Instant::now() + self.interval);
        }
        waited
    }
}

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
        for path in [&["status", "message", "parts"][..], &["parts"]] {
            let parts = path
                .iter()
                .try_fold(&mut shown, |value, key| value.get_mut(key));
            if let Some(parts) = parts {
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
    fn flush(&mut self, task_id: &str, context_id: Option<&str>) -> Vec<Value> {
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
mod update_pacer_tests {
    use super::*;
    use tokio::time::advance;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn one_event_in_each_interval_becomes_an_update() {
        let mut pacer = UpdatePacer::new(INTERVAL);
        let mut due = Vec::new();
        for ms in 0..1000 {
            if pacer.is_due() {
                due.push(ms);
            }
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(due, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    #[tokio::test(start_paused = true)]
    async fn early_event_waits_for_the_end_of_the_interval() {
        let mut pacer = UpdatePacer::new(INTERVAL);
        let start = Instant::now();
        assert!(pacer.is_due() && pacer.waits_until().is_none());
        assert!(!pacer.is_due());
        assert_eq!(pacer.waits_until(), Some(start + INTERVAL));
        assert!(pacer.release() && !pacer.release());
        assert_eq!(pacer.waits_until(), None);
    }

    #[test]
    fn without_an_interval_every_event_becomes_an_update() {
        let mut pacer = UpdatePacer::new(Duration::ZERO);
        assert!((0..100).all(|_| pacer.is_due()) && !pacer.release());
    }
}

#[cfg(test)]
mod update_redaction_tests {
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
