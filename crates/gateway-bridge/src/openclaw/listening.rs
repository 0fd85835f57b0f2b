//! Listening to what is said of one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use peer::PeerError;

use super::line::Line;
use super::refusal;
use super::said::{Ear, Said};

/// So much may wait for a listener that does not listen, in events and in bytes. Who is slower asks for the rest anew.
const EVENTS_WAITING: usize = 512;
const BYTES_WAITING: usize = 8 * 1024 * 1024;

/// Where what is said arrives, with how many bytes it came in.
type Heard = mpsc::Receiver<(Said, usize)>;

/// A listener, at the end of the connection.
pub(super) struct Listener {
    pub(super) id: u64,
    pub(super) ear: Ear,
    events: mpsc::Sender<(Said, usize)>,
    waiting: Arc<AtomicUsize>,
}

impl Listener {
    pub(super) fn new(id: u64) -> (Self, Heard) {
        let (events, heard) = mpsc::channel(EVENTS_WAITING);
        let listener = Self {
            id,
            ear: Ear::default(),
            events,
            waiting: Arc::default(),
        };
        (listener, heard)
    }

    /// Tells it. `false` where it does not keep up.
    pub(super) fn is_told(&self, said: Said, size: usize) -> bool {
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        before <= BYTES_WAITING && self.events.try_send((said, size)).is_ok()
    }
}

/// Listens to one run. Dropping it ends that; the run goes on.
pub(super) struct Listening {
    line: Arc<Line>,
    run: String,
    id: u64,
    heard: Heard,
    waiting: Arc<AtomicUsize>,
}

impl Listening {
    pub(super) fn new(line: Arc<Line>, run: &str, listener: &Listener, heard: Heard) -> Self {
        Self {
            line,
            run: run.to_owned(),
            id: listener.id,
            heard,
            waiting: Arc::clone(&listener.waiting),
        }
    }

    /// What is said next, and how many bytes it came in.
    ///
    /// # Errors
    /// The connection is over, or this listener was too slow.
    pub(super) async fn next(&mut self) -> Result<(Said, usize), PeerError> {
        match self.heard.recv().await {
            Some((said, size)) => {
                self.waiting.fetch_sub(size, Ordering::Relaxed);
                Ok((said, size))
            }
            None if self.line.is_open() => Err(refusal::cut(
                "this listener was too slow for what the agent says",
            )),
            None => Err(self.line.why_over()),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.line.ignore(&self.run, self.id);
    }
}
