//! The state of the triad: pending proposals and recent decisions.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::keyed_lru::KeyedLru;
use parking_lot::{Mutex, MutexGuard};
use ring::digest::{SHA256, digest};
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::{Decision, Envelope, Quorum, Tally, TriadConfig, Vote, VoteRejection};

use super::connected_client::Client;
use super::frames::RequestError;
use super::links::without_signature;
use super::shares::share;

/// The maximum number of pending proposals. One identity has a share of it.
const MAX_PENDING: usize = 1024;
/// The maximum size of all pending proposals, in bytes. One identity has a share of it.
const MAX_PENDING_BYTES: usize = 64 << 20;
/// The number of recent decisions that the gateway stores. One identity has a share of it.
const RECENT_DECISIONS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// The maximum number of connections that wait for one decision.
const MAX_LISTENERS: usize = 16;

/// The triad's members, rules and proposals.
pub(super) struct Triad {
    pub(super) members: Vec<Arc<str>>,
    quorum: Quorum,
    pub(super) default_deadline: Duration,
    proposals: Mutex<Proposals>,
}

impl Triad {
    /// Creates a triad. `is_required` states whether clients must authenticate.
    pub(super) fn new(config: &TriadConfig, is_required: bool) -> Self {
        Self {
            members: config
                .members
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            quorum: config.quorum,
            default_deadline: Duration::from_millis(config.deadline_ms),
            proposals: Mutex::new(Proposals {
                pending: HashMap::new(),
                decided: KeyedLru::new(
                    RECENT_DECISIONS,
                    share(is_required, RECENT_DECISIONS.get()),
                ),
                max_pending: share(is_required, MAX_PENDING),
                max_bytes: share(is_required, MAX_PENDING_BYTES),
            }),
        }
    }

    pub(super) fn proposals(&self) -> MutexGuard<'_, Proposals> {
        self.proposals.lock()
    }

    pub(super) fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| **member == *name)
    }

    /// Returns an empty tally of the members.
    pub(super) fn tally(&self) -> Tally {
        let members = self.members.iter().map(|member| (**member).to_owned());
        Tally::new(members, self.quorum)
    }

    /// Sends an error to the listeners of each pending proposal, and removes the proposals.
    pub(super) fn fail_pending(&self, error: &RequestError, now: u64) {
        for (id, listeners) in self.proposals().drain() {
            let error = error
                .to_envelope()
                .with_metadata("correlationId", &*id)
                .with("timestamp", now);
            send_all(&listeners, &error);
        }
    }
}

/// Sends a message to the connected listeners, and returns their number.
pub(super) fn send_all(listeners: &[Weak<Client>], message: &Envelope) -> usize {
    let text = Utf8Bytes::from(message.to_text());
    let connected = listeners.iter().filter_map(Weak::upgrade);
    let send = |client: &Arc<Client>| {
        let text = match client.link() {
            Some(_) => without_signature(message.clone()).to_text().into(),
            None => text.clone(),
        };
        client.outbox.try_send(text).is_ok()
    };
    connected.filter(send).count()
}

/// The digest of a proposal's content. It identifies a repeated proposal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Hashes the content as text. Its keys are sorted, so equal content has equal text.
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// A proposal without a decision.
pub(super) struct PendingProposal {
    pub(super) tally: Tally,
    pub(super) fingerprint: Fingerprint,
    /// The message to the members, without `agent`. Its text takes far less memory than its parsed form.
    pub(super) text: String,
    /// The deadline of the decision, in milliseconds since 1970.
    pub(super) deadline: u64,
    /// The name of the proposer.
    pub(super) proposer: Arc<str>,
    /// The identity of the proposer.
    pub(super) identity: Arc<str>,
    /// The connections that receive the votes and the decision.
    pub(super) listeners: Vec<Weak<Client>>,
    /// Decides the proposal at its deadline.
    pub(super) timer: Option<AbortHandle>,
    /// The members that received the proposal, with the connection that it was sent on.
    pub(super) sent: Vec<(Arc<str>, Arc<str>)>,
}

