//! A gateway for tests: WebSockets over in-memory pipes. The test controls the gateway's end.
#![allow(
    missing_docs,
    clippy::new_without_default,
    reason = "used only in tests"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use egress::websocket::accept;
use egress::{BoxFuture, HttpClient, NetError, NetFault, Request, Response, Sent, Upgrade};

/// The result of a dial that does not connect.
#[derive(Clone)]
pub enum DialAnswer {
    /// An HTTP status and an optional media type.
    Status(u16, Option<&'static str>),
    /// An upgrade with this additional header.
    With(&'static str, &'static str),
    /// A network failure.
    Fails(NetFault),
    /// No response.
    Silence,
}

/// A network with one gateway.
#[derive(Clone)]
pub struct ScriptedNet {
    dial_answers: Arc<Mutex<VecDeque<DialAnswer>>>,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: mpsc::UnboundedSender<Connection>,
    flushes: Flushes,
}

/// Receives the connections of a [`ScriptedNet`].
pub struct Arrivals(mpsc::UnboundedReceiver<Connection>);

/// The gateway's end of a connection.
pub struct Connection(WebSocketStream<DuplexStream>);

/// The error of a connection that the client has closed.
#[derive(Debug)]
pub struct Closed;

/// Returns a network and the receiver of its connections.
pub fn network() -> (ScriptedNet, Arrivals) {
    let (connections, arrivals) = mpsc::unbounded_channel();
    let net = ScriptedNet {
        dial_answers: Arc::default(),
        requests: Arc::default(),
        connections,
        flushes: Flushes::default(),
    };
    (net, Arrivals(arrivals))
}

impl ScriptedNet {
    /// Queues the answers to the next dials. Later dials succeed again.
    ///
    /// # Panics
    /// A test panicked while it held the lock.
    pub fn queue_answers(&self, answers: impl IntoIterator<Item = DialAnswer>) {
        self.dial_answers.lock().unwrap().extend(answers);
    }

    /// Delays the end of flushes until `blocked` is false again. Frames still arrive.
    pub fn block_flushes(&self, blocked: bool) {
        self.flushes.blocked.store(blocked, Ordering::SeqCst);
        self.flushes.waker.wake();
    }

    /// Returns the requests so far.
    ///
    /// # Panics
    /// A test panicked while it held the lock.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Arrivals {
    /// Returns the next connection.
    ///
    /// # Panics
    /// The network was dropped.
    pub async fn next(&mut self) -> Connection {
        self.0.recv().await.expect("a network")
    }
}

impl Connection {
    /// Returns the next text of the client as JSON, and skips pings.
    ///
    /// # Panics
    /// The connection ended, or the text is not JSON.
    pub async fn recv(&mut self) -> Value {
        let text = self.recv_text().await.expect("a message, not the end");
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the next text; `None` at the end of the connection.
    pub async fn recv_text(&mut self) -> Option<String> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// Returns the close code of the client, and skips earlier messages.
    pub async fn recv_close(&mut self) -> Option<u16> {
        while let Some(Ok(message)) = self.0.next().await {
            if let Message::Close(frame) = message {
                return frame.map(|frame| frame.code.into());
            }
        }
        None
    }

    /// Sends a message.
    pub async fn send(&mut self, value: Value) {
        self.send_text(&value.to_string()).await;
    }

    /// Sends a text, which need not be valid JSON.
    ///
    /// # Panics
    /// The connection is closed.
    pub async fn send_text(&mut self, text: &str) {
        self.try_send_text(text).await.unwrap();
    }

    /// Sends a message to a client that may have disconnected.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn try_send(&mut self, value: &Value) -> Result<(), Closed> {
        self.try_send_text(&value.to_string()).await
    }

    /// Sends a text, which need not be valid JSON, to a client that may have disconnected.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn try_send_text(&mut self, text: &str) -> Result<(), Closed> {
        self.0.send(Message::text(text)).await.map_err(|_| Closed)
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// The connection is closed.
    pub async fn send_bytes(&mut self, bytes: &'static [u8]) {
        self.0.send(Message::binary(bytes)).await.unwrap();
    }

    /// Closes the connection.
    ///
    /// # Panics
    /// The connection is already closed.
    pub async fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.to_owned().into(),
        };
        self.0.send(Message::Close(Some(frame))).await.unwrap();
    }
}

/// Delays flushes while `block_flushes` is active.
#[derive(Clone, Default)]
struct Flushes {
    blocked: Arc<AtomicBool>,
    waker: Arc<AtomicWaker>,
}

/// The client's end of a connection.
struct BlockablePipe(DuplexStream, Flushes);

impl AsyncRead for BlockablePipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for BlockablePipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.1.waker.register(cx.waker());
        if self.1.blocked.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl HttpClient for ScriptedNet {
    fn exchange(&self, _request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        panic!("a gateway is not requests in HTTP")
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'static, Result<Upgrade, NetError>> {
        let key = request.headers[SEC_WEBSOCKET_KEY].to_str().unwrap();
        let accept = accept(key);
        self.requests.lock().unwrap().push(request);
        let scripted = self.dial_answers.lock().unwrap().pop_front();
        let connections = self.connections.clone();
        let flushes = self.flushes.clone();
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept.try_into().unwrap());
            let mut answer = Upgrade {
                status: StatusCode::SWITCHING_PROTOCOLS,
                headers,
                stream: None,
                body: Box::pin(futures_util::stream::empty()),
            };
            match scripted {
                Some(DialAnswer::Silence) => std::future::pending().await,
                Some(DialAnswer::Fails(fault)) => {
                    return Err(NetError::new(fault, Sent::No, "it fails"));
                }
                Some(DialAnswer::Status(status, media_type)) => {
                    answer.status = StatusCode::from_u16(status).unwrap();
                    let media_type = media_type.map(HeaderValue::from_static);
                    answer
                        .headers
                        .extend(media_type.map(|value| (CONTENT_TYPE, value)));
                    return Ok(answer);
                }
                Some(DialAnswer::With(name, value)) => {
                    let name = HeaderName::from_static(name);
                    answer.headers.insert(name, HeaderValue::from_static(value));
                }
                None => {}
            }
            let (client, server) = tokio::io::duplex(4 * 1024 * 1024);
            answer.stream = Some(Box::new(BlockablePipe(client, flushes)));
            let socket = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
            // A test that ignores its connections has dropped the receiver.
            let _ = connections.send(Connection(socket));
            Ok(answer)
        })
    }
}

/// An environment whose clocks follow tokio's clock, so that a paused test advances all three.
pub struct TestEnvironment {
    began: tokio::time::Instant,
    now: std::time::Instant,
}

/// The start time of tests, in milliseconds since 1970.
pub const START_UNIX_MILLIS: u64 = 1_800_000_000_000;

impl TestEnvironment {
    pub fn new() -> Self {
        Self {
            began: tokio::time::Instant::now(),
            now: std::time::Instant::now(),
        }
    }
}

impl base::environment::Clock for TestEnvironment {
    fn now(&self) -> std::time::Instant {
        self.now + self.began.elapsed()
    }

    fn system_time(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH
            + std::time::Duration::from_millis(START_UNIX_MILLIS)
            + self.began.elapsed()
    }
}

impl base::environment::IdGenerator for TestEnvironment {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}
