//! Counts the unfinished tasks of each client.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use a2a::{A2aError, ErrorReason};

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
