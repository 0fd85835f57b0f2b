//! Quotas: the number of each client's unfinished tasks, and the memory of the JSON values of messages. A parsed value
//! takes up to 320 times the memory of its text, so limits on bytes of text alone do not bound memory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use a2a::v1_0::{Message, PartContent};
use a2a::{A2aError, ErrorReason};
use base::json;
use base::keyed_budget::{KeyedBudget, Reservation};
use parking_lot::Mutex;
use serde_json::Value;

/// The number of ended tasks after which the server deletes old tasks before the interval elapses.
const PRUNE_AFTER: usize = 256;

/// The ids of unfinished tasks, by client.
#[derive(Debug, Default)]
pub(super) struct TaskQuota(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_client: HashMap<String, BTreeSet<String>>,
    ended: usize,
    /// The names of all clients; `None` admits every name.
    clients: Option<Arc<HashSet<String>>>,
}

impl State {
    fn is_client(&self, name: &str) -> bool {
        let clients = self.clients.as_ref();
        clients.is_none_or(|clients| clients.contains(name))
    }

    fn tasks_of_removed(&self) -> Vec<String> {
        let others = self.by_client.iter();
        let others = others.filter(|(name, _)| !self.is_client(name));
        others.flat_map(|(_, tasks)| tasks.clone()).collect()
    }
}

impl TaskQuota {
    /// Replaces the set of clients. Returns the tasks of all other clients.
    pub(super) fn retain(&self, clients: &Arc<HashSet<String>>) -> Vec<String> {
        let mut state = self.0.lock();
        state.clients = Some(Arc::clone(clients));
        state.tasks_of_removed()
    }

    /// Returns the tasks of removed clients.
    pub(super) fn tasks_of_removed(&self) -> Vec<String> {
        self.0.lock().tasks_of_removed()
    }

    /// Returns whether the client exists, that is, whether the operator has not removed it.
    pub(super) fn is_client(&self, name: &str) -> bool {
        self.0.lock().is_client(name)
    }

    /// Adds a task of a client, unless the client has `limit` tasks.
    pub(super) fn try_insert(
        &self,
        client: &str,
        task_id: &str,
        limit: usize,
    ) -> Result<(), A2aError> {
        let mut state = self.0.lock();
        if !state.is_client(client) {
            let text = "the operator removed this client; ask for a new token";
            return Err(A2aError::new(ErrorReason::Unauthenticated, text));
        }
        let tasks = state.by_client.entry(client.to_owned()).or_default();
        let count = tasks.len();
        if count >= limit {
            if count == 0 {
                state.by_client.remove(client);
            }
            let mut error = A2aError::new(
                ErrorReason::ResourceExhausted,
                format!(
                    "you have {count} unfinished tasks, the maximum; wait for one, or cancel one"
                ),
            );
            error.retry_after_s = Some(10);
            return Err(error);
        }
        tasks.insert(task_id.to_owned());
        Ok(())
    }

    /// Removes a task. Returns whether the server should delete old tasks now.
    pub(super) fn remove(&self, client: &str, task_id: &str) -> bool {
        let mut state = self.0.lock();
        if let Some(tasks) = state.by_client.get_mut(client) {
            tasks.remove(task_id);
            if tasks.is_empty() {
                state.by_client.remove(client);
            }
        }
        state.ended += 1;
        let many = state.ended >= PRUNE_AFTER;
        if many {
            state.ended = 0;
        }
        many
    }

    /// Returns at most `most` tasks of a client in the order of their ids, from `from` on and wrapping around.
    pub(super) fn sample(&self, client: &str, from: &str, most: usize) -> Vec<String> {
        let state = self.0.lock();
        let Some(tasks) = state.by_client.get(client) else {
            return Vec::new();
        };
        let after = tasks.range::<str, _>((Included(from), Unbounded));
        let before = tasks.range::<str, _>((Unbounded, Excluded(from)));
        after.chain(before).take(most).cloned().collect()
    }
}

/// The maximum memory of the values of a message that is not counted, in bytes.
const MAX_UNCOUNTED_BYTES: usize = 32 << 10;

