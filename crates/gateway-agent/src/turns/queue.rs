//! A bounded count of waiting and running turns, with a share for each sender.

use std::sync::Arc;

use base::keyed_budget::{KeyedBudget, Reservation};
use tokio::sync::watch;

/// The maximum number of messages that wait for a slot; a further message is rejected with `AGENT_BUSY`. The same limit
/// applies to proposals.
const MAX_WAITING: usize = 64;

/// The maximum total size of the texts of waiting and running messages, in bytes. The same limit applies to proposals.
const MAX_WAITING_BYTES: usize = 8 * 1024 * 1024;

/// One sender may use this fraction of the limits, so that another one always gets its part.
const FRACTION: usize = 4;

/// Counts the waiting and running turns, and the size of their texts.
pub(super) struct Queue {
    turns: Arc<KeyedBudget<Arc<str>>>,
    bytes: Arc<KeyedBudget<Arc<str>>>,
    max_turns: usize,
    length: watch::Sender<usize>,
}

impl Queue {
    /// Creates a queue of an agent that runs `concurrency` turns at the same time.
    pub(super) fn new(concurrency: usize) -> Self {
        let max_turns = MAX_WAITING + concurrency;
        Self {
            turns: KeyedBudget::new(max_turns, MAX_WAITING / FRACTION + concurrency),
            bytes: KeyedBudget::new(MAX_WAITING_BYTES, MAX_WAITING_BYTES / FRACTION),
            max_turns,
            length: watch::Sender::new(0),
        }
    }

    /// Adds a turn of `sender` with `bytes` of text. Returns `None` if that exceeds the limits.
    pub(super) fn admit(&self, sender: &str, bytes: usize) -> Option<QueueGuard> {
        let sender: Arc<str> = sender.into();
        let turn = self.turns.try_reserve(Arc::clone(&sender), 1).ok()?;
        // The budget forgets a sender that releases something.
        let bytes = self.bytes.try_reserve(sender, bytes.max(1)).ok()?;
        self.length.send_modify(|length| *length += 1);
        Some(QueueGuard {
            _turn: turn,
            _bytes: bytes,
            length: self.length.clone(),
        })
    }

    /// Returns the number of waiting and running turns.
    pub(super) fn length(&self) -> watch::Receiver<usize> {
        self.length.subscribe()
    }

    /// Returns whether a queue of this length accepts no further turn.
    pub(super) fn is_full(&self, length: usize) -> bool {
        length >= self.max_turns
    }
}

/// A counted turn. Dropping it removes the turn from the queue.
pub(super) struct QueueGuard {
    _turn: Reservation<Arc<str>>,
    _bytes: Reservation<Arc<str>>,
    length: watch::Sender<usize>,
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.length.send_modify(|length| *length -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(queue: &Queue, sender: &str, bytes: usize) -> Vec<QueueGuard> {
        std::iter::from_fn(|| queue.admit(sender, bytes)).collect()
    }

    #[test]
    fn sender_leaves_room_to_others() {
        let queue = Queue::new(4);
        let ada = admitted(&queue, "ada", 0);
        assert_eq!(ada.len(), 4 + MAX_WAITING / FRACTION);
        let bob = queue.admit("bob", MAX_WAITING_BYTES / FRACTION);
        assert!(bob.is_some());
        assert!(queue.admit("bob", 1).is_none(), "too many bytes");
        drop(bob);
        assert!(queue.admit("bob", 1).is_some());
    }

    #[test]
    fn queue_is_bounded() {
        let queue = Queue::new(4);
        let mut all = Vec::new();
        for sender in ["a", "b", "c", "d"] {
            all.extend(admitted(&queue, sender, 1));
        }
        assert_eq!(all.len(), 4 + MAX_WAITING);
        assert!(queue.is_full(*queue.length().borrow()));
        assert!(queue.admit("e", 0).is_none());
        all.pop();
        assert!(!queue.is_full(*queue.length().borrow()));
        assert!(queue.admit("e", 0).is_some());
    }
}
