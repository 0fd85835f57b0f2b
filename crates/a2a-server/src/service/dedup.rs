//! Messages that came a short while ago and whose answer has not been given, so that one that is sent again because its
//! client was cut off is not worked on twice (1.0 §3.3.1).
//!
//! Once the answer was given the id is free: there are clients that number their messages carelessly, and what they send
//! next is no repetition.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2a::v1_0::{Message, PartContent};
use tokio::time::Instant;

use super::active_task::ActiveTask;

/// For how long a message is known again.
const DEDUP_WINDOW: Duration = Duration::from_secs(300);

/// How many messages are remembered, of all clients.
const MAX_MESSAGES: usize = 10_000;

/// The messages of the last minutes.
#[derive(Debug, Default)]
pub(super) struct MessageDedup(Mutex<DedupState>);

#[derive(Debug, Default)]
struct DedupState {
    tasks: HashMap<Arc<str>, SeenMessage>,
    /// In the order they came in.
    order: VecDeque<(Instant, Arc<str>)>,
}

#[derive(Debug)]
struct SeenMessage {
    at: Instant,
    digest: u64,
    task_id: String,
    active: Weak<ActiveTask>,
}

/// A message that came before.
#[derive(Debug)]
pub(super) struct Duplicate {
    /// The task it begins or answers. It may not be kept yet.
    pub(super) task_id: String,
    /// The work on it, unless that is over.
    pub(super) active: Option<Arc<ActiveTask>>,
}

impl MessageDedup {
    /// What is made of the message, if the client sent the same a short while ago; else `active` is made of it from now on, for
    /// the task `task_id`.
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
        let mut known = self.locked();
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

    /// The message of the task `task_id` was answered, or nothing came of it: what comes under its id next is another one.
    pub(super) fn remove(&self, client: &str, message_id: &str, task_id: &str) {
        let key = key(client, message_id);
        let mut known = self.locked();
        // The id may be another message's by now.
        if known
            .tasks
            .get(key.as_str())
            .is_some_and(|seen| seen.task_id == task_id)
        {
            known.tasks.remove(key.as_str());
        }
    }

    fn locked(&self) -> MutexGuard<'_, DedupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DedupState {
    fn evict_expired(&mut self, now: Instant) {
        while let Some((at, key)) = self.order.front() {
            if self.order.len() < MAX_MESSAGES && now.duration_since(*at) < DEDUP_WINDOW {
                break;
            }
            // The key may stand for a later message by now.
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

/// What tells a message that is sent again from another one that was given the same id by a careless client.
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
