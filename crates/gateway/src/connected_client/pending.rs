//! The pending requests of a client.
//!
//! Each client has its own table, so that it can reply only to requests that were sent to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use collective::Envelope;
use parking_lot::Mutex;

use super::Client;

/// The maximum number of pending requests of one client.
const MAX_PENDING: usize = 4096;

/// A message whose sender waits for a reply.
#[derive(Debug, Clone)]
pub(crate) struct PendingRequest {
    /// The sender.
    pub(crate) requester: Weak<Client>,
    /// The name of the sender in the message.
    pub(crate) requester_name: Arc<str>,
    /// The sender's correlation id (`metadata.correlationId`).
    pub(crate) correlation_id: Arc<str>,
    /// The id of the message.
    pub(crate) message_id: Arc<str>,
    /// The recipient.
    pub(crate) agent: Arc<str>,
    /// The session of the message.
    pub(crate) session: Option<Arc<str>>,
    /// Whether the requester receives either a reply or an error in any case.
    pub(crate) reply_required: bool,
    /// The number of the message in the recipient's outbox, once it is queued.
    pub(crate) outbox_number: Option<u64>,
    /// The deadline for the reply.
    pub(crate) deadline: Instant,
}

/// Why a request cannot become pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertError {
    /// The client has too many pending requests.
    Full,
    /// The client has disconnected.
    Closed,
}

/// The pending requests of one client.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// By the correlation id that the recipient received.
    by_correlation: HashMap<Arc<str>, PendingRequest>,
    by_message: HashMap<Arc<str>, Arc<str>>,
    /// In order of the deadlines. May contain completed requests.
    order: VecDeque<(Instant, Arc<str>)>,
    renamed: u64,
    closed: bool,
}

impl PendingRequests {
    /// Inserts a request and returns the correlation id for the recipient. That is the requester's own id, unless another
    /// pending request already uses it.
    pub(crate) fn insert(&self, pending: PendingRequest) -> Result<Arc<str>, InsertError> {
        let mut table = self.0.lock();
        if table.closed {
            return Err(InsertError::Closed);
        }
        if table.by_correlation.len() >= MAX_PENDING {
            return Err(InsertError::Full);
        }
        let mut id = Arc::clone(&pending.correlation_id);
        while table.by_correlation.contains_key(&id) {
            table.renamed += 1;
            id = format!("{}~{}", pending.correlation_id, table.renamed).into();
        }
        table
            .by_message
            .insert(Arc::clone(&pending.message_id), Arc::clone(&id));
        table.order.push_back((pending.deadline, Arc::clone(&id)));
        table.by_correlation.insert(Arc::clone(&id), pending);
        Ok(id)
    }

    /// Stores the number of the message in the recipient's outbox.
    pub(crate) fn set_outbox_number(&self, id: &str, number: u64) {
        if let Some(pending) = self.0.lock().by_correlation.get_mut(id) {
            pending.outbox_number = Some(number);
        }
    }

    /// Returns the request with this correlation id or, failing that, message id.
    pub(crate) fn get(&self, id: Option<&str>, message: Option<&str>) -> Option<PendingRequest> {
        let table = self.0.lock();
        let id = table.key(id, message)?;
        table.by_correlation.get(&id).cloned()
    }

    /// Returns the request that an envelope refers to.
    pub(crate) fn find(&self, envelope: &Envelope) -> Option<PendingRequest> {
        self.get(envelope.correlation_id(), envelope.parent_id())
    }

    /// Removes the request that [`get`](Self::get) returns.
    pub(crate) fn remove(&self, id: Option<&str>, message: Option<&str>) -> Option<PendingRequest> {
        let mut table = self.0.lock();
        let id = table.key(id, message)?;
        table.remove(&id)
    }

    /// Removes the requests whose deadline has passed.
    pub(crate) fn remove_expired(&self, now: Instant) -> Vec<PendingRequest> {
        let mut table = self.0.lock();
        let mut expired = Vec::new();
        while let Some((deadline, id)) = table.order.front() {
            // A later request may have the same id as a completed one.
            let current = table.by_correlation.get(id).map(|pending| pending.deadline);
            if current == Some(*deadline) {
                if *deadline > now {
                    break;
                }
                let id = Arc::clone(id);
                expired.extend(table.remove(&id));
            }
            table.order.pop_front();
        }
        expired
    }

    /// Removes all requests in order of their deadlines, and refuses further ones.
    pub(crate) fn close(&self) -> Vec<PendingRequest> {
        let mut table = self.0.lock();
        table.closed = true;
        table.by_message.clear();
        table.order.clear();
        let mut all: Vec<_> = table
            .by_correlation
            .drain()
            .map(|(_, pending)| pending)
            .collect();
        all.sort_by_key(|pending| pending.deadline);
        all
    }
}

impl Table {
    fn key(&self, id: Option<&str>, message: Option<&str>) -> Option<Arc<str>> {
        if let Some((id, _)) = id.and_then(|id| self.by_correlation.get_key_value(id)) {
            return Some(Arc::clone(id));
        }
        self.by_message.get(message?).map(Arc::clone)
    }

    fn remove(&mut self, id: &str) -> Option<PendingRequest> {
        let pending = self.by_correlation.remove(id)?;
        if self
            .by_message
            .get(&pending.message_id)
            .is_some_and(|known| **known == *id)
        {
            self.by_message.remove(&pending.message_id);
        }
        // Completed requests stay in `order` until they reach its front, which this bounds.
        if self.order.len() > 2 * MAX_PENDING {
            let by_correlation = &self.by_correlation;
            self.order.retain(|(deadline, id)| {
                by_correlation
                    .get(id)
                    .is_some_and(|pending| pending.deadline == *deadline)
            });
        }
        Some(pending)
    }
}

#[cfg(test)]
mod tests;
