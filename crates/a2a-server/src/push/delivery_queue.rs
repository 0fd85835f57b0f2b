//! Queues of notifications: one for each push notification configuration, within a shared capacity.
//!
//! When the capacity is exhausted, a new notification replaces the oldest one of its own queue, because the newest
//! carries the current state of the task. If that queue is empty, the new notification is dropped. The queues of other
//! configurations are unaffected. One origin may use half of the capacity. Where several clients are possible, so may one
//! client, and a quarter of the capacity for one origin, so that it leaves half of the origin's share to other clients.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use base::keyed_budget::{KeyedBudget, Reservation};
use base::keyed_semaphore::{KeyedPermit, KeyedSemaphore};
use parking_lot::Mutex;

use super::notification::{ConfigKey, PushNotification};

/// The maximum number of concurrent notifications of one client to one origin. Others can register a path there, too.
const MAX_PER_CLIENT_AND_ORIGIN: usize = 4;

/// The maximum number of concurrent notifications to one origin.
const MAX_PER_ORIGIN: usize = 16;

/// The maximum size of all queued bodies, in bytes. A quarter, which one of several clients may use for one origin, has room for the
/// artifacts of a task at their default limit. Webhooks of 0.3 receive whole tasks.
pub(super) const MAX_QUEUED_BYTES: usize = 128 << 20;

/// A client and an origin to which its notifications go.
type ClientAndOrigin = (Arc<str>, Arc<str>);

/// All queues.
pub(super) struct DeliveryQueues {
    queues: Mutex<HashMap<Arc<ConfigKey>, DeliveryQueue>>,
    /// The notifications that are queued or in flight, by origin, by client, and by both.
    by_origin: Capacity<Arc<str>>,
    by_client: Capacity<Arc<str>>,
    by_client_and_origin: Capacity<ClientAndOrigin>,
    /// The requests of each client to each origin, and those of all clients.
    client_permits: KeyedSemaphore<ClientAndOrigin>,
    origin_permits: KeyedSemaphore<Arc<str>>,
}

/// The permits of one request.
pub(super) struct Permits {
    _of_client: KeyedPermit<ClientAndOrigin>,
    _of_origin: KeyedPermit<Arc<str>>,
}

/// A number of notifications, and of bytes in their bodies. Each key may use the same fraction of both.
struct Capacity<K> {
    deliveries: Arc<KeyedBudget<K>>,
    bytes: Arc<KeyedBudget<K>>,
}

impl<K: Clone + Eq + Hash> Capacity<K> {
    /// Creates a capacity of which each key may use one of `parts` equal parts, and at least one notification.
    fn new(deliveries: usize, bytes: usize, parts: usize) -> Self {
        let budget = |total: usize| KeyedBudget::new(total, total.div_ceil(parts));
        Self {
            deliveries: budget(deliveries.max(1)),
            bytes: budget(bytes),
        }
    }

    fn reserve(&self, key: &K, bytes: usize) -> Option<[Reservation<K>; 2]> {
        Some([
            self.deliveries.try_reserve(key.clone(), 1).ok()?,
            self.bytes.try_reserve(key.clone(), bytes).ok()?,
        ])
    }
}

#[derive(Default)]
struct DeliveryQueue {
    waiting: VecDeque<(PushNotification, QueueReservation)>,
    /// The reservation of the notification in flight.
    in_flight: Option<QueueReservation>,
}

/// The reservations of one notification.
struct QueueReservation {
    _of_origin: [Reservation<Arc<str>>; 2],
    _of_client: [Reservation<Arc<str>>; 2],
    _of_client_and_origin: [Reservation<ClientAndOrigin>; 2],
}

/// The result of a push.
#[derive(Default)]
pub(super) struct Queued {
    /// Whether the queue was empty, so that the dispatcher has to start a worker for it.
    pub(super) is_first: bool,
    /// The dropped notifications: older ones of the queue, or the new one.
    pub(super) dropped: Vec<PushNotification>,
}

