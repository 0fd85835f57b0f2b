//! A body that keeps something until it has been sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

struct Held<T> {
    body: Body,
    _kept: T,
}

/// The body, which keeps `kept` until its end, or until nobody wants it any more.
pub(super) fn hold(body: Body, kept: impl Send + Unpin + 'static) -> Body {
    Body::new(Held { body, _kept: kept })
}

impl<T: Unpin> http_body::Body for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
