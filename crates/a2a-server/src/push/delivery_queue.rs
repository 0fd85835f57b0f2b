//! What waits to be delivered: a lane for each configuration, and room for so much in all of them.
//!
//! Where there is no room, a new notification takes the place of the oldest that waits in its own lane: the newest says most.
//! Where none waits there, the new one is thrown away. No other configuration loses anything by it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::delivery::{ConfigKey, PushDelivery};

/// How many notifications are under way to one origin at a time.
const MAX_PER_ORIGIN: usize = 4;

/// How many bytes of bodies may wait. Webhooks of 0.3 are sent whole tasks.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// How much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct QueueCapacity {
    pub(super) deliveries: usize,
    pub(super) bytes: usize,
}

impl QueueCapacity {
    /// Room for so many notifications.
    pub(super) fn new(deliveries: usize) -> Self {
        Self {
            deliveries: deliveries.max(1),
            bytes: MAX_QUEUED_BYTES,
        }
    }

    /// What one origin may take of it.
    fn share(self) -> Self {
        Self {
            deliveries: self.deliveries.div_ceil(2),
            bytes: self.bytes.div_ceil(2),
        }
    }

    fn holds(self, taken: Self, bytes: usize) -> bool {
        taken.deliveries < self.deliveries && taken.bytes.saturating_add(bytes) <= self.bytes
    }
}

/// All lanes.
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
    waiting: VecDeque<PushDelivery>,
    /// The origin and the size of the one that is under way.
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

/// What became of a letter that was put in.
#[derive(Default)]
pub(super) struct Queued {
    /// Its lane was empty: somebody has to work on it from now on.
    pub(super) is_first: bool,
    /// What was thrown away for it, or the letter itself.
    pub(super) dropped: Vec<PushDelivery>,
}

/// A letter to deliver now, and the turn to wait for.
pub(super) struct NextDelivery {
    pub(super) delivery: PushDelivery,
    pub(super) permits: Arc<Semaphore>,
}

impl DeliveryQueues {
    pub(super) fn new(capacity: QueueCapacity) -> Self {
        Self {
            state: Mutex::default(),
            capacity,
        }
    }

    /// How many letters wait or are under way.
    pub(super) fn waiting(&self) -> usize {
        self.state().taken.deliveries
    }

    /// Puts a letter at the end of its lane.
    pub(super) fn push(&self, delivery: PushDelivery) -> Queued {
        let mut state = self.state();
        let mut put = Queued::default();
        while !state.fits(self.capacity, &delivery) {
            let Some(oldest) = state.pop_oldest(&delivery.address) else {
                put.dropped.push(delivery);
                return put;
            };
            put.dropped.push(oldest);
        }
        state.count(&delivery.origin, delivery.body.len());
        put.is_first = !state.queues.contains_key(&delivery.address);
        let queue = state
            .queues
            .entry(Arc::clone(&delivery.address))
            .or_default();
        queue.waiting.push_back(delivery);
        put
    }

    /// The next letter of a lane; the one before is done with. `None` ends the lane.
    pub(super) fn pop(&self, address: &ConfigKey) -> Option<NextDelivery> {
        let mut state = self.state();
        let queue = state.queues.get_mut(address)?;
        let (done, next) = (queue.in_flight.take(), queue.waiting.pop_front());
        if let Some(next) = &next {
            queue.in_flight = Some((next.origin.clone(), next.body.len()));
        } else {
            state.queues.remove(address);
        }
        if let Some((origin, bytes)) = done {
            state.discount(&origin, bytes);
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

    /// Puts the letter that is under way back to the head of its lane.
    pub(super) fn push_front(&self, delivery: PushDelivery) {
        let mut state = self.state();
        if let Some(queue) = state.queues.get_mut(&delivery.address) {
            queue.in_flight = None;
            queue.waiting.push_front(delivery);
        }
    }

    /// Everything that waits still.
    pub(super) fn drain(&self) -> Vec<PushDelivery> {
        let state = std::mem::take(&mut *self.state());
        let queues = state.queues.into_values();
        queues.flat_map(|queue| queue.waiting).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fits(&self, capacity: QueueCapacity, delivery: &PushDelivery) -> bool {
        let bytes = delivery.body.len();
        let of_origin = self.origins.get(&delivery.origin);
        let taken = of_origin.map_or_else(QueueCapacity::default, |origin| origin.taken);
        capacity.holds(self.taken, bytes) && capacity.share().holds(taken, bytes)
    }

    /// Takes the oldest that waits out of a lane.
    fn pop_oldest(&mut self, address: &ConfigKey) -> Option<PushDelivery> {
        let oldest = self.queues.get_mut(address)?.waiting.pop_front()?;
        self.discount(&oldest.origin, oldest.body.len());
        Some(oldest)
    }

    fn count(&mut self, origin: &str, bytes: usize) {
        let origin = match self.origins.get_mut(origin) {
            Some(origin) => origin,
            None => self.origins.entry(origin.to_owned()).or_default(),
        };
        for taken in [&mut origin.taken, &mut self.taken] {
            taken.deliveries += 1;
            taken.bytes += bytes;
        }
    }

    fn discount(&mut self, name: &str, bytes: usize) {
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
