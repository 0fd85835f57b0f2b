//! Proposals and votes (Heretek A2A §10; Heretek Architecture, "Triad Deliberation").

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use base::environment::millis;
use collective::signature::SIGNATURE;
use collective::{Channel, Envelope, ErrorCode, GATEWAY, Kind, MAJORITY, Vote, VoteRejection};

use crate::access::Operation;
use crate::agent::TRIAD;
use crate::audit::Outcome;
use crate::channels::GatewayEvent;
use crate::connected_client::Client;
use crate::frames;
use crate::frames::{ReplyContext, RequestError};
use crate::proposals::{
    DecidedProposal, Fingerprint, PendingProposal, ProposalOutcome, Proposals, Triad, VoteOutcome,
    send_all,
};
use crate::state::GatewayState;

/// The maximum time between a proposal and its deadline.
const MAX_DEADLINE: Duration = Duration::from_hours(24);

impl GatewayState {
    /// Validates a proposal and sends it to the members.
    pub(super) async fn handle_proposal(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        if envelope.agent().is_some_and(|agent| agent.contains('@')) {
            return self.forward(client, envelope, context).await;
        }
        self.authorize(client, envelope.from(), Operation::Propose)?;
        if !client.may_see(TRIAD) {
            return Err(RequestError::unknown_agent(TRIAD));
        }
        let now = self.now_millis();
        if envelope.is_expired(now) {
            let message = "the proposal is older than its `ttl`; the gateway ignored it";
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        }
        let id: Arc<str> = match envelope.correlation_id().or(envelope.id()) {
            Some(id) => id.into(),
            None => format!("prop-{}", self.env.uuid()).into(),
        };
        let proposer = client.name(envelope.from());
        let content = envelope.content().to_string();
        let fingerprint = Fingerprint::new(&content);
        let deadline = self.deadline(&envelope, now);
        let envelope = envelope
            .with("id", &*id)
            .with("from", &*proposer)
            .with("correlationId", Value::Null)
            .with("agent", Value::Null)
            .with_content("deadline", deadline.as_ref().copied().unwrap_or(now))
            .with_metadata("correlationId", &*id);
        let envelope = match envelope.field("timestamp") {
            Some(_) => envelope,
            None => envelope.with("timestamp", now),
        };
        let envelope = self.check_signature(client, envelope)?;
        let proposal = PendingProposal {
            tally: self.triad.tally(),
            fingerprint,
            text: envelope.to_text(),
            deadline: deadline.as_ref().copied().unwrap_or(now),
            proposer,
            identity: client.share_key(),
            listeners: vec![Arc::downgrade(client)],
            timer: None,
            sent: Vec::new(),
        };
        let inserted = self.insert_proposal(client, &id, proposal, &envelope, deadline);
        if matches!(inserted, Err(_) | Ok(ProposalOutcome::Full)) {
            self.signing.forget(&envelope);
        }
        match inserted? {
            ProposalOutcome::New => Ok(Outcome::Delivered),
            ProposalOutcome::Pending => Ok(Outcome::Done),
            ProposalOutcome::Decided(message) => {
                let _ = client.outbox.send((&*message).into()).await;
                Ok(Outcome::Done)
            }
            ProposalOutcome::Conflict => Err(RequestError::new(
                ErrorCode::InvalidContent,
                "a different proposal has this id; choose a new id",
            )),
            ProposalOutcome::Full => Err(RequestError::busy(
                "too many proposals are pending; send the proposal again later",
                Duration::from_secs(5),
            )),
        }
    }

