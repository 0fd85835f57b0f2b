//! Handles proposals, from their arrival to the vote.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use collective::Envelope;
use gateway_bridge::client::{AgentEvent, Ballot};
use gateway_bridge::delegation::Delegation;

use super::{Connection, Turns, delegation, failed};
use crate::backend::{BackendError, Proposal, Turn};

/// How long before the deadline of a proposal the agent votes without its backend.
const VOTE_MARGIN: Duration = Duration::from_millis(500);

/// The maximum size of the reasoning of a vote, in bytes.
const MAX_REASONING_BYTES: usize = 16 * 1024;

impl Turns {
    /// Handles a proposal. A repeated proposal gets the same vote.
    pub(crate) fn on_proposal(self: &Arc<Self>, envelope: &Envelope, connection: &Connection) {
        let Some(id) = envelope.correlation_id().or(envelope.id()) else {
            return;
        };
        let proposal = Proposal {
            id: id.to_owned(),
            text: envelope
                .content_str("proposal")
                .unwrap_or_default()
                .to_owned(),
            reasoning: envelope.content_str("reasoning").map(str::to_owned),
        };
        let event = AgentEvent::Proposed(proposal.id.clone(), proposal.text.clone());
        (self.on_event)(&event);
        let Some(header) = self.header(envelope) else {
            return;
        };
        let (until, delegation) = (self.vote_deadline(envelope), delegation(envelope));
        let stored = self.stored_ballot(&proposal);
        let bytes = proposal.text.len() + proposal.reasoning.as_ref().map_or(0, String::len);
        let sender = header.from().unwrap_or("unknown");
        let admitted = self.proposals.admit(sender, bytes);
        let (turns, link) = (Arc::clone(self), connection.clone());
        connection.running.spawn(async move {
            let voted = match stored {
                Some(ballot) => Ok(ballot),
                None if admitted.is_none() => Err("the agent is overloaded".to_owned()),
                None => {
                    let ballot = turns.ballot(&header, &proposal, delegation, &link.cancel, until);
                    ballot.await
                }
            };
            if link.cancel.is_cancelled() {
                return;
            }
            let ballot = match &voted {
                Ok(ballot) => ballot.clone(),
                Err(reason) => Ballot::abstention(reason),
            };
            let answer = ballot.answer(&proposal.id, &header, turns.name());
            if link.sender.send(answer).await.is_ok() {
                if voted.is_ok() {
                    let proposer = header.from().unwrap_or("unknown");
                    turns.store_ballot(proposer, &proposal, ballot.clone());
                }
                (turns.on_event)(&AgentEvent::Voted(proposal.id, ballot.vote));
            }
        });
    }

    fn ballot_key(&self, proposal: &Proposal) -> u64 {
        self.ballot_hasher.hash_one((&proposal.id, &proposal.text))
    }

    fn stored_ballot(&self, proposal: &Proposal) -> Option<Ballot> {
        let mut ballots = self.ballots.lock();
        ballots.get(&self.ballot_key(proposal)).cloned()
    }

    fn store_ballot(&self, proposer: &str, proposal: &Proposal, ballot: Ballot) {
        let mut ballots = self.ballots.lock();
        ballots.put(proposer.to_owned(), self.ballot_key(proposal), ballot);
    }

    /// Requests a vote from the backend until `until`, with at most two attempts.
    ///
    /// # Errors
    /// The backend returned no vote. The error is the reason.
    async fn ballot(
        &self,
        header: &Envelope,
        proposal: &Proposal,
        delegation: Result<Option<Delegation>, BackendError>,
        cancel: &CancellationToken,
        until: Instant,
    ) -> Result<Ballot, String> {
        let from = header.from().unwrap_or("unknown");
        let (text, reasoning) = (&*proposal.text, proposal.reasoning.as_deref());
        let request = Ballot::request(self.name(), Some(from), text, reasoning);
        let mut turn = Turn {
            agent: self.name().to_owned(),
            from: from.to_owned(),
            thread: format!("proposal:{}", proposal.id),
            text: request.clone(),
            history: Vec::new(),
            proposal: Some(proposal.clone()),
            delegation: delegation.map_err(|error| error.message)?,
        };
        self.check_depth(&turn).map_err(|error| error.message)?;
        let ready = async {
            tokio::select! {
                slot = self.slots.acquire(from) => slot.map(|slot| (Some(slot), None)),
                permit = self.vote_slot.acquire() => permit.ok().map(|permit| (None, Some(permit))),
                () = sleep_until(until) => None,
            }
        };
        let Some(Some(_slot)) = cancel.run_until_cancelled(ready).await else {
            return Err("the agent is overloaded".to_owned());
        };
        let written = [text, reasoning.unwrap_or_default()];
        let mut reason = String::new();
        for _ in 0..2 {
            let answer = self.answer_turn(&turn, &|_| {}, cancel, until).await;
            let parsed = match &answer {
                Ok(text) => {
                    Ballot::read(text, &written, MAX_REASONING_BYTES).map_err(BackendError::new)
                }
                Err(error) => Err(error.clone()),
            };
            match parsed {
                Ok(ballot) => return Ok(ballot),
                Err(error) => {
                    (self.on_event)(&failed(&error));
                    let again = Ballot::request_again(&error.message);
                    turn.text = format!("{request}\n\n{again}");
                    reason = error.message;
                }
            }
            if Instant::now() >= until || cancel.is_cancelled() {
                break;
            }
        }
        Err(reason)
    }

    /// Returns the time at which the agent must send the vote.
    fn vote_deadline(&self, envelope: &Envelope) -> Instant {
        let limit = self.settings.timeout;
        let since = self.env.system_time().duration_since(UNIX_EPOCH);
        let now = since.unwrap_or_default();
        let deadline = envelope.content()["deadline"].as_u64();
        let remaining = deadline.map(|at| {
            Duration::from_millis(at)
                .saturating_sub(now)
                .saturating_sub(VOTE_MARGIN)
        });
        Instant::now() + remaining.map_or(limit, |remaining| remaining.min(limit))
    }
}