/// The maximum memory of the values of one client, in bytes.
const MAX_BYTES_PER_CLIENT: usize = 64 << 20;

/// The maximum memory of the values of all clients, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The memory of the values of all active messages, by client.
#[derive(Debug)]
pub(super) struct ValueQuota(Arc<KeyedBudget<String>>);

/// The reserved values of one message. Dropping it releases them.
pub(super) type ValuePermit = Reservation<String>;

impl Default for ValueQuota {
    fn default() -> Self {
        Self(KeyedBudget::new(MAX_BYTES, MAX_BYTES_PER_CLIENT))
    }
}

impl ValueQuota {
    /// Reserves the memory of the values of a message of `client`; `None` if it is too little to count.
    ///
    /// # Errors
    /// It would exceed the maximum of the client or of all clients.
    pub(super) fn try_acquire(
        &self,
        client: &str,
        message: &Message,
    ) -> Result<Option<ValuePermit>, A2aError> {
        let bytes = memory(message);
        if bytes <= MAX_UNCOUNTED_BYTES {
            return Ok(None);
        }
        let reserved = self.0.try_reserve(client.to_owned(), bytes);
        reserved.map(Some).map_err(|_| {
            let text = format!(
                "the JSON values of the message need {bytes} bytes, more than the server has memory for now; send it again in a moment, or send them as a file"
            );
            let mut error = A2aError::new(ErrorReason::ResourceExhausted, text);
            error.retry_after_s = Some(5);
            error
        })
    }
}

/// Estimates the memory of a message's data and metadata.
fn memory(message: &Message) -> usize {
    let metadata = |metadata: Option<&HashMap<String, Value>>| -> usize {
        let entries = metadata.into_iter().flatten();
        entries
            .map(|(key, value)| json::entry_memory(key, value))
            .sum()
    };
    let parts = message.parts.iter().map(|part| {
        let data = match &part.content {
            PartContent::Data(data) => json::memory(data),
            _ => 0,
        };
        data + metadata(part.metadata.as_ref())
    });
    parts.sum::<usize>() + metadata(message.metadata.as_ref())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use a2a::v1_0::{Part, Role};
    use base::json::{ARRAY_BYTES, VALUE_BYTES};

    use super::*;

    fn heavy(bytes: usize) -> Message {
        let values = (bytes - VALUE_BYTES - ARRAY_BYTES) / VALUE_BYTES;
        let data = Value::Array(vec![Value::Null; values]);
        Message::new(Role::User, vec![Part::data(data)])
    }

    #[test]
    fn refuses_values_of_a_client_beyond_its_share() {
        let value_quota = ValueQuota::default();
        let permit = value_quota.try_acquire("ann", &heavy(40 << 20)).unwrap();
        let error = value_quota
            .try_acquire("ann", &heavy(40 << 20))
            .unwrap_err();
        assert_eq!(error.reason, ErrorReason::ResourceExhausted);
        assert!(
            value_quota
                .try_acquire("bob", &heavy(40 << 20))
                .unwrap()
                .is_some()
        );
        drop(permit);
        assert!(
            value_quota
                .try_acquire("ann", &heavy(40 << 20))
                .unwrap()
                .is_some()
        );
        assert_eq!(value_quota.0.reserved(), 0);
    }

    #[test]
    fn light_messages_are_not_counted() {
        let value_quota = ValueQuota::default();
        let _held = value_quota
            .try_acquire("ann", &heavy(MAX_BYTES_PER_CLIENT))
            .unwrap();
        assert!(
            value_quota
                .try_acquire("ann", &heavy(MAX_UNCOUNTED_BYTES))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn objects_count_by_their_memory() {
        let objects = vec![serde_json::json!({"a": 0}); 100_000];
        let mut message = Message::new(Role::User, vec![Part::text("hi")]);
        message.metadata = Some(HashMap::from([("objects".to_owned(), objects.into())]));
        let refused = ValueQuota::default().try_acquire("ann", &message);
        assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
    }
}
