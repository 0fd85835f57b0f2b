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
    /// Whether the client is an agent that the gateway itself runs. Without any role, such a client may serve its name, read
    /// its workspace, send, vote and subscribe. It may do nothing else, and the permissions of the agent may restrict it
    /// further.
    pub is_local: bool,
}

impl Identity {
    /// Returns the name by which its shares are counted. An agent of the gateway itself is never a client of the same name.
    pub fn share_key(&self) -> String {
        match self.is_local {
            true => format!("local:{}", self.name),
            false => self.name.clone(),
        }
    }
}

/// The identity of a valid credential, and the expiry of the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The identity.
    pub identity: Identity,
    /// The expiry; `None` means that the credential does not expire.
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
