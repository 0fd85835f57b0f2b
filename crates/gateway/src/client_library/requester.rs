//! A client that sends one request after another.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    ClientError, Endpoint, Welcome,
    connection::{ClientConnection, new_id},
};
use base::environment::Environment;
use collective::{Envelope, GATEWAY, Kind};
use egress::HttpClient;

/// A client that sends one request after another.
pub struct Requester {
    pub(super) connection: ClientConnection,
    pub(super) endpoint: Endpoint,
    pub(super) env: Arc<dyn Environment>,
    /// The acknowledgement of the gateway.
    pub welcome: Welcome,
    /// The name and the value of a metadata field that every message of this client contains.
    pub(super) metadata: Option<(&'static str, Value)>,
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
    pub(super) async fn send_envelope(&self, envelope: Envelope) -> Result<(), ClientError> {
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
    pub(super) async fn exchange(
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

    /// Sends `disconnect` and closes the connection, within a second.
    pub async fn disconnect(self) {
        self.connection.sender().disconnect().await;
    }
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requester")
            .field("endpoint", &self.endpoint)
            .field("welcome", &self.welcome)
            .finish_non_exhaustive()
    }
}
