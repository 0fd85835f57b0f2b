//! The queue of lines to write.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::SessionError;
use super::line::Event;
use super::name::SessionKey;

pub(super) type Reply = Result<(), SessionError>;

#[derive(Default)]
pub(super) struct Queue {
    pub(super) lines: Vec<PendingLine>,
    pub(super) bytes: usize,
    /// The bytes of each identity.
    pub(super) bytes_of: HashMap<Arc<str>, usize>,
    pub(super) has_writer: bool,
}

pub(super) struct PendingLine {
    /// The identity of the client; empty for the gateway's own lines.
    pub(super) identity: Arc<str>,
    pub(super) key: SessionKey,
    /// The recorded change; `None` for an entry.
    pub(super) event: Option<Event>,
    pub(super) time: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) reply: oneshot::Sender<Reply>,
}
