//! Who asks, as far as HTTP tells.

use std::net::SocketAddr;

use http::request::Parts;

use a2a::A2aError;

/// Says whose a request is, before its body is read.
pub trait Identify: Send + Sync + 'static {
    /// The client's name, and whether it has shown a credential.
    ///
    /// # Errors
    /// It has to show one, has shown one that is not known, or has asked too often.
    fn identify(&self, parts: &Parts, remote: SocketAddr) -> Result<(String, bool), A2aError>;

    /// Whether a bearer token is asked for. The card says so.
    fn schemes(&self) -> bool;
}
