//! Messages, broadcasts and proposals of a requester.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ClientError, ClientErrorKind, Requester, agent::message_text, connection::new_id};
use collective::{Envelope, Kind};

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
}

impl Requester {
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
}

fn envelope(message: &Message) -> Envelope {
    let content = json!({"role": "user", "content": message.text});
    Envelope::new(Kind::Message, content)
        .with("agent", message.agent.as_str())
        .with("sessionId", message.session_id.as_deref())
}