impl PendingProposal {
    /// Sends the proposal to a member, at most once per connection. Skips a member whose outbox is full.
    pub(super) fn send_to(&mut self, member: &Arc<str>, connection: &Client) {
        let voted = self.tally.votes().any(|(name, _)| *name == **member);
        let sent = (Arc::clone(member), Arc::clone(connection.id()));
        if voted || self.sent.contains(&sent) {
            return;
        }
        let Ok(envelope) = Envelope::parse(&self.text) else {
            return;
        };
        let text = envelope.with("agent", &**member).to_text();
        if connection.outbox.try_send(text).is_ok() {
            self.sent.push(sent);
        }
    }
}

/// The result of [`Proposals::insert`].
pub(super) enum ProposalOutcome {
    /// The proposal is new.
    New,
    /// The same proposal is already pending.
    Pending,
    /// The same proposal is already decided. Contains the decision message.
    Decided(Arc<str>),
    /// A different proposal has the same id.
    Conflict,
    /// Too many proposals are pending, or too many connections wait for this one.
    Full,
}

/// The result of [`Proposals::cast`].
pub(super) enum VoteOutcome {
    /// The vote counts. Contains the listeners and, if the vote decided the proposal, the decision.
    Counted(Vec<Weak<Client>>, Option<DecidedProposal>),
    VoteRejection(VoteRejection),
    /// No proposal has this id.
    Unknown,
}

/// A proposal that was just decided.
pub(super) struct DecidedProposal {
    pub(super) decision: Decision,
    pub(super) listeners: Vec<Weak<Client>>,
    pub(super) proposer: Arc<str>,
    pub(super) identity: Arc<str>,
    fingerprint: Fingerprint,
}

/// The pending proposals and recent decisions, by id.
pub(super) struct Proposals {
    pending: HashMap<Arc<str>, PendingProposal>,
    decided: KeyedLru<Arc<str>, Arc<str>, StoredDecision>,
    /// The limits of one identity.
    max_pending: usize,
    max_bytes: usize,
}

/// A recent decision.
struct StoredDecision {
    fingerprint: Fingerprint,
    identity: Arc<str>,
    message: Arc<str>,
}

impl Proposals {
    /// Inserts a proposal, or adds `listener` to the pending one.
    pub(super) fn insert(
        &mut self,
        id: &Arc<str>,
        proposal: PendingProposal,
        listener: &Arc<Client>,
    ) -> ProposalOutcome {
        // Only its own identity receives the votes of a proposal.
        if let Some(decided) = self.decided.get(id) {
            let is_same = decided.fingerprint == proposal.fingerprint
                && decided.identity == proposal.identity;
            return match is_same {
                true => ProposalOutcome::Decided(Arc::clone(&decided.message)),
                false => ProposalOutcome::Conflict,
            };
        }
        if let Some(pending) = self.pending.get_mut(id) {
            if pending.fingerprint != proposal.fingerprint || pending.identity != proposal.identity
            {
                return ProposalOutcome::Conflict;
            }
            pending.listeners.retain(|known| {
                known
                    .upgrade()
                    .is_some_and(|known| !Arc::ptr_eq(&known, listener))
            });
            if pending.listeners.len() >= MAX_LISTENERS {
                return ProposalOutcome::Full;
            }
            pending.listeners.push(Arc::downgrade(listener));
            return ProposalOutcome::Pending;
        }
        let (mut count, mut bytes, mut own_count, mut own_bytes) = (1, proposal.text.len(), 1, 0);
        own_bytes += bytes;
        for pending in self.pending.values() {
            (count, bytes) = (count + 1, bytes + pending.text.len());
            if pending.identity == proposal.identity {
                (own_count, own_bytes) = (own_count + 1, own_bytes + pending.text.len());
            }
        }
        let is_full = count > MAX_PENDING
            || bytes > MAX_PENDING_BYTES
            || own_count > self.max_pending
            || own_bytes > self.max_bytes;
        if is_full {
            return ProposalOutcome::Full;
        }
        self.pending.insert(Arc::clone(id), proposal);
        ProposalOutcome::New
    }

