//! Named first-in, first-out queues for stores of a single process.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::Semaphore;

use super::{QueuePermit, QueueTicket, StoreError};

/// The queues in use. An empty queue takes no memory.
#[derive(Debug, Clone, Default)]
pub struct Queues {
    by_name: Arc<Mutex<HashMap<String, Queue>>>,
}

#[derive(Debug)]
struct Queue {
    /// A fair semaphore with one permit. A waiter that is dropped leaves the queue.
    semaphore: Arc<Semaphore>,
    /// The number of tickets and permits.
    members: usize,
}

impl Queues {
    /// Joins the queue `name`. The position is determined before this method returns.
    pub fn enqueue(&self, name: &str) -> QueueTicket {
        let (semaphore, slot) = self.slot(name);
        let mut waiting = Box::pin(semaphore.acquire_owned());
        // A semaphore enqueues a waiter at its first poll, so poll once now.
        let ready = waiting.as_mut().now_or_never();
        Box::pin(async move {
            let permit = match ready {
                Some(permit) => permit,
                None => waiting.await,
            };
            let permit =
                permit.map_err(|_| StoreError::Failed("the queue is closed".to_owned()))?;
            Ok(QueuePermit::new(move || {
                drop(permit);
                drop(slot);
            }))
        })
    }

    /// Returns the number of queues in use.
    pub fn len(&self) -> usize {
        self.by_name.lock().len()
    }

    /// Returns whether all queues are empty.
    pub fn is_empty(&self) -> bool {
        self.by_name.lock().is_empty()
    }

    fn slot(&self, name: &str) -> (Arc<Semaphore>, QueueSlot) {
        let mut by_name = self.by_name.lock();
        let queue = by_name.entry(name.to_owned()).or_insert_with(|| Queue {
            semaphore: Arc::new(Semaphore::new(1)),
            members: 0,
        });
        queue.members += 1;
        let slot = QueueSlot {
            queues: self.clone(),
            name: name.to_owned(),
        };
        (queue.semaphore.clone(), slot)
    }
}

/// A place in a queue, waiting or at the head.
struct QueueSlot {
    queues: Queues,
    name: String,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut by_name = self.queues.by_name.lock();
        if let Some(queue) = by_name.get_mut(&self.name) {
            queue.members -= 1;
            if queue.members == 0 {
                by_name.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
