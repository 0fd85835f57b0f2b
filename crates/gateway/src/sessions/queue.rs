//! The queue of lines to write.

use tokio::sync::oneshot;

use super::SessionError;
use super::line::Event;
use super::name::SessionKey;

pub(super) type Reply = Result<(), SessionError>;

#[derive(Default)]
pub(super) struct Queue {
    pub(super) lines: Vec<PendingLine>,
    pub(super) bytes: usize,
    pub(super) has_writer: bool,
}

pub(super) struct PendingLine {
    pub(super) key: SessionKey,
    /// The recorded change; `None` for an entry.
    pub(super) event: Option<Event>,
    pub(super) time: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) reply: oneshot::Sender<Reply>,
}
