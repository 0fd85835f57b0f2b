//! Queues of notifications: one for each push notification configuration, within a shared capacity.
//!
//! When the capacity is exhausted, a new notification replaces the oldest one of its own queue, because the newest
//! carries the current state of the task. If that queue is empty, the new notification is dropped. The queues of other
//! configurations are unaffected.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::keyed_budget::{KeyedBudget, Reservation};
use base::keyed_semaphore::KeyedSemaphore;
use parking_lot::Mutex;

use super::notification::{ConfigKey, PushNotification};

/// The maximum number of concurrent notifications to one origin.
const MAX_PER_ORIGIN: usize = 4;

/// The maximum size of all queued bodies, in bytes. Webhooks of 0.3 receive whole tasks.
pub(super) const MAX_QUEUED_BYTES: usize = 64 << 20;

/// All queues.
pub(super) struct DeliveryQueues {
    queues: Mutex<HashMap<Arc<ConfigKey>, DeliveryQueue>>,
    /// The number of notifications that are queued or in flight, by origin.
    deliveries: Arc<KeyedBudget<Arc<str>>>,
    /// The sizes of their bodies.
    bytes: Arc<KeyedBudget<Arc<str>>>,
    /// The requests to each origin.
    pub(super) permits: KeyedSemaphore<Arc<str>>,
}

#[derive(Default)]
struct DeliveryQueue {
    waiting: VecDeque<(PushNotification, Room)>,
    /// The room of the notification in flight.
    in_flight: Option<Room>,
}

/// The part of the capacity that a notification uses.
struct Room {
    _delivery: Reservation<Arc<str>>,
    _bytes: Reservation<Arc<str>>,
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
    /// Creates queues for this number of notifications and of bytes in their bodies. One origin may use half of both.
    pub(super) fn new(deliveries: usize, bytes: usize) -> Self {
        let budget = |total: usize| KeyedBudget::new(total, total.div_ceil(2));
        Self {
            queues: Mutex::default(),
            deliveries: budget(deliveries.max(1)),
            bytes: budget(bytes),
            permits: KeyedSemaphore::new(MAX_PER_ORIGIN),
        }
    }

    /// Returns the number of notifications that are queued or in flight.
    pub(super) fn waiting(&self) -> usize {
        self.deliveries.reserved()
    }

    /// Appends a notification to its queue.
    pub(super) fn push(&self, delivery: PushNotification) -> Queued {
        let mut queues = self.queues.lock();
        let mut put = Queued::default();
        let room = loop {
            if let Some(room) = self.reserve(&delivery) {
                break room;
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
        queue.waiting.push_back((delivery, room));
        put
    }

    fn reserve(&self, delivery: &PushNotification) -> Option<Room> {
        let origin = || Arc::clone(&delivery.origin);
        Some(Room {
            _delivery: self.deliveries.try_reserve(origin(), 1).ok()?,
            _bytes: self.bytes.try_reserve(origin(), delivery.body.len()).ok()?,
        })
    }

    /// Removes the notification in flight and returns the next one. At the end of the queue, removes the queue and
    /// returns `None`.
    pub(super) fn pop(&self, config: &ConfigKey) -> Option<PushNotification> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(config)?;
        let Some((next, room)) = queue.waiting.pop_front() else {
            queues.remove(config);
            return None;
        };
        queue.in_flight = Some(room);
        Some(next)
    }

    /// Puts the notification in flight back at the head of its queue.
    pub(super) fn push_front(&self, delivery: PushNotification) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&delivery.config) else {
            return;
        };
        if let Some(room) = queue.in_flight.take() {
            queue.waiting.push_front((delivery, room));
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
