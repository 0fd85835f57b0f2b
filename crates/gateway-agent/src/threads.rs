//! Conversations: their earlier messages, within limits, and the order of their turns.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::Utterance;

/// The maximum number of conversations. A further one evicts the least recently used one.
const MAX_THREADS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The maximum number of messages that a conversation keeps.
const MAX_UTTERANCES: usize = 40;

/// The maximum size of the messages that a conversation keeps, in bytes.
const MAX_THREAD_BYTES: usize = 64 * 1024;

/// The conversations of one agent.
pub(super) struct Threads(Mutex<LruCache<String, Thread>>);

#[derive(Default)]
struct Thread {
    utterances: VecDeque<Utterance>,
    bytes: usize,
    /// Cancelled when the last turn of the conversation ends.
    last: CancellationToken,
    has_turn: bool,
}

/// The position of a turn in its conversation. Dropping it starts the next turn.
pub(super) struct TurnTicket {
    before: Option<CancellationToken>,
    _done: DropGuard,
}

impl TurnTicket {
    /// Waits until the earlier turns have ended.
    pub(super) async fn ready(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }
}

impl Threads {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_THREADS)))
    }

    fn with<T>(&self, id: &str, update: impl FnOnce(&mut Thread) -> T) -> T {
        let mut threads = self.0.lock();
        update(threads.get_or_insert_mut(id.to_owned(), Thread::default))
    }

    /// Appends a turn to the conversation.
    pub(super) fn push_turn(&self, id: &str) -> TurnTicket {
        let done = CancellationToken::new();
        let before = self.with(id, |thread| {
            let before = std::mem::replace(&mut thread.last, done.clone());
            std::mem::replace(&mut thread.has_turn, true).then_some(before)
        });
        TurnTicket {
            before,
            _done: done.drop_guard(),
        }
    }

    /// Returns the messages, the oldest first.
    pub(super) fn history(&self, id: &str) -> Vec<Utterance> {
        self.with(id, |thread| thread.utterances.iter().cloned().collect())
    }

    /// Adds a message, and removes the oldest messages above the limits.
    pub(super) fn push(&self, id: &str, from: &str, text: &str) {
        if text.len() > MAX_THREAD_BYTES {
            return;
        }
        self.with(id, |thread| {
            thread.bytes += text.len();
            thread.utterances.push_back(Utterance {
                from: from.to_owned(),
                text: text.to_owned(),
            });
            while thread.utterances.len() > MAX_UTTERANCES || thread.bytes > MAX_THREAD_BYTES {
                let Some(oldest) = thread.utterances.pop_front() else {
                    break;
                };
                thread.bytes -= oldest.text.len();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(threads: &Threads) -> Vec<String> {
        let history = threads.history("t");
        history.into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn conversation_drops_the_oldest_messages() {
        let threads = Threads::new();
        for number in 0..=MAX_UTTERANCES {
            threads.push("t", "steward", &number.to_string());
        }
        let texts = texts(&threads);
        assert_eq!(texts.len(), MAX_UTTERANCES);
        assert_eq!(texts[0], "1");
    }

    #[test]
    fn conversation_is_bounded_in_bytes() {
        let threads = Threads::new();
        threads.push("t", "steward", "small");
        threads.push("t", "steward", &"x".repeat(MAX_THREAD_BYTES + 1));
        assert_eq!(texts(&threads), ["small"], "a huge message evicts nothing");
        threads.push("t", "steward", &"x".repeat(MAX_THREAD_BYTES));
        assert_eq!(threads.history("t").len(), 1);
    }

    #[test]
    fn silent_conversations_are_evicted() {
        let threads = Threads::new();
        threads.push("t", "steward", "hello");
        for number in 0..MAX_THREADS.get() {
            threads.push(&number.to_string(), "steward", "hello");
        }
        assert_eq!(texts(&threads), [""; 0]);
    }

    #[tokio::test]
    async fn turns_of_a_conversation_run_in_order() {
        let threads = Threads::new();
        let (first, second, other) = (
            threads.push_turn("t"),
            threads.push_turn("t"),
            threads.push_turn("u"),
        );
        first.ready().await;
        other.ready().await;
        let mut waiting = Box::pin(second.ready());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        waiting.await;
    }
}
