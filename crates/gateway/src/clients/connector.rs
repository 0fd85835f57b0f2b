//! What connects clients to gateways: sockets, time and randomness in one hand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{AgentEvent, ClientError, ClientErrorKind, Endpoint, Requester, Script, agent};
use common::environment::{Environment, SystemEnvironment};
use egress::{HttpClient, Net, Request, access};

/// How long a service has to say how it is.
const HEALTH: Duration = Duration::from_secs(5);

/// What connects clients to gateways.
#[derive(Clone)]
pub struct Connector {
    net: Arc<dyn Net>,
    env: Arc<dyn Environment>,
}

/// How a service says it is (000 §6.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It answers with success.
    Well,
    /// It answers with this status.
    Ill(u16),
    /// It does not answer. ClientErrorKind, as a sentence.
    Away(String),
    /// It has no endpoint that tells.
    Unknown,
}

impl Connector {
    /// With this machine's sockets, time and randomness.
    ///
    /// # Errors
    /// The system gives no TLS.
    pub fn new() -> Result<Self, ClientError> {
        let http = HttpClient::new();
        let http = http
            .map_err(|error| ClientError::new(ClientErrorKind::Unreachable, error.to_string()))?;
        Ok(Self::over(Arc::new(http), Arc::new(SystemEnvironment)))
    }

    /// With these.
    pub(super) fn over(net: Arc<dyn Net>, env: Arc<dyn Environment>) -> Self {
        Self { net, env }
    }

    /// One who asks the gateway.
    ///
    /// # Errors
    /// Nobody can be reached, something else answers, or the gateway does not take us.
    pub async fn ask(&self, door: Endpoint) -> Result<Requester, ClientError> {
        Requester::connect(&*self.net, door, Arc::clone(&self.env)).await
    }

    /// Serves a name until `shutdown`, or until the gateway sends the agent away. Connects again when the connection is lost; that is told, not
    /// given back.
    ///
    /// # Errors
    /// Something else answers there, or the gateway does not take the agent.
    pub async fn serve(
        &self,
        door: Endpoint,
        script: Script,
        tell: impl Fn(&AgentEvent) + Send + Sync,
        shutdown: CancellationToken,
    ) -> Result<(), ClientError> {
        let (net, env) = (Arc::clone(&self.net), Arc::clone(&self.env));
        agent::serve(net, door, script, env, tell, shutdown).await
    }

    /// Asks a service how it is, at the address that its gateway names. Such an address is held to what is public, or written as this machine's.
    pub async fn health(&self, endpoint: Option<&str>) -> Health {
        let Some(url) = endpoint.and_then(|endpoint| Url::parse(endpoint).ok()) else {
            return Health::Unknown;
        };
        let allowed = match access::allowed(&url, false, true) {
            Ok(allowed) => allowed,
            Err(error) => return Health::Away(error.to_string()),
        };
        let asked = self.net.exchange(Request {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            access: allowed,
            trust: None,
            repeatable: true,
            authorization: None,
        });
        match tokio::time::timeout(HEALTH, asked).await {
            Ok(Ok(response)) if response.status.is_success() => Health::Well,
            Ok(Ok(response)) => Health::Ill(response.status.as_u16()),
            Ok(Err(error)) => Health::Away(error.to_string()),
            Err(_) => Health::Away(format!("no answer within {} s", HEALTH.as_secs())),
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
            Self::Well => f.write_str("well"),
            Self::Ill(status) => write!(f, "ill: HTTP {status}"),
            Self::Away(why) => write!(f, "away: {why}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
