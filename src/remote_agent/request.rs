//! The typed request, parsed after it passed the schema, and hints for a request that the schema or its rules refuse,
//! where the instance knows more than the violation says.
//!
//! `continuation` is the reference to a task or conversation that a result contains and a later request repeats
//! (openclaw-a2a-outbound, "Reading Output Continuations"). `resolve` finds its target.

use std::collections::BTreeMap;

use a2a::{Part, TaskState, Transport};
use base::named;
use base::text::first_chars;
use base::validation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::handles::Handle;
use crate::targets::{Catalog, Target, transports};

named! {
    /// The action of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Action {
        /// List the targets.
        ListTargets = "list_targets",
        /// Send a message.
        Send = "send",
        /// Follow a task.
        Watch = "watch",
        /// Query a task's state.
        Status = "status",
        /// Cancel a task.
        Cancel = "cancel",
    }
}

/// A request (openclaw-a2a-outbound, "Unified Tool Contract").
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub action: Action,
    /// What a listing of targets is for.
    pub query: Option<String>,
    /// The target's alias.
    pub target_alias: Option<String>,
    /// The target's base URL.
    pub target_url: Option<String>,
    /// The parts of the message.
    pub parts: Option<Vec<PartRequest>>,
    /// The handle of a task.
    pub task_handle: Option<String>,
    /// A continuation from an earlier result.
    pub continuation: Option<ReceivedContinuation>,
    /// The message's id, if the caller sets it.
    pub message_id: Option<String>,
    /// The task's id at the peer.
    pub task_id: Option<String>,
    /// The conversation.
    pub context_id: Option<String>,
    /// Tasks that the message refers to.
    #[serde(default)]
    pub reference_task_ids: Vec<String>,
    /// Whether the answer must be a task.
    #[serde(default)]
    pub task_requirement: TaskRequirement,
    /// Whether to stream updates while the peer works.
    #[serde(default)]
    pub follow_updates: bool,
    /// Whether to wake the calling session when the task ends or asks; `None` means the setting of the target.
    pub notify: Option<bool>,
    /// The media types that the caller accepts.
    pub accepted_output_modes: Option<Vec<String>>,
    /// Whether the peer should answer when it is done.
    pub blocking: Option<bool>,
    /// How many of the newest messages the peer should return at most.
    #[serde(default, deserialize_with = "validation::optional_integer")]
    pub history_length: Option<u64>,
    /// The artifact whose text to return.
    pub artifact_id: Option<String>,
    /// The start in that text, in characters.
    #[serde(default, deserialize_with = "validation::optional_integer")]
    pub offset: Option<u64>,
    /// The timeout of the call.
    #[serde(default, deserialize_with = "validation::optional_integer")]
    pub timeout_ms: Option<u64>,
    /// Extra HTTP headers.
    #[serde(default)]
    pub service_parameters: BTreeMap<String, String>,
    /// Extra data for the peer.
    pub metadata: Option<Map<String, Value>>,
    /// The push notification config for the peer.
    pub push_notification_config: Option<Value>,
}

impl Request {
    /// Returns whether the call follows a task for as long as its caller waits. Any other call ends with one answer.
    pub(super) fn follows(&self) -> bool {
        self.action == Action::Watch || (self.action == Action::Send && self.follow_updates)
    }
}

/// Whether a send must create a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskRequirement {
    /// The peer may answer with a message instead.
    #[default]
    Optional,
    Required,
}

/// A part of a message.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PartRequest {
    Text {
        text: String,
        /// Metadata of the part.
        metadata: Option<Map<String, Value>>,
    },
    File {
        /// Its URL.
        uri: Option<String>,
        /// Its content, in base64.
        bytes: Option<String>,
        name: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
        /// Metadata of the part.
        metadata: Option<Map<String, Value>>,
    },
    Data {
        data: Map<String, Value>,
        /// Metadata of the part.
        metadata: Option<Map<String, Value>>,
    },
}

impl PartRequest {
    /// Returns the text of a text part.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Converts the part to the peer's type.
    pub(super) fn into_part(self) -> Part {
        match self {
            Self::Text { text, metadata } => Part::text(text).with_metadata(metadata),
            Self::File {
                uri,
                bytes,
                name,
                mime_type,
                metadata,
            } => Part::file(uri, bytes, name, mime_type).with_metadata(metadata),
            Self::Data { data, metadata } => Part::data(data).with_metadata(metadata),
        }
    }
}

