//! Envelopes that answer others.

use serde_json::{Value, json};

use super::{Envelope, EnvelopeError, ErrorCode, Kind};

/// The sender of the messages of a gateway (Heretek A2A §10.5).
pub const GATEWAY: &str = "gateway";

impl Envelope {
    /// Returns an envelope that says which message it answers: `metadata.correlationId` is that of the request where it
    /// has one, `metadata.parentId` its id.
    pub fn answer(kind: Kind, content: Value, request: &Self) -> Self {
        Self::new(kind, content).refers_to(request.correlation_id(), request.id())
    }

    /// Returns an error message of a gateway (Heretek A2A, "Error Message Format"), with the message that it answers,
    /// if known. `message` is a sentence without credentials.
    pub fn error(code: ErrorCode, message: &str, request: Option<&Self>) -> Self {
        let correlation_id = request.and_then(Self::correlation_id);
        Self::failure(code, message).refers_to(correlation_id, request.and_then(Self::id))
    }

    /// Returns the error that an error message states: by its name, in the content or beside it, or else by its number.
    pub fn error_code(&self) -> Option<ErrorCode> {
        let by_name = |name: &Value| name.as_str().and_then(ErrorCode::from_name);
        let content = self.content();
        let by_number = || content["code"].as_u64().and_then(ErrorCode::from_number);
        by_name(&content["error"])
            .or_else(by_number)
            .or_else(|| self.field("error").and_then(by_name))
    }

    fn failure(code: ErrorCode, message: &str) -> Self {
        let content = json!({"error": code.name(), "message": message, "code": code.number()});
        Self::new(Kind::Error, content).with("from", GATEWAY)
    }

    fn refers_to(self, correlation_id: Option<&str>, id: Option<&str>) -> Self {
        let fields = [("correlationId", correlation_id), ("parentId", id)];
        let known = fields
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)));
        known.fold(self, |answer, (field, value)| {
            answer.with_metadata(field, value)
        })
    }
}

impl EnvelopeError {
    /// Returns the error of a gateway for it.
    pub fn answer(&self) -> Envelope {
        Envelope::failure(self.code, &self.message)
            .refers_to(self.correlation_id.as_deref(), self.id.as_deref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request() -> Envelope {
        let content = json!({"role": "user", "content": "hi"});
        Envelope::new(Kind::Message, content)
            .with("id", "msg-1")
            .with_metadata("correlationId", "corr-1")
    }

    #[test]
    fn h_25_error_has_name_code_message_and_correlation() {
        let error = Envelope::error(
            ErrorCode::AgentNotFound,
            "There is no such agent",
            Some(&request()),
        );
        assert_eq!(
            error.into_json(),
            json!({
                "type": "error",
                "from": "gateway",
                "content": {"error": "AGENT_NOT_FOUND", "message": "There is no such agent", "code": 3001},
                "metadata": {"correlationId": "corr-1", "parentId": "msg-1"},
            })
        );
    }

    #[test]
    fn connection_error_answers_no_message() {
        let error = Envelope::error(ErrorCode::AuthRequired, "Say who you are", None);
        assert_eq!(error.field("metadata"), None);
    }

    #[test]
    fn answer_to_malformed_frame_uses_readable_ids() {
        let frame = r#"{"type": "dance", "id": "m", "correlationId": "top"}"#;
        let answer = Envelope::parse(frame).unwrap_err().answer();
        assert_eq!(answer.content()["code"], 2004);
        assert_eq!(answer.correlation_id(), Some("top"));
        assert_eq!(answer.parent_id(), Some("m"));
    }

    #[test]
    fn answer_has_the_ids_of_its_request() {
        let content = json!({"role": "agent", "content": "hello"});
        let answer = Envelope::answer(Kind::Message, content.clone(), &request());
        assert_eq!(answer.content(), &content);
        assert_eq!(answer.correlation_id(), Some("corr-1"));
        assert_eq!(answer.parent_id(), Some("msg-1"));
    }
}
