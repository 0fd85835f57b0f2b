//! The agents behind the gateway and their status (Heretek A2A §6).

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::TRIAD;
use crate::dial::failed;
use collective::{AgentStatus, Envelope, ErrorCode, imitates_marker};
use peer::PeerError;

use super::read_error;

/// The maximum number of listed agents.
const MAX_AGENTS: usize = 1000;

/// The maximum length of an agent's name, in characters.
const MAX_NAME_CHARS: usize = 128;

/// The agents that the gateway named on one connection.
#[derive(Default)]
pub(crate) struct AgentRegistry {
    agents: Mutex<BTreeMap<String, AgentEntry>>,
    /// The name of this plugin at the gateway, if the gateway assigned one.
    own_name: OnceLock<String>,
    pending: Mutex<Option<PendingList>>,
    /// Serializes list requests, because a list does not refer to its request.
    pub(super) list_lock: tokio::sync::Mutex<()>,
    /// Whether the last list request had no answer.
    silent: AtomicBool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct AgentEntry {
    pub(super) role: Option<String>,
    pub(super) description: Option<String>,
    pub(super) status: Option<AgentStatus>,
}

/// A list request that waits for its answer.
struct PendingList {
    request_id: String,
    correlation_id: String,
    answer: oneshot::Sender<Result<(), PeerError>>,
}

/// Removes the list request when its caller stops waiting, so that a later error is not matched with it.
pub(super) struct ListGuard<'a> {
    registry: &'a AgentRegistry,
    /// Receives the answer.
    pub(super) response: oneshot::Receiver<Result<(), PeerError>>,
}

impl Drop for ListGuard<'_> {
    fn drop(&mut self) {
        self.registry.pending.lock().take();
    }
}

impl AgentRegistry {
    /// Excludes this plugin's own name from later lists.
    pub(crate) fn set_own_name(&self, name: &str) {
        // Only the first name counts, because it belongs to this connection.
        let _ = self.own_name.set(name.to_owned());
    }

    /// Adds the agents that the handshake named, until the gateway sends its list.
    pub(crate) fn seed<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let names = names.filter(|name| is_valid_name(name)).take(MAX_AGENTS);
        *self.agents.lock() = names
            .map(|name| (name.to_owned(), AgentEntry::default()))
            .collect();
    }

    /// Fails the pending list request.
    pub(super) fn connection_lost(&self, reason: &str) {
        if let Some(pending) = self.pending.lock().take() {
            let message = format!("the connection to the gateway was lost: {reason}");
            let error = failed(ErrorCode::ConnectionReset, message);
            // The caller may have stopped waiting.
            drop(pending.answer.send(Err(error)));
        }
    }

    /// Returns the agents by name.
    pub(super) fn snapshot(&self) -> BTreeMap<String, AgentEntry> {
        self.agents.lock().clone()
    }

    /// Returns whether the last list request had no answer.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    /// Records that a list request had no answer.
    pub(super) fn set_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// Registers a list request.
    pub(super) fn start_list(&self, request_id: &str, correlation_id: String) -> ListGuard<'_> {
        let (answer, response) = oneshot::channel();
        *self.pending.lock() = Some(PendingList {
            request_id: request_id.to_owned(),
            correlation_id,
            answer,
        });
        ListGuard {
            registry: self,
            response,
        }
    }

    /// Returns whether a list request is pending.
    pub(super) fn is_list_pending(&self) -> bool {
        self.pending.lock().is_some()
    }

    /// Replaces the agents by those of a `discovery`. Returns `false` if it has no list.
    pub(super) fn replace(&self, envelope: &Envelope) -> bool {
        let Some(listed) = envelope.content().get("agents").and_then(Value::as_array) else {
            return false;
        };
        let read = |agent: &Value| {
            let text = |field: &str| agent.get(field).and_then(Value::as_str);
            let is_own = |name: &str| self.own_name.get().is_some_and(|own| own == name);
            let name = text("name").filter(|name| is_valid_name(name) && !is_own(name))?;
            // Leave out the agent's path: it reveals the user of the gateway's machine.
            let entry = AgentEntry {
                role: text("role").map(str::to_owned),
                description: text("description").map(str::to_owned),
                status: reported_status(text("status")),
            };
            Some((name.to_owned(), entry))
        };
        *self.agents.lock() = listed.iter().filter_map(read).take(MAX_AGENTS).collect();
        self.silent.store(false, Ordering::SeqCst);
        if let Some(pending) = self.pending.lock().take() {
            // The caller may have stopped waiting.
            drop(pending.answer.send(Ok(())));
        }
        true
    }

    /// Fails the pending list request if the error refers to it. An error without a request id refers to it if `idle`, which
    /// means that no message waits for an answer.
    pub(super) fn fail_list(&self, envelope: &Envelope, idle: bool) -> bool {
        let mut pending = self.pending.lock();
        let ids = [envelope.correlation_id(), envelope.parent_id()];
        let answers = pending.as_ref().is_some_and(|pending| {
            let is_pending_id =
                |name: &str| name == pending.correlation_id || name == pending.request_id;
            ids.into_iter().flatten().any(is_pending_id) || (ids == [None, None] && idle)
        });
        if !answers {
            return false;
        }
        if let Some(pending) = pending.take() {
            drop(pending.answer.send(Err(read_error(envelope).into_error())));
        }
        true
    }

    /// Sets the status of an agent. Returns whether it changed.
    pub(super) fn set_status(&self, agent: &str, status: Option<AgentStatus>) -> bool {
        let mut agents = self.agents.lock();
        if agents.len() >= MAX_AGENTS && !agents.contains_key(agent) {
            return false;
        }
        let entry = agents.entry(agent.to_owned()).or_default();
        std::mem::replace(&mut entry.status, status) != status
    }
}

/// Parses a status of the gateway, in any case of its letters.
pub(super) fn reported_status(name: Option<&str>) -> Option<AgentStatus> {
    AgentStatus::reported(&name?.to_ascii_lowercase())
}

/// Returns whether this is a valid agent name. The triad is not an agent. Readers see names beside the text of their own
/// tools, so a name has only the characters of an identifier.
pub(super) fn is_valid_name(name: &str) -> bool {
    let clean = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@');
    !name.is_empty()
        && name != TRIAD
        && name.chars().count() <= MAX_NAME_CHARS
        && name.chars().all(clean)
        && !imitates_marker(name)
}
