//! The triad: proposals go to its members, votes come back, and the gateway counts them (000 §10, 001 "Triad Deliberation").

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::{Envelope, ErrorCode, GATEWAY, Kind, NotCounted, Quorum, Vote};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::config::TriadConfig;
use super::frames;
use super::hub::Hub;
use super::proposals::{Closed, Fingerprint, Open, ProposalOutcome, Proposals, VoteOutcome, tally};
use super::refusal::Refusal;
use super::reply_context::ReplyContext;
use super::watchers::Channel;

/// So many members have to be there for anything to be decided: two votes decide.
const MAJORITY: usize = 2;

/// How far ahead a deadline may be.
const MAX_DEADLINE: Duration = Duration::from_hours(24);

/// The triad.
pub(super) struct Triad {
    members: Vec<Arc<str>>,
    quorum: Quorum,
    deadline: Duration,
    proposals: Mutex<Proposals>,
}

impl Triad {
    pub(super) fn new(config: &TriadConfig) -> Self {
        Self {
            members: config
                .members
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            quorum: config.quorum,
            deadline: Duration::from_millis(config.deadline_ms),
            proposals: Mutex::new(Proposals::new()),
        }
    }

    fn proposals(&self) -> MutexGuard<'_, Proposals> {
        self.proposals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| **member == *name)
    }

    /// What is open will not be decided.
    pub(super) fn give_up(&self, why: &Refusal, now: u64) {
        let open = self.proposals().take_all();
        for (id, listeners) in open {
            let error = why
                .answer(None)
                .with_metadata("correlationId", &*id)
                .with("timestamp", now);
            tell(&listeners, &error.to_text().into());
        }
    }
}

impl Hub {
    /// Takes a proposal and hands it to the members.
    pub(super) async fn proposal(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: Envelope,
    ) -> Result<Outcome, Refusal> {
        self.may(client, envelope.from(), Operation::Propose)?;
        let now = self.millis();
        if envelope.is_expired(now) {
            let message = "the proposal is older than its `ttl` and was put to nobody";
            return Err(Refusal::new(ErrorCode::InvalidContent, message));
        }
        let id: Arc<str> = match envelope.correlation_id().or(envelope.id()) {
            Some(id) => id.into(),
            None => format!("prop-{}", self.env.uuid()).into(),
        };
        let proposer = client.name(envelope.from());
        let content = envelope.content().to_string();
        let (fingerprint, bytes) = (Fingerprint::of(&content), content.len());
        let deadline = self.deadline(&envelope, now);
        let text = envelope
            .with("id", &*id)
            .with("from", &*proposer)
            .with("correlationId", Value::Null)
            .with("agent", Value::Null)
            .with_content("deadline", deadline.as_ref().copied().unwrap_or(now))
            .with_metadata("correlationId", &*id);
        let text = match text.field("timestamp") {
            Some(_) => text,
            None => text.with("timestamp", now),
        };
        let open = Open {
            tally: tally(&self.triad.members, self.triad.quorum),
            fingerprint,
            text,
            deadline: deadline.as_ref().copied().unwrap_or(now),
            proposer,
            listeners: vec![Arc::downgrade(client)],
            bytes,
            handed: Vec::new(),
        };
        let proposed = self.put_to_the_triad(client, &id, open, deadline)?;
        match proposed {
            ProposalOutcome::New => Ok(Outcome::Delivered),
            ProposalOutcome::Again => Ok(Outcome::Done),
            ProposalOutcome::Decided(told) => {
                let _ = client.outbox.answer((&*told).into()).await;
                Ok(Outcome::Done)
            }
            ProposalOutcome::Other => Err(Refusal::new(
                ErrorCode::InvalidContent,
                "something else was proposed under this id; take a new one",
            )),
            ProposalOutcome::TooMany => Err(Refusal::busy(
                "the triad has too much before it; propose it again later",
                Duration::from_secs(5),
            )),
        }
    }

    fn put_to_the_triad(
        self: &Arc<Self>,
        client: &Arc<Client>,
        id: &Arc<str>,
        open: Open,
        deadline: Result<u64, Refusal>,
    ) -> Result<ProposalOutcome, Refusal> {
        let mut proposals = self.triad.proposals();
        let servers: Vec<_> = {
            let registry = self.registry();
            let members = self.triad.members.iter();
            let there =
                members.filter_map(|member| Some((member, Arc::clone(registry.listener(member)?))));
            there.collect()
        };
        // What was decided before is told again, whatever its deadline says now and whoever is there.
        if !proposals.knows(id) {
            let _ = deadline.as_ref().map_err(Refusal::clone)?;
            if servers.len() < MAJORITY {
                return Err(too_few(&self.triad, servers.len()));
            }
        }
        let proposed = proposals.propose(id, open, client);
        if let (ProposalOutcome::New, Ok(deadline), Some(open)) =
            (&proposed, deadline, proposals.get(id))
        {
            for (member, server) in &servers {
                open.hand(member, server);
            }
            self.wait_for_deadline(Arc::clone(id), deadline);
        }
        Ok(proposed)
    }

