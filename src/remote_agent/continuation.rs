//! `continuation`: the reference to a task or conversation that a result contains and a later request repeats
//! (openclaw-a2a-outbound, "Reading Output Continuations"). `resolve` finds its target.

use serde::{Deserialize, Serialize};

use a2a::{TaskState, Transport};

use crate::handles::Handle;
use crate::targets::Target;

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

#[derive(Debug, Serialize)]
struct TargetReference<'a> {
    target_url: &'a str,
    card_path: &'a str,
    preferred_transports: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_alias: Option<&'a str>,
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
            target: TargetReference {
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
            conversation: context_id.map(|context_id| ConversationReference {
                context_id,
                can_send: true,
            }),
        })
    }
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
        self.preferred_transports
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect()
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
