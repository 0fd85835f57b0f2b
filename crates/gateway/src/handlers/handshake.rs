//! Authentication, handshake, ping and disconnect (Heretek A2A §5).

use std::sync::Arc;
use std::time::Duration;

use base::jws::KeySet;
use base::text::first_chars;
use serde_json::{Value, json};

use collective::{
    Envelope, ErrorCode, GATEWAY, Kind, MAX_SERVED_AGENTS, PROTOCOL_VERSION, is_compatible,
};

use crate::access::Operation;
use crate::agent;
use crate::audit::Outcome;
use crate::connected_client::Client;
use crate::frames::{ReplyContext, RequestError};
use crate::outbox::Close;
use crate::state::GatewayState;

impl GatewayState {
    /// Handles an authentication message (Heretek A2A §5.4).
    pub(super) async fn handle_auth(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Option<Close> {
        let result = self.authenticate(client, envelope);
        let (content, outcome) = match &result {
            Ok(()) => (json!({"status": "ok"}), Outcome::Done),
            Err(error) => {
                let content = json!({
                    "status": "failed",
                    "error": error.code.name(),
                    "code": error.code.number(),
                    "message": error.message,
                });
                (content, Outcome::Refused(error.code))
            }
        };
        let answer = context.reply(Kind::AuthResponse, content);
        self.send(client, answer.with("from", GATEWAY)).await;
        self.record(client, Some(context), None, outcome);
        match result {
            Err(error) if error.code == ErrorCode::AgentBusy => Some(Close::TOO_MANY),
            other => other.err().map(|_| Close::INVALID_CREDENTIAL),
        }
    }

    fn authenticate(&self, client: &Client, envelope: &Envelope) -> Result<(), RequestError> {
        collective::validate(envelope)?;
        if !self.keyring.is_required() {
            return Ok(());
        }
        let token = envelope.content_str("token").unwrap_or_default();
        let now = self.env.now();
        // The check of a credential costs about as much as the upgrade that each wrong one needs.
        let authenticated = self.keyring.authenticate(token, self.env.system_time());
        if let Some(address) = client.address() {
            let limited = match &authenticated {
                // Wrong credentials of a stranger do not lock out the clients that the gateway knows at this address.
                Ok(known) => {
                    let key = known.identity.share_key().into();
                    self.auth_limiter.succeed(address, &key, now)
                }
                Err(_) => self.auth_limiter.check(address, now),
            };
            limited.map_err(|wait| {
                let message = format!(
                    "too many wrong credentials from this address; try again in {} s",
                    wait.as_secs() + 1
                );
                RequestError::busy(message, wait)
            })?;
            // An expired credential was valid once, so it is no guess.
            if let Err(error) = &authenticated
                && error.code == ErrorCode::AuthFailed
            {
                self.auth_limiter
                    .record_guess(address, token.as_bytes(), now);
            }
        }
        let authenticated = authenticated?;
        match client.identity() {
            Some(before) if *before != authenticated.identity => Err(RequestError::new(
                ErrorCode::AuthFailed,
                "this connection has another identity already; open a new connection",
            )),
            _ => self.admit(client, authenticated),
        }
    }

    /// Registers the agents that a client advertises (Heretek A2A §5.2) and acknowledges the handshake (Heretek A2A §5.3).
    pub(super) async fn handle_handshake(
        &self,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        if envelope.content_str("action") != Some("advertise") {
            return Err(RequestError::new(
                ErrorCode::InvalidContent,
                "the only `content.action` of a client's handshake is `advertise`",
            ));
        }
        let capabilities = envelope.content().get("capabilities");
        let version = capabilities.and_then(|all| all.get("version")?.as_str());
        // The version is optional, like the handshake itself.
        if let Some(version) = version.filter(|version| !is_compatible(version)) {
            let version = first_chars(version, 32);
            let message = format!(
                "cannot serve version `{version}` of a2a-v1: this gateway speaks {PROTOCOL_VERSION}; use a client of version 1"
            );
            return Err(RequestError::new(ErrorCode::ProtocolError, message));
        }
        let served = capabilities.and_then(|all| all.get("supportedAgents"));
        let served = served.and_then(Value::as_array);
        if served.is_some_and(|names| names.len() > MAX_SERVED_AGENTS) {
            let message = format!(
                "`supportedAgents` has more than {MAX_SERVED_AGENTS} agents; open another connection for the rest"
            );
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        }
        let served = served.map(|names| {
            let mut served: Vec<Arc<str>> = Vec::new();
            for name in names.iter().filter_map(Value::as_str) {
                if !served.iter().any(|known| **known == *name) {
                    served.push(name.into());
                }
            }
            served
        });
        let keys = self.signing.advertised(envelope.content())?;
        let mut advertised = Vec::new();
        if let Some(names) = served {
            let names = match client.link() {
                Some(link) => self.link_agents(link, &names),
                None => names,
            };
            for name in names.iter().filter(|_| client.link().is_none()) {
                let is_configured = self.config.agents.iter().any(|agent| *agent.name == **name);
                let validate = match is_configured {
                    true => agent::validate_agent_name,
                    false => agent::validate_client_name,
                };
                validate(name).map_err(|(code, message)| RequestError::new(code, message))?;
                self.authorize_serve(client, name)?;
            }
            self.accept_keys(client, &names, keys.as_ref(), false)?;
            self.registry_mut().set_agents(client, names.clone())?;
            advertised = names;
        }
        self.accept_keys(client, &client.names(), keys.as_ref(), true)?;
        let available: Vec<Value> = {
            let listed = self.registry().list();
            let visible = listed.iter().filter(|agent| client.may_see(&agent.name));
            visible.map(|agent| (*agent.name).into()).collect()
        };
        let mut content = json!({
            "action": "acknowledge",
            "clientId": &**client.id(),
            "availableAgents": available,
            "protocolVersion": PROTOCOL_VERSION,
        });
        self.signing.introduce(&mut content);
        self.send(client, context.reply(Kind::Handshake, content))
            .await;
        // Clients expect the acknowledgement before any other message.
        for name in &advertised {
            self.send_pending_proposals(name, client);
        }
        Ok(Outcome::Done)
    }

    /// Checks, and with `pins` stores, the keys that a client advertises for its agents and the agent of its credential.
    fn accept_keys(
        &self,
        client: &Client,
        names: &[Arc<str>],
        keys: Option<&KeySet>,
        pins: bool,
    ) -> Result<(), RequestError> {
        let Some(keys) = keys else {
            return Ok(());
        };
        let own = client.identity().and_then(|own| own.agent.as_deref());
        let names: Vec<&str> = names.iter().map(|name| &**name).chain(own).collect();
        self.signing.accept(&names, keys, pins)
    }

    fn authorize_serve(&self, client: &Client, name: &str) -> Result<(), RequestError> {
        let Some(identity) = client.identity() else {
            return Ok(());
        };
        Ok(self
            .keyring
            .authorize(identity, None, Operation::Serve(name))?)
    }

    /// Replies to a ping, as soon as the other gateways have the client's earlier messages for links.
    pub(super) async fn handle_ping(
        self: &Arc<Self>,
        client: &Arc<Client>,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let pong = context.reply(Kind::Pong, json!({}));
        let permit = Arc::clone(&client.waiting_pings).try_acquire_owned();
        let permit = permit.map_err(|_| {
            let message = "too many pings wait for messages to other gateways; send it again later";
            RequestError::busy(message, Duration::from_secs(1))
        })?;
        let Some((mut confirmed, unconfirmed)) = client.wait_for_links() else {
            self.send(client, pong).await;
            return Ok(Outcome::Done);
        };
        let (state, client) = (Arc::clone(self), Arc::clone(client));
        // Other messages of the client must not wait.
        self.tasks.spawn(async move {
            tokio::select! {
                _ = confirmed.recv() => state.send(&client, pong).await,
                () = state.stopping.cancelled() => {}
            }
            drop((permit, unconfirmed));
        });
        Ok(Outcome::Done)
    }

    /// Handles a disconnect (Heretek A2A §5.5). The client's agents go offline at once; the client has time to close.
    pub(super) fn handle_disconnect(&self, client: &Arc<Client>) {
        self.registry_mut().remove_client(client);
        let (client, wait) = (Arc::clone(client), self.timeouts.close);
        self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            client.outbox.close(Close::NORMAL);
        });
    }
}
