//! Who somebody is.

use std::time::SystemTime;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of its key, certificate or token; `anonymous` where nobody is asked.
    pub name: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// The agent that it is, where its credential says so.
    pub agent: Option<String>,
}

/// Who has shown a credential, and for how long it is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Who it is.
    pub identity: Identity,
    /// When the credential is no longer good; never where it says no end.
    pub until: Option<SystemTime>,
}

impl From<Identity> for Known {
    /// Somebody without a credential that could end.
    fn from(identity: Identity) -> Self {
        Self {
            identity,
            until: None,
        }
    }
}
