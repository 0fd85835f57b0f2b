//! Conversations: their earlier messages, within limits, and the order of their turns.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use base::keyed_lru::KeyedLru;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::Utterance;

/// The maximum number of conversations. A further one evicts the least recently used one. One sender has a quarter of them.
const MAX_THREADS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The maximum number of messages that a conversation keeps.
const MAX_UTTERANCES: usize = 40;

/// The maximum size of the messages that a conversation keeps, in bytes.
const MAX_THREAD_BYTES: usize = 64 * 1024;

/// The conversations of one agent, by sender and id.
pub(super) struct Threads(Mutex<KeyedLru<String, String, Thread>>);

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
        let share = MAX_THREADS.get() / 4;
        Self(Mutex::new(KeyedLru::new(MAX_THREADS, share)))
    }

    fn with<T>(&self, sender: &str, id: &str, update: impl FnOnce(&mut Thread) -> T) -> T {
        let mut threads = self.0.lock();
        update(threads.get_or_insert_with(sender.to_owned(), id.to_owned(), Thread::default))
    }

    /// Appends a turn to the conversation.
    pub(super) fn push_turn(&self, sender: &str, id: &str) -> TurnTicket {
        let done = CancellationToken::new();
        let before = self.with(sender, id, |thread| {
            let before = std::mem::replace(&mut thread.last, done.clone());
            std::mem::replace(&mut thread.has_turn, true).then_some(before)
        });
        TurnTicket {
            before,
            _done: done.drop_guard(),
        }
    }

    /// Returns the messages, the oldest first.
    pub(super) fn history(&self, sender: &str, id: &str) -> Vec<Utterance> {
        let all = |thread: &mut Thread| thread.utterances.iter().cloned().collect();
        self.with(sender, id, all)
    }

    /// Adds a message of `from`, and removes the oldest messages above the limits.
    pub(super) fn push(&self, sender: &str, id: &str, from: &str, text: &str) {
        if text.len() > MAX_THREAD_BYTES {
            return;
        }
        self.with(sender, id, |thread| {
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
        let history = threads.history("steward", "t");
        history.into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn conversation_drops_the_oldest_messages() {
        let threads = Threads::new();
        for number in 0..=MAX_UTTERANCES {
            threads.push("steward", "t", "steward", &number.to_string());
        }
        let texts = texts(&threads);
        assert_eq!(texts.len(), MAX_UTTERANCES);
        assert_eq!(texts[0], "1");
    }

    #[test]
    fn conversation_is_bounded_in_bytes() {
        let threads = Threads::new();
        threads.push("steward", "t", "steward", "small");
        threads.push("steward", "t", "steward", &"x".repeat(MAX_THREAD_BYTES + 1));
        assert_eq!(texts(&threads), ["small"], "a huge message evicts nothing");
        threads.push("steward", "t", "steward", &"x".repeat(MAX_THREAD_BYTES));
        assert_eq!(threads.history("steward", "t").len(), 1);
    }

    #[test]
    fn silent_conversations_are_evicted() {
        let threads = Threads::new();
        threads.push("steward", "t", "steward", "hello");
        for number in 0..MAX_THREADS.get() {
            let id = number.to_string();
            threads.push(&format!("sender-{}", number % 8), &id, "steward", "hello");
        }
        assert_eq!(texts(&threads), [""; 0]);
    }

    #[test]
    fn sender_leaves_conversations_to_others() {
        let threads = Threads::new();
        threads.push("steward", "t", "steward", "hello");
        for number in 0..2 * MAX_THREADS.get() {
            threads.push("eve", &number.to_string(), "eve", "hello");
        }
        assert_eq!(texts(&threads), ["hello"]);
    }

    #[tokio::test]
    async fn turns_of_a_conversation_run_in_order() {
        let threads = Threads::new();
        let (first, second, other) = (
            threads.push_turn("steward", "t"),
            threads.push_turn("steward", "t"),
            threads.push_turn("steward", "u"),
        );
        first.ready().await;
        other.ready().await;
        let mut waiting = Box::pin(second.ready());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        waiting.await;
    }
}
