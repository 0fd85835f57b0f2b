//! The HTTP server that the servers of this workspace share: [`serve`](mod@serve) serves an axum router.
//!
//! - [`serve`](mod@serve) accepts connections, with limits, TLS handshakes, timeouts of request heads, and a drain at
//!   shutdown, and closes those whose client does not read. [`connection_limit`] limits the connections, and [`tls`] loads
//!   the certificate.
//! - [`host`] checks `Host` and `Origin`, and reads the headers of trusted proxies.
//! - [`request_limit`] limits requests: [`rate_limit`] their rate, and budgets of each client their concurrency and
//!   the bytes of their bodies and of unread responses.
//! - [`auth_limit`] limits how fast an address can guess credentials.
//! - [`content`] reads what the headers say about a body.
//! - [`operator_html`] builds the pages for the operator of a server.
//!
//! tower-http's layers for body size and timeouts do not fit. They respond in plain text, while clients of A2A need an
//! error of their protocol. They also limit each request separately, while a server has to limit all requests of a
//! client together.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::{Router, routing::get};
//! use http_server::serve::ConnectionConfig;
//! use tokio::net::TcpListener;
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let app = Router::new().route("/healthz", get(|| async { "ok" }));
//! let config = ConnectionConfig {
//!     drain_timeout: Duration::from_secs(5),
//!     ..ConnectionConfig::default()
//! };
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let stop = CancellationToken::new();
//! # stop.cancel();
//! http_server::serve(listener, None, app, config, stop, |warning| eprintln!("{warning}")).await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod auth_limit;
pub mod connection_limit;
pub mod content;
mod guarded_body;
pub mod host;
pub mod operator_html;
pub mod rate_limit;
pub mod request_limit;
pub mod serve;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod tls;

pub use serve::serve;
