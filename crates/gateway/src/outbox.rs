//! The send queue of one client, bounded per client and for all clients.
//!
//! Senders never wait for a client's socket. A slow client only fills its own outbox, and senders get an error for messages
//! that do not fit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::CloseCode;

/// The overhead of an entry in bytes: the entry itself and the frame header.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// The byte budget that all outboxes share.
#[derive(Debug)]
pub(super) struct ByteBudget {
    queued: AtomicUsize,
    max_bytes: usize,
    /// Whether a queued reply exceeds the budget of an identity.
    is_exceeded: AtomicBool,
    /// The number of replies that wait for room in the budget of an identity.
    waiting: AtomicUsize,
    /// Notified when bytes are released, and when a reply waits no longer.
    released: Notify,
}

impl ByteBudget {
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            queued: AtomicUsize::new(0),
            max_bytes,
            is_exceeded: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            released: Notify::new(),
        })
    }

    /// Acquires bytes. With `exceed`, acquires them even above the limit.
    fn try_acquire(&self, bytes: usize, exceed: bool) -> bool {
        let before = self.queued.fetch_add(bytes, Ordering::Relaxed);
        let fits = exceed || before.saturating_add(bytes) <= self.max_bytes;
        if !fits {
            self.undo(bytes);
        }
        fits
    }

    /// Undoes an attempt. Wakes no waiting reply: two of them would wake each other forever.
    fn undo(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn release(&self, bytes: usize) {
        self.undo(bytes);
        self.released.notify_waiters();
    }

    /// Counts a reply that waits for room, until the guard is dropped.
    fn wait(&self) -> WaitGuard<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitGuard(self)
    }

    /// Returns the number of queued bytes.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

/// A reply that waits for room in a budget.
struct WaitGuard<'a>(&'a ByteBudget);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.released.notify_waiters();
    }
}

/// Why an outbox refuses a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueError {
    /// The outbox, or the shared budget of all outboxes, is full.
    Full,
    /// The connection is closed.
    Closed,
}

/// A close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Close {
    pub(super) code: CloseCode,
    pub(super) reason: &'static str,
}

impl Close {
    pub(super) const NORMAL: Self = Self::new(CloseCode::Normal, "");
    pub(super) const AUTH_REQUIRED: Self = Self::new(CloseCode::Policy, "authentication required");
    pub(super) const INVALID_CREDENTIAL: Self = Self::new(CloseCode::Policy, "invalid credential");
    pub(super) const TOKEN_EXPIRED: Self =
        Self::new(CloseCode::Policy, "the credential has expired");
    pub(super) const UNSUPPORTED_VERSION: Self =
        Self::new(CloseCode::Policy, "unsupported protocol version");
    pub(super) const RATE_LIMITED: Self = Self::new(CloseCode::Policy, "too many messages");
    pub(super) const SLOW_READER: Self =
        Self::new(CloseCode::Policy, "the client does not read its messages");
    pub(super) const IDLE: Self =
        Self::new(CloseCode::GoingAway, "the client was silent for too long");
    pub(super) const TOO_MANY: Self = Self::new(
        CloseCode::GoingAway,
        "too many connections or wrong credentials",
    );
    pub(super) const RESTART: Self = Self::new(
        CloseCode::GoingAway,
        "the agent must restart; connect again",
    );
    pub(super) const REPLACED: Self =
        Self::new(CloseCode::GoingAway, "the gateway has connected again");
    pub(super) const SHUTDOWN: Self =
        Self::new(CloseCode::GoingAway, "the gateway is shutting down");

    pub(super) const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

/// A callback for a message that expired in the outbox.
pub(super) type OnExpired = Box<dyn FnOnce() + Send>;

/// An entry of an outbox.
pub(super) enum Item {
    /// A message.
    Text(Utf8Bytes),
    /// A message with an expiry.
    Expiring {
        text: Utf8Bytes,
        /// The expiry, in milliseconds since 1970.
        expires_at: u64,
        /// Called instead of the write if the message has expired.
        on_expired: OnExpired,
    },
    /// A WebSocket ping frame.
    Ping,
}

impl Item {
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Text(text) | Self::Expiring { text, .. } => text.len() + ENTRY_OVERHEAD_BYTES,
            Self::Ping => ENTRY_OVERHEAD_BYTES,
        }
    }
}

/// The send queue of one client.
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Notified when an entry or the close frame is queued.
    filled: Notify,
    /// Notified when entries are written, and when the close frame is queued.
    drained: Notify,
    max_bytes: usize,
    budget: Arc<ByteBudget>,
    /// The budget of all outboxes of the client's identity.
    share: OnceLock<Arc<ByteBudget>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    /// The size of the queue and of the batch being written.
    bytes: usize,
    /// The number of entries queued so far.
    pushed: u64,
    /// The number of entries that have left the queue.
    written: u64,
    writing: Option<Writing>,
    close: Option<Close>,
    abandoned: bool,
    /// Whether the queue has the reply by which the identity exceeds its budget.
    exceeds: bool,
}

