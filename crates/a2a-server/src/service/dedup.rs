//! Detection of retried messages: a client whose connection broke can send a message again without starting a second
//! run (A2A 1.0 §3.3.1).
//!
//! The entry is removed once the server has answered. Some clients reuse message ids, and their next message is not a
//! retry.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use a2a::v1_0::{Message, PartContent};
use tokio::time::Instant;

use super::active_task::ActiveTask;

/// How long the server remembers a message.
const DEDUP_WINDOW: Duration = Duration::from_secs(300);

/// The maximum number of remembered messages of one client.
const MAX_MESSAGES: usize = 10_000;

/// The recent messages without an answer, by client.
#[derive(Debug, Default)]
pub(super) struct MessageDedup(Mutex<HashMap<String, ClientMessages>>);

/// The messages of one client, by their ids. A flood of one client evicts no message of another.
#[derive(Debug, Default)]
struct ClientMessages {
    tasks: HashMap<Arc<str>, SeenMessage>,
    /// The ids by the number of their arrival: one for each message of `tasks`.
    order: BTreeMap<u64, Arc<str>>,
    arrivals: u64,
}

#[derive(Debug)]
struct SeenMessage {
    arrival: u64,
    at: Instant,
    digest: u64,
    task_id: String,
    active: Weak<ActiveTask>,
}

/// The earlier message of a retry.
#[derive(Debug)]
pub(super) struct Duplicate {
    /// The id of its task, which the store may not have yet.
    pub(super) task_id: String,
    /// The active task; `None` if the work on it has ended.
    pub(super) active: Option<Arc<ActiveTask>>,
}

impl MessageDedup {
    /// Returns the earlier message if the client recently sent the same one. Otherwise stores this one with the id of
    /// its task.
    pub(super) fn get_or_insert(
        &self,
        client: &str,
        message: &Message,
        agent: Option<&str>,
        task_id: &str,
        active: &Arc<ActiveTask>,
    ) -> Option<Duplicate> {
        let now = Instant::now();
        let digest = digest(message, agent);
        let mut clients = self.0.lock();
        let known = clients.entry(client.to_owned()).or_default();
        known.evict(now);
        let id = message.message_id.as_str();
        if let Some(seen) = known.tasks.get(id)
            && seen.digest == digest
        {
            return Some(Duplicate {
                task_id: seen.task_id.clone(),
                active: seen.active.upgrade(),
            });
        }
        known.insert(
            id.into(),
            SeenMessage {
                arrival: known.arrivals,
                at: now,
                digest,
                task_id: task_id.to_owned(),
                active: Arc::downgrade(active),
            },
        );
        None
    }

    /// Removes the message of the task `task_id`, after the server has answered or rejected it.
    pub(super) fn remove(&self, client: &str, message_id: &str, task_id: &str) {
        let mut clients = self.0.lock();
        let Some(known) = clients.get_mut(client) else {
            return;
        };
        // The id may belong to a later message by now.
        if known
            .tasks
            .get(message_id)
            .is_some_and(|seen| seen.task_id == task_id)
        {
            known.remove(message_id);
        }
        if known.tasks.is_empty() {
            clients.remove(client);
        }
    }
}

impl ClientMessages {
    fn insert(&mut self, id: Arc<str>, seen: SeenMessage) {
        self.arrivals += 1;
        self.order.insert(seen.arrival, Arc::clone(&id));
        if let Some(earlier) = self.tasks.insert(id, seen) {
            self.order.remove(&earlier.arrival);
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(seen) = self.tasks.remove(id) {
            self.order.remove(&seen.arrival);
        }
    }

    /// Removes the expired messages, and makes room for one.
    fn evict(&mut self, now: Instant) {
        while let Some((_, id)) = self.order.first_key_value() {
            let id = Arc::clone(id);
            let at = self.tasks.get(&id).map(|seen| seen.at);
            let is_recent = at.is_some_and(|at| now.duration_since(at) < DEDUP_WINDOW);
            if is_recent && self.order.len() < MAX_MESSAGES {
                break;
            }
            self.remove(&id);
        }
    }
}

/// Hashes a message, to distinguish a retry from another message with the same id.
fn digest(message: &Message, agent: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (agent, &message.context_id, &message.task_id).hash(&mut hasher);
    for part in &message.parts {
        match &part.content {
            PartContent::Text(text) => (0u8, text.as_str()).hash(&mut hasher),
            PartContent::Raw(bytes) => (1u8, bytes.as_slice()).hash(&mut hasher),
            PartContent::Url(url) => (2u8, url.as_str()).hash(&mut hasher),
            PartContent::Data(data) => (3u8, data.to_string()).hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
