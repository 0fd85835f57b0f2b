//! A client that sends one request after another: requests to the gateway, messages, and proposals.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    ClientError, ClientErrorKind, Endpoint, Welcome, agent::message_text,
    connection::ClientConnection,
};
use crate::a2a_v1::new_id;
use base::environment::Environment;
use collective::{Envelope, GATEWAY, Kind, SignatureStatus, TriadConfig};
use egress::HttpClient;

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The name of the agent.
    pub agent: String,
    /// The text.
    pub text: String,
    /// The session; `None` lets the gateway choose one.
    pub session_id: Option<String>,
}

/// The reply of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The text, or the texts of its parts.
    pub text: String,
    /// The content as the agent sent it.
    pub content: Value,
    /// The session.
    pub session_id: Option<String>,
    /// What the gateway says about the signature of the reply.
    pub signature: Option<SignatureStatus>,
}

/// A client that sends one request after another.
pub struct Requester {
    connection: ClientConnection,
    endpoint: Endpoint,
    env: Arc<dyn Environment>,
    /// The acknowledgement of the gateway.
    pub welcome: Welcome,
    /// The name and the value of a metadata field that every message of this client contains.
    metadata: Option<(&'static str, Value)>,
}

impl Requester {
    /// Connects to a gateway.
    ///
    /// # Errors
    /// The client cannot connect, the server is not an `a2a-v1` gateway, or it refuses the credential.
    pub async fn connect(
        net: &dyn HttpClient,
        endpoint: Endpoint,
        env: Arc<dyn Environment>,
    ) -> Result<Self, ClientError> {
        let (connection, welcome) = ClientConnection::open(net, &endpoint, &[], &env).await?;
        Ok(Self {
            connection,
            endpoint,
            env,
            welcome,
            metadata: None,
        })
    }

    /// Adds a metadata field to every message of this client.
    pub fn set_metadata(&mut self, name: &'static str, value: Value) {
        self.metadata = Some((name, value));
    }

    /// Sends an envelope with the metadata of this client.
    async fn send_envelope(&self, envelope: Envelope) -> Result<(), ClientError> {
        let envelope = match &self.metadata {
            Some((name, value)) => envelope.with_metadata(name, value.clone()),
            None => envelope,
        };
        self.connection.sender().send(envelope).await
    }

    /// Sends a request and waits for the response. A response has the request's correlation id or refers to its message id.
    ///
    /// # Errors
    /// The gateway responds with an error, a timeout expires, or the connection is lost.
    pub async fn request(&mut self, kind: Kind, content: Value) -> Result<Envelope, ClientError> {
        let id = new_id(&*self.env);
        let request = Envelope::new(kind, content)
            .with("id", id.as_str())
            .with_metadata("correlationId", id.as_str())
            .with_metadata("requiresResponse", true);
        let deadline = Instant::now() + self.endpoint.timeout;
        let answer = timeout_at(deadline, self.exchange(request, &id, |_| {})).await;
        answer.unwrap_or_else(|_| Err(ClientError::timeout(&self.endpoint, "respond")))
    }

    /// Sends a request and waits for the response. Calls `on_progress` with each related `status` and `vote`.
    async fn exchange(
        &mut self,
        request: Envelope,
        id: &str,
        mut on_progress: impl FnMut(&Envelope),
    ) -> Result<Envelope, ClientError> {
        let kind = request.kind();
        self.send_envelope(request).await?;
        loop {
            let envelope = self.connection.recv().await?;
            let reference = envelope.correlation_id().or(envelope.parent_id());
            // Gateways that follow the examples in Heretek A2A send responses without a reference to the request.
            let matches = match reference {
                Some(reference) => reference == id,
                None => {
                    let answer = match kind {
                        Kind::Ping => Kind::Pong,
                        Kind::Request => Kind::Response,
                        Kind::Proposal => Kind::Decision,
                        kind => kind,
                    };
                    envelope.kind() == answer || envelope.kind() == Kind::Error
                }
            };
            match envelope.kind() {
                _ if !matches => {}
                Kind::Error => return Err(ClientError::from_error(&envelope)),
                Kind::Status | Kind::Vote => on_progress(&envelope),
                _ => return Ok(envelope),
            }
        }
    }

    /// Sends a ping (Heretek A2A A.2). Returns the round-trip time and the gateway's time in milliseconds since 1970.
    ///
    /// # Errors
    /// The same as [`request`](Self::request).
    pub async fn ping(&mut self) -> Result<(Duration, Option<u64>), ClientError> {
        let started = self.env.now();
        let pong = self.request(Kind::Ping, json!({})).await?;
        let round_trip = self.env.now().saturating_duration_since(started);
        Ok((round_trip, pong.field("timestamp").and_then(Value::as_u64)))
    }

    /// Returns the content of a discovery response (Heretek A2A §6.1).
    ///
    /// # Errors
    /// The same as [`request`](Self::request).
    pub async fn discover(&mut self) -> Result<Value, ClientError> {
        let answer = self
            .request(Kind::Discovery, json!({"action": "list"}))
            .await?;
        Ok(answer.content().clone())
    }