struct Writing {
    since: Instant,
    entries: u64,
    bytes: usize,
}

/// The next step of the writer.
pub(super) enum Next {
    /// Write these entries.
    Write(Vec<Item>),
    /// Write the close frame. All entries are written.
    Close(Close),
}

impl Outbox {
    pub(super) fn new(max_bytes: usize, budget: Arc<ByteBudget>) -> Self {
        Self {
            state: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            max_bytes,
            budget,
            share: OnceLock::new(),
        }
    }

    /// Counts the outbox towards the budget of an identity. Only the first one counts.
    pub(super) fn set_share(&self, share: Arc<ByteBudget>) {
        let state = self.state.lock();
        if self.share.get().is_none() {
            share.try_acquire(state.bytes, true);
            let _ = self.share.set(share);
        }
    }

    /// Acquires bytes in the budgets. The caller holds the lock of the state. With `exceed`, acquires them even above the
    /// limits, but only for one reply of an identity at a time.
    fn try_acquire(&self, state: &mut State, bytes: usize, exceed: bool) -> bool {
        let Some(share) = self.share.get() else {
            return self.budget.try_acquire(bytes, exceed);
        };
        if share.try_acquire(bytes, false) {
            if self.budget.try_acquire(bytes, false) {
                return true;
            }
            share.undo(bytes);
        }
        if !exceed || share.is_exceeded.swap(true, Ordering::Relaxed) {
            return false;
        }
        state.exceeds = true;
        self.budget.try_acquire(bytes, true) && share.try_acquire(bytes, true)
    }

    /// Releases bytes of the outbox in the budgets.
    fn release(&self, state: &mut State, bytes: usize) {
        state.bytes -= bytes;
        self.budget.release(bytes);
        if let Some(share) = self.share.get() {
            if state.bytes == 0 && std::mem::take(&mut state.exceeds) {
                share.is_exceeded.store(false, Ordering::Relaxed);
            }
            share.release(bytes);
        }
    }

