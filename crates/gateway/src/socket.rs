//! A WebSocket that releases large buffers, and bounds what tungstenite does not.
//!
//! The buffers of tungstenite never shrink. A thousand connections that each received one large frame would keep all of that
//! memory. This module replaces the protocol state on the same stream while no frame is in progress in either direction. To
//! detect that, the stream parses the headers of the frames that it reads.
//!
//! tungstenite reads on while it cannot write, and queues a pong for each ping. This module stops reading until the pongs are
//! written. It also limits the fragments of a message, and the size of a message before authentication.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::{FutureExt as _, Sink, SinkExt as _, Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// The minimum size of a frame after which the buffers are released.
const LARGE_FRAME_BYTES: usize = 16 * 1024;

/// The maximum number of pongs that may be unwritten while the socket reads on.
const MAX_UNSENT_PONGS: usize = 16;

/// The maximum size of a message before authentication, in bytes. A credential is smaller.
const MAX_UNAUTHENTICATED_BYTES: u64 = 64 * 1024;

/// The number of frames of a message that are allowed regardless of its size, and the bytes for each further frame.
const FREE_FRAGMENTS: u64 = 64;
const MIN_FRAGMENT_BYTES: u64 = 64;

/// The maximum size of a frame header (RFC 6455 §5.2).
const MAX_HEADER_BYTES: usize = 14;

/// The server side of a WebSocket. One reference can receive while another one sends, in the same task.
pub(super) struct Socket<S>(Mutex<Inner<S>>);

struct Inner<S> {
    /// `None` only during a call.
    socket: Option<WebSocketStream<FrameTracker<S>>>,
    config: WebSocketConfig,
    /// Whether the write buffer may contain data.
    unsent: bool,
    /// Whether either side has sent a close frame.
    closing: bool,
    /// The number of pings since the last complete flush.
    unsent_pongs: usize,
    #[cfg(test)]
    renewed: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Creates a socket over an upgraded connection.
    pub(super) async fn new(stream: S, config: WebSocketConfig) -> Self {
        let stream = FrameTracker::new(stream);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        Self(Mutex::new(Inner {
            socket: Some(socket),
            config,
            unsent: false,
            closing: false,
            unsent_pongs: 0,
            #[cfg(test)]
            renewed: 0,
        }))
    }

    /// Accepts messages of the configured size, because the client is authenticated.
    pub(super) fn set_authenticated(&self) {
        if let Ok(socket) = self.0.lock().socket() {
            socket.get_mut().authenticated = true;
        }
    }

    /// Returns whether the client does not read the pongs to its pings.
    pub(super) fn is_blocked(&self) -> bool {
        self.0.lock().unsent_pongs >= MAX_UNSENT_PONGS
    }

