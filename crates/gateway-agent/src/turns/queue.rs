//! A bounded count of waiting and running turns.

use std::sync::Arc;

use parking_lot::Mutex;

/// The maximum total size of the texts of waiting and running messages, in bytes. The same limit applies to proposals.
const MAX_WAITING_BYTES: usize = 8 * 1024 * 1024;

/// Counts the waiting and running turns, and the size of their texts.
#[derive(Default)]
pub(super) struct Queue(Arc<Mutex<QueueSize>>);

#[derive(Default)]
struct QueueSize {
    turns: usize,
    bytes: usize,
}

impl Queue {
    /// Adds a turn with `bytes` of text. Returns `None` if that exceeds the limits.
    pub(super) fn admit(&self, bytes: usize, max_turns: usize) -> Option<QueueGuard> {
        let mut size = self.0.lock();
        if size.turns >= max_turns || size.bytes + bytes > MAX_WAITING_BYTES {
            return None;
        }
        size.turns += 1;
        size.bytes += bytes;
        Some(QueueGuard {
            size: Arc::clone(&self.0),
            bytes,
        })
    }
}

/// A counted turn. Dropping it removes the turn from the queue.
pub(super) struct QueueGuard {
    size: Arc<Mutex<QueueSize>>,
    bytes: usize,
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        let mut size = self.size.lock();
        size.turns -= 1;
        size.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_bounded_in_turns_and_bytes() {
        let queue = Queue::default();
        let half = MAX_WAITING_BYTES / 2;
        let first = queue.admit(half, 3);
        let second = queue.admit(half, 3);
        assert!(first.is_some() && second.is_some());
        assert!(queue.admit(1, 3).is_none(), "too many bytes");
        let third = queue.admit(0, 3);
        assert!(third.is_some());
        drop(first);
        assert!(queue.admit(1, 2).is_none(), "too many turns");
        assert!(queue.admit(half, 3).is_some());
    }
}
