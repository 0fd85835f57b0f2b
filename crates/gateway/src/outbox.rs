//! What waits to be written to one client, bounded for each and for all together.
//!
//! Whoever has something for a client puts it here and never waits for its socket. A client that does not read fills its own
//! outbox alone; what no longer fits is refused to its sender, who is told so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::CloseCode;

/// What an entry costs beside its text, in bytes: the entry itself and the frame's head.
const OVERHEAD: usize = 96;

/// The bytes that wait for all clients together.
#[derive(Debug)]
pub(super) struct Load {
    queued: AtomicUsize,
    most: usize,
}

impl Load {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            queued: AtomicUsize::new(0),
            most,
        })
    }

    fn take(&self, bytes: usize, beyond: bool) -> bool {
        let before = self.queued.fetch_add(bytes, Ordering::Relaxed);
        let fits = beyond || before.saturating_add(bytes) <= self.most;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many bytes wait.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

/// Why something is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueError {
    /// The client has too much to read already, or all clients together.
    Full,
    /// The client is gone.
    Gone,
}

/// The end of a connection, as the other side is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Close {
    pub(super) code: CloseCode,
    pub(super) reason: &'static str,
}

/// What is told where a message waited longer than it was meant to live.
pub(super) type Expired = Box<dyn FnOnce() + Send>;

/// Something to write.
pub(super) enum Item {
    /// A message.
    Text(Utf8Bytes),
    /// A message that is not delivered after this time, in milliseconds since 1970.
    Perishable(Utf8Bytes, u64, Expired),
    /// A ping of the WebSocket.
    Ping,
}

impl Item {
    fn cost(&self) -> usize {
        match self {
            Self::Text(text) | Self::Perishable(text, ..) => text.len() + OVERHEAD,
            Self::Ping => OVERHEAD,
        }
    }
}

/// What waits for one client.
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Something has been put in, or the end has been said.
    filled: Notify,
    /// Something has been written.
    drained: Notify,
    most: usize,
    load: Arc<Load>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    /// The bytes of the queue and of what is being written.
    bytes: usize,
    /// How many entries were put in and written since the beginning.
    put: u64,
    written: u64,
    writing: Option<Writing>,
    end: Option<Close>,
    gone: bool,
}

struct Writing {
    since: Instant,
    entries: u64,
    bytes: usize,
}

/// What the writer is to do next.
pub(super) enum Next {
    /// Write these.
    Write(Vec<Item>),
    /// Say the end: everything before it has been written.
    Close(Close),
}

impl Outbox {
    pub(super) fn new(most: usize, load: Arc<Load>) -> Self {
        Self {
            state: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            most,
            load,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in, and gives its number.
    pub(super) fn put(&self, item: Item) -> Result<u64, EnqueueError> {
        self.put_in(item, false)
    }

    /// `beyond`: it may be more than all outboxes together should hold.
    fn put_in(&self, item: Item, beyond: bool) -> Result<u64, EnqueueError> {
        let cost = item.cost();
        let mut state = self.state();
        if state.gone || state.end.is_some() {
            return Err(EnqueueError::Gone);
        }
        // One entry always fits, or a message larger than the limit could never be read by anybody.
        let fits = state.bytes == 0 || state.bytes.saturating_add(cost) <= self.most;
        if !fits || !self.load.take(cost, beyond) {
            return Err(EnqueueError::Full);
        }
        state.bytes += cost;
        state.put += 1;
        state.queue.push_back(item);
        let number = state.put;
        drop(state);
        self.filled.notify_one();
        Ok(number)
    }

    /// Puts in a message.
    pub(super) fn text(&self, text: impl Into<Utf8Bytes>) -> Result<u64, EnqueueError> {
        self.put(Item::Text(text.into()))
    }

    /// Puts in an answer to the client's own message, and waits for room: who does not read what it asked for is not
    /// read from. Others may fill all there is: the one answer of a client that reads is taken all the same.
    pub(super) async fn answer(&self, text: Utf8Bytes) -> Result<(), EnqueueError> {
        loop {
            let drained = self.drained.notified();
            let beyond = self.state().bytes == 0;
            match self.put_in(Item::Text(text.clone()), beyond) {
                Err(EnqueueError::Full) => drained.await,
                put => return put.map(drop),
            }
        }
    }

    /// Says the end. What was put in before is written first; nothing is taken after.
    pub(super) fn finish(&self, close: Close) {
        let mut state = self.state();
        state.end.get_or_insert(close);
        drop(state);
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// Says the end without writing what waits.
    pub(super) fn cut_short(&self, close: Close) {
        let mut state = self.state();
        state.end = Some(close);
        self.forget_queue(&mut state);
        drop(state);
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// The connection is no more.
    pub(super) fn gone(&self) {
        let mut state = self.state();
        state.gone = true;
        self.forget_queue(&mut state);
        // Some of what is being written may have left.
        self.put_away(&mut state);
        drop(state);
        self.drained.notify_waiters();
    }

    /// Counts what is being written as written.
    fn put_away(&self, state: &mut State) {
        if let Some(writing) = state.writing.take() {
            state.written += writing.entries;
            state.bytes -= writing.bytes;
            self.load.give_back(writing.bytes);
        }
    }

    fn forget_queue(&self, state: &mut State) {
        let queued: usize = state.queue.iter().map(Item::cost).sum();
        state.queue = VecDeque::new();
        state.bytes -= queued;
        self.load.give_back(queued);
    }

    /// What is to be written next, at most about `bytes` of it, and at least one entry.
    pub(super) async fn next(&self, bytes: usize, now: impl Fn() -> Instant) -> Next {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.state();
                if !state.queue.is_empty() {
                    return Next::Write(take(&mut state, bytes, now()));
                }
                if let Some(close) = state.end {
                    return Next::Close(close);
                }
            }
            filled.await;
        }
    }

    /// What was taken last has been handed to the system.
    pub(super) fn written(&self) {
        let mut state = self.state();
        self.put_away(&mut state);
        drop(state);
        self.drained.notify_waiters();
    }

    /// Whether the entry of this number has been handed to the system, or some of it may have been.
    pub(super) fn may_have_left(&self, number: u64) -> bool {
        let state = self.state();
        let writing = state.writing.as_ref().map_or(0, |writing| writing.entries);
        state.written + writing >= number
    }

    /// Since when the socket takes nothing of what is being written.
    pub(super) fn writing_since(&self) -> Option<Instant> {
        self.state().writing.as_ref().map(|writing| writing.since)
    }

    /// There is no way back: the end has been said, or come.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.gone || state.end.is_some()
    }

    /// What waits, taken out as text, for tests.
    #[cfg(test)]
    pub(super) fn drain(&self) -> Vec<String> {
        let mut state = self.state();
        let items = take(&mut state, usize::MAX, Instant::now());
        drop(state);
        self.written();
        let texts = items.into_iter().filter_map(|item| match item {
            Item::Text(text) | Item::Perishable(text, ..) => Some(text.to_string()),
            Item::Ping => None,
        });
        texts.collect()
    }
}

fn take(state: &mut State, bytes: usize, now: Instant) -> Vec<Item> {
    let (mut taken, mut cost) = (Vec::new(), 0);
    while let Some(item) = state.queue.front() {
        if cost > 0 && cost + item.cost() > bytes {
            break;
        }
        cost += item.cost();
        taken.extend(state.queue.pop_front());
    }
    state.writing = Some(Writing {
        since: now,
        entries: taken.len() as u64,
        bytes: cost,
    });
    taken
}

#[cfg(test)]
mod tests;
