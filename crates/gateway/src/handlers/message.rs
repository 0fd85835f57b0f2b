//! Messages, the replies of agents to them, broadcasts, and status reports.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::access::Operation;
use crate::agent::CLIENT_ID_PREFIX;
use crate::audit::Outcome;
use crate::channels::delivery;
use crate::connected_client::{Client, InsertError, MAX_PENDING, PendingRequest};
use crate::frames::{ReplyContext, RequestError};
use crate::links;
use crate::outbox::{EnqueueError, Item};
use crate::sessions::Entry;
use crate::state::GatewayState;
use base::environment::millis;
use collective::{AgentStatus, CONFIRM, Envelope, ErrorCode, GATEWAY, Kind};

/// The maximum number of pending requests that one client has sent.
const MAX_OPEN_REQUESTS: usize = 1024;

impl GatewayState {
    /// Handles a message: the reply to a pending request, or a new message for an agent.
    pub(super) async fn handle_message(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let pending = client.pending.find(&envelope);
        if let Some(pending) = pending {
            // A message with the same ids for another agent is a new message.
            let is_reply = envelope.agent().is_none_or(|agent| {
                let requester = pending.requester.upgrade();
                // A link does not tell the other gateway the names of clients.
                *agent == *pending.requester_name
                    || (agent == GATEWAY && client.link().is_some())
                    || requester.is_some_and(|requester| requester.has_name(agent))
            });
            if is_reply {
                return self.deliver_reply(client, &pending, envelope).await;
            }
        }
        self.forward(client, envelope, context).await
    }

    /// Handles a status: progress of a pending request, or the status of an agent (Heretek A2A §8.2).
    pub(super) async fn handle_status(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let pending = client.pending.find(&envelope);
        if let Some(pending) = pending {
            return self.deliver_progress(client, envelope, &pending);
        }
        let text = envelope.content_str("status").ok_or_else(|| {
            RequestError::new(
                ErrorCode::MissingField,
                "`content.status` is missing; it is the status of an agent",
            )
        })?;
        let status = AgentStatus::reported(text).ok_or_else(|| {
            let message =
                "`content.status` is one of `online`, `offline`, `busy`, `idle` and `error`";
            RequestError::new(ErrorCode::InvalidContent, message)
        })?;
        let names = client.names();
        let agents: Vec<&Arc<str>> = match envelope.content_str("agent") {
            Some(one) => names.iter().filter(|name| ***name == *one).collect(),
            None => names.iter().collect(),
        };
        if agents.is_empty() && client.link().is_some() {
            return Ok(Outcome::Dropped);
        }
        if agents.is_empty() {
            return Err(RequestError::new(
                ErrorCode::PermissionDenied,
                "only the connection that serves an agent reports its status; advertise the agent in `supportedAgents` first",
            ));
        }
        {
            let mut registry = self.registry_mut();
            for name in agents {
                registry.set_status(name, status);
            }
        }
        self.acknowledge(client, context).await;
        Ok(Outcome::Done)
    }

    /// Sends the requester an intermediate message about its pending request, if its outbox has room.
    pub(super) fn deliver_progress(
        &self,
        client: &Client,
        envelope: Envelope,
        pending: &PendingRequest,
    ) -> Result<Outcome, RequestError> {
        let progress = self.stamp_reply(client, envelope, pending);
        let progress = self.check_signature(client, progress)?;
        let sent = pending.requester.upgrade().is_some_and(|requester| {
            let progress = requester.outgoing(progress);
            progress.is_ok_and(|progress| requester.outbox.try_send(progress.to_text()).is_ok())
        });
        Ok(match sent {
            true => Outcome::Delivered,
            false => Outcome::Dropped,
        })
    }

    /// Sends `{"result": "ok"}` if the sender requires a response.
    pub(super) async fn acknowledge(&self, client: &Client, context: &ReplyContext) {
        if context.requires_response {
            let content = serde_json::json!({"result": "ok"});
            self.send(client, context.reply(Kind::Response, content))
                .await;
        }
    }

