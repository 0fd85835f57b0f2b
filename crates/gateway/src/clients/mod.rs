//! Clients of an `a2a-v1` gateway beside the bridge: an agent that answers and votes as it is told, and one that asks on behalf of people.
//!
//! `line.rs` connects, says who is there and carries envelopes; `agent.rs` serves a name and comes back when the connection is lost; `asker.rs`
//! asks one thing after another. They speak no other dialect, and say so where they meet one.

mod agent;
mod asker;
mod connector;
mod error;
mod line;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use egress::credential::Trust;

pub use agent::{AgentEvent, Ballot, Script};
pub use asker::Requester;
pub use connector::{Connector, Health};
pub use error::{ClientError, ClientErrorKind};
pub use line::Welcome;

/// Where the gateway is, and what proves who we are.
#[derive(Clone)]
pub struct Endpoint {
    /// Its address, `ws` or `wss`.
    pub url: Url,
    /// The API key or JWT.
    pub token: Option<SecretString>,
    /// How the connection is secured, where not as the system does it.
    pub trust: Option<Arc<Trust>>,
    /// An address that is not loopback will do, with `wss`.
    pub allow_remote: bool,
    /// How long connecting, and each answer, may take.
    pub timeout: Duration,
}

impl Endpoint {
    /// How long connecting, and each answer, may take where nobody says.
    pub const PATIENCE: Duration = Duration::from_secs(5);

    /// A gateway on this machine that wants no credential.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            token: None,
            trust: None,
            allow_remote: false,
            timeout: Self::PATIENCE,
        }
    }

    /// The address without what may hold a credential.
    fn shown(&self) -> String {
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
            .field("url", &self.shown())
            .field("token", &self.token.is_some())
            .field("allow_remote", &self.allow_remote)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
