//! The client of a request, and the protocol version of the request.

pub use a2a::Version;

/// The name of every client if the server requires no token.
pub const ANONYMOUS_CLIENT: &str = "loopback";

/// The client, the protocol version and the agent of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// The name of the client, or [`ANONYMOUS_CLIENT`]. The client owns the tasks and contexts that the request
    /// creates.
    pub client: String,
    /// Whether the request carried a valid token.
    pub authenticated: bool,
    /// The protocol version of the request.
    pub version: Version,
    /// The agent in the path of the request, or the tenant in its body.
    pub agent: Option<String>,
}
