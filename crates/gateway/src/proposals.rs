//! What the triad has been asked: what is open, and what was decided not long ago.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use lru::LruCache;
use ring::digest::{SHA256, digest};

use collective::{Decision, Envelope, NotCounted, Quorum, Tally, Vote};

use super::client::Client;

/// So many proposals may be open.
const MAX_OPEN: usize = 1024;
/// So many bytes may open proposals have together.
const MAX_BYTES: usize = 64 << 20;
/// So many decisions are remembered, for who asks again.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// So many connections may wait for one decision.
const MAX_LISTENERS: usize = 16;

/// What was proposed, by its content. What is proposed twice is told apart without keeping it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of the content as text. Keys are in order, so the same content is the same text.
    pub(super) fn of(text: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// A proposal that is not decided.
pub(super) struct Open {
    pub(super) tally: Tally,
    pub(super) fingerprint: Fingerprint,
    /// The proposal as the members get it, without `agent`.
    pub(super) text: Envelope,
    /// When it is decided at the latest, in milliseconds since 1970.
    pub(super) deadline: u64,
    /// The name of who proposed it.
    pub(super) proposer: Arc<str>,
    /// Who is told of votes and of the decision.
    pub(super) listeners: Vec<Weak<Client>>,
    pub(super) bytes: usize,
    /// Which member got it over which connection.
    pub(super) handed: Vec<(Arc<str>, Arc<str>)>,
}

impl Open {
    /// Hands the proposal to a member, once for each connection that serves it. Who has no room for it will be missing.
    pub(super) fn hand(&mut self, member: &Arc<str>, server: &Client) {
        let voted = self.tally.votes().any(|(name, _)| *name == **member);
        let handed = (Arc::clone(member), Arc::clone(server.id()));
        if voted || self.handed.contains(&handed) {
            return;
        }
        let text = self.text.clone().with("agent", &**member).to_text();
        if server.outbox.text(text).is_ok() {
            self.handed.push(handed);
        }
    }
}

/// What becomes of something that is proposed.
pub(super) enum ProposalOutcome {
    /// It is open now.
    New,
    /// It was proposed before and is open.
    Again,
    /// It was decided before; this is the decision's message.
    Decided(Arc<str>),
    /// Something else was proposed under this id.
    Other,
    /// Too much is open.
    TooMany,
}

/// What becomes of a vote.
pub(super) enum VoteOutcome {
    /// It counts, and something may be decided by it.
    Counted(Vec<Weak<Client>>, Option<Closed>),
    /// It does not.
    Not(NotCounted),
    /// Nothing of this id is open, or was.
    Unknown,
}

/// A proposal that has just been decided.
pub(super) struct Closed {
    pub(super) decision: Decision,
    pub(super) listeners: Vec<Weak<Client>>,
    pub(super) proposer: Arc<str>,
    fingerprint: Fingerprint,
}

/// What the triad has been asked.
pub(super) struct Proposals {
    open: HashMap<Arc<str>, Open>,
    decided: LruCache<Arc<str>, (Fingerprint, Arc<str>)>,
    bytes: usize,
}

impl Proposals {
    pub(super) fn new() -> Self {
        Self {
            open: HashMap::new(),
            decided: LruCache::new(REMEMBERED),
            bytes: 0,
        }
    }

    pub(super) fn propose(
        &mut self,
        id: &Arc<str>,
        proposal: Open,
        listener: &Arc<Client>,
    ) -> ProposalOutcome {
        if let Some((fingerprint, told)) = self.decided.get(id) {
            return match *fingerprint == proposal.fingerprint {
                true => ProposalOutcome::Decided(Arc::clone(told)),
                false => ProposalOutcome::Other,
            };
        }
        if let Some(open) = self.open.get_mut(id) {
            if open.fingerprint != proposal.fingerprint {
                return ProposalOutcome::Other;
            }
            open.listeners.retain(|known| {
                known
                    .upgrade()
                    .is_some_and(|known| !Arc::ptr_eq(&known, listener))
            });
            if open.listeners.len() >= MAX_LISTENERS {
                return ProposalOutcome::TooMany;
            }
            open.listeners.push(Arc::downgrade(listener));
            return ProposalOutcome::Again;
        }
        if self.open.len() >= MAX_OPEN || self.bytes + proposal.bytes > MAX_BYTES {
            return ProposalOutcome::TooMany;
        }
        self.bytes += proposal.bytes;
        self.open.insert(Arc::clone(id), proposal);
        ProposalOutcome::New
    }

    pub(super) fn cast(&mut self, id: &str, member: &str, vote: Vote) -> VoteOutcome {
        let Some(open) = self.open.get_mut(id) else {
            return match self.decided.contains(id) {
                true => VoteOutcome::Not(NotCounted::Late),
                false => VoteOutcome::Unknown,
            };
        };
        let decided = match open.tally.cast(member, vote) {
            Ok(decided) => decided.is_some(),
            Err(not_counted) => return VoteOutcome::Not(not_counted),
        };
        let listeners = open.listeners.clone();
        VoteOutcome::Counted(listeners, if decided { self.close(id) } else { None })
    }

    /// Whether something of this id is open, or was decided not long ago.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.open.contains_key(id) || self.decided.contains(id)
    }

    /// Decides with the votes there are, at the deadline.
    pub(super) fn close_open(&mut self, id: &str, deadline: u64) -> Option<Closed> {
        // The id may have been forgotten and taken again by a later proposal.
        self.open.get(id).filter(|open| open.deadline == deadline)?;
        self.close(id)
    }

    fn close(&mut self, id: &str) -> Option<Closed> {
        let mut open = self.open.remove(id)?;
        self.bytes -= open.bytes;
        Some(Closed {
            decision: open.tally.close().clone(),
            listeners: open.listeners,
            proposer: open.proposer,
            fingerprint: open.fingerprint,
        })
    }

    /// Remembers how a decision was told.
    pub(super) fn remember(&mut self, id: &Arc<str>, closed: &Closed, told: Arc<str>) {
        self.decided.put(Arc::clone(id), (closed.fingerprint, told));
    }

    /// What is open.
    pub(super) fn open(&mut self) -> impl Iterator<Item = &mut Open> {
        self.open.values_mut()
    }

    /// What is open under this id.
    pub(super) fn get(&mut self, id: &str) -> Option<&mut Open> {
        self.open.get_mut(id)
    }

    /// Takes all that is open out, undecided.
    pub(super) fn take_all(&mut self) -> Vec<(Arc<str>, Vec<Weak<Client>>)> {
        self.bytes = 0;
        let open = self.open.drain();
        open.map(|(id, open)| (id, open.listeners)).collect()
    }
}

/// An empty tally of these members.
pub(super) fn tally(members: &[Arc<str>], quorum: Quorum) -> Tally {
    Tally::new(members.iter().map(|member| (**member).to_owned()), quorum)
}
