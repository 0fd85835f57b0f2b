//! Updates about a call.

use serde_json::Value;
use tokio::time::Instant;

use crate::handles::Handle;
use a2a::{TaskState, text_at};
use base::panics;
use peer::NegotiatedProtocol;

use crate::remote_agent::UpdateCallback;
use crate::remote_agent::collected::{Collected, Kind};
use crate::remote_agent::envelope::UpdateWriter;
use crate::remote_agent::update_redaction::UpdateRedaction;

use super::Call;

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
        let status = status.and_then(|status| text_at(status, "/message/parts"));
        let update = self.writer.write(status.as_deref(), event);
        let _ = panics::catch(|| updates(update));
    }
}

/// What updates show of a call, beside the event.
#[derive(PartialEq)]
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
        let header = UpdateHeader {
            protocol: self.peer.as_ref().map(|peer| peer.protocol()),
            kind: collected.kind,
            state: collected.state.clone(),
            handle: self.handle,
            task_id: collected.task_id.clone(),
            context_id: collected.context_id.clone(),
        };
        if self.update_sender.header.as_ref() != Some(&header) {
            self.update_sender = UpdateSender {
                writer: UpdateWriter::new(self.action.as_str(), self.base_summary()),
                header: Some(header),
            };
        }
    }
}

/// Returns the text that updates held back, as the last pieces of the task's artifacts.
fn flush_redaction(redaction: &mut UpdateRedaction, collected: &Collected) -> Vec<Value> {
    let task_id = collected.task_id.as_deref().unwrap_or_default();
    redaction.flush(task_id, collected.context_id.as_deref())
}
