//! One who asks a gateway, one thing after another.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    ClientError, Endpoint, Welcome,
    line::{ClientConnection, new_id},
};
use collective::{Envelope, GATEWAY, Kind};
use common::environment::Environment;
use egress::Net;

/// One who asks a gateway.
pub struct Requester {
    line: ClientConnection,
    door: Endpoint,
    env: Arc<dyn Environment>,
    /// What the gateway said when it took us.
    pub welcome: Welcome,
}

impl Requester {
    /// Connects.
    ///
    /// # Errors
    /// Nobody can be reached, something else answers, or the gateway does not take us.
    pub async fn connect(
        net: &dyn Net,
        door: Endpoint,
        env: Arc<dyn Environment>,
    ) -> Result<Self, ClientError> {
        let (line, welcome) = ClientConnection::open(net, &door, &[], &env).await?;
        Ok(Self {
            line,
            door,
            env,
            welcome,
        })
    }

    /// Asks, and waits for the answer: what carries our correlation id or names our message.
    ///
    /// # Errors
    /// The gateway refuses, does not answer in time, or is gone.
    pub async fn ask(&mut self, kind: Kind, content: Value) -> Result<Envelope, ClientError> {
        let id = new_id(&*self.env);
        let question = Envelope::new(kind, content)
            .with("id", id.as_str())
            .with_metadata("correlationId", id.as_str())
            .with_metadata("requiresResponse", true);
        let until = Instant::now() + self.door.timeout;
        let answer = timeout_at(until, self.exchange(question, &id)).await;
        answer.unwrap_or_else(|_| Err(ClientError::late(&self.door, "answered")))
    }

    async fn exchange(&mut self, question: Envelope, id: &str) -> Result<Envelope, ClientError> {
        let kind = question.kind();
        self.line.speaker().say(question).await?;
        loop {
            let envelope = self.line.hear().await?;
            let said = envelope.correlation_id().or(envelope.parent_id());
            // Gateways written from the examples say nothing of what they answer.
            let fits = match said {
                Some(said) => said == id,
                None => {
                    let answer = match kind {
                        Kind::Ping => Kind::Pong,
                        Kind::Request => Kind::Response,
                        kind => kind,
                    };
                    envelope.kind() == answer || envelope.kind() == Kind::Error
                }
            };
            match envelope.kind() {
                _ if !fits => {}
                Kind::Error => return Err(ClientError::of_error(&envelope)),
                _ => return Ok(envelope),
            }
        }
    }

    /// Whether the gateway is there (000 A.2), and how long its answer takes.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ping(&mut self) -> Result<Duration, ClientError> {
        let begun = self.env.now();
        self.ask(Kind::Ping, json!({})).await?;
        Ok(self.env.now().saturating_duration_since(begun))
    }

    /// Who is there (000 §6.1): the answer's content.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn discover(&mut self) -> Result<Value, ClientError> {
        let answer = self.ask(Kind::Discovery, json!({"action": "list"})).await?;
        Ok(answer.content().clone())
    }

    /// Has the gateway's own service do something: `request` to the service `gateway`, and its result.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn manage(&mut self, operation: &str, with: Value) -> Result<Value, ClientError> {
        let mut content = with;
        content["service"] = GATEWAY.into();
        content["operation"] = operation.into();
        let answer = self.ask(Kind::Request, content).await?;
        Ok(answer.content()["result"].clone())
    }

    /// Takes leave and closes, within a second.
    pub async fn leave(self) {
        self.line.speaker().leave().await;
    }
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requester")
            .field("door", &self.door)
            .field("welcome", &self.welcome)
            .finish_non_exhaustive()
    }
}
