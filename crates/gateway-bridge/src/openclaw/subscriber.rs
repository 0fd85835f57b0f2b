//! The sending end of a run subscription. The connection owns it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::run_event::{RunEvent, RunEventDecoder};

/// The maximum number of queued events of a subscriber.
const MAX_QUEUED_EVENTS: usize = 512;

/// The maximum size of a subscriber's queued events, in bytes. A slower subscriber must query the remaining events later.
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// The sending end of a subscription.
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) decoder: RunEventDecoder,
    events: mpsc::Sender<(RunEvent, usize)>,
    queued_bytes: Arc<AtomicUsize>,
}

/// The receiving end of a subscription. Each event comes with the size of its frame in bytes.
pub(super) struct RunEventReceiver {
    pub(super) id: u64,
    events: mpsc::Receiver<(RunEvent, usize)>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Subscriber {
    pub(super) fn new(id: u64) -> (Self, RunEventReceiver) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let subscriber = Self {
            id,
            decoder: RunEventDecoder::default(),
            events: sender,
            queued_bytes: Arc::clone(&queued_bytes),
        };
        let receiver = RunEventReceiver {
            id,
            events: receiver,
            queued_bytes,
        };
        (subscriber, receiver)
    }

    /// Queues an event. Returns `false` if the subscriber is too slow.
    pub(super) fn push(&self, event: RunEvent, size: usize) -> bool {
        let before = self.queued_bytes.fetch_add(size, Ordering::Relaxed);
        before <= MAX_QUEUED_BYTES && self.events.try_send((event, size)).is_ok()
    }
}

impl RunEventReceiver {
    /// Returns the next event and its size; `None` once the subscription has ended.
    pub(super) async fn recv(&mut self) -> Option<(RunEvent, usize)> {
        let (event, size) = self.events.recv().await?;
        self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        Some((event, size))
    }
}