    /// Stores a message in its session, then delivers it to its recipient.
    pub(super) async fn forward(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let agent: Arc<str> = envelope.agent().unwrap_or_default().into();
        let from = client.name(envelope.from());
        let operation = match envelope.kind() {
            Kind::Proposal => Operation::Propose,
            _ => Operation::Send(&agent),
        };
        self.authorize(client, envelope.from(), operation)?;
        let server = self.recipient(client, &agent)?;
        let now = self.now_millis();
        if envelope.is_expired(now) {
            return Err(ttl_expired(&agent));
        }
        let id: Arc<str> = match envelope.id() {
            Some(id) => id.into(),
            None => format!("msg-{}", self.env.uuid()).into(),
        };
        let mut envelope = envelope.with("id", &*id).with("from", &*from);
        if envelope.field("timestamp").is_none() {
            envelope = envelope.with("timestamp", now);
        }
        let envelope = self.check_signature(client, envelope)?;
        let has_workspace = self.has_workspace(&agent);
        let session = match has_workspace {
            true => Some(self.session(client, &envelope, context)),
            false => envelope.session_id().map(Into::into),
        };
        // Without `strict`, the first entry creates the session.
        let creates_session =
            self.config.strict && has_workspace && envelope.session_id().is_none();
        let mut envelope = envelope.with("sessionId", session.as_deref());
        if server.link().is_some() {
            envelope = links::next_hop(envelope)?;
        }
        // The other gateway of a link keeps the correlation ids of its own clients.
        let may_be_answered = context.correlation.is_some() && client.link().is_none();
        let is_pending = context.requires_response || may_be_answered || server.link().is_some();
        let key = match is_pending {
            false => None,
            true => {
                let session = session.clone();
                let key =
                    self.register_pending(client, &server, context, &agent, from, &id, session);
                Some(key.map_err(|error| self.withdraw(&server, None, &envelope, error))?)
            }
        };
        let delivered = match &key {
            Some(key) => envelope.clone().with_metadata("correlationId", &**key),
            None => envelope.clone(),
        };
        let delivered = match is_confirmed(&server, context) {
            true => delivered.with_metadata(CONFIRM, true),
            false => delivered,
        };
        let delivered = server.outgoing(delivered);
        let delivered =
            delivered.map_err(|error| self.withdraw(&server, key.as_deref(), &envelope, error))?;
        let item = self.outbox_item(client, &server, &delivered, context, key.as_deref());
        // Reserve first, so that the session does not contain a refused message.
        let room = match server.outbox.reserve(item.cost()) {
            Ok(room) => room,
            Err(error) => {
                let error = RequestError::undelivered(&agent, error);
                return Err(self.withdraw(&server, key.as_deref(), &envelope, error));
            }
        };
        let stored = async {
            if creates_session {
                let identity = client.share_key();
                let created = self
                    .sessions
                    .create_for(&identity, &agent, session.as_deref());
                created.await?;
            }
            self.store(client, &agent, &envelope, session.as_deref())
                .await
        };
        if let Err(error) = stored.await {
            return Err(self.withdraw(&server, key.as_deref(), &envelope, error));
        }
        self.publish(delivery(delivered.kind().as_str(), &delivered, &agent));
        match room.push(item) {
            Ok(number) => {
                if let Some(key) = &key {
                    server.pending.set_outbox_number(key, number);
                }
                Ok(Outcome::Delivered)
            }
            Err(error) => {
                let error = RequestError::undelivered(&agent, error);
                Err(self.withdraw(&server, key.as_deref(), &envelope, error))
            }
        }
    }

    /// Returns the session of a message: the one it names, or a new one. Messages of a connection that need no reply share
    /// one session unless `strict` is set, because their sender never receives the session's id.
    fn session(&self, client: &Client, envelope: &Envelope, context: &ReplyContext) -> Arc<str> {
        if let Some(id) = envelope.session_id() {
            return id.into();
        }
        if self.config.strict || context.requires_response || client.link().is_some() {
            return format!("sess-{}", self.env.uuid()).into();
        }
        let connection = client.id().trim_start_matches(CLIENT_ID_PREFIX);
        format!("sess-{connection}").into()
    }

