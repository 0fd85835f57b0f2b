//! What was sent to agents behind a gateway that keeps no tasks: each message is a task of its own here, with its answer.
//!
//! It outlives connections, so that an answer that comes late is kept for whoever asks about it, and never given to another
//! message. It holds 256 tasks for a day, and 8 MiB of them; those that somebody listens to are not the ones that go.

mod entry;
mod listener;
mod wording;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use serde_json::Value;

use a2a::Task;
use collective::{ErrorCode, LARGEST_FRAME};
use peer::{Delivered, PeerError, PeerErrorKind};

pub(super) use entry::{Awaited, Entry, Outcome, Sending, What};

/// How many tasks are kept.
const KEPT: usize = 256;

/// How much of them is kept, in bytes: messages that may be sent again, steps and answers. Eight answers as large as a frame
/// can be, or 32 kB for each of the 256, which is more than nearly all answers have.
const HELD: usize = 8 * LARGEST_FRAME;

/// How long one is kept.
const FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The tasks of one instance.
pub(super) struct Ledger {
    book: Mutex<Book>,
    /// What the tasks take, nearly.
    bytes: Arc<AtomicUsize>,
}

struct Book {
    /// By the id that messages and answers share.
    entries: LruCache<String, Arc<Entry>>,
    /// That id by the id of the message.
    by_message: HashMap<String, String>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            book: Mutex::new(Book {
                entries: LruCache::unbounded(),
                by_message: HashMap::new(),
            }),
            bytes: Arc::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a message is about to be sent.
    pub(super) fn begin(&self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry.among(&self.bytes));
        let mut book = self.book();
        book.make_room(KEPT - 1, &self.bytes);
        book.by_message
            .insert(entry.message_id.clone(), entry.id.clone());
        book.entries.put(entry.id.clone(), Arc::clone(&entry));
        entry
    }

    /// Something was said about one of them: what was used longest ago goes where that is too much.
    pub(super) fn trim(&self) {
        if self.bytes.load(Ordering::SeqCst) > HELD {
            self.book().make_room(KEPT, &self.bytes);
        }
    }

    /// The message was not sent after all.
    pub(super) fn forget(&self, entry: &Entry) {
        let mut book = self.book();
        book.entries.pop(&entry.id);
        book.by_message.remove(&entry.message_id);
    }

    /// What goes by this correlation id.
    pub(super) fn by_correlation(&self, id: &str) -> Option<Arc<Entry>> {
        let mut book = self.book();
        let entry = Arc::clone(book.entries.get(id)?);
        if entry.age() < FOR {
            return Some(entry);
        }
        book.entries.pop(id);
        book.by_message.remove(&entry.message_id);
        None
    }

    /// What the message of this id began.
    pub(super) fn by_message(&self, id: &str) -> Option<Arc<Entry>> {
        let correlation = self.book().by_message.get(id).cloned()?;
        self.by_correlation(&correlation)
    }

    /// The one message that waits for its answer, where it is only one.
    pub(super) fn only_open(&self) -> Option<Arc<Entry>> {
        let open = self.open();
        match open.as_slice() {
            [one] => Some(Arc::clone(one)),
            _ => None,
        }
    }

    /// Whatever waits for its answer.
    pub(super) fn open(&self) -> Vec<Arc<Entry>> {
        let book = self.book();
        let entries = book.entries.iter().map(|(_, entry)| entry);
        entries
            .filter(|entry| !entry.is_terminal())
            .cloned()
            .collect()
    }

    /// The task of this agent.
    pub(super) fn find(&self, agent: &str, id: &str) -> Option<Arc<Entry>> {
        self.by_correlation(id).filter(|entry| entry.agent == agent)
    }

    /// As [`find`](Self::find).
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`].
    pub(super) fn known(&self, agent: &str, id: &str) -> Result<Arc<Entry>, PeerError> {
        self.find(agent, id).ok_or_else(|| {
            let message = "the gateway keeps no tasks, and what was sent to it is remembered here only for a day and as long as this process runs; the agent may still be at work, and its answer can no longer be fetched";
            let mut error = PeerError::new(PeerErrorKind::TaskForgotten, message);
            error.delivered = Delivered::Unknown;
            error
        })
    }

    /// The task as it stands.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`].
    pub(super) fn task(&self, agent: &str, id: &str) -> Result<Task, PeerError> {
        self.known(agent, id)?.task()
    }

    /// Waits no longer for the answer. The protocols of these gateways cannot take a message back.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`].
    pub(super) fn cancel(&self, agent: &str, id: &str) -> Result<Task, PeerError> {
        let entry = self.known(agent, id)?;
        entry.settle(Outcome::Canceled);
        entry.task()
    }

    /// The connection is lost. Messages fail and are not sent again; a proposal waits for its decision on the next one, unless
    /// the gateway has `dismissed` us: then there is no next one until somebody calls.
    pub(super) fn cut(&self, why: &str, dismissed: bool) {
        for entry in self.open() {
            entry.cut(why, dismissed);
        }
    }

    /// There is a connection again. Says whether a decision is waited for.
    pub(super) fn reopen(&self) -> bool {
        let book = self.book();
        let entries = book.entries.iter();
        entries.fold(false, |any, (_, entry)| entry.reopen() || any)
    }
}

impl Book {
    /// Of those that nobody holds the one that was used longest ago goes, until there are no more than `kept` and they take no
    /// more than they may.
    fn make_room(&mut self, kept: usize, bytes: &AtomicUsize) {
        while self.entries.len() > kept || bytes.load(Ordering::SeqCst) > HELD {
            let unheld = |entry: &Arc<Entry>| Arc::strong_count(entry) == 1;
            let mut oldest_first = self.entries.iter().rev();
            let Some((id, message)) = oldest_first
                .find(|(_, entry)| unheld(entry))
                .map(|(id, entry)| (id.clone(), entry.message_id.clone()))
            else {
                return;
            };
            self.entries.pop(&id);
            self.by_message.remove(&message);
        }
    }
}

/// What a value takes in memory, nearly: its texts, and its own size for each value in it.
fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| size_of::<String>() + name.len() + weight(value))
            .sum(),
        _ => 0,
    };
    size_of::<Value>() + inside
}

/// The error of a connection that was lost after a message had left on it.
pub(super) fn reset(why: &str) -> PeerError {
    let message = format!("the connection to the gateway was lost: {why}");
    PeerError::new(PeerErrorKind::Gateway(ErrorCode::ConnectionReset), message)
}

#[cfg(test)]
mod tests;
