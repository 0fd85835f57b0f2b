//! The client behind a request, and the version that the request is written in.

pub use a2a::Version;

/// The name of every client if the server requires no token.
pub const ANONYMOUS_CLIENT: &str = "loopback";

/// The client, version and agent of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// The client's name, or [`ANONYMOUS_CLIENT`]. It owns the tasks and contexts that the request creates.
    pub client: String,
    /// Whether the request carried a valid token.
    pub authenticated: bool,
    /// The version of the request.
    pub version: Version,
    /// The agent that the path names, or the tenant in the body.
    pub agent: Option<String>,
}