    /// Reserves room for an entry of this cost.
    pub(super) fn reserve(&self, cost: usize) -> Result<OutboxRoom<'_>, EnqueueError> {
        let mut state = self.state.lock();
        self.acquire(&mut state, cost, false)?;
        Ok(OutboxRoom { outbox: self, cost })
    }

    fn acquire(&self, state: &mut State, cost: usize, exceed: bool) -> Result<(), EnqueueError> {
        if state.abandoned || state.close.is_some() {
            return Err(EnqueueError::Closed);
        }
        // An empty outbox accepts any entry, so that the gateway can deliver a message above the limit.
        let fits = state.bytes == 0 || state.bytes.saturating_add(cost) <= self.max_bytes;
        if !fits || !self.try_acquire(state, cost, exceed) {
            return Err(EnqueueError::Full);
        }
        state.bytes += cost;
        Ok(())
    }

    /// Appends an entry without waiting. Returns its number.
    pub(super) fn push(&self, item: Item) -> Result<u64, EnqueueError> {
        self.push_within(item, false)
    }

    /// Appends an entry without waiting. With `exceed`, the entry may exceed the shared budget.
    fn push_within(&self, item: Item, exceed: bool) -> Result<u64, EnqueueError> {
        let mut state = self.state.lock();
        self.acquire(&mut state, item.cost(), exceed)?;
        Ok(self.append(state, item))
    }

    /// Appends an entry whose cost is acquired. Returns its number.
    fn append(&self, mut state: MutexGuard<'_, State>, item: Item) -> u64 {
        state.pushed += 1;
        state.queue.push_back(item);
        let number = state.pushed;
        drop(state);
        self.filled.notify_one();
        number
    }

    /// Appends a message without waiting. Returns its number.
    pub(super) fn try_send(&self, text: impl Into<Utf8Bytes>) -> Result<u64, EnqueueError> {
        self.push(Item::Text(text.into()))
    }

    /// Appends a reply to the client's own message, and waits until there is room. The gateway does not read from a client
    /// that does not read its replies. An empty outbox accepts a reply even if the shared budget is exhausted, for one
    /// client of an identity at a time.
    pub(super) async fn send(&self, text: Utf8Bytes) -> Result<(), EnqueueError> {
        let mut waiting = None;
        loop {
            let drained = self.drained.notified();
            let released = self.released();
            let exceed = self.state.lock().bytes == 0;
            match self.push_within(Item::Text(text.clone()), exceed) {
                Err(EnqueueError::Full) => {}
                pushed => return pushed.map(drop),
            }
            if waiting.is_none() {
                waiting = self.share.get().map(|share| share.wait());
            }
            tokio::select! {
                () = drained => {}
                () = released => {}
            }
        }
    }

    /// Waits while a reply to a client of the identity waits for room in its budget. Otherwise each of its connections could
    /// hold one more reply in memory.
    pub(super) async fn wait_for_share(&self) {
        loop {
            let (drained, released) = (self.drained.notified(), self.released());
            let share = self.share.get();
            let waiting = share.map_or(0, |share| share.waiting.load(Ordering::Relaxed));
            if waiting == 0 || self.is_closed() {
                return;
            }
            tokio::select! {
                () = drained => {}
                () = released => {}
            }
        }
    }

    /// Waits until bytes of the identity are released.
    fn released(&self) -> impl Future<Output = ()> {
        let released = self.share.get().map(|share| share.released.notified());
        async move {
            match released {
                Some(released) => released.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Closes the connection after the writer has written the queued entries. The first close frame wins.
    pub(super) fn close(&self, close: Close) {
        let mut state = self.state.lock();
        state.close.get_or_insert(close);
        drop(state);
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// Drops the queued entries and closes the connection.
    pub(super) fn abort(&self, close: Close) {
        let mut state = self.state.lock();
        state.close = Some(close);
        self.clear_queue(&mut state);
        drop(state);
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// Drops the queued entries after the connection has ended.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.abandoned = true;
        self.clear_queue(&mut state);
        // The writer may have sent a part of the current batch.
        self.finish_batch(&mut state);
        drop(state);
        self.drained.notify_waiters();
    }

    /// Counts the current batch as written.
    fn finish_batch(&self, state: &mut State) {
        if let Some(writing) = state.writing.take() {
            state.written += writing.entries;
            self.release(state, writing.bytes);
        }
    }

    fn clear_queue(&self, state: &mut State) {
        let queued: usize = state.queue.iter().map(Item::cost).sum();
        state.queue = VecDeque::new();
        self.release(state, queued);
    }

    /// Waits for the next batch. It contains at least one entry, and at most `max_bytes` if it has several.
    pub(super) async fn next_batch(&self, max_bytes: usize, now: impl Fn() -> Instant) -> Next {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.state.lock();
                if !state.queue.is_empty() {
                    return Next::Write(take_batch(&mut state, max_bytes, now()));
                }
                if let Some(close) = state.close {
                    return Next::Close(close);
                }
            }
            filled.await;
        }
    }

    /// Records that the last batch was written to the socket.
    pub(super) fn batch_written(&self) {
        let mut state = self.state.lock();
        self.finish_batch(&mut state);
        drop(state);
        self.drained.notify_waiters();
    }

    /// Returns whether the entry with this number is written or is in the current batch.
    pub(super) fn may_be_written(&self, number: u64) -> bool {
        let state = self.state.lock();
        let writing = state.writing.as_ref().map_or(0, |writing| writing.entries);
        state.written + writing >= number
    }

    /// Returns the start time of an incomplete write.
    pub(super) fn writing_since(&self) -> Option<Instant> {
        self.state
            .lock()
            .writing
            .as_ref()
            .map(|writing| writing.since)
    }

    /// Returns whether the connection is closed or closing.
    pub(super) fn is_closed(&self) -> bool {
        let state = self.state.lock();
        state.abandoned || state.close.is_some()
    }

    /// Removes the queued messages.
    #[cfg(test)]
    pub(super) fn drain(&self) -> Vec<String> {
        let mut state = self.state.lock();
        let items = take_batch(&mut state, usize::MAX, Instant::now());
        drop(state);
        self.batch_written();
        let texts = items.into_iter().filter_map(|item| match item {
            Item::Text(text) | Item::Expiring { text, .. } => Some(text.to_string()),
            Item::Ping => None,
        });
        texts.collect()
    }
}

/// Room for one entry. Dropping it releases the room.
pub(super) struct OutboxRoom<'a> {
    outbox: &'a Outbox,
    cost: usize,
}

impl OutboxRoom<'_> {
    /// Appends the entry for which the room was reserved. Returns its number.
    pub(super) fn push(mut self, item: Item) -> Result<u64, EnqueueError> {
        debug_assert_eq!(item.cost(), self.cost);
        let state = self.outbox.state.lock();
        if state.abandoned || state.close.is_some() {
            drop(state);
            return Err(EnqueueError::Closed);
        }
        self.cost = 0;
        Ok(self.outbox.append(state, item))
    }
}

impl Drop for OutboxRoom<'_> {
    fn drop(&mut self) {
        if self.cost > 0 {
            let mut state = self.outbox.state.lock();
            self.outbox.release(&mut state, self.cost);
            drop(state);
            self.outbox.drained.notify_waiters();
        }
    }
}

fn take_batch(state: &mut State, max_bytes: usize, now: Instant) -> Vec<Item> {
    let (mut taken, mut cost) = (Vec::new(), 0);
    while let Some(item) = state.queue.front() {
        if cost > 0 && cost + item.cost() > max_bytes {
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
