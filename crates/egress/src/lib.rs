//! Outgoing connections. The plugin and the servers open every socket to another host through this crate,
//! except that of the Redis store.
//!
//! Other crates use the trait [`HttpClient`], which sends a request and returns status, headers and a stream of bytes.
//! [`ReqwestClient`] implements it with reqwest and guarantees:
//!
//! * It sends a request once. Only [repeatable](Request::repeatable) requests after [`ReqwestClient::with_retries`], and
//!   requests whose credential can be renewed and was refused (OAuth 2, a program, AWS keys), are sent again.
//!   [`NetError::sent`] says whether the peer may have received bytes, and [`SendState`] does where the caller gives up first.
//! * It follows no redirect ([`redirect`] does within one origin), uses no proxy unless one is given, and stores no cookie.
//! * It connects only to the addresses that it has checked, see [`AddressPolicy`].
//! * No error and no `Debug` output shows the value of a header, a body, or the user info or query of a URL.
//!
//! The caller bounds the time: dropping a future or a stream closes its connection.
//!
//! `http.rs` opens connections, and `resolver.rs` and `address.rs` check addresses. `auth.rs` adds the credential, which
//! `credential/` keeps (`tokens.rs` for this process, `token_file.rs` with the lock that all processes share) and
//! `oauth2.rs` and `oauth2/` fetch and renew. `sse.rs` reads events, and `websocket/` has the other transport.
//!
//! # Examples
//!
//! ```no_run
//! use openclaw_remote_agent_egress::{AddressPolicy, ReqwestClient, HttpClient, Request};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "https://agent.example/.well-known/agent-card.json".parse()?;
//! let request = Request::get(url, AddressPolicy::Public);
//! let response = ReqwestClient::new()?.exchange(request).await?;
//! assert!(response.status.is_success());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod auth;
pub mod body;
pub mod credential;
mod error;
mod event_lines;
pub mod http;
mod http_error;
mod oauth2;
pub mod proxy;
#[cfg(test)]
mod rebinding_tests;
pub mod redirect;
pub mod resolver;
pub mod retry;
mod send_state;
pub mod sse;
#[cfg(test)]
mod testing;
mod tls;
pub mod websocket;

use std::pin::Pin;
use std::sync::Arc;

use ::http::{HeaderMap, Method, StatusCode};
use bytes::Bytes;
use futures_util::Stream;
use url::Url;

use crate::credential::Trust;

pub use address::AddressPolicy;
pub use auth::Authorization;
pub use error::{NetError, NetFault, Sent, stated_reason, status_text};
pub use http::ReqwestClient;
pub use http::{Duplex, Upgrade};
pub use oauth2::sign_in;
pub use send_state::SendState;

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The bytes of a response body as they arrive. Nothing follows the first error.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, NetError>> + Send + Sync>>;

/// Sends requests over the network. [`ReqwestClient`] is the real implementation; a simulation can replace it.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends `request` and resolves when the head of the response has arrived.
    ///
    /// # Errors
    /// There is no response: the host was not found, refused or not allowed, TLS failed, or the connection broke.
    /// A response with an error status is not an error.
    fn exchange(&self, request: Request) -> BoxFuture<'_, Result<Response, NetError>>;

    /// Returns the same client for work that goes on after its caller has ended; `None` if such work ends with it.
    fn detached(&self) -> Option<Arc<dyn HttpClient>> {
        None
    }

    /// Sends `request` once, in HTTP/1.1 on a separate connection, and returns the connection if the status is 101
    /// (RFC 9110 §7.8). The schemes `ws` and `wss` are allowed too.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange). Another status is not an error.
    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, NetError>> {
        Box::pin(std::future::ready(Err(http::unsupported(&request))))
    }
}

/// A request with its whole body.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL, `http` or `https`. User info is never sent; credentials are headers.
    pub url: Url,
    /// Headers beside those of HTTP itself (`host`, `content-length`).
    pub headers: HeaderMap,
    /// The body, if there is one.
    pub body: Option<Bytes>,
    /// The addresses that may be connected.
    pub access: AddressPolicy,
    /// The TLS trust, if it differs from that of the system.
    pub trust: Option<Arc<Trust>>,
    /// Whether the request is idempotent, so that it may be sent again ([`retry`]).
    pub repeatable: bool,
    /// The credential. The client adds it below everything that prints a request. [`HttpClient::upgrade`] ignores it: the
    /// protocol of an upgraded connection authenticates by itself.
    pub authorization: Option<Authorization>,
    /// Tells the caller whether the body has begun to leave. A client that does not support it leaves it untouched.
    pub send_state: Option<SendState>,
}

base::debug_fields!(self: Request {
    method, origin = error::place(&self.url), headers = names(&self.headers),
    body_bytes = self.body.as_ref().map(Bytes::len), access, trust, repeatable,
});

impl Request {
    /// Returns a request without headers and credential, which may be sent again.
    #[must_use]
    pub fn get(url: Url, access: AddressPolicy) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            access,
            trust: None,
            repeatable: true,
            authorization: None,
            send_state: None,
        }
    }

    /// Returns a request that sends `body`, once.
    #[must_use]
    pub fn post(url: Url, access: AddressPolicy, body: Bytes) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            repeatable: false,
            ..Self::get(url, access)
        }
    }
}

/// The head of a response and its body still to be read.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body. Dropping it before its end closes the connection.
    pub body: ByteStream,
}

base::debug_fields!(self: Response { status, headers = names(&self.headers) });

fn names(headers: &HeaderMap) -> Vec<&str> {
    headers.keys().map(::http::HeaderName::as_str).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn debug_of_request_hides_secrets() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer s3cret".parse().unwrap());
        let request = Request {
            method: Method::POST,
            url: Url::parse("https://me:s3cret@example.com/s3cret?key=s3cret#s3cret").unwrap(),
            headers,
            body: Some(Bytes::from_static(b"s3cret")),
            access: AddressPolicy::Public,
            trust: None,
            repeatable: false,
            authorization: None,
            send_state: None,
        };
        let printed = format!("{request:?}");
        assert!(!printed.contains("s3cret"), "{printed}");
        assert!(
            printed.contains("https://example.com") && printed.contains("authorization"),
            "{printed}"
        );
    }

    #[test]
    fn debug_of_response_hides_header_values() {
        let mut headers = HeaderMap::new();
        headers.insert("set-cookie", "s3cret".parse().unwrap());
        let response = Response {
            status: StatusCode::OK,
            headers,
            body: Box::pin(futures_util::stream::empty()),
        };
        let printed = format!("{response:?}");
        assert!(
            !printed.contains("s3cret") && printed.contains("set-cookie"),
            "{printed}"
        );
    }

    /// Some dependencies print headers and bodies through `log`; the feature in `Cargo.toml` compiles those lines out.
    #[test]
    fn log_lines_of_dependencies_are_compiled_out() {
        assert_eq!(log::STATIC_MAX_LEVEL, log::LevelFilter::Off);
    }
}
