//! What the HTTP servers of this workspace share. Both put an axum router behind [`serve`](mod@serve).
//!
//! - [`serve`](mod@serve) accepts connections: limits, TLS handshake, time for the head of a request, drain at the end.
//!   [`connection_limit`] counts them, `write_timeout` ends those whose client does not read, [`tls`] loads the certificate.
//! - [`host`] checks `Host` and `Origin`, [`forwarded`] reads what trusted proxies say of the client.
//! - [`request_limit`] bounds requests: [`rate_limit`] their number, [`byte_budget`] the bytes of their bodies and of responses
//!   that the client has not read.
//!
//! tower-http's layers for body size and timeouts do not fit: they answer in plain text, where clients of A2A need an error
//! of their protocol, and they count each request alone, where the room of all requests of a client has to be bounded.

#![forbid(unsafe_code)]

pub mod byte_budget;
pub mod connection_limit;
pub mod forwarded;
mod guarded_body;
pub mod host;
pub mod rate_limit;
pub mod request_limit;
pub mod serve;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod tls;
mod write_timeout;

pub use serve::serve;
