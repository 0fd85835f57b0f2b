//! Messages of links, whose client is another gateway.

use std::sync::Arc;

use serde_json::Value;

use collective::{Channel, Envelope, ErrorCode, Kind};

use crate::agent;
use crate::audit::Outcome;
use crate::connected_client::Client;
use crate::frames::{ReplyContext, RequestError};
use crate::links::{Link, is_triad, next_hop};
use crate::state::GatewayState;
use base::log::Level;

/// Checks that the other gateway of a link may send a message of this type. Everything else of this gateway, such as its
/// sessions and services, is only for its own clients.
///
/// # Errors
/// 5004 for another message.
pub(super) fn check(link: &Link, envelope: &Envelope) -> Result<(), RequestError> {
    let is_allowed = match envelope.kind() {
        Kind::Message
        | Kind::Response
        | Kind::Error
        | Kind::Status
        | Kind::Handshake
        | Kind::Discovery
        | Kind::Ping
        | Kind::Pong
        | Kind::Disconnect
        | Kind::Proposal
        | Kind::Vote
        | Kind::Decision => true,
        Kind::Request => envelope.agent().is_some(),
        Kind::Broadcast => link.config.broadcasts,
        Kind::Subscribe | Kind::Unsubscribe => {
            envelope.content_str("channel") == Some(Channel::Status.as_str())
        }
        Kind::Workspace | Kind::Event | Kind::Auth | Kind::AuthResponse => false,
    };
    if is_allowed {
        return Ok(());
    }
    let message = format!(
        "the link `{}` may not send this `{}`; links pass messages of agents only",
        link.config.name,
        envelope.kind()
    );
    Err(RequestError::new(ErrorCode::PermissionDenied, message))
}

impl GatewayState {
    /// Returns whether this gateway has the sessions of an agent. Another gateway has those of agents behind links.
    pub(super) fn has_workspace(&self, agent: &str) -> bool {
        !agent.contains('@') && self.registry().contains(agent)
    }

    /// Returns the connection of an agent that accepts messages.
    ///
    /// # Errors
    /// 3001 for an unknown agent or one that the client may not know, 3002 for an offline agent or link, 3003 for a busy
    /// agent.
    pub(super) fn recipient(
        &self,
        client: &Client,
        agent: &str,
    ) -> Result<Arc<Client>, RequestError> {
        if !client.may_see(agent) {
            return Err(RequestError::unknown_agent(agent));
        }
        let registry = self.registry();
        let found = registry.recipient(agent);
        let link = self
            .links
            .of_agent(agent)
            .filter(|_| !registry.contains(agent));
        let Some(link) = link else { return found };
        let is_other = |client: &&Arc<Client>| {
            let other = client.link();
            other.is_some_and(|other| Arc::ptr_eq(other, link)) && !client.outbox.is_closed()
        };
        match registry.clients().find(is_other) {
            None => Err(link.offline(agent)),
            Some(other) if is_triad(agent) => Ok(Arc::clone(other)),
            Some(_) => found,
        }
    }

    /// Returns the agents of another gateway that its link accepts, under their names in this gateway.
    pub(super) fn link_agents(&self, link: &Link, names: &[Arc<str>]) -> Vec<Arc<str>> {
        let accepted = names.iter().filter(|name| link.lists(name));
        let accepted: Vec<Arc<str>> = accepted.map(|name| link.local_name(name).into()).collect();
        if accepted.len() < names.len() {
            let line = format!(
                "the link `{}` accepts {} of {} offered agents; `agents` of the link lists those that it accepts",
                link.config.name,
                accepted.len(),
                names.len()
            );
            self.log.log(Level::Debug, &line);
        }
        accepted
    }

    /// Handles what another gateway sends about a message of this one: a confirmation (`pong`), a vote or a decision.
    pub(super) async fn handle_link_answer(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let Some(pending) = client.pending.find(&envelope) else {
            return Ok(Outcome::Dropped);
        };
        match context.kind {
            Kind::Decision => {
                // The other gateway has another id if two clients use the same.
                let envelope = envelope.with_content("proposalId", &*pending.correlation_id);
                self.handle_reply(client, envelope, context).await
            }
            Kind::Vote => {
                let name = envelope.from().and_then(|from| from.split('@').next());
                let envelope = match name.map(agent::validate_client_name) {
                    Some(Ok(())) => envelope,
                    _ => envelope.with("from", Value::Null),
                };
                let envelope = envelope.with_content("proposalId", &*pending.correlation_id);
                self.deliver_progress(client, envelope, &pending)
            }
            _ if pending.unconfirmed.is_some() => {
                let removed = client.pending.remove(envelope.correlation_id(), None);
                if let Some(pending) = removed {
                    self.complete(&pending);
                }
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }

    /// Sends a broadcast to the links that pass broadcasts, except the one that it came by. Returns their names.
    pub(super) fn broadcast_to_links(
        &self,
        sender: &Arc<Client>,
        envelope: &Envelope,
    ) -> Vec<Value> {
        let registry = self.registry();
        let others = registry.clients().filter_map(|other| {
            let link = other.link().filter(|link| link.config.broadcasts)?;
            let is_origin = sender
                .link()
                .is_some_and(|origin| Arc::ptr_eq(origin, link));
            (!is_origin).then_some((other, link))
        });
        let sent = others.filter(|(other, link)| {
            let hop = next_hop(envelope.clone()).and_then(|envelope| link.outgoing(envelope));
            hop.is_ok_and(|hop| other.outbox.try_send(hop.to_text()).is_ok())
        });
        sent.map(|(_, link)| link.config.name.as_str().into())
            .collect()
    }
}
