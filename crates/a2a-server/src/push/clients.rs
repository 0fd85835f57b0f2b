//! Tracks the clients whose webhooks the server notifies.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Cancels the deliveries of removed clients.
#[derive(Debug, Default)]
pub(super) struct ClientCancellations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The names of all clients; `None` admits every name.
    all: Option<Arc<HashSet<String>>>,
    removals: HashMap<String, CancellationToken>,
}

impl ClientCancellations {
    /// Replaces the set of clients.
    pub(super) fn retain(&self, clients: &Arc<HashSet<String>>) {
        let mut state = self.0.lock();
        state.all = Some(Arc::clone(clients));
        state.removals.retain(|name, removed| {
            let stays = clients.contains(name);
            if !stays {
                removed.cancel();
            }
            stays
        });
    }

    /// Returns a token that is cancelled when the client is removed; `None` if the client has been removed.
    pub(super) fn removal(&self, name: &str) -> Option<CancellationToken> {
        let mut state = self.0.lock();
        let known = state.all.as_ref();
        if known.is_some_and(|known| !known.contains(name)) {
            return None;
        }
        if let Some(removed) = state.removals.get(name) {
            return Some(removed.clone());
        }
        let removed = CancellationToken::new();
        state.removals.insert(name.to_owned(), removed.clone());
        Some(removed)
    }
}
