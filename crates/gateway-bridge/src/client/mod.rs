//! Clients of an `a2a-v1` gateway: a scripted agent, a requester, a watcher, and the connection of agents with a backend.
//!
//! `connection.rs` is the connection of all of them. The clients support no other dialect. Their error names the dialect of a
//! gateway that speaks another one.

mod agent;
mod ballot;
mod connection;
mod requester;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::settings;
use crate::signer::Signer;
use base::backoff::Backoff;
use base::environment::{Environment, SystemEnvironment};
use egress::credential::Trust;
use egress::{AddressPolicy, HttpClient, Request, ReqwestClient};

pub use agent::{AgentEvent, Script, message_text};
pub use ballot::Ballot;
pub use connection::{ClientConnection, ClientError, ClientErrorKind, MessageSender, Welcome};
pub use requester::{Message, Reply, Requester};
pub use watch::Observation;

/// The timeout of a health request.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// The delays before a client reconnects.
const RECONNECT_DELAY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(15));

/// The address of a gateway and the credential for it.
#[derive(Clone)]
pub struct Endpoint {
    /// The URL, `ws` or `wss`.
    pub url: Url,
    /// The API key or JWT.
    pub token: Option<SecretString>,
    /// The TLS trust; `None` means that of the system.
    pub trust: Option<Arc<Trust>>,
    /// Whether an address other than loopback is allowed, with `wss`.
    pub allow_remote: bool,
    /// The timeout of the handshake and of each response.
    pub timeout: Duration,
    /// The silence after which the client sends a ping, like the gateway does. After three times as long, the client
    /// considers the connection lost.
    pub heartbeat: Duration,
    /// Signs the messages of the client; `None` leaves them unsigned.
    pub signer: Option<Signer>,
}

impl Endpoint {
    /// The default of [`timeout`](Self::timeout).
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default of [`heartbeat`](Self::heartbeat).
    pub const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(30);

    /// Creates the endpoint of a local gateway without authentication.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            token: None,
            trust: None,
            allow_remote: false,
            timeout: Self::DEFAULT_TIMEOUT,
            heartbeat: Self::DEFAULT_HEARTBEAT,
            signer: None,
        }
    }

    /// Returns the URL for display.
    fn display_url(&self) -> String {
        settings::display_url(&self.url)
    }
}

base::debug_fields!(self: Endpoint {
    url = self.display_url(), token = self.token.is_some(), allow_remote, timeout,
});

/// Connects clients to gateways.
#[derive(Clone)]
pub struct Connector {
    net: Arc<dyn HttpClient>,
    env: Arc<dyn Environment>,
}

/// The health of a service (Heretek A2A §6.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The health endpoint responds with a success status.
    Healthy,
    /// The health endpoint responds with this HTTP status.
    Unhealthy(u16),
    /// The health endpoint does not respond, for this reason.
    Unreachable(String),
    /// The service has no health endpoint.
    Unknown,
}

/// What [`Connector::reconnect`] connects to.
struct Reconnect<'a> {
    endpoint: &'a Endpoint,
    /// The agents that the client advertises.
    names: &'a [&'a str],
    /// Whether an error ends the client before its first connection.
    only_after_first: bool,
}

/// A change of a connection that the client keeps.
enum LinkChange {
    /// The client connected, with this id.
    Connected(String),
    /// The connection failed; the client connects again after the delay.
    Lost(ClientError, Duration),
}

impl Connector {
    /// Creates a connector with the system's network and clock.
    ///
    /// # Errors
    /// The TLS configuration of the system is unusable.
    pub fn new() -> Result<Self, ClientError> {
        let http = ReqwestClient::new();
        let http = http
            .map_err(|error| ClientError::new(ClientErrorKind::Unreachable, error.to_string()))?;
        Ok(Self::with_parts(
            Arc::new(http),
            Arc::new(SystemEnvironment),
        ))
    }

    /// Creates a connector with these sockets and this clock.
    pub fn with_parts(net: Arc<dyn HttpClient>, env: Arc<dyn Environment>) -> Self {
        Self { net, env }
    }

    /// Connects and advertises the agents `names`.
    ///
    /// # Errors
    /// The gateway is unreachable, or refuses the connection or an agent.
    pub async fn open(
        &self,
        endpoint: &Endpoint,
        names: &[&str],
    ) -> Result<(ClientConnection, Welcome), ClientError> {
        ClientConnection::open(&*self.net, endpoint, names, &self.env).await
    }

    /// Connects a requester.
    ///
    /// # Errors
    /// The same as [`Requester::connect`].
    pub async fn connect(&self, endpoint: Endpoint) -> Result<Requester, ClientError> {
        Requester::connect(&*self.net, endpoint, Arc::clone(&self.env)).await
    }

