//! A triad for gateways without one. The bridge requests votes from three agents in parallel, each in its own session, and
//! counts them (Heretek A2A §10.6).
//!
//! A vote is a task of this process. It continues without subscribers, but does not survive a restart of the process. The
//! task of a rejected proposal is completed, because the triad has decided.

mod deliberation;
mod voter;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Map;
use tokio::time::{Instant, sleep_until, timeout};

use crate::delegation;
use a2a::{Reply, SendRequest, Task};
use base::environment::Environment;
use base::log::{Level, Log};
use collective::{ErrorCode, Tally};
use peer::{BoxFuture, EventStream, PeerError, PeerErrorKind};

use super::proposal::{self, Proposal};
use super::{CallContext, GatewayLink, Settings};
use deliberation::Deliberation;
use voter::Voter;

/// The maximum number of remembered proposals. The least recently queried one is evicted.
const MAX_REMEMBERED: usize = 64;

/// The maximum number of concurrent votes. Each sends three requests.
const MAX_OPEN_VOTES: usize = 8;

/// The number of members.
const MEMBER_COUNT: usize = 3;

/// Returns the open connection, or opens one.
pub(crate) type LinkProvider =
    Arc<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn GatewayLink>, PeerError>> + Send + Sync>;

/// The triad of one instance.
pub(crate) struct Triad {
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    links: LinkProvider,
    votes: Mutex<LruCache<String, Arc<Deliberation>>>,
}

