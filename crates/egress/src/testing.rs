//! A network for tests that answers from a list and records its requests, and requests of tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use super::{AddressPolicy, BoxFuture, HttpClient, NetError, NetFault, Request, Response, Sent};

/// The response to the next request.
pub(super) enum Next {
    /// A status, an optional header, and a body.
    Answer(u16, Option<(&'static str, String)>, String),
    /// A failure.
    Fails(NetFault),
    /// No response.
    Silence,
}

impl Next {
    pub(super) fn status(status: u16) -> Self {
        Self::Answer(status, None, String::new())
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::Answer(status, None, body.to_string())
    }
}

#[derive(Clone, Default)]
pub(super) struct Scripted(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    next: VecDeque<Next>,
    requests: Vec<(Instant, Request)>,
}

impl Scripted {
    pub(super) fn new(next: impl IntoIterator<Item = Next>) -> Self {
        let next = next.into_iter().collect();
        Self(Arc::new(Mutex::new(State {
            next,
            requests: Vec::new(),
        })))
    }

    /// Returns the requests so far, with their times.
    pub(super) fn requests(&self) -> Vec<(Instant, Request)> {
        self.0.lock().unwrap().requests.clone()
    }

    /// This header of each request so far.
    pub(super) fn headers(&self, name: &str) -> Vec<String> {
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let requests = self.requests();
        let values = requests
            .iter()
            .map(|(_, request)| request.headers.get(name).map(text));
        values.map(Option::unwrap_or_default).collect()
    }
}

impl HttpClient for Scripted {
    fn detached(&self) -> Option<Arc<dyn HttpClient>> {
        Some(Arc::new(self.clone()))
    }

    fn exchange(&self, request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        let mut state = self.0.lock().unwrap();
        state.requests.push((Instant::now(), request));
        let next = state.next.pop_front().expect("one more answer");
        Box::pin(async move {
            // Like a real network, it never answers at once.
            tokio::task::yield_now().await;
            let (status, header, body) = match next {
                Next::Answer(status, header, body) => (status, header, body),
                Next::Fails(fault) => return Err(NetError::new(fault, Sent::No, "it fails")),
                Next::Silence => std::future::pending().await,
            };
            let header = header.map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::try_from(value).unwrap(),
                )
            });
            Ok(Response {
                status: StatusCode::from_u16(status).unwrap(),
                headers: HeaderMap::from_iter(header),
                body: Box::pin(stream::iter([Ok(Bytes::from(body))])),
            })
        })
    }
}

#[track_caller]
pub(crate) fn assert_fault(error: &NetError, fault: NetFault, sent: Sent) {
    assert_eq!((error.fault(), error.sent()), (fault, sent), "{error}");
}

/// Returns the settings of a TLS server with a certificate for `name`, and the certificate as PEM.
pub(crate) fn tls_server(name: &str) -> (rustls::ServerConfig, String) {
    let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    (config, certified.cert.pem())
}

/// Returns an empty request.
pub(super) fn request(url: &str) -> Request {
    Request {
        method: Method::POST,
        access: AddressPolicy::Public,
        ..get(Url::parse(url).unwrap())
    }
}

/// Returns a GET without headers, to any address.
pub(crate) fn get(url: Url) -> Request {
    Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: None,
        access: AddressPolicy::AnyAddress,
        trust: None,
        repeatable: false,
        authorization: None,
        send_state: None,
    }
}

/// Returns a POST of `{}`, to any address.
pub(crate) fn post(url: Url) -> Request {
    Request {
        method: Method::POST,
        body: Some("{}".into()),
        ..get(url)
    }
}