impl DeliveryQueues {
    /// Creates queues for this number of notifications and of bytes in their bodies. Only `several_clients` need shares.
    pub(super) fn new(deliveries: usize, bytes: usize, several_clients: bool) -> Self {
        const ORIGIN_PARTS: usize = 2;
        let (client_parts, requests) = match several_clients {
            true => (2, MAX_PER_CLIENT_AND_ORIGIN),
            false => (1, MAX_PER_ORIGIN),
        };
        Self {
            queues: Mutex::default(),
            by_origin: Capacity::new(deliveries, bytes, ORIGIN_PARTS),
            by_client: Capacity::new(deliveries, bytes, client_parts),
            by_client_and_origin: Capacity::new(deliveries, bytes, client_parts * ORIGIN_PARTS),
            client_permits: KeyedSemaphore::new(requests),
            origin_permits: KeyedSemaphore::new(MAX_PER_ORIGIN),
        }
    }

    /// Waits until a request of this client to this origin may start. It may run until the permits are dropped.
    pub(super) async fn acquire(&self, client: &Arc<str>, origin: &Arc<str>) -> Permits {
        let key = (Arc::clone(client), Arc::clone(origin));
        Permits {
            _of_client: self.client_permits.acquire(key).await,
            _of_origin: self.origin_permits.acquire(Arc::clone(origin)).await,
        }
    }

    /// Returns the number of notifications that are queued or in flight.
    pub(super) fn waiting(&self) -> usize {
        self.by_origin.deliveries.reserved()
    }

    /// Appends a notification to its queue.
    pub(super) fn push(&self, delivery: PushNotification) -> Queued {
        let mut queues = self.queues.lock();
        let mut put = Queued::default();
        // It must not empty its own queue in vain.
        if self.is_too_large(&delivery) {
            put.dropped.push(delivery);
            return put;
        }
        let reservation = loop {
            if let Some(reservation) = self.reserve(&delivery, delivery.body.len()) {
                break reservation;
            }
            let queue = queues.get_mut(&delivery.config);
            let Some((oldest, _)) = queue.and_then(|queue| queue.waiting.pop_front()) else {
                put.dropped.push(delivery);
                return put;
            };
            put.dropped.push(oldest);
        };
        put.is_first = !queues.contains_key(&delivery.config);
        let queue = queues.entry(Arc::clone(&delivery.config)).or_default();
        queue.waiting.push_back((delivery, reservation));
        put
    }

    /// Returns whether a notification does not even fit into empty queues.
    pub(super) fn is_too_large(&self, delivery: &PushNotification) -> bool {
        delivery.body.len() > self.by_client_and_origin.bytes.share()
    }

    /// Returns whether a notification with a body of one byte fits, if need be in place of an older one of its queue.
    /// `delivery` needs no body.
    pub(super) fn may_fit(&self, delivery: &PushNotification) -> bool {
        let queues = self.queues.lock();
        let queue = queues.get(&delivery.config);
        queue.is_some_and(|queue| !queue.waiting.is_empty()) || self.reserve(delivery, 1).is_some()
    }

    fn reserve(&self, delivery: &PushNotification, bytes: usize) -> Option<QueueReservation> {
        let both = (Arc::clone(&delivery.client), Arc::clone(&delivery.origin));
        Some(QueueReservation {
            _of_origin: self.by_origin.reserve(&delivery.origin, bytes)?,
            _of_client: self.by_client.reserve(&delivery.client, bytes)?,
            _of_client_and_origin: self.by_client_and_origin.reserve(&both, bytes)?,
        })
    }

    /// Removes the notification in flight and returns the next one. At the end of the queue, removes the queue and
    /// returns `None`.
    pub(super) fn pop(&self, config: &ConfigKey) -> Option<PushNotification> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(config)?;
        let Some((next, reservation)) = queue.waiting.pop_front() else {
            queues.remove(config);
            return None;
        };
        queue.in_flight = Some(reservation);
        Some(next)
    }

    /// Puts the notification in flight back at the head of its queue.
    pub(super) fn push_front(&self, delivery: PushNotification) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&delivery.config) else {
            return;
        };
        if let Some(reservation) = queue.in_flight.take() {
            queue.waiting.push_front((delivery, reservation));
        }
    }

    /// Removes and returns all queued notifications.
    pub(super) fn drain(&self) -> Vec<PushNotification> {
        let queues = std::mem::take(&mut *self.queues.lock());
        let waiting = queues.into_values().flat_map(|queue| queue.waiting);
        waiting.map(|(delivery, _)| delivery).collect()
    }
}

#[cfg(test)]
mod tests;
