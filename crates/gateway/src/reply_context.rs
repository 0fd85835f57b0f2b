//! What is kept of a message while it is worked on: what an answer goes by, and what the audit log notes.

use serde_json::Value;

use collective::{Envelope, Kind};

use super::refusal::Refusal;

/// The head of a message. The message itself is passed on without a copy.
#[derive(Debug, Clone)]
pub(super) struct ReplyContext {
    pub(super) kind: Kind,
    pub(super) id: Option<String>,
    pub(super) correlation: Option<String>,
    /// Whom it is for.
    pub(super) destination: Option<String>,
    /// Its sender wants an answer whatever comes of it.
    pub(super) wants_answer: bool,
}

impl ReplyContext {
    pub(super) fn of(envelope: &Envelope) -> Self {
        Self {
            kind: envelope.kind(),
            id: envelope.id().map(str::to_owned),
            correlation: envelope.correlation_id().map(str::to_owned),
            destination: destination(envelope).map(str::to_owned),
            wants_answer: envelope.metadata("requiresResponse") == Some(&Value::Bool(true)),
        }
    }

    /// An answer of the gateway.
    pub(super) fn answer(&self, kind: Kind, content: Value) -> Envelope {
        self.refer(Envelope::new(kind, content))
    }

    /// The error that says why not.
    pub(super) fn refuse(&self, refusal: &Refusal) -> Envelope {
        self.refer(refusal.answer(None))
    }

    fn refer(&self, answer: Envelope) -> Envelope {
        let fields = [("correlationId", &self.correlation), ("parentId", &self.id)];
        let known = fields
            .into_iter()
            .filter_map(|(field, id)| Some((field, id.as_deref()?)));
        known.fold(answer, |answer, (field, id)| {
            answer.with_metadata(field, id)
        })
    }
}

fn destination(envelope: &Envelope) -> Option<&str> {
    match envelope.kind() {
        Kind::Proposal | Kind::Vote => Some("triad"),
        Kind::Request => envelope.agent().or_else(|| envelope.said("service")),
        Kind::Broadcast => Some("*"),
        _ => envelope.agent(),
    }
}
