//! Frames of an open WebSocket.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::{Duplex, NetError, NetFault, Sent};

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// The size of the read buffer. Most frames are small.
const READ_BUFFER: usize = 16 * 1024;

/// The limit of the write buffer beyond the largest message, in bytes: for pongs that the server does not read.
const WRITE_BUFFER: usize = 256 * 1024;

/// The maximum size of a sent message, in bytes: the largest request, escaped.
const MAX_SENT_BYTES: usize = 24 << 20;

/// The timeout of writing a message. A server that reads nothing must not block other senders.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of pings and pongs within [`CONTROL_PERIOD`]. The client buffers a pong for each ping.
pub(super) const MAX_CONTROL_FRAMES: u32 = 256;
pub(super) const CONTROL_PERIOD: Duration = Duration::from_secs(10);

/// The close codes that the client sends (RFC 6455 §7.4.1).
const PROTOCOL: u16 = 1002;
const INVALID_PAYLOAD: u16 = 1007;
const POLICY: u16 = 1008;
const MESSAGE_TOO_BIG: u16 = 1009;

/// The maximum length of a reason in a close frame, in bytes (RFC 6455 §5.5).
const REASON: usize = 123;

/// An incoming frame.
#[derive(Debug)]
pub enum Frame {
    /// A text message.
    Text(String),
    /// A binary message; contains its length in bytes. The content is dropped.
    Binary(usize),
    /// A ping. The client has answered it.
    Ping,
    /// A pong.
    Pong,
    /// The server closed the connection. No frame follows.
    Closed {
        /// The close code, if any.
        code: Option<u16>,
        /// The reason text.
        reason: String,
    },
    /// The connection broke, or an invalid frame ended it. No frame follows.
    Broken(NetError),
}

/// The sending half. Sends whole frames: dropping the future leaves no partial frame.
#[derive(Clone)]
pub struct Sender(Arc<Mutex<SplitSink<Socket, Message>>>);

/// The receiving half.
pub struct Receiver {
    stream: SplitStream<Socket>,
    sender: Sender,
    frame_bytes: usize,
    control: ControlRate,
    over: bool,
}

/// Counts pings and pongs in periods.
pub(super) struct ControlRate {
    since: Instant,
    frames: u32,
}

impl ControlRate {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            frames: 0,
        }
    }

    /// Counts a frame, and returns whether it is within the limit.
    pub(super) fn admit(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.since) >= CONTROL_PERIOD {
            *self = Self {
                since: now,
                frames: 0,
            };
        }
        self.frames += 1;
        self.frames <= MAX_CONTROL_FRAMES
    }
}

/// Creates a client-side socket over an upgraded connection.
pub(super) async fn from_upgraded(
    stream: Box<dyn Duplex>,
    frame_bytes: usize,
) -> (Sender, Receiver) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_write_buffer_size(MAX_SENT_BYTES + WRITE_BUFFER)
        .max_message_size(Some(frame_bytes))
        .max_frame_size(Some(frame_bytes));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await;
    let (sink, stream) = socket.split();
    let sender = Sender(Arc::new(Mutex::new(sink)));
    let receiver = Receiver {
        stream,
        sender: sender.clone(),
        frame_bytes,
        control: ControlRate::new(),
        over: false,
    };
    (sender, receiver)
}

impl Sender {
    /// Sends a text message and resolves when the operating system has it.
    ///
    /// # Errors
    /// [`NetFault::Cut`] if the connection has ended. Whether bytes left is unknown unless the connection was closed
    /// before.
    pub async fn text(&self, text: String) -> Result<(), NetError> {
        self.send(Message::Text(text.into())).await
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// See [`text`](Self::text).
    pub async fn ping(&self) -> Result<(), NetError> {
        self.send(Message::Ping(bytes::Bytes::new())).await
    }

    /// Closes the sending direction. The server answers with [`Frame::Closed`].
    ///
    /// # Errors
    /// See [`text`](Self::text).
    pub async fn close(&self, code: u16, reason: &str) -> Result<(), NetError> {
        let end = reason.floor_char_boundary(REASON);
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: reason[..end].to_owned().into(),
        };
        self.send(Message::Close(Some(frame))).await
    }