impl Triad {
    /// Creates a triad without votes.
    pub(crate) fn new(
        settings: Arc<Settings>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        links: LinkProvider,
    ) -> Self {
        let remembered = NonZeroUsize::new(MAX_REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        Self {
            settings,
            env,
            log,
            links,
            votes: Mutex::new(LruCache::new(remembered)),
        }
    }

    /// Starts a vote on a proposal. A blocking call returns the decided task if the vote ends in time.
    ///
    /// # Errors
    /// The vote was not started.
    pub(crate) async fn send(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Reply, PeerError> {
        let vote = self.propose(call, outgoing).await?;
        if outgoing.blocking {
            // After the timeout, the vote continues in the background.
            let _ = timeout(call.wait_limit(&self.settings), vote.wait_for_end()).await;
        }
        task(&vote).map(Reply::Task)
    }

    /// Starts a vote on a proposal and subscribes to it.
    ///
    /// # Errors
    /// The vote was not started.
    pub(crate) async fn stream(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let vote = self.propose(call, outgoing).await?;
        Ok(Box::new(vote.subscribe()))
    }

    /// Returns whether the triad remembers a vote with this id.
    pub(crate) fn contains(&self, task_id: &str) -> bool {
        self.votes.lock().contains(task_id)
    }

    /// Returns the vote as a task.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`]
    pub(crate) fn get_task(&self, task_id: &str) -> Result<Task, PeerError> {
        task(&*self.deliberation(task_id)?)
    }

    /// Subscribes to a running vote.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`]
    pub(crate) fn resubscribe(&self, task_id: &str) -> Result<Box<dyn EventStream>, PeerError> {
        Ok(Box::new(self.deliberation(task_id)?.subscribe()))
    }

    /// Stops a vote and cancels the runs of members that have not voted.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`]
    pub(crate) async fn cancel(&self, task_id: &str) -> Result<Task, PeerError> {
        let vote = self.deliberation(task_id)?;
        vote.stop.cancel();
        vote.wait_for_end().await;
        task(&vote)
    }

    async fn propose(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Arc<Deliberation>, PeerError> {
        let members = self.members()?;
        let default_duration = Duration::from_millis(self.settings.triad.deadline_ms);
        let proposal = Proposal::read(&outgoing.parts, self.env.system_time(), default_duration)?;
        // Without a gateway no member can vote: return an error, not a decision.
        (self.links)().await?;
        let new_id = || self.env.uuid().to_string();
        let named = outgoing.context_id.as_ref().or(call.context_id.as_ref());
        let context = match (named, &outgoing.task_id) {
            (Some(context), _) => Some(context.clone()),
            (None, Some(task)) => {
                let task = self.get_task(task).map_err(PeerError::undelivered)?;
                task.context_id().map(str::to_owned)
            }
            (None, None) => None,
        };
        let vote = Arc::new(Deliberation::new(
            &outgoing.message_id,
            &context.unwrap_or_else(new_id),
            &proposal.text,
            &members,
        ));
        if let Some(existing) = self.register(&vote, &outgoing.message_id)? {
            return Ok(existing);
        }
        let until = Instant::now() + proposal.open_for;
        let metadata = outgoing.metadata.as_ref();
        let delegation = metadata
            .and_then(|all| all.get(delegation::DELEGATION_KEY))
            .cloned();
        let metadata: Map<_, _> = delegation
            .map(|delegation| (delegation::DELEGATION_KEY.to_owned(), delegation))
            .into_iter()
            .collect();
        let voters = members.into_iter().map(|agent| {
            let call = CallContext {
                agent,
                context_id: Some(format!("triad-{}", new_id())),
                // Each member votes in its own session.
                session: None,
                ..call.clone()
            };
            Arc::new(Voter {
                call,
                metadata: metadata.clone(),
                until,
                run: Mutex::default(),
            })
        });
        tokio::spawn(deliberate(VoteRound {
            vote: Arc::clone(&vote),
            voters: voters.collect(),
            proposal,
            until,
            tally: Tally::new(
                self.settings.triad.members.clone(),
                self.settings.triad.quorum,
            ),
            links: Arc::clone(&self.links),
            env: Arc::clone(&self.env),
            log: Arc::clone(&self.log),
        }));
        Ok(vote)
    }

    /// Registers a vote, or returns the one with the same id.
    fn register(
        &self,
        vote: &Arc<Deliberation>,
        id: &str,
    ) -> Result<Option<Arc<Deliberation>>, PeerError> {
        let mut votes = self.votes.lock();
        if let Some(existing) = votes.get(id) {
            if existing.text == vote.text {
                return Ok(Some(Arc::clone(existing)));
            }
            let message = format!("another proposal already has the id `{id}`; use a new id");
            return Err(proposal::invalid_proposal(message));
        }
        let open = votes.iter().filter(|(_, vote)| !vote.is_ended()).count();
        if open >= MAX_OPEN_VOTES {
            let message = format!("{open} votes are already running; try again when one has ended");
            return Err(
                PeerError::new(PeerErrorKind::Gateway(ErrorCode::AgentBusy), message).undelivered(),
            );
        }
        votes.push(id.to_owned(), Arc::clone(vote));
        Ok(None)
    }

    fn members(&self) -> Result<Vec<String>, PeerError> {
        let members = &self.settings.triad.members;
        let distinct = members
            .iter()
            .enumerate()
            .all(|(i, name)| !members[..i].contains(name));
        if members.len() == MEMBER_COUNT && distinct {
            return Ok(members.clone());
        }
        let message =
            "a triad has three members; name three different agents in `gateway.triad.members`";
        Err(PeerError::new(PeerErrorKind::Gateway(ErrorCode::AgentNotFound), message).undelivered())
    }

    fn deliberation(&self, id: &str) -> Result<Arc<Deliberation>, PeerError> {
        let known = self.votes.lock().get(id).cloned();
        known.ok_or_else(|| {
            let message = format!("unknown proposal `{id}`: the bridge forgets its votes when the process ends, and the oldest ones before");
            PeerError::new(PeerErrorKind::TaskForgotten, message)
        })
    }
}

impl Drop for Triad {
    fn drop(&mut self) {
        for (_, vote) in self.votes.lock().iter() {
            vote.stop.cancel();
        }
    }
}

fn task(vote: &Deliberation) -> Result<Task, PeerError> {
    vote.task().map_err(|error| {
        let message = format!("cannot convert the proposal to a task: {error}");
        proposal::invalid_proposal(message)
    })
}

/// One round of votes.
struct VoteRound {
    vote: Arc<Deliberation>,
    voters: Vec<Arc<Voter>>,
    proposal: Proposal,
    until: Instant,
    tally: Tally,
    links: LinkProvider,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
}

/// Requests the votes of all members at once. Counts until the outcome is fixed, all members have answered, or the deadline
/// has passed.
async fn deliberate(round: VoteRound) {
    let VoteRound {
        vote,
        voters,
        proposal,
        until,
        mut tally,
        links,
        env,
        log,
    } = round;
    let mut pending_votes: FuturesUnordered<_> = voters
        .iter()
        .map(|voter| {
            let proposal = &proposal;
            let new_id = || env.uuid().to_string();
            let links = &links;
            async move {
                (
                    voter.call.agent.clone(),
                    voter.vote(links, proposal, new_id).await,
                )
            }
        })
        .collect();
    let mut missing = Vec::new();
    let stopped = loop {
        tokio::select! {
            biased;
            () = vote.stop.cancelled() => break true,
            answered = pending_votes.next() => match answered {
                None => break false,
                Some((member, Ok(ballot))) => {
                    vote.add_vote(&member, &ballot);
                    if tally.cast(&member, ballot.vote).is_ok_and(|decision| decision.is_some()) {
                        break false;
                    }
                }
                Some((member, Err(reason))) => {
                    log.log(Level::Debug, &format!("`{member}` of the triad has not voted: {reason}"));
                    vote.member_missing(&member, &reason);
                    missing.push((member, reason));
                }
            },
            () = sleep_until(until) => break false,
        }
    };
    drop(pending_votes);
    if stopped {
        vote.set_canceled();
    } else {
        vote.set_decision(tally.close(), &missing);
    }
    let stops = voters.iter().map(|voter| voter.stop(&links));
    stops
        .collect::<FuturesUnordered<_>>()
        .collect::<Vec<_>>()
        .await;
}

#[cfg(test)]
mod tests;