/// Converts a push notification config to the peer's names, which differ in case only.
pub(super) fn push_config(request: &Value) -> Value {
    let mut config = json!({});
    for key in ["url", "id", "token", "authentication"] {
        if let (Some(value), Some(config)) = (request.get(key), config.as_object_mut()) {
            config.insert(key.to_owned(), value.clone());
        }
    }
    config
}

/// `summary.continuation`: what another call needs to continue, in this process or another (openclaw-a2a-outbound,
/// "Reading Output Continuations").
#[derive(Debug, Serialize)]
pub(super) struct Continuation<'a> {
    target: TargetReference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<TaskReference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<ConversationReference<'a>>,
}

/// The target of a continuation.
#[derive(Debug, Serialize)]
pub(super) struct TargetReference<'a> {
    target_url: &'a str,
    card_path: &'a str,
    preferred_transports: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_alias: Option<&'a str>,
}

impl<'a> TargetReference<'a> {
    pub(super) fn new(target: &'a Target) -> Self {
        let preferred = target.peer_config.preferred.iter();
        Self {
            target_url: &target.url,
            card_path: &target.card_path,
            preferred_transports: preferred.map(|transport| transport.as_str()).collect(),
            target_alias: target.alias.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
struct TaskReference<'a> {
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
struct ConversationReference<'a> {
    context_id: &'a str,
    can_send: bool,
}

impl<'a> Continuation<'a> {
    /// Returns how to continue a task or a conversation at `target`; `None` if there is neither.
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
            TaskReference {
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
            target: TargetReference::new(target),
            task,
            conversation: context_id.map(|context_id| ConversationReference {
                context_id,
                can_send: true,
            }),
        })
    }
}

/// Returns whether a target of a group in this state has answered.
pub(super) fn is_answer(state: &str) -> bool {
    matches!(state, "completed" | "answered")
}

/// Returns whether nothing more comes of the message to a target of a group in this state.
pub(super) fn is_over(state: &str) -> bool {
    is_answer(state)
        || matches!(
            state,
            "failed" | "rejected" | "canceled" | "not_sent" | "forgotten"
        )
}

/// A continuation in a request: that of an earlier result.
#[derive(Debug, Deserialize)]
pub(super) struct ReceivedContinuation {
    /// The peer.
    pub target: ReceivedTarget,
    /// The task.
    pub task: Option<ReceivedTask>,
    /// The conversation.
    pub conversation: Option<ReceivedConversation>,
}

/// The peer of a continuation.
#[derive(Debug, Deserialize)]
pub(super) struct ReceivedTarget {
    /// Its base URL.
    pub target_url: String,
    /// The path of its card.
    pub card_path: String,
    /// The transports of the earlier call.
    pub preferred_transports: Vec<String>,
    /// Its alias.
    pub target_alias: Option<String>,
}

impl ReceivedTarget {
    /// Parses the transports and skips unknown ones.
    pub(super) fn transports(&self) -> Vec<Transport> {
        transports(&self.preferred_transports)
    }
}

/// The task of a continuation.
#[derive(Debug, Deserialize)]
pub(super) struct ReceivedTask {
    /// Its handle.
    pub task_handle: Option<String>,
    /// Its id at the peer.
    pub task_id: String,
}

/// The conversation of a continuation.
#[derive(Debug, Deserialize)]
pub(super) struct ReceivedConversation {
    /// Its id.
    pub context_id: String,
}

/// The fields that callers use in place of `parts`.
const MESSAGE_FIELDS: [&str; 7] = [
    "message", "text", "content", "prompt", "query", "input", "body",
];

/// The maximum number of targets that a hint names, and the maximum length of a wrong name in characters.
const MAX_NAMED_TARGETS: usize = 8;
const MAX_NAME_CHARS: usize = 64;

