//! Whether a request has begun to leave, for a caller that may give up on it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::Sent;

/// No client tracks the request.
const UNTRACKED: u8 = 0;
/// The request has not begun: its connection is not open yet.
const WAITING: u8 = 1;
/// Bytes of the request may have left.
const BEGUN: u8 = 2;
/// The caller has given up on a request that had not begun, which never will.
const REVOKED: u8 = 3;

/// The state of a [request](super::Request) with a body, or of a message over another connection. Its caller keeps a clone,
/// drops the exchange when its time is over, and asks [`revoke`](Self::revoke) whether the peer can have received anything.
#[derive(Clone, Debug, Default)]
pub struct SendState(Arc<AtomicU8>);

impl SendState {
    /// Prepares the state for another request, after the one before was answered.
    pub fn reset(&self) {
        self.0.store(UNTRACKED, Ordering::SeqCst);
    }

    /// Marks the request as waiting for its connection. A client that calls this calls [`begin`](Self::begin) before the first
    /// byte leaves.
    pub fn track(&self) {
        self.advance(UNTRACKED, WAITING);
    }

    /// Marks the request as begun. Returns `false` if it was revoked: then no byte of it may leave.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.advance(UNTRACKED, BEGUN);
        self.advance(WAITING, BEGUN);
        self.0.load(Ordering::SeqCst) == BEGUN
    }

    /// Revokes the request unless it has begun. Returns [`Sent::No`] if no byte has left and none will.
    #[must_use]
    pub fn revoke(&self) -> Sent {
        self.advance(WAITING, REVOKED);
        match self.0.load(Ordering::SeqCst) {
            REVOKED => Sent::No,
            _ => Sent::Unknown,
        }
    }

    fn advance(&self, from: u8, to: u8) {
        let _ = self
            .0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A body that marks its request as begun. The client reads a body once it has a connection, and before it writes the head.
pub(super) struct TrackedBody {
    bytes: Option<Bytes>,
    state: SendState,
}

impl TrackedBody {
    pub(super) fn new(bytes: Bytes, state: SendState) -> Self {
        Self {
            bytes: Some(bytes),
            state,
        }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.state.begin() {
            let error = io::Error::other("the caller has given up on the request");
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::IpAddr;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::sync::Notify;
    use url::Url;

    use super::*;
    use crate::proxy::{Proxies, ProxySettings};
    use crate::resolver::Lookup;
    use crate::testing::post;
    use crate::{BoxFuture, HttpClient as _, ReqwestClient};

    #[test]
    fn only_a_tracked_request_that_has_not_begun_is_certainly_unsent() {
        let state = SendState::default();
        assert_eq!(state.revoke(), Sent::Unknown);
        state.track();
        let waiting = state.clone();
        assert!(waiting.begin());
        state.track();
        assert_eq!(state.revoke(), Sent::Unknown);
        state.reset();
        state.track();
        assert_eq!(state.revoke(), Sent::No);
        assert!(!waiting.begin());
        assert_eq!(state.revoke(), Sent::No);
    }

    /// Sends a POST to `url` until `until`, and returns whether it may have left.
    async fn sent(client: ReqwestClient, url: &str, until: impl Future<Output = ()>) -> Sent {
        let state = SendState::default();
        let mut request = post(Url::parse(url).unwrap());
        request.send_state = Some(state.clone());
        tokio::select! {
            answer = client.exchange(request) => unreachable!("{answer:?}"),
            () = until => {}
        }
        state.revoke()
    }

    /// A server that reads `end` and answers nothing.
    struct SilentServer {
        listener: TcpListener,
        end: &'static str,
    }

    impl SilentServer {
        async fn new(end: &'static str) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            Self { listener, end }
        }

        fn url(&self, scheme: &str) -> String {
            format!("{scheme}://{}/", self.listener.local_addr().unwrap())
        }

        async fn read(&self) {
            let (mut socket, _) = self.listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(self.end.as_bytes()) || read.is_empty() {
                assert!(socket.read_buf(&mut read).await.unwrap() > 0);
            }
        }
    }

    #[tokio::test]
    async fn request_whose_tls_handshake_is_not_answered_is_unsent() {
        let server = SilentServer::new("").await;
        let client = ReqwestClient::new().unwrap();
        let sent = sent(client, &server.url("https"), server.read()).await;
        assert_eq!(sent, Sent::No);
    }

    #[tokio::test]
    async fn request_whose_tunnel_is_not_answered_is_unsent() {
        let proxy = SilentServer::new("\r\n\r\n").await;
        let settings = ProxySettings {
            all: Some(proxy.url("http")),
            ..ProxySettings::default()
        };
        let proxies = Proxies::new(&settings).unwrap();
        let client = ReqwestClient::new().unwrap().with_proxies(proxies);
        let sent = sent(client, "https://agent.example/", proxy.read()).await;
        assert_eq!(sent, Sent::No);
    }

    /// Resolves no name, and says when it was asked.
    #[derive(Clone, Default)]
    struct SilentLookup(Arc<Notify>);

    impl Lookup for SilentLookup {
        fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            self.0.notify_one();
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn request_whose_name_is_not_resolved_is_unsent() {
        let lookup = SilentLookup::default();
        let client = ReqwestClient::new().unwrap();
        let client = client.with_lookup(Arc::new(lookup.clone()));
        let sent = sent(client, "http://agent.example/", lookup.0.notified()).await;
        assert_eq!(sent, Sent::No);
    }

    #[tokio::test]
    async fn request_that_a_server_has_read_may_be_sent() {
        let server = SilentServer::new("{}").await;
        let client = ReqwestClient::new().unwrap();
        let sent = sent(client, &server.url("http"), server.read()).await;
        assert_eq!(sent, Sent::Unknown);
    }
}