    /// Returns the inner socket.
    pub(super) fn into_inner(self) -> Option<WebSocketStream<FrameTracker<S>>> {
        let inner = self.0.into_inner();
        inner.socket
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Inner<S> {
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        let Some(socket) = &mut self.socket else {
            return Poll::Ready(None);
        };
        if self.unsent_pongs >= MAX_UNSENT_PONGS {
            if let Err(error) = ready!(socket.poll_flush_unpin(cx)) {
                return Poll::Ready(Some(Err(error)));
            }
            self.unsent_pongs = 0;
        }
        let received = match socket.poll_next_unpin(cx) {
            Poll::Ready(Some(Err(Error::Io(_)))) if socket.get_ref().refused => {
                let (size, max_size) = (usize::MAX, usize::MAX);
                let error = CapacityError::MessageTooLong { size, max_size };
                Poll::Ready(Some(Err(error.into())))
            }
            received => received,
        };
        if let Poll::Ready(Some(Ok(Message::Ping(_)))) = received {
            self.unsent_pongs += 1;
        }
        if let Poll::Ready(Some(Ok(Message::Close(_)) | Err(_)) | None) = received {
            self.closing = true;
        }
        if received.is_ready() || !self.renew() {
            return received;
        }
        // Poll the new socket, which must register the waker.
        self.receive(cx)
    }

    /// Replaces the protocol state if its buffers are large and empty. Returns whether it did.
    fn renew(&mut self) -> bool {
        if self.unsent || self.closing {
            return false;
        }
        let Some(mut socket) = self.socket.take_if(|socket| {
            let stream = socket.get_ref();
            stream.large && stream.is_between_messages() && !stream.write_pending
        }) else {
            return false;
        };
        socket.get_mut().large = false;
        let (stream, config) = (socket.into_inner(), Some(self.config));
        // Completes immediately, because only handshakes wait.
        let new = WebSocketStream::from_raw_socket(stream, Role::Server, config);
        self.socket = new.now_or_never();
        #[cfg(test)]
        {
            self.renewed += 1;
        }
        true
    }

    fn socket(&mut self) -> Result<&mut WebSocketStream<FrameTracker<S>>, Error> {
        self.socket.as_mut().ok_or(Error::AlreadyClosed)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for &Socket<S> {
    type Item = Result<Message, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().receive(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Message> for &Socket<S> {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.lock().socket()?.poll_ready_unpin(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        let mut inner = self.0.lock();
        inner.unsent = true;
        inner.closing |= message.is_close();
        let large = message.len() > LARGE_FRAME_BYTES;
        let socket = inner.socket()?;
        socket.get_mut().large |= large;
        socket.start_send_unpin(message)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut inner = self.0.lock();
        ready!(inner.socket()?.poll_flush_unpin(cx))?;
        inner.unsent = false;
        inner.unsent_pongs = 0;
        // The receiving side replaces the protocol state, but may stay pending for a long time. Wake it.
        if inner.socket()?.get_ref().large {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut inner = self.0.lock();
        inner.closing = true;
        inner.socket()?.poll_close_unpin(cx)
    }
}

/// A stream that tracks the frames read from it, and whether its writes are pending.
pub(super) struct FrameTracker<S> {
    stream: S,
    header: [u8; MAX_HEADER_BYTES],
    /// The number of header bytes read.
    header_bytes: usize,
    /// The number of payload bytes still to read.
    payload_remaining: u64,
    /// Whether the payload is that of a control frame.
    is_control: bool,
    /// Whether the final frame of a message is still missing.
    unfinished: bool,
    /// The number of frames of the current message.
    fragments: u64,
    /// The number of payload bytes of the current message.
    message_bytes: u64,
    /// Whether the client is authenticated.
    authenticated: bool,
    /// Whether the current message exceeds a limit. The stream then reads no more.
    refused: bool,
    /// Whether a large frame was read or written.
    large: bool,
    /// Whether a write is pending.
    write_pending: bool,
}

impl<S> FrameTracker<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            header: [0; MAX_HEADER_BYTES],
            header_bytes: 0,
            payload_remaining: 0,
            is_control: false,
            unfinished: false,
            fragments: 0,
            message_bytes: 0,
            authenticated: false,
            refused: false,
            large: false,
            write_pending: false,
        }
    }

    /// Returns the inner stream, without a limit of messages.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    fn is_between_messages(&self) -> bool {
        self.header_bytes == 0 && self.payload_remaining == 0 && !self.unfinished
    }

    /// Parses the frame headers in received bytes.
    fn track(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.payload_remaining > 0 {
                let passed = bytes
                    .len()
                    .min(usize::try_from(self.payload_remaining).unwrap_or(usize::MAX));
                self.payload_remaining -= passed as u64;
                bytes = &bytes[passed..];
                if !self.is_control {
                    self.message_bytes += passed as u64;
                    self.check_message();
                }
                continue;
            }
            self.header[self.header_bytes] = *first;
            self.header_bytes += 1;
            bytes = rest;
            let mut header = Cursor::new(&self.header[..self.header_bytes]);
            let Ok(header) = FrameHeader::parse(&mut header) else {
                // tungstenite ends the connection because of the invalid header.
                self.header_bytes = 0;
                return;
            };
            if let Some((header, payload)) = header {
                self.header_bytes = 0;
                self.payload_remaining = payload;
                self.large |= payload > LARGE_FRAME_BYTES as u64;
                self.is_control = matches!(header.opcode, OpCode::Control(_));
                // Control frames may arrive between the frames of a message.
                if !self.is_control {
                    if !self.unfinished {
                        (self.fragments, self.message_bytes) = (0, 0);
                    }
                    self.unfinished = !header.is_final;
                    self.fragments += 1;
                    self.check_message();
                }
            }
        }
    }

    fn check_message(&mut self) {
        let max_fragments = FREE_FRAGMENTS + self.message_bytes / MIN_FRAGMENT_BYTES;
        let too_large = !self.authenticated && self.message_bytes > MAX_UNAUTHENTICATED_BYTES;
        self.refused |= too_large || self.fragments > max_fragments;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameTracker<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.refused {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.track(&buf.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FrameTracker<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.write_pending = written.is_pending();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.write_pending = flushed.is_pending();
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
