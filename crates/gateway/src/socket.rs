//! A WebSocket whose buffers do not stay as large as the largest frame that they ever held.
//!
//! tungstenite's buffers grow and never shrink, and a thousand connections that carried one large frame each would hold on to
//! all of that. So, when nothing is on its way in either direction, the state of the protocol is made anew over the same
//! stream. Whether nothing is on its way only the stream can tell, so that what is read is followed from frame to frame.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::{FutureExt as _, Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// A frame above this is worth making room again, in bytes.
const LARGE: usize = 16 * 1024;

/// The longest head of a frame (RFC 6455 §5.2).
const HEAD: usize = 14;

/// The server's end of a WebSocket. A reference to it receives and another one sends, side by side in one task.
pub(super) struct Socket<S>(Mutex<Inner<S>>);

struct Inner<S> {
    /// `None` never lasts longer than a call.
    socket: Option<WebSocketStream<Watched<S>>>,
    config: WebSocketConfig,
    /// Something is written that may not have left the buffer.
    unsent: bool,
    /// One of the two has said the end.
    closing: bool,
    #[cfg(test)]
    renewed: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A socket over a connection that was upgraded.
    pub(super) async fn new(stream: S, config: WebSocketConfig) -> Self {
        let stream = Watched::new(stream);
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

    /// The socket as it is.
    pub(super) fn into_inner(self) -> Option<WebSocketStream<Watched<S>>> {
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
        // The new one has to hear of what comes.
        self.receive(cx)
    }

    /// Lets go of buffers that are large and empty, where all that was read has been told. Says whether it did.
    fn renew(&mut self) -> bool {
        if self.unsent || self.closing {
            return false;
        }
        let Some(mut socket) = self.socket.take_if(|socket| {
            let stream = socket.get_ref();
            stream.large && stream.is_between_messages() && !stream.stuck
        }) else {
            return false;
        };
        socket.get_mut().large = false;
        let (stream, config) = (socket.into_inner(), Some(self.config));
        // Nothing is waited for here: it is a future for the sake of those that shake hands.
        let new = WebSocketStream::from_raw_socket(stream, Role::Server, config);
        self.socket = new.now_or_never();
        #[cfg(test)]
        {
            self.renewed += 1;
        }
        true
    }

    fn socket(&mut self) -> Result<&mut WebSocketStream<Watched<S>>, Error> {
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
        let large = message.len() > LARGE;
        let socket = inner.socket()?;
        socket.get_mut().large |= large;
        socket.start_send_unpin(message)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut inner = self.inner();
        ready!(inner.socket()?.poll_flush_unpin(cx))?;
        inner.unsent = false;
        // Only who receives knows whether all that was read is told, and may wait for long.
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

/// A stream that knows where it is among the frames that are read from it, and whether it takes what is written.
pub(super) struct Watched<S> {
    stream: S,
    head: [u8; HEAD],
    /// So much of a head has come.
    heading: usize,
    /// So much of a payload is to come.
    left: u64,
    /// A message has begun whose last frame has not.
    unfinished: bool,
    /// A large frame was read or written.
    large: bool,
    /// It took less than it was to write.
    stuck: bool,
}

impl<S> Watched<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            head: [0; HEAD],
            heading: 0,
            left: 0,
            unfinished: false,
            large: false,
            stuck: false,
        }
    }

    fn is_between_messages(&self) -> bool {
        self.heading == 0 && self.left == 0 && !self.unfinished
    }

    /// Follows what was read.
    fn see(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.left > 0 {
                let passed = bytes
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= passed as u64;
                bytes = &bytes[passed..];
                continue;
            }
            self.head[self.heading] = *first;
            self.heading += 1;
            bytes = rest;
            if let Some(payload) = payload(&self.head[..self.heading]) {
                self.heading = 0;
                self.left = payload;
                self.large |= payload > LARGE as u64;
                // Frames that control the connection come between those of a message.
                if self.head[0] & 0x08 == 0 {
                    self.unfinished = self.head[0] & 0x80 == 0;
                }
            }
        }
    }
}

/// How long the payload is that follows this head; `None` where the head is not whole (RFC 6455 §5.2).
fn payload(head: &[u8]) -> Option<u64> {
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

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.see(&buf.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.stuck = written.is_pending();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.stuck = flushed.is_pending();
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
