//! Identities of clients.

use std::time::SystemTime;

/// The identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of its key, certificate or token; `anonymous` without authentication.
    pub name: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// The agent that its credential names.
    pub agent: Option<String>,
    /// Whether the client is an agent that the gateway itself runs. It needs no role to serve its name, read
    /// its workspace, send, vote and subscribe, and may do nothing else; the permissions of the agent restrict it further.
    pub is_local: bool,
}

/// The identity of a valid credential, with its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The identity.
    pub identity: Identity,
    /// The end of its validity; `None` means never.
    pub expires_at: Option<SystemTime>,
}

impl From<Identity> for Authenticated {
    /// Returns an identity that does not expire.
    fn from(identity: Identity) -> Self {
        Self {
            identity,
            expires_at: None,
        }
    }
}
