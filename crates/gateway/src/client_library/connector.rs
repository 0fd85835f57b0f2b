//! Creates clients, with their network, clock and ids.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    AgentEvent, ClientConnection, ClientError, ClientErrorKind, Endpoint, Observation, Requester,
    Script, Welcome, agent,
    reconnect::{ServeOptions, keep_connected},
    watch,
};
use base::environment::{Environment, SystemEnvironment};
use egress::{HttpClient, Request, ReqwestClient, address_policy};

/// The timeout of a health request.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

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
        let (net, env) = (Arc::clone(&self.net), Arc::clone(&self.env));
        agent::serve(net, endpoint, script, env, on_event, shutdown).await
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
        let (net, env) = (Arc::clone(&self.net), Arc::clone(&self.env));
        watch::watch(net, endpoint, content, env, observe, shutdown).await
    }

    /// Connects as the agent `name` and passes the connection to `serve`, until that returns `Ok` or `shutdown` is
    /// cancelled. Reconnects after a lost connection, and sends `disconnect` at the end.
    ///
    /// # Errors
    /// The server is not an `a2a-v1` gateway, or it refuses the agent or the credential.
    pub async fn keep_connected<F>(
        &self,
        endpoint: &Endpoint,
        name: &str,
        on_event: &(impl Fn(&AgentEvent) + Send + Sync),
        shutdown: &CancellationToken,
        serve: impl Fn(ClientConnection) -> F,
    ) -> Result<(), ClientError>
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let options = ServeOptions {
            net: &*self.net,
            endpoint,
            name,
            env: &self.env,
        };
        keep_connected(options, on_event, shutdown, serve).await
    }

    /// Requests the health endpoint of a service. The address must be public, or be written as a loopback address.
    pub async fn health(&self, endpoint: Option<&str>) -> Health {
        let Some(url) = endpoint.and_then(|endpoint| Url::parse(endpoint).ok()) else {
            return Health::Unknown;
        };
        let allowed = match address_policy::for_url(&url, false, true) {
            Ok(allowed) => allowed,
            Err(error) => return Health::Unreachable(error.to_string()),
        };
        let response = self.net.exchange(Request {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            access: allowed,
            trust: None,
            repeatable: true,
            authorization: None,
        });
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

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

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
