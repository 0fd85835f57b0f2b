//! Queues of notifications: one for each push notification configuration, within a shared capacity.
//!
//! When the capacity is exhausted, a new notification replaces the oldest one of its own queue, because the newest
//! carries the current state of the task. If that queue is empty, the new notification is dropped. The queues of other
//! configurations are unaffected.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::notification::{ConfigKey, PushNotification};

/// The maximum number of concurrent notifications to one origin.
const MAX_PER_ORIGIN: usize = 4;

/// The maximum size of all queued bodies, in bytes. Webhooks of 0.3 receive whole tasks.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// The capacity of the queues, or the used part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct QueueCapacity {
    pub(super) deliveries: usize,
    pub(super) bytes: usize,
}

impl QueueCapacity {
    /// Creates a capacity of `deliveries` notifications.
    pub(super) fn new(deliveries: usize) -> Self {
        Self {
            deliveries: deliveries.max(1),
            bytes: MAX_QUEUED_BYTES,
        }
    }

    /// Returns the part of this capacity that one origin may use.
    fn share(self) -> Self {
        Self {
            deliveries: self.deliveries.div_ceil(2),
            bytes: self.bytes.div_ceil(2),
        }
    }

    fn fits(self, taken: Self, bytes: usize) -> bool {
        taken.deliveries < self.deliveries && taken.bytes.saturating_add(bytes) <= self.bytes
    }
}

/// All queues.
pub(super) struct DeliveryQueues {
    state: Mutex<State>,
    capacity: QueueCapacity,
}

#[derive(Default)]
struct State {
    queues: HashMap<Arc<ConfigKey>, DeliveryQueue>,
    origins: HashMap<String, Origin>,
    taken: QueueCapacity,
}

#[derive(Default)]
struct DeliveryQueue {
    waiting: VecDeque<PushNotification>,
    /// The origin and the body size in bytes of the notification in flight.
    in_flight: Option<(String, usize)>,
}

struct Origin {
    taken: QueueCapacity,
    permits: Arc<Semaphore>,
}

impl Default for Origin {
    fn default() -> Self {
        Self {
            taken: QueueCapacity::default(),
            permits: Arc::new(Semaphore::new(MAX_PER_ORIGIN)),
        }
    }
}

/// The result of a push.
#[derive(Default)]
pub(super) struct Queued {
    /// Whether the queue was empty, so that the dispatcher has to start a worker for it.
    pub(super) is_first: bool,
    /// The dropped notifications: older ones of the queue, or the new one.
    pub(super) dropped: Vec<PushNotification>,
}

/// The next notification of a queue, and the semaphore of its origin.
pub(super) struct NextDelivery {
    pub(super) delivery: PushNotification,
    pub(super) permits: Arc<Semaphore>,
}

impl DeliveryQueues {
    pub(super) fn new(capacity: QueueCapacity) -> Self {
        Self {
            state: Mutex::default(),
            capacity,
        }
    }

    /// Returns the number of notifications that are queued or in flight.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().taken.deliveries
    }

    /// Appends a notification to its queue.
    pub(super) fn push(&self, delivery: PushNotification) -> Queued {
        let mut state = self.state.lock();
        let mut put = Queued::default();
        while !state.fits(self.capacity, &delivery) {
            let Some(oldest) = state.pop_oldest(&delivery.config) else {
                put.dropped.push(delivery);
                return put;
            };
            put.dropped.push(oldest);
        }
        state.add_to_count(&delivery.origin, delivery.body.len());
        put.is_first = !state.queues.contains_key(&delivery.config);
        let queue = state
            .queues
            .entry(Arc::clone(&delivery.config))
            .or_default();
        queue.waiting.push_back(delivery);
        put
    }

    /// Removes the notification in flight and returns the next one. At the end of the queue, removes the queue and
    /// returns `None`.
    pub(super) fn pop(&self, config: &ConfigKey) -> Option<NextDelivery> {
        let mut state = self.state.lock();
        let queue = state.queues.get_mut(config)?;
        let (done, next) = (queue.in_flight.take(), queue.waiting.pop_front());
        if let Some(next) = &next {
            queue.in_flight = Some((next.origin.clone(), next.body.len()));
        } else {
            state.queues.remove(config);
        }
        if let Some((origin, bytes)) = done {
            state.remove_from_count(&origin, bytes);
        }
        let delivery = next?;
        let permits = Arc::clone(
            &state
                .origins
                .entry(delivery.origin.clone())
                .or_default()
                .permits,
        );
        Some(NextDelivery { delivery, permits })
    }

    /// Puts the notification in flight back at the head of its queue.
    pub(super) fn push_front(&self, delivery: PushNotification) {
        let mut state = self.state.lock();
        if let Some(queue) = state.queues.get_mut(&delivery.config) {
            queue.in_flight = None;
            queue.waiting.push_front(delivery);
        }
    }

    /// Removes and returns all queued notifications.
    pub(super) fn drain(&self) -> Vec<PushNotification> {
        let state = std::mem::take(&mut *self.state.lock());
        let queues = state.queues.into_values();
        queues.flat_map(|queue| queue.waiting).collect()
    }
}

impl State {
    fn fits(&self, capacity: QueueCapacity, delivery: &PushNotification) -> bool {
        let bytes = delivery.body.len();
        let of_origin = self.origins.get(&delivery.origin);
        let taken = of_origin.map_or_else(QueueCapacity::default, |origin| origin.taken);
        capacity.fits(self.taken, bytes) && capacity.share().fits(taken, bytes)
    }

    /// Removes the oldest queued notification.
    fn pop_oldest(&mut self, config: &ConfigKey) -> Option<PushNotification> {
        let oldest = self.queues.get_mut(config)?.waiting.pop_front()?;
        self.remove_from_count(&oldest.origin, oldest.body.len());
        Some(oldest)
    }

    fn add_to_count(&mut self, origin: &str, bytes: usize) {
        let origin = match self.origins.get_mut(origin) {
            Some(origin) => origin,
            None => self.origins.entry(origin.to_owned()).or_default(),
        };
        for taken in [&mut origin.taken, &mut self.taken] {
            taken.deliveries += 1;
            taken.bytes += bytes;
        }
    }

    fn remove_from_count(&mut self, name: &str, bytes: usize) {
        let Some(origin) = self.origins.get_mut(name) else {
            return;
        };
        for taken in [&mut origin.taken, &mut self.taken] {
            taken.deliveries = taken.deliveries.saturating_sub(1);
            taken.bytes = taken.bytes.saturating_sub(bytes);
        }
        if origin.taken.deliveries == 0 {
            self.origins.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