    async fn send(&self, message: Message) -> Result<(), NetError> {
        let writing = async { self.0.lock().await.send(message).await };
        let sent = timeout(WRITE_TIMEOUT, writing).await.map_err(|_| {
            let message = format!(
                "the server has read nothing for {} seconds",
                WRITE_TIMEOUT.as_secs()
            );
            NetError::new(NetFault::Cut, Sent::Unknown, message)
        })?;
        sent.map_err(|error| match error {
            Error::WriteBufferFull(_) => {
                let message = format!(
                    "a message is larger than {MAX_SENT_BYTES} bytes, or the server reads nothing"
                );
                NetError::new(NetFault::Cut, Sent::No, message)
            }
            Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_) => {
                NetError::new(NetFault::Cut, Sent::No, "the connection has been closed")
            }
            other => cut(Sent::Unknown, &other),
        })
    }
}

impl Receiver {
    /// Returns the next frame. Repeats [`Frame::Closed`] and [`Frame::Broken`]. Dropping the future loses no frame.
    pub async fn next(&mut self) -> Frame {
        if self.over {
            return cut_frame();
        }
        let frame = loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Frame::Text(text.as_str().to_owned()),
                Some(Ok(Message::Binary(bytes))) => return Frame::Binary(bytes.len()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) if !self.control.admit() => {
                    break Frame::Broken(self.close_flood());
                }
                Some(Ok(Message::Ping(_))) => return Frame::Ping,
                Some(Ok(Message::Pong(_))) => return Frame::Pong,
                Some(Ok(Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    // Polling the stream sends the pong.
                    let _ = self.stream.next().now_or_never();
                    break Frame::Closed {
                        code: frame.as_ref().map(|frame| frame.code.into()),
                        reason: frame.map_or_else(String::new, |frame| frame.reason.to_string()),
                    };
                }
                Some(Err(error)) => break Frame::Broken(self.close_invalid(&error)),
                None => break cut_frame(),
            }
        };
        self.over = true;
        frame
    }

    /// Ends the connection because of an invalid frame, and reports the reason to both sides.
    fn close_invalid(&self, error: &Error) -> NetError {
        let (code, fault, message) = match error {
            Error::Capacity(_) => (
                MESSAGE_TOO_BIG,
                NetFault::TooLarge,
                format!("a message is larger than {} bytes", self.frame_bytes),
            ),
            Error::Utf8(_) => (
                INVALID_PAYLOAD,
                NetFault::Protocol,
                "a text message is not UTF-8".to_owned(),
            ),
            Error::Protocol(violation) => match violation {
                // A connection that ends without a close frame was lost.
                tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake => {
                    return cut(Sent::Unknown, error);
                }
                violation => (
                    PROTOCOL,
                    NetFault::Protocol,
                    format!("received an invalid WebSocket frame: {violation}"),
                ),
            },
            other => return cut(Sent::Unknown, other),
        };
        self.close_now(code);
        NetError::new(fault, Sent::Unknown, message)
    }

    /// Ends the connection to a server that sends too many control frames.
    fn close_flood(&self) -> NetError {
        self.close_now(POLICY);
        let message = format!(
            "the server sent more than {MAX_CONTROL_FRAMES} pings and pongs within {} seconds",
            CONTROL_PERIOD.as_secs()
        );
        NetError::new(NetFault::Protocol, Sent::Unknown, message)
    }

    /// Best effort: a sender may hold the lock, or the socket may accept no more bytes. A flood has used up the budget
    /// of the task, which must not delay the close frame.
    fn close_now(&self, code: u16) {
        let _ = tokio::task::unconstrained(self.sender.close(code, "")).now_or_never();
    }
}

fn cut_frame() -> Frame {
    Frame::Broken(NetError::new(
        NetFault::Cut,
        Sent::Unknown,
        "the connection has ended",
    ))
}

fn cut(sent: Sent, error: &Error) -> NetError {
    let reason = match error {
        Error::Io(io) => io.to_string(),
        _ => "the server closed the connection without a close frame".to_owned(),
    };
    NetError::new(
        NetFault::Cut,
        sent,
        format!("the connection broke off: {reason}"),
    )
}

base::debug_fields!(self: Sender {});

base::debug_fields!(self: Receiver { over });
