//! What one client was asked and has not answered yet.
//!
//! Each client keeps the questions that were put to it, so that an answer is looked for among its own questions alone: no
//! client can answer what another was asked, or learn what another was answered.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use collective::Envelope;

use super::client::Client;

/// How many questions may be open at one client.
const MAX_OPEN: usize = 4096;

/// A message that its sender wants answered.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// Who asked.
    pub(super) asker: Weak<Client>,
    /// The name under which it did.
    pub(super) asker_name: Arc<str>,
    /// What the asker knows it by (`metadata.correlationId`).
    pub(super) correlation: Arc<str>,
    /// The id of the message.
    pub(super) message: Arc<str>,
    /// The agent that was asked.
    pub(super) agent: Arc<str>,
    /// The session it belongs to.
    pub(super) session: Option<Arc<str>>,
    /// The asker gets an answer or an error, whatever happens.
    pub(super) owed: bool,
    /// Its place in the outbox of who is asked, once it is there.
    pub(super) number: Option<u64>,
    /// When nobody waits any longer.
    pub(super) until: Instant,
    /// An answer is in the session already, and could not be handed over.
    pub(super) kept: bool,
}

/// Why a question is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskError {
    /// Too many are open.
    TooMany,
    /// The client is gone.
    Gone,
}

/// The open questions of one client.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// By the correlation id that who is asked was given.
    by_correlation: HashMap<Arc<str>, Question>,
    by_message: HashMap<Arc<str>, Arc<str>>,
    /// In the order they were asked, which is the order they expire in. Some are answered already.
    order: VecDeque<(Instant, Arc<str>)>,
    renamed: u64,
    over: bool,
}

impl Questions {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a question. Gives the correlation id under which it is to be put: the asker's own, unless another question that
    /// is open has the same.
    pub(super) fn ask(&self, question: Question) -> Result<Arc<str>, AskError> {
        let mut open = self.open();
        if open.over {
            return Err(AskError::Gone);
        }
        if open.by_correlation.len() >= MAX_OPEN {
            return Err(AskError::TooMany);
        }
        let mut id = Arc::clone(&question.correlation);
        while open.by_correlation.contains_key(&id) {
            open.renamed += 1;
            id = format!("{}~{}", question.correlation, open.renamed).into();
        }
        open.by_message
            .insert(Arc::clone(&question.message), Arc::clone(&id));
        open.order.push_back((question.until, Arc::clone(&id)));
        open.by_correlation.insert(Arc::clone(&id), question);
        Ok(id)
    }

    /// Remembers where in the outbox the question is.
    pub(super) fn placed(&self, id: &str, number: u64) {
        if let Some(question) = self.open().by_correlation.get_mut(id) {
            question.number = Some(number);
        }
    }

    /// Remembers that an answer is in the session.
    pub(super) fn kept(&self, id: Option<&str>, message: Option<&str>) {
        let mut open = self.open();
        if let Some(question) = open
            .key(id, message)
            .and_then(|id| open.by_correlation.get_mut(&id))
        {
            question.kept = true;
        }
    }

    /// The question that is open under a correlation id, or that was a message of this id, and stays so.
    pub(super) fn find(&self, id: Option<&str>, message: Option<&str>) -> Option<Question> {
        let open = self.open();
        let id = open.key(id, message)?;
        open.by_correlation.get(&id).cloned()
    }

    /// The question that an envelope answers or tells about, as [`find`](Self::find) has it.
    pub(super) fn of(&self, envelope: &Envelope) -> Option<Question> {
        self.find(envelope.correlation_id(), envelope.parent_id())
    }

    /// As [`find`](Self::find), and it is answered.
    pub(super) fn close(&self, id: Option<&str>, message: Option<&str>) -> Option<Question> {
        let mut open = self.open();
        let id = open.key(id, message)?;
        open.remove(&id)
    }

    /// Takes the questions out that nobody waits for any longer.
    pub(super) fn expired(&self, now: Instant) -> Vec<Question> {
        let mut open = self.open();
        let mut expired = Vec::new();
        while let Some((until, id)) = open.order.front() {
            // Another question may have come to the id of one that is answered.
            let current = open.by_correlation.get(id).map(|q| q.until);
            if current == Some(*until) {
                if *until > now {
                    break;
                }
                let id = Arc::clone(id);
                expired.extend(open.remove(&id));
            }
            open.order.pop_front();
        }
        expired
    }

    /// Takes all of them out, and takes no more.
    pub(super) fn end(&self) -> Vec<Question> {
        let mut open = self.open();
        open.over = true;
        open.by_message.clear();
        open.order.clear();
        let mut left: Vec<_> = open
            .by_correlation
            .drain()
            .map(|(_, question)| question)
            .collect();
        left.sort_by_key(|question| question.until);
        left
    }
}

impl Open {
    fn key(&self, id: Option<&str>, message: Option<&str>) -> Option<Arc<str>> {
        if let Some((id, _)) = id.and_then(|id| self.by_correlation.get_key_value(id)) {
            return Some(Arc::clone(id));
        }
        self.by_message.get(message?).map(Arc::clone)
    }

    fn remove(&mut self, id: &str) -> Option<Question> {
        let question = self.by_correlation.remove(id)?;
        if self
            .by_message
            .get(&question.message)
            .is_some_and(|of| **of == *id)
        {
            self.by_message.remove(&question.message);
        }
        // The order keeps ids of answered questions until they come up; it may not grow beyond what is open for long.
        if self.order.len() > 2 * MAX_OPEN {
            let open = &self.by_correlation;
            self.order.retain(|(until, id)| {
                open.get(id)
                    .is_some_and(|question| question.until == *until)
            });
        }
        Some(question)
    }
}

#[cfg(test)]
mod tests;
