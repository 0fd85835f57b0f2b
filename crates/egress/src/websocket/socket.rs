//! Frames over a connection that has become a WebSocket.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::sync::Mutex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::{Duplex, NetError, NetFault, Sent};

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// One connection for each instance, and most frames are small.
const READ_BUFFER: usize = 16 * 1024;

/// The close codes that say why we end a connection (RFC 6455 §7.4.1).
const PROTOCOL: u16 = 1002;
const INVALID_PAYLOAD: u16 = 1007;
const MESSAGE_TOO_BIG: u16 = 1009;

/// The most of a reason that fits a close frame, in bytes (RFC 6455 §5.5).
const REASON: usize = 123;

/// An incoming frame.
#[derive(Debug)]
pub enum Frame {
    /// A text message.
    Text(String),
    /// A binary message of so many bytes, which are dropped.
    Binary(usize),
    /// The other side asks whether we are there; it is answered.
    Ping,
    /// The other side is there.
    Pong,
    /// The other side closed the connection. Nothing follows.
    Closed {
        /// Its close code, where it sent one.
        code: Option<u16>,
        /// The reason text.
        reason: String,
    },
    /// The connection broke, or was ended for what came. Nothing follows.
    Broken(NetError),
}

/// The half that sends. Whatever is sent goes out whole: a future that is dropped leaves no half frame behind.
#[derive(Clone)]
pub struct Sender(Arc<Mutex<SplitSink<Socket, Message>>>);

/// The half that receives.
pub struct Receiver {
    stream: SplitStream<Socket>,
    sender: Sender,
    frame_bytes: usize,
    over: bool,
}

/// Returns a socket over a connection that was upgraded, at the client's end.
pub(super) async fn over(stream: Box<dyn Duplex>, frame_bytes: usize) -> (Sender, Receiver) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(frame_bytes))
        .max_frame_size(Some(frame_bytes));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await;
    let (sink, stream) = socket.split();
    let sender = Sender(Arc::new(Mutex::new(sink)));
    let receiver = Receiver {
        stream,
        sender: sender.clone(),
        frame_bytes,
        over: false,
    };
    (sender, receiver)
}

impl Sender {
    /// Sends a text message and resolves when it has been handed to the system.
    ///
    /// # Errors
    /// [`NetFault::Cut`] where the connection is no more. Whether any of the message left is unknown unless the connection
    /// had been closed before.
    pub async fn text(&self, text: String) -> Result<(), NetError> {
        self.send(Message::Text(text.into())).await
    }

    /// Asks the other side whether it is there.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub async fn ping(&self) -> Result<(), NetError> {
        self.send(Message::Ping(bytes::Bytes::new())).await
    }

    /// Says that nothing more will come. The other side answers with [`Frame::Closed`].
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub async fn close(&self, code: u16, reason: &str) -> Result<(), NetError> {
        let mut end = reason.len().min(REASON);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: reason[..end].to_owned().into(),
        };
        self.send(Message::Close(Some(frame))).await
    }

    async fn send(&self, message: Message) -> Result<(), NetError> {
        let sent = self.0.lock().await.send(message).await;
        sent.map_err(|error| match error {
            Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_) => {
                NetError::new(NetFault::Cut, Sent::No, "the connection has been closed")
            }
            other => cut(Sent::Unknown, &other),
        })
    }
}

impl Receiver {
    /// Returns the next thing that comes in. After [`Frame::Closed`] and [`Frame::Broken`] it stays at the end of the
    /// connection. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Frame {
        if self.over {
            return broken_off();
        }
        let frame = loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Frame::Text(text.as_str().to_owned()),
                Some(Ok(Message::Binary(bytes))) => return Frame::Binary(bytes.len()),
                Some(Ok(Message::Ping(_))) => return Frame::Ping,
                Some(Ok(Message::Pong(_))) => return Frame::Pong,
                Some(Ok(Message::Frame(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    // The answer to it goes out with the next look at the connection.
                    let _ = self.stream.next().now_or_never();
                    break Frame::Closed {
                        code: frame.as_ref().map(|frame| frame.code.into()),
                        reason: frame.map_or_else(String::new, |frame| frame.reason.to_string()),
                    };
                }
                Some(Err(error)) => break Frame::Broken(self.give_up(&error)),
                None => break broken_off(),
            }
        };
        self.over = true;
        frame
    }

    /// Ends the connection for what came, and says why to both sides.
    fn give_up(&self, error: &Error) -> NetError {
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
            Error::Protocol(why) => match why {
                // A connection that ends without a word is one that was cut.
                tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake => {
                    return cut(Sent::Unknown, error);
                }
                why => (
                    PROTOCOL,
                    NetFault::Protocol,
                    format!("what came is no frame of a WebSocket: {why}"),
                ),
            },
            other => return cut(Sent::Unknown, other),
        };
        // Best effort: a sender may hold the lock, or the socket may accept no more bytes.
        let _ = self.sender.close(code, "").now_or_never();
        NetError::new(fault, Sent::Unknown, message)
    }
}

fn broken_off() -> Frame {
    Frame::Broken(NetError::new(
        NetFault::Cut,
        Sent::Unknown,
        "the connection has ended",
    ))
}

fn cut(sent: Sent, error: &Error) -> NetError {
    let why = match error {
        Error::Io(io) => io.to_string(),
        _ => "the other side closed it without a word".to_owned(),
    };
    NetError::new(
        NetFault::Cut,
        sent,
        format!("the connection broke off: {why}"),
    )
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