    /// When a proposal is decided at the latest.
    fn deadline(&self, envelope: &Envelope, now: u64) -> Result<u64, Refusal> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let Some(said) = envelope
            .content()
            .get("deadline")
            .filter(|said| !said.is_null())
        else {
            return Ok(now.saturating_add(millis(self.triad.deadline)));
        };
        let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidContent, message));
        match said.as_f64() {
            Some(at) if at <= now as f64 => {
                invalid("`content.deadline` has passed; it is in milliseconds since 1970")
            }
            Some(at) if at > now.saturating_add(millis(MAX_DEADLINE)) as f64 => invalid(
                "`content.deadline` is more than a day ahead; it is in milliseconds since 1970",
            ),
            Some(at) => Ok(at as u64),
            None => invalid("`content.deadline` is no number"),
        }
    }

    fn wait_for_deadline(self: &Arc<Self>, id: Arc<str>, deadline: u64) {
        let wait = Duration::from_millis(deadline.saturating_sub(self.millis()));
        let hub = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = hub.stopping.cancelled() => return,
            }
            let mut proposals = hub.triad.proposals();
            if let Some(closed) = proposals.close_open(&id, deadline) {
                hub.decide(&mut proposals, &id, &closed);
            }
        });
    }

    /// Takes a vote.
    pub(super) async fn vote(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let invalid = |message: &str| Refusal::new(ErrorCode::InvalidContent, message);
        let member = client.name(envelope.from());
        if !self.triad.is_member(&member) {
            return Err(no_member(&member));
        }
        self.may(client, envelope.from(), Operation::Vote)?;
        let id: Arc<str> = match envelope.said("proposalId").or(envelope.correlation_id()) {
            Some(id) => id.into(),
            None => {
                return Err(Refusal::new(
                    ErrorCode::MissingField,
                    "`content.proposalId` is missing: it says what the vote is on",
                ));
            }
        };
        let vote = envelope.said("vote").and_then(Vote::from_word);
        let vote = vote
            .ok_or_else(|| invalid("`content.vote` is one of `approve`, `reject` and `abstain`"))?;
        let told = envelope
            .with("from", &*member)
            .with("agent", Value::Null)
            .with("correlationId", Value::Null)
            .with_content("proposalId", &*id)
            .with_metadata("correlationId", &*id);
        let told = match told.field("timestamp") {
            Some(_) => told,
            None => told.with("timestamp", self.millis()),
        };
        self.count(&id, &member, vote, &told)?;
        self.acknowledge(client, context).await;
        Ok(Outcome::Done)
    }

    /// Counts a vote and tells what comes of it, all under one lock: nobody hears of a vote behind the decision.
    fn count(
        &self,
        id: &Arc<str>,
        member: &str,
        vote: Vote,
        told: &Envelope,
    ) -> Result<(), Refusal> {
        let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidContent, message));
        let mut proposals = self.triad.proposals();
        let (listeners, closed) = match proposals.cast(id, member, vote) {
            VoteOutcome::Counted(listeners, closed) => (listeners, closed),
            VoteOutcome::Unknown => return invalid("nothing of this id is before the triad"),
            VoteOutcome::Not(NotCounted::Late) => {
                return invalid("the proposal is decided; the vote came too late");
            }
            VoteOutcome::Not(NotCounted::SecondVote) => {
                return invalid("this member has voted; its first vote counts");
            }
            VoteOutcome::Not(NotCounted::NotAMember) => return Err(no_member(member)),
        };
        if self.config.vote_visibility {
            tell(&listeners, &told.to_text().into());
        }
        if let Some(closed) = closed {
            self.decide(&mut proposals, id, &closed);
        }
        Ok(())
    }

    /// Tells a decision: who proposed it as `decision`, who subscribed as `event`.
    fn decide(&self, proposals: &mut Proposals, id: &Arc<str>, closed: &Closed) {
        let content = closed.decision.json(id);
        let told: Arc<str> = Envelope::new(Kind::Decision, content.clone())
            .with("id", format!("msg-{}", self.env.uuid()))
            .with("from", GATEWAY)
            .with("timestamp", self.millis())
            .with_metadata("correlationId", &**id)
            .to_text()
            .into();
        proposals.remember(id, closed, Arc::clone(&told));
        let text = Utf8Bytes::from(&*told);
        // Who proposed it may have come back over another connection, which its name finds.
        let registry = self.registry();
        if tell(&closed.listeners, &text) == 0
            && let Some(proposer) = registry.listener(&closed.proposer)
        {
            let _ = proposer.outbox.text(text);
        }
        let event = frames::event(Channel::Decisions.as_str(), content);
        registry.watchers.tell_decision(&event.into());
    }

    /// Who serves a member from now on is asked what the triad has before it.
    pub(super) fn hand_open_proposals(&self, member: &Arc<str>, server: &Client) {
        if self.triad.is_member(member) {
            let mut proposals = self.triad.proposals();
            proposals.open().for_each(|open| open.hand(member, server));
        }
    }
}

/// Hands a message to everybody who is still there, and says how many that were.
fn tell(listeners: &[Weak<Client>], text: &Utf8Bytes) -> usize {
    let there = listeners.iter().filter_map(Weak::upgrade);
    there
        .filter(|client| client.outbox.text(text.clone()).is_ok())
        .count()
}

fn too_few(triad: &Triad, there: usize) -> Refusal {
    let names: Vec<_> = triad
        .members
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    Refusal::new(
        ErrorCode::AgentOffline,
        format!(
            "{there} of the triad ({}) are connected, and nothing can be approved with fewer than {MAJORITY}; it was put to nobody",
            names.join(", ")
        ),
    )
}

fn no_member(name: &str) -> Refusal {
    let message = format!("`{name}` is no member of the triad, and only members vote");
    Refusal::new(ErrorCode::PermissionDenied, message)
}
