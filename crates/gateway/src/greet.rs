//! Who a client is, and what it serves (000 §5).

use std::sync::Arc;

use serde_json::{Value, json};

use collective::{CloseCode, Envelope, ErrorCode, GATEWAY, Kind, PROTOCOL_VERSION, is_compatible};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::hub::Hub;
use super::names;
use super::outbox::Close;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;

/// So many agents may one connection serve.
const MAX_SERVED_AGENTS: usize = 256;

impl Hub {
    /// Takes a credential (000 §5.4).
    pub(super) async fn authenticate(
        &self,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Option<Close> {
        let known = self.identify(client, envelope);
        let (content, outcome) = match &known {
            Ok(()) => (json!({"status": "ok"}), Outcome::Done),
            Err(refusal) => {
                let content = json!({
                    "status": "failed",
                    "error": refusal.code.name(),
                    "code": refusal.code.number(),
                    "message": refusal.message,
                });
                (content, Outcome::Refused(refusal.code))
            }
        };
        let answer = context.answer(Kind::AuthResponse, content);
        self.answer(client, answer.with("from", GATEWAY)).await;
        self.note(client, Some(context), None, outcome);
        known.is_err().then_some(Close {
            code: CloseCode::Policy,
            reason: "the credential does not hold",
        })
    }

    fn identify(&self, client: &Client, envelope: &Envelope) -> Result<(), Refusal> {
        collective::validate(envelope)?;
        if !self.keyring.is_required() {
            return Ok(());
        }
        let token = envelope.said("token").unwrap_or_default();
        let known = self.keyring.identify(token, self.env.system_time())?;
        match client.identity() {
            Some(before) if *before != known.identity => Err(Refusal::new(
                ErrorCode::AuthFailed,
                "this connection is somebody else's already; open another",
            )),
            _ => {
                client.identify(known);
                Ok(())
            }
        }
    }

    /// What a client can do and which agents it serves (000 §5.2), acknowledged (000 §5.3).
    pub(super) async fn handshake(
        &self,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        if envelope.said("action") != Some("advertise") {
            return Err(Refusal::new(
                ErrorCode::InvalidContent,
                "the only `content.action` of a client's handshake is `advertise`",
            ));
        }
        let capabilities = envelope.content().get("capabilities");
        let version = capabilities.and_then(|all| all.get("version")?.as_str());
        // A client need not name one. It is served as a client that never advertises is.
        if let Some(version) = version.filter(|version| !is_compatible(version)) {
            let version: String = version.chars().take(32).collect();
            let message = format!(
                "cannot serve version `{version}` of a2a-v1: this gateway speaks {PROTOCOL_VERSION}; connect with a client of version 1"
            );
            return Err(Refusal::new(ErrorCode::ProtocolError, message));
        }
        let served = capabilities.and_then(|all| all.get("supportedAgents"));
        let served = served.and_then(Value::as_array);
        if served.is_some_and(|names| names.len() > MAX_SERVED_AGENTS) {
            let message = format!("one connection can serve {MAX_SERVED_AGENTS} agents at most");
            return Err(Refusal::new(ErrorCode::InvalidContent, message));
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
        let mut came = Vec::new();
        if let Some(names) = served {
            for name in &names {
                names::agent(name).map_err(|(code, why)| Refusal::new(code, why))?;
                self.may_serve(client, name)?;
            }
            self.registry_mut().serve(client, names.clone())?;
            came = names;
        }
        let available: Vec<Value> = {
            let listed = self.registry().list();
            listed.iter().map(|agent| (*agent.name).into()).collect()
        };
        let content = json!({
            "action": "acknowledge",
            "clientId": &**client.id(),
            "availableAgents": available,
            "protocolVersion": PROTOCOL_VERSION,
        });
        self.answer(client, context.answer(Kind::Handshake, content))
            .await;
        // Behind the acknowledgement, before which a client expects nothing.
        for name in &came {
            self.hand_open_proposals(name, client);
        }
        Ok(Outcome::Done)
    }

    fn may_serve(&self, client: &Client, name: &str) -> Result<(), Refusal> {
        let Some(identity) = client.identity() else {
            return Ok(());
        };
        Ok(self.keyring.may(identity, None, Operation::Serve(name))?)
    }

    /// I am.
    pub(super) async fn ping(
        &self,
        client: &Client,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        self.answer(client, context.answer(Kind::Pong, json!({})))
            .await;
        Ok(Outcome::Done)
    }

    /// A client takes leave (000 §5.5): its agents are offline at once, and its own close is waited for a moment.
    pub(super) fn farewell(&self, client: &Arc<Client>) {
        self.registry_mut().leave(client);
        let (client, wait) = (Arc::clone(client), self.pace.farewell);
        self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            client.outbox.finish(Close {
                code: CloseCode::Normal,
                reason: "",
            });
        });
    }
}