    fn insert_proposal(
        self: &Arc<Self>,
        client: &Arc<Client>,
        id: &Arc<str>,
        proposal: PendingProposal,
        envelope: &Envelope,
        deadline: Result<u64, RequestError>,
    ) -> Result<ProposalOutcome, RequestError> {
        let mut proposals = self.triad.proposals();
        let servers: Vec<_> = {
            let registry = self.registry();
            let members = self.triad.members.iter();
            let servers =
                members.filter_map(|member| Some((member, Arc::clone(registry.server(member)?))));
            servers.collect()
        };
        // For a known proposal, the gateway only repeats the decision, so the deadline and the connected members do not
        // matter.
        if !proposals.contains(id) {
            let _ = deadline.as_ref().map_err(RequestError::clone)?;
            if servers.len() < MAJORITY {
                return Err(too_few_members(&self.triad, servers.len()));
            }
        }
        let outcome = proposals.insert(id, proposal, client);
        if let (ProposalOutcome::New, Ok(deadline), Some(proposal)) =
            (&outcome, deadline, proposals.get_mut(id))
        {
            self.publish(
                GatewayEvent::new("proposal")
                    .with("proposalId", &**id)
                    .with("from", &*proposal.proposer)
                    .with("deadline", deadline)
                    .with_text(&envelope.content()["proposal"]),
            );
            for (member, server) in &servers {
                proposal.send_to(member, server);
            }
            proposal.timer = Some(self.decide_at_deadline(Arc::clone(id), deadline));
        }
        Ok(outcome)
    }

    /// Returns the deadline of a proposal, in milliseconds since 1970.
    fn deadline(&self, envelope: &Envelope, now: u64) -> Result<u64, RequestError> {
        let Some(deadline) = envelope
            .content()
            .get("deadline")
            .filter(|deadline| !deadline.is_null())
        else {
            return Ok(now.saturating_add(millis(self.triad.default_deadline)));
        };
        let invalid = |message: &str| Err(RequestError::new(ErrorCode::InvalidContent, message));
        match deadline.as_f64() {
            Some(at) if at <= now as f64 => {
                invalid("`content.deadline` is in the past; set it in milliseconds since 1970")
            }
            Some(at) if at > now.saturating_add(millis(MAX_DEADLINE)) as f64 => invalid(
                "`content.deadline` is more than a day ahead; set it in milliseconds since 1970",
            ),
            Some(at) => Ok(at as u64),
            None => invalid("`content.deadline` is not a number"),
        }
    }

