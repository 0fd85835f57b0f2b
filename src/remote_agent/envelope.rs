//! Writes envelopes, and is the only module that does.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::handles::Handle;
use crate::targets::Target;
use a2a::{Artifact, TaskState};

use super::artifact_text::ArtifactPage;
use super::error::ToolError;

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
    write(&Success {
        ok: true,
        operation: OPERATION,
        action,
        phase: None,
        summary,
        raw,
    })
}

/// Returns the beginning of the updates during a call, up to the end of their summary.
pub(super) fn update_head(action: &str, summary: impl Serialize) -> String {
    let mut head = write(&Success {
        ok: true,
        operation: OPERATION,
        action,
        phase: Some("update"),
        summary,
        raw: (),
    });
    head.truncate(head.len().saturating_sub(UPDATE_TAIL.len()));
    head
}

/// How an [`update_head`] goes on in the envelope that it is taken from.
const UPDATE_TAIL: &str = r#"},"raw":null}"#;

/// Returns an update during a call: the text of an event's status, and the event.
pub(super) fn update(head: &str, status_message: Option<&str>, event: &Value) -> String {
    let mut json = Vec::with_capacity(2 * INITIAL_CAPACITY_BYTES);
    json.extend_from_slice(head.as_bytes());
    if let Some(text) = status_message {
        json.extend_from_slice(br#","status_message":"#);
        append(&mut json, text);
    }
    json.extend_from_slice(br#"},"raw":"#);
    append(&mut json, event);
    json.push(b'}');
    finished(json)
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
    reason: &'static str,
    retryable: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'static, str>>,
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
            reason: error.reason.as_str(),
            retryable: error.retryable,
            message: error.message,
            path,
            details,
        }
    }
}

/// Returns the envelope of a failed call.
pub(super) fn failure(action: &str, error: ToolError) -> String {
    write(&Failure {
        ok: false,
        is_error: true,
        operation: OPERATION,
        action,
        error: error.into(),
    })
}

/// Returns an error as envelopes show it.
pub(super) fn shown(error: ToolError) -> Value {
    json!(ErrorFields::from(error))
}

fn write(envelope: &impl Serialize) -> String {
    let mut json = Vec::with_capacity(INITIAL_CAPACITY_BYTES);
    append(&mut json, envelope);
    finished(json)
}

/// Appends a value as JSON.
fn append(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    if serde_json::to_writer(&mut *json, value).is_err() {
        // It fails only on maps with keys that are not strings, and no envelope has one.
        json.clear();
    }
}

fn finished(json: Vec<u8>) -> String {
    let json = String::from_utf8(json).ok();
    json.filter(|json| json.starts_with('{')).unwrap_or_else(|| {
        r#"{"ok":false,"isError":true,"operation":"remote_agent","action":"unknown","error":{"code":"INTERNAL_ERROR","reason":"internal","retryable":false,"message":"the result cannot be written as JSON","details":{"hint":"This is a bug of the plugin."}}}"#.to_owned()
    })
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) artifacts: Vec<&'a Artifact>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) wait_expired: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) incomplete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_step: Option<&'static str>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) notify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifact_page: Option<ArtifactPage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continuation: Option<Continuation<'a>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// `summary.continuation`: what another call needs to continue, in this process or another (openclaw-a2a-outbound,
/// "Reading Output Continuations").
#[derive(Debug, Serialize)]
pub(super) struct Continuation<'a> {
    target: ContinuationTarget<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<ContinuationTask<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<Conversation<'a>>,
}

#[derive(Debug, Serialize)]
struct ContinuationTarget<'a> {
    target_url: &'a str,
    card_path: &'a str,
    preferred_transports: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_alias: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct ContinuationTask<'a> {
    task_handle: String,
    task_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a str>,
    can_resume_send: bool,
    can_send: bool,
    can_status: bool,
    can_cancel: bool,
    can_watch: bool,
}

#[derive(Debug, Serialize)]
struct Conversation<'a> {
    context_id: &'a str,
    can_send: bool,
}

impl<'a> Continuation<'a> {
    /// Returns how to continue a task or a conversation at `target`; `None` where there is neither.
    pub(super) fn new(
        target: &'a Target,
        task: Option<(Handle, &'a str, Option<&'a TaskState>)>,
        context_id: Option<&'a str>,
    ) -> Option<Self> {
        if task.is_none() && context_id.is_none() {
            return None;
        }
        let task = task.map(|(handle, task_id, state)| {
            let open = !state.is_some_and(TaskState::is_terminal);
            ContinuationTask {
                task_handle: handle.to_string(),
                task_id,
                status: state.map(TaskState::as_str),
                can_resume_send: open,
                can_send: open,
                can_status: true,
                can_cancel: open,
                can_watch: open,
            }
        });
        Some(Self {
            target: ContinuationTarget {
                target_url: &target.url,
                card_path: &target.card_path,
                preferred_transports: target
                    .peer_config
                    .preferred
                    .iter()
                    .map(|t| t.as_str())
                    .collect(),
                target_alias: target.alias.as_deref(),
            },
            task,
            conversation: context_id.map(|context_id| Conversation {
                context_id,
                can_send: true,
            }),
        })
    }
}
