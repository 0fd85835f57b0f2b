//! Replies of agents to pending requests.

use serde_json::Value;

use collective::{Envelope, ErrorCode, Kind};

use crate::audit::Outcome;
use crate::connected_client::Client;
use crate::connected_client::PendingRequest;
use crate::error::RequestError;
use crate::events::delivery;
use crate::outbox::{EnqueueError, Item};
use crate::reply_context::ReplyContext;
use crate::state::GatewayState;

impl GatewayState {
    /// Sets the requester as the recipient of a reply without a recipient.
    pub(super) fn with_recipient(&self, client: &Client, envelope: Envelope) -> Envelope {
        if envelope.kind() != Kind::Message || envelope.field("agent").is_some() {
            return envelope;
        }
        let pending = client.pending.find(&envelope);
        match pending {
            Some(pending) => envelope.with("agent", &*pending.requester_name),
            None => envelope,
        }
    }

    /// Handles a `response` or an `error`, which are always replies.
    pub(super) async fn handle_reply(
        &self,
        client: &Client,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let pending = client.pending.find(&envelope);
        match pending {
            Some(pending) => self.deliver_reply(client, &pending, envelope).await,
            None if context.kind == Kind::Error => Ok(Outcome::Dropped),
            None => Err(RequestError::new(
                ErrorCode::InvalidContent,
                "no pending request matches the response; set `metadata.correlationId` to that of the request",
            )),
        }
    }

    /// Stores a reply in the session, then delivers it to the requester.
    pub(super) async fn deliver_reply(
        &self,
        client: &Client,
        pending: &PendingRequest,
        envelope: Envelope,
    ) -> Result<Outcome, RequestError> {
        let ids = (
            envelope.correlation_id().map(str::to_owned),
            envelope.parent_id().map(str::to_owned),
        );
        let remove = || client.pending.remove(ids.0.as_deref(), ids.1.as_deref());
        let is_error = envelope.kind() == Kind::Error;
        let reply = self.stamp_reply(envelope, pending);
        let disconnected = || {
            let message = "the requester disconnected; the reply was not delivered";
            RequestError::new(ErrorCode::AgentOffline, message)
        };
        let requester = pending.requester.upgrade();
        let item = Item::Text(reply.to_text().into());
        // Reserve first, so that the session does not contain a refused reply.
        let reserved = requester
            .as_ref()
            .map(|requester| requester.outbox.reserve(item.cost()));
        let room = match reserved {
            Some(Ok(room)) => Some(room),
            Some(Err(EnqueueError::Closed)) | None => None,
            Some(Err(full)) => {
                return Err(RequestError::undelivered(&pending.requester_name, full));
            }
        };
        if !is_error {
            let stored = self.store(client, &pending.agent, &reply, pending.session.as_deref());
            if let Err(error) = stored.await {
                // The agent may send the reply again when the store is busy. Any other error is final.
                if error.code != ErrorCode::AgentBusy
                    && let Some(pending) = remove()
                    && let Some(requester) = self.complete(&pending)
                    && pending.reply_required
                {
                    self.send_failure(&requester, &pending, &not_stored(&pending.agent, &error));
                }
                return Err(error);
            }
        }
        let Some(room) = room else {
            remove();
            return Err(disconnected());
        };
        self.publish(match is_error {
            true => delivery("reply", &reply, &pending.requester_name)
                .with("error", reply.content_str("error")),
            false => delivery("reply", &reply, &pending.requester_name),
        });
        let pushed = room.push(item);
        if let Some(pending) = remove() {
            self.complete(&pending);
        }
        match pushed {
            Ok(_) => Ok(Outcome::Delivered),
            Err(_) => Err(disconnected()),
        }
    }

    /// Sets the ids, the sender and the recipient of a reply to those of its request.
    pub(super) fn stamp_reply(&self, envelope: Envelope, pending: &PendingRequest) -> Envelope {
        let mut reply = envelope
            .with("correlationId", Value::Null)
            .with("agent", &*pending.requester_name)
            .with("from", &*pending.agent)
            .with("sessionId", pending.session.as_deref())
            .with_metadata("correlationId", &*pending.correlation_id)
            .with_metadata("parentId", &*pending.message_id);
        if reply.id().is_none() {
            reply = reply.with("id", format!("msg-{}", self.env.uuid()));
        }
        if reply.field("timestamp").is_none() {
            reply = reply.with("timestamp", self.now_millis());
        }
        reply
    }
}

fn not_stored(agent: &str, error: &RequestError) -> RequestError {
    let message = format!(
        "`{agent}` replied, but the gateway cannot store the reply: {}",
        error.message
    );
    RequestError::new(error.code, message)
}
