//! Writes envelopes, and is the only module that does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Not;

use serde::Serialize;
use serde_json::{Map, Value, json};

use a2a::{Artifact, Usage};
use base::budget::Level;
use base::json::append;

use super::artifacts::ArtifactPage;
use super::error::{Reason, ToolError};
use super::request::Continuation;

const OPERATION: &str = "remote_agent";

/// The initial capacity in bytes; most envelopes fit.
const INITIAL_CAPACITY_BYTES: usize = 1024;

#[derive(Serialize)]
struct Success<'a, S, R> {
    ok: bool,
    operation: &'static str,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    summary: S,
    raw: R,
}

/// Returns the envelope of a successful call.
pub(super) fn success(action: &str, summary: impl Serialize, raw: impl Serialize) -> String {
    serialize(&Success {
        ok: true,
        operation: OPERATION,
        action,
        phase: None,
        summary,
        raw,
    })
}

/// Writes the updates during a call. They begin alike, so only the event is written each time.
#[derive(Debug, Default)]
pub(super) struct UpdateWriter {
    /// The last update, which begins with the head.
    json: Vec<u8>,
    head_bytes: usize,
}

impl UpdateWriter {
    /// Creates a writer of updates. Their summary is `summary` with what the event adds.
    pub(super) fn new(action: &str, summary: impl Serialize) -> Self {
        /// How an update ends after its summary.
        const END: &str = r#"},"raw":null}"#;
        let whole = serialize(&Success {
            ok: true,
            operation: OPERATION,
            action,
            phase: Some("update"),
            summary,
            raw: (),
        });
        let head_bytes = whole.len().saturating_sub(END.len());
        let json = whole.into_bytes();
        Self { json, head_bytes }
    }

    /// Returns the update for an event whose status has the text `status_message`.
    pub(super) fn write(&mut self, status_message: Option<&str>, event: &impl Serialize) -> &str {
        self.json.truncate(self.head_bytes);
        let written = self.append(status_message, event);
        let json = written.ok().and_then(|()| str::from_utf8(&self.json).ok());
        json.unwrap_or(UNWRITABLE)
    }

    fn append(
        &mut self,
        status_message: Option<&str>,
        event: &impl Serialize,
    ) -> serde_json::Result<()> {
        let json = &mut self.json;
        if let Some(text) = status_message {
            json.extend_from_slice(br#","status_message":"#);
            append(json, text)?;
        }
        json.extend_from_slice(br#"},"raw":"#);
        append(json, event)?;
        json.push(b'}');
        Ok(())
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    ok: bool,
    #[serde(rename = "isError")]
    is_error: bool,
    operation: &'static str,
    action: &'a str,
    error: ErrorFields,
}

/// An error in an envelope.
#[derive(Serialize)]
struct ErrorFields {
    code: &'static str,
    reason: Reason,
    retryable: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'static, str>>,
    /// Absent where the message may quote a peer.
    #[serde(skip_serializing_if = "is_true")]
    quotes_peer: bool,
    details: Map<String, Value>,
}

impl From<ToolError> for ErrorFields {
    fn from(error: ToolError) -> Self {
        let path = error.path();
        let mut details = error.details;
        details
            .entry("hint")
            .or_insert_with(|| error.reason.hint().into());
        Self {
            code: error.reason.code().as_str(),
            reason: error.reason,
            retryable: error.retryable,
            message: error.message,
            path,
            quotes_peer: error.quotes_peer,
            details,
        }
    }
}

/// Returns the envelope of a failed call.
pub(super) fn failure(action: &str, error: ToolError) -> String {
    serialize(&Failure {
        ok: false,
        is_error: true,
        operation: OPERATION,
        action,
        error: error.into(),
    })
}

/// Returns an error as envelopes show it.
pub(super) fn error_json(error: ToolError) -> Value {
    json!(ErrorFields::from(error))
}

/// The envelope of a result that cannot be written. `serde_json` fails here only on maps with keys that are not strings, and
/// no envelope has one.
const UNWRITABLE: &str = r#"{"ok":false,"isError":true,"operation":"remote_agent","action":"unknown","error":{"code":"INTERNAL_ERROR","reason":"internal","retryable":false,"message":"the result cannot be written as JSON","quotes_peer":false,"details":{"hint":"This is a bug of the plugin."}}}"#;

fn serialize(envelope: &impl Serialize) -> String {
    let mut json = Vec::with_capacity(INITIAL_CAPACITY_BYTES);
    let written = append(&mut json, envelope);
    let json = written.ok().and_then(|()| String::from_utf8(json).ok());
    json.unwrap_or_else(|| UNWRITABLE.to_owned())
}

/// `summary` of send, watch, status and cancel.
#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target_alias: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target_name: Option<&'a str>,
    pub(super) target_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) streaming_supported: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) extensions: BTreeMap<&'a str, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) artifacts: Vec<&'a Artifact>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) wait_expired: bool,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) incomplete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_step: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) notify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) person: Option<&'a PersonReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifact_page: Option<ArtifactPage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget_warning: Option<&'a Level>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) card_warning: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continuation: Option<Continuation<'a>>,
}

/// `summary.person`: what became of the questions to a person.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PersonReport {
    pub(super) outcome: ReportOutcome,
    pub(super) questions: usize,
    pub(super) question_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// Whether the agent may have an answer that it did not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delivered: Option<&'static str>,
    /// The words, where the target shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) answers: Vec<String>,
}

/// What became of the last question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReportOutcome {
    /// A person answered, and the agent has the answer.
    Answered,
    /// A person declined.
    Declined,
    /// A person left the answer to the model.
    Passed,
    /// No person answered in time.
    Timeout,
    /// No person could be asked.
    Unreachable,
    /// Twice, the answer did not fit.
    Invalid,
    /// Another call asks about the same task.
    Busy,
    /// The agent asked too often in one call, or a budget has no room for the answer.
    Limit,
    /// The answer was not sent, or the agent did not take it.
    Unsent,
}

fn is_true(value: &bool) -> bool {
    *value
}