    /// Serves a scripted agent until `shutdown` is cancelled, or until the gateway disconnects it for good. Reconnects after
    /// a lost connection, and reports events to `on_event`.
    ///
    /// # Errors
    /// The server is not an `a2a-v1` gateway, or it refuses the agent or the credential.
    pub async fn serve(
        &self,
        endpoint: Endpoint,
        script: Script,
        on_event: impl Fn(&AgentEvent) + Send + Sync,
        shutdown: CancellationToken,
    ) -> Result<(), ClientError> {
        let run = |connection| agent::run(connection, &script, &*self.env, &on_event);
        let names = [script.name.as_str()];
        self.keep_connected(&endpoint, &names, &on_event, &shutdown, run)
            .await
    }

    /// Watches a gateway until `shutdown` is cancelled. With `content`, includes the texts of messages. Reconnects after a
    /// lost connection, and reports observations to `observe`.
    ///
    /// # Errors
    /// At the first connection, the server is not an `a2a-v1` gateway; or the gateway refuses the credential or the
    /// permission to watch.
    pub async fn watch(
        &self,
        endpoint: Endpoint,
        content: bool,
        observe: impl Fn(&Observation) + Send + Sync,
        shutdown: CancellationToken,
    ) -> Result<(), ClientError> {
        let watcher = watch::Watcher::new(content, &*self.env, &observe);
        let report = |change: LinkChange| {
            observe(&match change {
                LinkChange::Connected(client) => Observation::Connected(client),
                LinkChange::Lost(error, wait) => Observation::Lost(error, wait),
            });
        };
        let reconnect = Reconnect {
            endpoint: &endpoint,
            names: &[],
            // Without a connection, the command line may be wrong.
            only_after_first: true,
        };
        let run = |connection| watcher.run(connection);
        self.reconnect(reconnect, report, &shutdown, run).await
    }

    /// Connects as the agents `names` and passes the connection to `serve`, until that returns `Ok` or `shutdown` is
    /// cancelled. Reconnects after a lost connection, and sends `disconnect` at the end.
    ///
    /// # Errors
    /// The server is not an `a2a-v1` gateway, or it refuses the agent or the credential.
    pub async fn keep_connected<F>(
        &self,
        endpoint: &Endpoint,
        names: &[&str],
        on_event: &(impl Fn(&AgentEvent) + Send + Sync),
        shutdown: &CancellationToken,
        serve: impl Fn(ClientConnection) -> F,
    ) -> Result<(), ClientError>
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let report = |change: LinkChange| {
            on_event(&match change {
                LinkChange::Connected(client) => AgentEvent::Connected(client),
                LinkChange::Lost(error, wait) => AgentEvent::Lost(error, wait),
            });
        };
        let reconnect = Reconnect {
            endpoint,
            names,
            only_after_first: false,
        };
        self.reconnect(reconnect, report, shutdown, serve).await
    }

    /// Connects and passes the connection to `serve`, until that returns `Ok` or `shutdown` is cancelled. Reconnects after a
    /// lost connection, and sends `disconnect` at the end.
    async fn reconnect<F>(
        &self,
        options: Reconnect<'_>,
        report: impl Fn(LinkChange) + Send + Sync,
        shutdown: &CancellationToken,
        serve: impl Fn(ClientConnection) -> F,
    ) -> Result<(), ClientError>
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let mut failures = 0;
        let mut may_retry = !options.only_after_first;
        loop {
            let opened = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                opened = self.open(options.endpoint, options.names) => opened,
            };
            let error = match opened {
                Ok((connection, welcome)) => {
                    failures = 0;
                    may_retry = true;
                    report(LinkChange::Connected(welcome.client_id));
                    let sender = connection.sender().clone();
                    let ended = tokio::select! {
                        () = shutdown.cancelled() => {
                            sender.disconnect().await;
                            return Ok(());
                        }
                        ended = serve(connection) => ended,
                    };
                    match ended {
                        Ok(()) => return Ok(()),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if !may_retry || !error.is_retryable() {
                return Err(error);
            }
            let wait = RECONNECT_DELAY.jittered(failures, self.env.random());
            report(LinkChange::Lost(error, wait));
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            failures += 1;
        }
    }

    /// Requests the health endpoint of a service. The address must be public, or be written as a loopback address.
    pub async fn health(&self, endpoint: Option<&str>) -> Health {
        let Some(url) = endpoint.and_then(|endpoint| Url::parse(endpoint).ok()) else {
            return Health::Unknown;
        };
        let allowed = match AddressPolicy::for_url(&url, false, true) {
            Ok(allowed) => allowed,
            Err(error) => return Health::Unreachable(error.to_string()),
        };
        let response = self.net.exchange(Request::get(url, allowed));
        match tokio::time::timeout(HEALTH_TIMEOUT, response).await {
            Ok(Ok(response)) if response.status.is_success() => Health::Healthy,
            Ok(Ok(response)) => Health::Unhealthy(response.status.as_u16()),
            Ok(Err(error)) => Health::Unreachable(error.to_string()),
            Err(_) => {
                Health::Unreachable(format!("no response within {} s", HEALTH_TIMEOUT.as_secs()))
            }
        }
    }
}

base::debug_fields!(self: Connector {});

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Unhealthy(status) => write!(f, "unhealthy: HTTP {status}"),
            Self::Unreachable(reason) => write!(f, "unreachable: {reason}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
