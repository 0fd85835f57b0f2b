//! Clients of an `a2a-v1` gateway: a scripted agent, a requester, a watcher, and the connection of agents with a backend.
//!
//! The clients support no other dialect. Their error names the dialect of a gateway that speaks another one.

mod agent;
mod connection;
mod connector;
mod error;
mod event;
mod operations;
mod reconnect;
mod requester;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use egress::credential::Trust;

pub use agent::{Ballot, Script, message_text};
pub use connection::{ClientConnection, MessageSender, Welcome};
pub use connector::{Connector, Health};
pub use error::{ClientError, ClientErrorKind};
pub use event::AgentEvent;
pub use operations::{Message, Reply};
pub use reconnect::jittered;
pub use requester::Requester;
pub use watch::Observation;

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
        }
    }

    /// Returns the URL without user info, query and fragment, which may contain credentials.
    fn redacted_url(&self) -> String {
        let mut url = self.url.clone();
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url.to_string().trim_end_matches('/').to_owned()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.redacted_url())
            .field("token", &self.token.is_some())
            .field("allow_remote", &self.allow_remote)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
