//! Who asks.

use serde::{Deserialize, Serialize};

/// The name that every caller has where nobody has to say who he is.
pub const ANYBODY: &str = "loopback";

/// A version of A2A, as a request is written in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Version {
    /// 0.3.
    #[serde(rename = "0.3")]
    V0_3,
    /// 1.0.
    #[serde(rename = "1.0")]
    V1,
}

/// Who asks, and how. It is known before the request is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The peer's name, from its credential; [`ANYBODY`] where none is asked for. Every task and context has one owner.
    pub peer: String,
    /// Whether the peer has shown a credential.
    pub authenticated: bool,
    /// What the request is written in.
    pub version: Version,
    /// The agent that the path names, if any.
    pub agent: Option<String>,
}
