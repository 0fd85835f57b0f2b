//! The fields of a message that its replies and the audit log need.

use serde_json::Value;

use collective::{Envelope, Kind};

use super::error::RequestError;

/// The fields of a message that its replies and the audit log need. The message itself is moved without a copy.
#[derive(Debug, Clone)]
pub(super) struct ReplyContext {
    pub(super) kind: Kind,
    pub(super) id: Option<String>,
    pub(super) correlation: Option<String>,
    /// The recipient.
    pub(super) destination: Option<String>,
    /// Whether the sender requires a response (`metadata.requiresResponse`).
    pub(super) requires_response: bool,
}

impl ReplyContext {
    pub(super) fn new(envelope: &Envelope) -> Self {
        Self {
            kind: envelope.kind(),
            id: envelope.id().map(str::to_owned),
            correlation: envelope.correlation_id().map(str::to_owned),
            destination: destination(envelope).map(str::to_owned),
            requires_response: envelope.metadata("requiresResponse") == Some(&Value::Bool(true)),
        }
    }

    /// Builds a reply of the gateway.
    pub(super) fn reply(&self, kind: Kind, content: Value) -> Envelope {
        self.with_references(Envelope::new(kind, content))
    }

    /// Builds an error in reply.
    pub(super) fn error(&self, error: &RequestError) -> Envelope {
        self.with_references(error.to_envelope())
    }

    fn with_references(&self, answer: Envelope) -> Envelope {
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
        Kind::Request => envelope.agent().or_else(|| envelope.content_str("service")),
        Kind::Broadcast => Some("*"),
        _ => envelope.agent(),
    }
}