    pub(super) fn cast(&mut self, id: &str, member: &str, vote: Vote) -> VoteOutcome {
        let Some(pending) = self.pending.get_mut(id) else {
            return match self.decided.contains(id) {
                true => VoteOutcome::VoteRejection(VoteRejection::Late),
                false => VoteOutcome::Unknown,
            };
        };
        let decided = match pending.tally.cast(member, vote) {
            Ok(decided) => decided.is_some(),
            Err(not_counted) => return VoteOutcome::VoteRejection(not_counted),
        };
        let listeners = pending.listeners.clone();
        VoteOutcome::Counted(listeners, if decided { self.close(id) } else { None })
    }

    /// Returns whether a proposal with this id is pending or was decided recently.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.pending.contains_key(id) || self.decided.contains(id)
    }

    /// Decides a proposal at its deadline with the votes so far.
    pub(super) fn expire(&mut self, id: &str, deadline: u64) -> Option<DecidedProposal> {
        // A later proposal may reuse an id that was evicted from `decided`.
        self.pending
            .get(id)
            .filter(|pending| pending.deadline == deadline)?;
        self.close(id)
    }

    /// Removes a pending proposal and closes its tally.
    fn close(&mut self, id: &str) -> Option<DecidedProposal> {
        let mut pending = self.pending.remove(id)?;
        if let Some(timer) = pending.timer {
            timer.abort();
        }
        Some(DecidedProposal {
            decision: pending.tally.close().clone(),
            listeners: pending.listeners,
            proposer: pending.proposer,
            identity: pending.identity,
            fingerprint: pending.fingerprint,
        })
    }

    /// Stores a decision message, for repetitions of the proposal.
    pub(super) fn store_decision(
        &mut self,
        id: &Arc<str>,
        decided: &DecidedProposal,
        message: Arc<str>,
    ) {
        let decision = StoredDecision {
            fingerprint: decided.fingerprint,
            identity: Arc::clone(&decided.identity),
            message,
        };
        self.decided
            .put(Arc::clone(&decided.identity), Arc::clone(id), decision);
    }

    pub(super) fn pending_mut(&mut self) -> impl Iterator<Item = &mut PendingProposal> {
        self.pending.values_mut()
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut PendingProposal> {
        self.pending.get_mut(id)
    }

    /// Removes all pending proposals without a decision.
    fn drain(&mut self) -> Vec<(Arc<str>, Vec<Weak<Client>>)> {
        let pending = self.pending.drain();
        pending
            .map(|(id, pending)| (id, pending.listeners))
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    use std::time::Instant;

    use crate::outbox::{ByteBudget, Outbox};

    fn propose(triad: &Triad, id: &str, identity: &str, client: &Arc<Client>) -> ProposalOutcome {
        let proposal = PendingProposal {
            tally: triad.tally(),
            fingerprint: Fingerprint::new("{}"),
            text: "{}".to_owned(),
            deadline: 1,
            proposer: "proposer".into(),
            identity: identity.into(),
            listeners: Vec::new(),
            timer: None,
            sent: Vec::new(),
        };
        triad.proposals().insert(&id.into(), proposal, client)
    }

    #[test]
    fn decisions_of_an_identity_stay_while_another_one_proposes() {
        let triad = Triad::new(&TriadConfig::default(), true);
        let outbox = Outbox::new(1 << 20, ByteBudget::new(1 << 20));
        let client = Client::new("client-1".to_owned(), None, outbox, Instant::now());
        let decide = |id: &str, identity: &str| {
            propose(&triad, id, identity, &client);
            let decided = triad.proposals().expire(id, 1).unwrap();
            let mut proposals = triad.proposals();
            proposals.store_decision(&id.into(), &decided, "decision".into());
        };
        decide("first", "ada");
        for number in 0..2 * RECENT_DECISIONS.get() {
            decide(&number.to_string(), "eve");
        }
        let again = propose(&triad, "first", "ada", &client);
        assert!(matches!(again, ProposalOutcome::Decided(_)));
        assert!(!triad.proposals().contains("0"));
    }
}
