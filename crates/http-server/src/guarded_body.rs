//! A response body whose bytes count against a budget until the client has received them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use base::keyed_budget::Reservation;

use crate::rate_limit::RateLimitKey;

/// The maximum size of a frame that does not count. Each connection needs a buffer of this size anyway.
const UNCOUNTED_BYTES: usize = 8 << 10;

/// A body that keeps a guard until the end of the response, and reserves the bytes of its frames until they are sent.
pub(crate) struct GuardedBody<T> {
    body: Body,
    /// The reserved bytes of later frames, if the length of the body is known.
    reserved: Reservation<RateLimitKey>,
    _guard: T,
}

impl<T> GuardedBody<T> {
    pub(crate) fn new(body: Body, reserved: Reservation<RateLimitKey>, guard: T) -> Self {
        Self {
            body,
            reserved,
            _guard: guard,
        }
    }

    /// Returns whether a frame of `bytes` bytes counts.
    pub(crate) fn counts(bytes: usize) -> bool {
        bytes > UNCOUNTED_BYTES
    }

    /// Attaches a reservation to the bytes of a frame, because the connection may hold them after the body is dropped.
    ///
    /// # Errors
    /// The budget is exhausted. The response is then cut off.
    fn count(&mut self, bytes: Bytes) -> Result<Bytes, axum::Error> {
        if !Self::counts(bytes.len()) {
            return Ok(bytes);
        }
        let reserved = self.reserved.split_off_or_reserve(bytes.len());
        let reserved = reserved.map_err(|_| axum::Error::new(NoRoom))?;
        Ok(Bytes::from_owner(CountedBytes {
            bytes,
            _reserved: reserved,
        }))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("too many bytes of unread responses")]
struct NoRoom;

struct CountedBytes {
    bytes: Bytes,
    _reserved: Reservation<RateLimitKey>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Unpin> http_body::Body for GuardedBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| match frame?.into_data() {
            Ok(data) => self.count(data).map(Frame::data),
            Err(trailers) => Ok(trailers),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