/// Returns the hint for a request whose first violation is `violation`, if there is a better one than the violation itself.
pub(super) fn request_hint(
    request: &Value,
    violation: &Value,
    catalog: &Catalog,
) -> Option<String> {
    let text = |field: &str| violation[field].as_str().unwrap_or_default();
    match (text("instancePath"), text("keyword")) {
        (place, "enum" | "anyOf" | "pattern")
            if place == "/target_alias" || place.starts_with("/target_aliases/") =>
        {
            let known = known_targets(catalog)?;
            let name = request.pointer(place)?.as_str()?;
            let name = first_chars(name, MAX_NAME_CHARS);
            Some(format!(
                "No target is named `{}`. Use one of these as target_alias: {known}; list_targets describes them.",
                name.escape_debug()
            ))
        }
        ("", "additionalProperties") => {
            let field = violation["params"]["additionalProperty"].as_str()?;
            (request["action"] == "send" && MESSAGE_FIELDS.contains(&field)).then(|| {
                format!(
                    "Write the message as parts: [{{\"kind\": \"text\", \"text\": \"…\"}}], and leave out `{field}`."
                )
            })
        }
        // The rule that a request needs a target.
        ("", "anyOf") if request["action"] == "send" || request["task_id"].is_string() => {
            match (catalog.aliases().as_slice(), catalog.local()) {
                ([only], None) => Some(format!("Add target_alias: `{only}`, the only target.")),
                ([], None) => {
                    Some("No target is configured: ask the operator to add one.".to_owned())
                }
                _ => {
                    let known = known_targets(catalog)?;
                    Some(format!("Add target_alias, one of these: {known}."))
                }
            }
        }
        _ => None,
    }
}

/// Returns the aliases of the targets; `None` if there are none.
fn known_targets(catalog: &Catalog) -> Option<String> {
    let aliases = catalog.aliases();
    let mut named: Vec<String> = aliases
        .iter()
        .take(MAX_NAMED_TARGETS)
        .map(|alias| format!("`{alias}`"))
        .collect();
    if aliases.len() > MAX_NAMED_TARGETS {
        named.push(format!("{} more", aliases.len() - MAX_NAMED_TARGETS));
    }
    if catalog.local().is_some() {
        named.push("`gateway:NAME`".to_owned());
    }
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::config::Config;

    fn catalog(config: &Value) -> Catalog {
        Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap()
    }

    fn target(alias: &str) -> Value {
        json!({"alias": alias, "baseUrl": format!("https://{alias}.example")})
    }

    #[test]
    fn hint_names_what_the_caller_can_write() {
        let one = json!({"targets": [target("desk")]});
        let two = json!({"targets": [target("desk"), target("shop")]});
        let local = json!({"targets": [target("desk")], "gateway": {"enabled": true}});
        let alias = json!({"instancePath": "/target_alias", "keyword": "enum"});
        let extra = |name: &str| json!({"instancePath": "", "keyword": "additionalProperties", "params": {"additionalProperty": name}});
        let no_target = json!({"instancePath": "", "keyword": "anyOf"});
        let send = json!({"action": "send", "target_alias": "dusk"});
        #[rustfmt::skip] // One row a line.
        let cases = [
            (&two, &alias, Some("No target is named `dusk`. Use one of these as target_alias: `desk`, `shop`; list_targets describes them.")),
            (&local, &alias, Some("No target is named `dusk`. Use one of these as target_alias: `desk`, `gateway:NAME`; list_targets describes them.")),
            (&one, &extra("message"), Some(r#"Write the message as parts: [{"kind": "text", "text": "…"}], and leave out `message`."#)),
            (&one, &extra("timeout"), None),
            (&one, &no_target, Some("Add target_alias: `desk`, the only target.")),
            (&two, &no_target, Some("Add target_alias, one of these: `desk`, `shop`.")),
            (&json!({}), &no_target, Some("No target is configured: ask the operator to add one.")),
        ];
        for (config, violation, expected) in cases {
            let hint = request_hint(&send, violation, &catalog(config));
            assert_eq!(hint.as_deref(), expected, "{config} {violation}");
        }
    }

    #[test]
    fn wrong_name_is_short_and_on_one_line() {
        let alias = json!({"instancePath": "/target_alias", "keyword": "enum"});
        let request = json!({"action": "send", "target_alias": format!("a\n{}", "b".repeat(5000))});
        let hint = request_hint(
            &request,
            &alias,
            &catalog(&json!({"targets": [target("desk")]})),
        );
        let hint = hint.unwrap();
        assert!(hint.len() < 200 && !hint.contains('\n'), "{hint}");
    }
}