    /// Stores a message of a client in the session of an agent.
    pub(super) async fn store(
        &self,
        client: &Client,
        agent: &str,
        envelope: &Envelope,
        session: Option<&str>,
    ) -> Result<(), RequestError> {
        let Some(session) = session.filter(|_| self.has_workspace(agent)) else {
            return Ok(());
        };
        let stored = self.sessions.append_for(
            &client.share_key(),
            agent,
            &Entry::new(envelope, session, self.env.system_time()),
        );
        Ok(stored.await?)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field of the request")]
    fn register_pending(
        &self,
        client: &Arc<Client>,
        server: &Client,
        context: &ReplyContext,
        agent: &Arc<str>,
        requester_name: Arc<str>,
        message: &Arc<str>,
        session: Option<Arc<str>>,
    ) -> Result<Arc<str>, RequestError> {
        if client.open_requests.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN_REQUESTS {
            client.open_requests.fetch_sub(1, Ordering::Relaxed);
            return Err(RequestError::busy(
                format!(
                    "{MAX_OPEN_REQUESTS} messages of this connection wait for replies; wait for one of them"
                ),
                Duration::from_secs(1),
            ));
        }
        let correlation_id = context
            .correlation
            .as_deref()
            .map_or_else(|| Arc::clone(message), Into::into);
        let pending = PendingRequest {
            requester: Arc::downgrade(client),
            identity: client.share_key(),
            requester_name,
            correlation_id,
            message_id: Arc::clone(message),
            agent: Arc::clone(agent),
            session,
            reply_required: requires_reply(context) || server.link().is_some(),
            unconfirmed: is_confirmed(server, context).then(|| client.add_unconfirmed()),
            outbox_number: None,
            deadline: self.env.now() + self.timeouts.reply,
        };
        let share = self.shares.share(MAX_PENDING);
        server.pending.insert(pending, share).map_err(|error| {
            client.open_requests.fetch_sub(1, Ordering::Relaxed);
            match error {
                InsertError::Full => RequestError::undelivered(agent, EnqueueError::Full),
                InsertError::Closed => RequestError::undelivered(agent, EnqueueError::Closed),
                InsertError::Share => RequestError::busy(
                    format!(
                        "{share} messages of this client's identity wait for replies of `{agent}`; wait for one of them"
                    ),
                    Duration::from_secs(1),
                ),
            }
        })
    }

    /// Removes the pending request of an undelivered message, and returns the error.
    fn withdraw(
        &self,
        server: &Client,
        key: Option<&str>,
        envelope: &Envelope,
        error: RequestError,
    ) -> RequestError {
        self.signing.forget(envelope);
        if let Some(pending) = key.and_then(|key| server.pending.remove(Some(key), None)) {
            self.complete(&pending);
        }
        error
    }

    /// Returns the outbox entry. The outbox checks the `ttl` of the message again before it writes the message.
    fn outbox_item(
        &self,
        client: &Arc<Client>,
        server: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
        key: Option<&str>,
    ) -> Item {
        let text = envelope.to_text().into();
        let seconds = envelope.metadata("ttl").and_then(Value::as_f64);
        let (Some(written), Some(seconds)) = (envelope.timestamp(), seconds) else {
            return Item::Text(text);
        };
        let ttl = Duration::try_from_secs_f64(seconds.max(0.0));
        let (sender, server) = (Arc::downgrade(client), Arc::downgrade(server));
        let (context, key) = (context.clone(), key.map(str::to_owned));
        let expires_at = written.saturating_add(ttl.map_or(u64::MAX, millis));
        let agent: Arc<str> = envelope.agent().unwrap_or_default().into();
        let on_expired = Box::new(move || {
            let Some(sender) = sender.upgrade() else {
                return;
            };
            let server = server.upgrade().zip(key.as_deref());
            let pending = server.and_then(|(server, key)| server.pending.remove(Some(key), None));
            if pending.is_some() {
                sender.open_requests.fetch_sub(1, Ordering::Relaxed);
            }
            let error = context
                .error(&ttl_expired(&agent))
                .with("timestamp", expires_at);
            let _ = sender.outbox.try_send(error.to_text());
        });
        Item::Expiring {
            text,
            expires_at,
            on_expired,
        }
    }

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
    async fn deliver_reply(
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
        let reply = self.check_signature(client, self.stamp_reply(client, envelope, pending))?;
        let disconnected = || {
            let message = "the requester disconnected; the reply was not delivered";
            RequestError::new(ErrorCode::AgentOffline, message)
        };
        let requester = pending.requester.upgrade();
        let link = requester.as_ref().and_then(|requester| requester.link());
        let text = match link.map(|link| link.outgoing(reply.clone())) {
            None => reply.to_text(),
            Some(Ok(reply)) => reply.to_text(),
            Some(Err(error)) => {
                if let Some(pending) = remove()
                    && let Some(requester) = self.complete(&pending)
                {
                    self.send_failure(&requester, &pending, &error);
                }
                return Err(error);
            }
        };
        let item = Item::Text(text.into());
        // Reserve first, so that the session does not contain a refused reply.
        let reserved = requester
            .as_ref()
            .map(|requester| requester.outbox.reserve(item.cost()));
        let room = match reserved {
            Some(Ok(room)) => Some(room),
            Some(Err(EnqueueError::Closed)) | None => None,
            Some(Err(full)) => {
                self.signing.forget(&reply);
                return Err(RequestError::undelivered(&pending.requester_name, full));
            }
        };
        if !is_error {
            let stored = self.store(client, &pending.agent, &reply, pending.session.as_deref());
            if let Err(error) = stored.await {
                self.signing.forget(&reply);
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
    fn stamp_reply(
        &self,
        client: &Client,
        envelope: Envelope,
        pending: &PendingRequest,
    ) -> Envelope {
        // Behind a link, the other gateway chose the session, and several members vote.
        let other = envelope.session_id().filter(|_| client.link().is_some());
        let session = pending.session.as_deref().or(other).map(str::to_owned);
        let from = match envelope.kind() {
            Kind::Vote => envelope.from(),
            _ => None,
        };
        let from = from.unwrap_or(&pending.agent).to_owned();
        let mut reply = envelope
            .with("correlationId", Value::Null)
            .with("agent", &*pending.requester_name)
            .with("from", from)
            .with("sessionId", session)
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

    /// Sends a message to every other client. Replies with the lists of recipients that received the message and of those
    /// that did not, by agent name or else by client id. Offline agents did not receive it.
    pub(super) async fn handle_broadcast(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        self.authorize(client, envelope.from(), Operation::Broadcast)?;
        let from = client.name(envelope.from());
        let mut envelope = envelope.with("from", &*from);
        if envelope.id().is_none() {
            envelope = envelope.with("id", format!("msg-{}", self.env.uuid()));
        }
        if envelope.field("timestamp").is_none() {
            envelope = envelope.with("timestamp", self.now_millis());
        }
        if !self.links.is_new_broadcast(&envelope) && client.link().is_some() {
            return Ok(Outcome::Dropped);
        }
        let envelope = self.check_signature(client, envelope)?;
        let text: Utf8Bytes = envelope.to_text().into();
        self.publish(delivery("broadcast", &envelope, "*"));
        let (mut delivered, mut failed): (Vec<Value>, Vec<Value>) = Default::default();
        {
            let registry = self.registry();
            for other in registry
                .clients()
                .filter(|other| !Arc::ptr_eq(other, client))
            {
                if other.identity().is_none() || other.link().is_some() {
                    continue;
                }
                let reached = match other.outbox.try_send(text.clone()) {
                    Ok(_) => &mut delivered,
                    Err(_) => &mut failed,
                };
                match &*other.names() {
                    [] => reached.push((**other.id()).into()),
                    names => reached.extend(names.iter().map(|name| Value::from(&**name))),
                }
            }
            let absent = registry.offline_agents().filter(|name| !name.contains('@'));
            failed.extend(absent.map(Value::from));
        }
        let forwarded = self.broadcast_to_links(client, &envelope);
        let outcome = if delivered.is_empty() && forwarded.is_empty() {
            Outcome::Dropped
        } else {
            Outcome::Delivered
        };
        if client.link().is_some() {
            return Ok(outcome);
        }
        let mut content = json!({"result": {"delivered": delivered, "failed": failed}});
        if !forwarded.is_empty() {
            content["result"]["forwarded"] = forwarded.into();
        }
        self.send(
            client,
            context.reply(Kind::Response, content).with("from", GATEWAY),
        )
        .await;
        Ok(outcome)
    }
}

/// Returns whether the sender of a message receives an answer or an error in any case.
fn requires_reply(context: &ReplyContext) -> bool {
    context.requires_response || context.kind == Kind::Proposal
}

/// Returns whether the other gateway of a link confirms a message: one whose sender waits for no answer.
fn is_confirmed(server: &Client, context: &ReplyContext) -> bool {
    server.link().is_some() && !requires_reply(context)
}

fn ttl_expired(agent: &str) -> RequestError {
    RequestError::new(
        ErrorCode::InvalidContent,
        format!("the message is older than its `ttl` and was not delivered to `{agent}`"),
    )
}

fn not_stored(agent: &str, error: &RequestError) -> RequestError {
    let message = format!(
        "`{agent}` replied, but the gateway cannot store the reply: {}",
        error.message
    );
    RequestError::new(error.code, message)
}