    /// Sends a request to the service `gateway`, and returns its result.
    ///
    /// # Errors
    /// The same as [`request`](Self::request).
    pub async fn manage(
        &mut self,
        operation: &str,
        arguments: Value,
    ) -> Result<Value, ClientError> {
        let mut content = arguments;
        content["service"] = GATEWAY.into();
        content["operation"] = operation.into();
        let answer = self.request(Kind::Request, content).await?;
        Ok(answer.content()["result"].clone())
    }

    /// Sends a message that needs no reply. Returns its id once the gateway has accepted it.
    ///
    /// # Errors
    /// The gateway refuses the message, a timeout expires, or the connection is lost.
    pub async fn send(&mut self, message: &Message) -> Result<String, ClientError> {
        let id = new_id(&*self.env);
        let envelope = envelope(message).with("id", id.as_str());
        self.send_envelope(envelope).await?;
        // The gateway handles messages in order, so an error about the message arrives before the pong.
        let ping = new_id(&*self.env);
        let request = Envelope::new(Kind::Ping, json!({})).with("id", ping.as_str());
        self.connection.sender().send(request).await?;
        let accepted = async {
            loop {
                let envelope = self.connection.recv().await?;
                match (envelope.kind(), envelope.parent_id()) {
                    (Kind::Error, Some(parent)) if parent == id || parent == ping => {
                        return Err(ClientError::from_error(&envelope));
                    }
                    (Kind::Pong, Some(parent)) if parent == ping => return Ok(()),
                    _ => {}
                }
            }
        };
        let accepted = timeout(self.endpoint.timeout, accepted).await;
        accepted.unwrap_or_else(|_| Err(ClientError::timeout(&self.endpoint, "respond")))?;
        Ok(id)
    }

    /// Sends a message and waits for its reply. Calls `on_progress` with each status text of the agent.
    ///
    /// # Errors
    /// The gateway or the agent responds with an error, no reply arrives within `limit`, or the connection is lost.
    pub async fn send_and_wait(
        &mut self,
        message: &Message,
        limit: Duration,
        mut on_progress: impl FnMut(&str),
    ) -> Result<Reply, ClientError> {
        let id = new_id(&*self.env);
        let request = envelope(message)
            .with("id", id.as_str())
            .with_metadata("correlationId", id.as_str())
            .with_metadata("requiresResponse", true);
        let progress = |status: &Envelope| {
            let text = status.content_str("message");
            on_progress(text.or(status.content_str("status")).unwrap_or_default());
        };
        let reply = timeout(limit, self.exchange(request, &id, progress)).await;
        let reply = reply.map_err(|_| {
            let message = format!(
                "`{}` did not reply within {} ms; it may reply later, and the session keeps its reply",
                message.agent,
                limit.as_millis()
            );
            ClientError::new(ClientErrorKind::Timeout, message)
        })??;
        let content = reply.content();
        Ok(Reply {
            text: message_text(&reply),
            session_id: reply.session_id().map(str::to_owned),
            signature: reply.signature_status(),
            content: content.clone(),
        })
    }

    /// Sends a proposal to the triad and waits for the decision. Calls `on_vote` with the sender and the content of each
    /// vote. For a proposal that was sent before with the same `id`, the gateway repeats its decision.
    ///
    /// # Errors
    /// The gateway refuses the proposal, no decision arrives within `limit`, or the connection is lost.
    pub async fn propose(
        &mut self,
        id: &str,
        proposal: Value,
        limit: Option<Duration>,
        mut on_vote: impl FnMut(&str, &Value),
    ) -> Result<Value, ClientError> {
        let mut proposal = proposal;
        if self.endpoint.signer.is_some() && proposal.get("deadline").is_none() {
            // A gateway would add a deadline, which the signature does not cover.
            let limit = TriadConfig::default().deadline_ms;
            proposal["deadline"] = self.env.unix_millis().saturating_add(limit).into();
        }
        let request = Envelope::new(Kind::Proposal, proposal)
            .with("id", id)
            .with_metadata("correlationId", id)
            .with_metadata("requiresResponse", true);
        let progress = |vote: &Envelope| on_vote(vote.from().unwrap_or_default(), vote.content());
        let decided = self.exchange(request, id, progress);
        let decision = match limit {
            None => decided.await,
            Some(limit) => timeout(limit, decided).await.unwrap_or_else(|_| {
                let message = format!(
                    "no decision within {} ms; the proposal stays open until its deadline",
                    limit.as_millis()
                );
                Err(ClientError::new(ClientErrorKind::Timeout, message))
            }),
        };
        Ok(decision?.content().clone())
    }

    /// Creates an id for a proposal.
    pub fn new_proposal_id(&self) -> String {
        format!("prop-{}", self.env.uuid())
    }

    /// Sends `disconnect` and closes the connection, within a second.
    pub async fn disconnect(self) {
        self.connection.sender().disconnect().await;
    }
}

fn envelope(message: &Message) -> Envelope {
    let content = json!({"role": "user", "content": message.text});
    Envelope::new(Kind::Message, content)
        .with("agent", message.agent.as_str())
        .with("sessionId", message.session_id.as_deref())
}

base::debug_fields!(self: Requester { endpoint, welcome });