    fn decide_at_deadline(self: &Arc<Self>, id: Arc<str>, deadline: u64) -> AbortHandle {
        let wait = Duration::from_millis(deadline.saturating_sub(self.now_millis()));
        let state = Arc::clone(self);
        let timer = self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = state.stopping.cancelled() => return,
            }
            let mut proposals = state.triad.proposals();
            if let Some(decided) = proposals.expire(&id, deadline) {
                state.publish_decision(&mut proposals, &id, &decided);
            }
        });
        timer.abort_handle()
    }

    /// Handles a vote.
    pub(super) async fn handle_vote(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let invalid = |message: &str| RequestError::new(ErrorCode::InvalidContent, message);
        let member = client.name(envelope.from());
        if !self.triad.is_member(&member) {
            return Err(not_a_member(&member));
        }
        self.authorize(client, envelope.from(), Operation::Vote)?;
        let id: Arc<str> = match envelope
            .content_str("proposalId")
            .or(envelope.correlation_id())
        {
            Some(id) => id.into(),
            None => {
                return Err(RequestError::new(
                    ErrorCode::MissingField,
                    "`content.proposalId` is missing; it is the id of the proposal",
                ));
            }
        };
        let vote = envelope.content_str("vote").and_then(Vote::read);
        let vote =
            vote.ok_or_else(|| invalid("`content.vote` must be `approve`, `reject` or `abstain`"))?;
        let ballot = envelope
            .with("from", &*member)
            .with("agent", Value::Null)
            .with("correlationId", Value::Null)
            .with_content("proposalId", &*id)
            .with_metadata("correlationId", &*id);
        let ballot = match ballot.field("timestamp") {
            Some(_) => ballot,
            None => ballot.with("timestamp", self.now_millis()),
        };
        // A signature covers the word as its signer wrote it.
        let ballot = match ballot.metadata(SIGNATURE) {
            Some(_) => ballot,
            None => ballot.with_content("vote", vote.as_str()),
        };
        let ballot = self.check_signature(client, ballot)?;
        self.count_vote(&id, &member, vote, &ballot)?;
        self.acknowledge(client, context).await;
        Ok(Outcome::Done)
    }

    /// Counts a vote and publishes the result under one lock, so that a listener never receives a vote after the decision.
    fn count_vote(
        &self,
        id: &Arc<str>,
        member: &str,
        vote: Vote,
        ballot: &Envelope,
    ) -> Result<(), RequestError> {
        let invalid = |message: &str| Err(RequestError::new(ErrorCode::InvalidContent, message));
        let mut proposals = self.triad.proposals();
        let (listeners, decided) = match proposals.cast(id, member, vote) {
            VoteOutcome::Counted(listeners, decided) => (listeners, decided),
            VoteOutcome::Unknown => return invalid("unknown proposal; check `content.proposalId`"),
            VoteOutcome::VoteRejection(VoteRejection::Late) => {
                self.publish(
                    GatewayEvent::new("late-vote")
                        .with("proposalId", &**id)
                        .with("from", member)
                        .with("vote", vote.as_str()),
                );
                return invalid("the proposal is decided already; the vote does not count");
            }
            VoteOutcome::VoteRejection(VoteRejection::SecondVote) => {
                return invalid("this member has voted already; its first vote counts");
            }
            VoteOutcome::VoteRejection(VoteRejection::NotAMember) => {
                return Err(not_a_member(member));
            }
        };
        self.publish(
            GatewayEvent::new("vote")
                .with("proposalId", &**id)
                .with("from", member)
                .with("vote", vote.as_str())
                .with("confidence", ballot.content()["confidence"].as_f64())
                .with_text(&ballot.content()["reasoning"]),
        );
        if self.config.vote_visibility {
            send_all(&listeners, ballot);
        }
        if let Some(decided) = decided {
            self.publish_decision(&mut proposals, id, &decided);
        }
        Ok(())
    }

    /// Sends a decision to the listeners as `decision`, and to subscribers as `event`.
    fn publish_decision(
        &self,
        proposals: &mut Proposals,
        id: &Arc<str>,
        decided: &DecidedProposal,
    ) {
        let content = decided.decision.json(id);
        self.publish(
            GatewayEvent::new("decision")
                .with("proposalId", &**id)
                .with("result", decided.decision.result())
                .with("consensus", decided.decision.consensus)
                .with("votes", content["votes"].clone())
                .with("missing", content["missing"].clone()),
        );
        let message = Envelope::new(Kind::Decision, content.clone())
            .with("id", format!("msg-{}", self.env.uuid()))
            .with("from", GATEWAY)
            .with("timestamp", self.now_millis())
            .with_metadata("correlationId", &**id);
        let message = self.signing.sign(message, &*self.log);
        let text: Arc<str> = message.to_text().into();
        proposals.store_decision(id, decided, Arc::clone(&text));
        // The proposer may have reconnected. Find the new connection by name.
        let registry = self.registry();
        if send_all(&decided.listeners, &message) == 0
            && let Some(proposer) = registry.server(&decided.proposer)
            && proposer.share_key() == decided.identity
        {
            let _ = proposer.outbox.try_send(Utf8Bytes::from(&*text));
        }
        let event = frames::event(Channel::Decisions.as_str(), content);
        registry.subscriptions.publish_decision(&event.into());
    }

    /// Sends the pending proposals to a member that has connected.
    pub(super) fn send_pending_proposals(&self, member: &Arc<str>, server: &Client) {
        if self.triad.is_member(member) {
            let mut proposals = self.triad.proposals();
            proposals
                .pending_mut()
                .for_each(|proposal| proposal.send_to(member, server));
        }
    }
}

fn too_few_members(triad: &Triad, connected: usize) -> RequestError {
    let names: Vec<_> = triad
        .members
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    RequestError::new(
        ErrorCode::AgentOffline,
        format!(
            "{connected} of the triad ({}) are connected, and a decision needs {MAJORITY}; the gateway ignored the proposal",
            names.join(", ")
        ),
    )
}

fn not_a_member(name: &str) -> RequestError {
    let message = format!("`{name}` is not a member of the triad; only members vote");
    RequestError::new(ErrorCode::PermissionDenied, message)
}
