//! A WebSocket that releases large buffers.
//!
//! The buffers of tungstenite never shrink. A thousand connections that each received one large frame would keep all of that
//! memory. This module replaces the protocol state on the same stream while no frame is in progress in either direction. To
//! detect that, the stream parses the headers of the frames that it reads.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::{FutureExt as _, Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// The minimum size of a frame after which the buffers are released.
const LARGE_FRAME_BYTES: usize = 16 * 1024;

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
            #[cfg(test)]
            renewed: 0,
        }))
    }

    /// Returns the inner socket.
    pub(super) fn into_inner(self) -> Option<WebSocketStream<FrameTracker<S>>> {
        let inner = self.0.into_inner();
        inner.unwrap_or_else(PoisonError::into_inner).socket
    }

    fn inner(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Inner<S> {
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        let Some(socket) = &mut self.socket else {
            return Poll::Ready(None);
        };
        let received = socket.poll_next_unpin(cx);
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
        self.inner().receive(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Message> for &Socket<S> {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner().socket()?.poll_ready_unpin(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        let mut inner = self.inner();
        inner.unsent = true;
        inner.closing |= message.is_close();
        let large = message.len() > LARGE_FRAME_BYTES;
        let socket = inner.socket()?;
        socket.get_mut().large |= large;
        socket.start_send_unpin(message)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut inner = self.inner();
        ready!(inner.socket()?.poll_flush_unpin(cx))?;
        inner.unsent = false;
        // The receiving side replaces the protocol state, but may stay pending for a long time. Wake it.
        if inner.socket()?.get_ref().large {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut inner = self.inner();
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
    /// Whether the final frame of a message is still missing.
    unfinished: bool,
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
            unfinished: false,
            large: false,
            write_pending: false,
        }
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
                continue;
            }
            self.header[self.header_bytes] = *first;
            self.header_bytes += 1;
            bytes = rest;
            if let Some(payload) = payload_length(&self.header[..self.header_bytes]) {
                self.header_bytes = 0;
                self.payload_remaining = payload;
                self.large |= payload > LARGE_FRAME_BYTES as u64;
                // Control frames may arrive between the frames of a message.
                if self.header[0] & 0x08 == 0 {
                    self.unfinished = self.header[0] & 0x80 == 0;
                }
            }
        }
    }
}

/// Returns the length of the payload after a header, or `None` if the header is incomplete (RFC 6455 §5.2).
fn payload_length(head: &[u8]) -> Option<u64> {
    let second = *head.get(1)?;
    let more = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    if head.len() < 2 + more + mask {
        return None;
    }
    let bytes = &head[2..2 + more];
    let long = bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte));
    Some(if more == 0 {
        u64::from(second & 0x7f)
    } else {
        long
    })
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameTracker<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
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
