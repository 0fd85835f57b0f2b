//! The client behind a request, and the version that the request is written in.

use serde::{Deserialize, Serialize};

/// The name of every client where the server requires no token.
pub const ANONYMOUS_CLIENT: &str = "loopback";

/// The version of A2A that a request is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Version {
    /// 0.3.
    #[serde(rename = "0.3")]
    V0_3,
    /// 1.0.
    #[serde(rename = "1.0")]
    V1,
}

/// The client behind a request, known before the body is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The client's name, or [`ANONYMOUS_CLIENT`]. It owns the tasks and contexts that the request creates.
    pub client: String,
    /// Whether the request carried a valid token.
    pub authenticated: bool,
    /// The version of the request.
    pub version: Version,
    /// The agent that the path names.
    pub agent: Option<String>,
}
