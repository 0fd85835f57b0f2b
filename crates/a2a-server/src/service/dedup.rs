//! Detection of retried messages: a client whose connection broke can send a message again without starting a second
//! run (A2A 1.0 §3.3.1).
//!
//! The entry is removed once the server has answered. Some clients reuse message ids, and their next message is not a
//! retry.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use a2a::v1_0::{Message, PartContent};
use tokio::time::Instant;

use super::active_task::ActiveTask;

/// How long the server remembers a message.
const DEDUP_WINDOW: Duration = Duration::from_secs(300);

/// The maximum number of remembered messages of all clients.
const MAX_MESSAGES: usize = 10_000;

/// The recent messages.
#[derive(Debug, Default)]
pub(super) struct MessageDedup(Mutex<DedupState>);

#[derive(Debug, Default)]
struct DedupState {
    tasks: HashMap<Arc<str>, SeenMessage>,
    /// The keys in order of arrival.
    order: VecDeque<(Instant, Arc<str>)>,
}

#[derive(Debug)]
struct SeenMessage {
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
        let key: Arc<str> = key(client, &message.message_id).into();
        let mut known = self.0.lock();
        known.evict_expired(now);
        if let Some(seen) = known.tasks.get(&key)
            && seen.digest == digest
        {
            return Some(Duplicate {
                task_id: seen.task_id.clone(),
                active: seen.active.upgrade(),
            });
        }
        known.order.push_back((now, key.clone()));
        known.tasks.insert(
            key,
            SeenMessage {
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
        let key = key(client, message_id);
        let mut known = self.0.lock();
        // The id may belong to a later message by now.
        if known
            .tasks
            .get(key.as_str())
            .is_some_and(|seen| seen.task_id == task_id)
        {
            known.tasks.remove(key.as_str());
        }
    }
}

impl DedupState {
    fn evict_expired(&mut self, now: Instant) {
        while let Some((at, key)) = self.order.front() {
            if self.order.len() < MAX_MESSAGES && now.duration_since(*at) < DEDUP_WINDOW {
                break;
            }
            // The key may belong to a later message by now.
            if self.tasks.get(key).is_some_and(|seen| seen.at == *at) {
                self.tasks.remove(key);
            }
            self.order.pop_front();
        }
    }
}

fn key(client: &str, message_id: &str) -> String {
    format!("{client}\n{message_id}")
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
