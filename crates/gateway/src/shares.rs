//! The share of one identity in the limits that all clients share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use base::keyed_budget::{KeyedBudget, Reservation};
use parking_lot::Mutex;

use super::outbox::ByteBudget;

/// One identity may use this fraction of a limit, so that another one always gets its part.
const FRACTION: usize = 4;

/// A part of the share of an identity, until it is dropped.
pub(super) type Share = Reservation<Arc<str>>;

/// The shares of each identity. Without authentication all clients are one identity, whose share is the whole limit.
pub(super) struct Shares {
    is_required: bool,
    connections: Arc<KeyedBudget<Arc<str>>>,
    services: Arc<KeyedBudget<Arc<str>>>,
    management: Arc<KeyedBudget<Arc<str>>>,
    queue_bytes: usize,
    queues: Mutex<HashMap<Arc<str>, Weak<ByteBudget>>>,
}

/// The limits of which each identity has a share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) connections: usize,
    pub(super) services: usize,
    pub(super) management: usize,
    pub(super) queue_bytes: usize,
}

impl Shares {
    /// Creates the shares. `is_required` states whether clients must authenticate.
    pub(super) fn new(is_required: bool, totals: Totals) -> Self {
        let share = |total| share(is_required, total);
        Self {
            is_required,
            // The registry bounds the connections of all clients.
            connections: KeyedBudget::new(
                usize::MAX,
                match is_required {
                    true => share(totals.connections),
                    false => usize::MAX,
                },
            ),
            services: KeyedBudget::new(usize::MAX, share(totals.services)),
            management: KeyedBudget::new(
                usize::MAX,
                match is_required {
                    true => totals.management,
                    false => usize::MAX,
                },
            ),
            queue_bytes: share(totals.queue_bytes),
            queues: Mutex::default(),
        }
    }

    /// Returns the share of one identity in a limit.
    pub(super) fn share(&self, total: usize) -> usize {
        share(self.is_required, total)
    }

    /// Takes a connection of an identity. Returns `None` if the identity has its share of connections.
    pub(super) fn open_connection(&self, identity: &Arc<str>) -> Option<Share> {
        self.connections.try_reserve(Arc::clone(identity), 1).ok()
    }

    /// Takes a slot for a request to a service.
    pub(super) fn open_service_request(&self, identity: &Arc<str>) -> Option<Share> {
        self.services.try_reserve(Arc::clone(identity), 1).ok()
    }

    /// Takes a slot for a session operation, including one that waits for its turn.
    pub(super) fn open_management(&self, identity: &Arc<str>) -> Option<Share> {
        self.management.try_reserve(Arc::clone(identity), 1).ok()
    }

    /// Returns the byte budget that all outboxes of an identity share.
    pub(super) fn queue(&self, identity: &Arc<str>) -> Option<Arc<ByteBudget>> {
        if !self.is_required {
            return None;
        }
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(identity).and_then(Weak::upgrade) {
            return Some(queue);
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = ByteBudget::new(self.queue_bytes);
        queues.insert(Arc::clone(identity), Arc::downgrade(&queue));
        Some(queue)
    }
}

/// Returns the share of one identity in a limit.
pub(super) fn share(is_required: bool, total: usize) -> usize {
    match is_required {
        true => (total / FRACTION).max(1),
        false => total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTALS: Totals = Totals {
        connections: 8,
        services: 8,
        management: 2,
        queue_bytes: 400,
    };

    #[test]
    fn identity_has_a_quarter_of_each_limit() {
        let shares = Shares::new(true, TOTALS);
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let open = [shares.open_connection(&ada), shares.open_connection(&ada)];
        assert!(open.iter().all(Option::is_some));
        assert!(shares.open_connection(&ada).is_none());
        assert!(shares.open_connection(&bob).is_some());
        drop(open);
        assert!(shares.open_connection(&ada).is_some());
        let queue = shares.queue(&ada);
        let same = shares.queue(&ada);
        assert!(queue.is_some_and(|one| same.is_some_and(|other| Arc::ptr_eq(&one, &other))));
    }

    #[test]
    fn without_authentication_the_share_is_the_limit() {
        let shares = Shares::new(false, TOTALS);
        let anonymous: Arc<str> = "anonymous".into();
        let open: Vec<_> = (0..9)
            .filter_map(|_| shares.open_service_request(&anonymous))
            .collect();
        assert_eq!(open.len(), 8);
        assert!(shares.queue(&anonymous).is_none());
    }
}
