//! Server-sent events over [`HttpClient`].
//!
//! `eventsource-client` parses the lines. It would also connect, reconnect, follow redirects, accept any content type
//! and buffer events of any size, and fail at an event without a known field. This module prevents all of that: it sends
//! the request once, and passes the parser an open body that can be read once and has only known fields.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::text::essence;
use bytes::Bytes;
use eventsource_client::{BoxStream, Client, ClientBuilder, Error, ReconnectOptions, SSE};
use futures_util::{Stream, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use launchdarkly_sdk_transport::{HttpTransport, ResponseFuture, TransportError};
use parking_lot::Mutex;

use super::body::{BodyRest, error_prefix, prefix};
use super::event_lines::EventCap;
use super::event_lines::EventLines;
use super::{ByteStream, HttpClient, NetError, NetFault, Request, Sent, redirect};

/// The memory limits of responses.
#[derive(Clone, Copy, Debug)]
pub struct SseLimits {
    /// The maximum size of an event, in bytes as sent.
    pub event_bytes: usize,
    /// The maximum size of a body that is not an event stream, in bytes.
    pub answer_bytes: usize,
}

/// The response to a request for events.
pub enum Opened {
    /// A stream of events.
    Events {
        /// Reads the events.
        reader: EventReader,
        /// The headers.
        headers: HeaderMap,
    },
    /// Another response: the status is not 2xx, or the content type is not `text/event-stream`.
    Answer {
        /// The status.
        status: StatusCode,
        /// The headers.
        headers: HeaderMap,
        /// The body, up to the limit.
        body: Bytes,
        /// Whether the body is incomplete: it exceeds the limit, or the body of an error broke off or was late.
        truncated: bool,
    },
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events { reader, .. } => reader.fmt(f),
            Self::Answer {
                status,
                body,
                truncated,
                ..
            } => f
                .debug_struct("Answer")
                .field("status", status)
                .field("body_bytes", &body.len())
                .field("truncated", truncated)
                .finish_non_exhaustive(),
        }
    }
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseItem {
    /// An event.
    Event {
        /// Its type, unless that is the default `message`.
        event: Option<String>,
        /// Its data: the `data` fields, joined with a line feed.
        data: String,
    },
    /// A comment, which keeps the connection alive.
    Comment,
}

/// Sends `request`, follows redirects as [`redirect::follow`], and reads the head of the response. Adds an `accept` header if there is none.
///
/// # Errors
/// Those of the exchange, and of reading a 2xx body that is not an event stream and breaks off.
pub async fn open(
    net: &dyn HttpClient,
    mut request: Request,
    limits: SseLimits,
) -> Result<Opened, NetError> {
    let accept = HeaderValue::from_static("text/event-stream, application/json");
    request.headers.entry(ACCEPT).or_insert(accept);
    let place = super::error::place(&request.url);
    let response = redirect::follow(net, request).await?.response;
    if response.status.is_success() && is_event_stream(&response.headers) {
        let reader = EventReader::new(response.body, limits.event_bytes, place)?;
        let headers = response.headers;
        return Ok(Opened::Events { reader, headers });
    }
    let (status, headers) = (response.status, response.headers);
    let (body, rest) = if status.is_success() {
        prefix(response.body, limits.answer_bytes).await
    } else {
        error_prefix(response.body, limits.answer_bytes).await
    };
    match rest {
        // A part of an error is useful; a part of a result is not.
        BodyRest::Broken(error) if status.is_success() => Err(error),
        rest => Ok(Opened::Answer {
            status,
            headers,
            body,
            truncated: !matches!(rest, BodyRest::None),
        }),
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    essence(value).eq_ignore_ascii_case("text/event-stream")
}

/// The events of one response. Dropping it closes the connection.
pub struct EventReader {
    /// `None` after the end, which closes the connection.
    events: Option<BoxStream<Result<SSE, Error>>>,
    /// The end of the body, once known.
    end: Option<Result<(), NetError>>,
    place: String,
}

impl EventReader {
    fn new(body: ByteStream, event_bytes: usize, place: String) -> Result<Self, NetError> {
        let body = CappedBody {
            body: Some(body),
            cap: EventCap::default(),
            lines: EventLines::default(),
            event_bytes,
            place: place.clone(),
        };
        // The parser requires a URL, but `TakeBody` ignores it.
        let client = ClientBuilder::for_url("/")
            .map_err(|e| {
                NetError::new(
                    NetFault::Protocol,
                    Sent::Unknown,
                    format!("events cannot be read: {e}"),
                )
            })?
            .redirect_limit(0)
            .reconnect(
                ReconnectOptions::reconnect(false)
                    .retry_initial(false)
                    .build(),
            )
            .build_with_transport(TakeBody(Arc::new(Mutex::new(Some(Box::pin(body))))));
        Ok(Self {
            events: Some(client.stream()),
            end: None,
            place,
        })
    }

    /// Returns the next item, or `None` at the end of a complete body. The end of the stream is not the end of the task
    /// that the events report on. Cancelling the wait loses no item.
    ///
    /// # Errors
    /// The body broke off, ended inside an event, contained an event above the limit, or is not an event stream.
    /// Further calls return the same error.
    pub async fn next(&mut self) -> Option<Result<SseItem, NetError>> {
        while let Some(events) = &mut self.events {
            match events.next().await {
                Some(Ok(SSE::Event(event))) => {
                    let name = (event.event_type != "message").then_some(event.event_type);
                    return Some(Ok(SseItem::Event {
                        event: name,
                        data: event.data,
                    }));
                }
                Some(Ok(SSE::Comment(_))) => return Some(Ok(SseItem::Comment)),
                Some(Ok(SSE::Connected(_))) => {}
                // The parser reports a bad line before the events that precede it, and may report several errors for
                // one end. The first error counts, and the events are still read.
                Some(Err(error)) => {
                    self.end.get_or_insert_with(|| end(&error, &self.place));
                }
                None => self.events = None,
            }
        }
        self.end.clone()?.err().map(Err)
    }
}

base::debug_fields!(self: EventReader { place, end });

fn end(error: &Error, place: &str) -> Result<(), NetError> {
    let cut = |fault, reason: String| {
        Err(NetError::new(
            fault,
            Sent::Unknown,
            format!("the events of `{place}` broke off: {reason}"),
        ))
    };
    match error {
        Error::Eof => Ok(()),
        Error::UnexpectedEof => cut(NetFault::Cut, "they end inside a line".to_owned()),
        Error::Transport(e) => match e.inner().downcast_ref::<NetError>() {
            Some(e) => Err(e.clone()),
            None => cut(NetFault::Cut, e.to_string()),
        },
        Error::InvalidLine(_) => cut(NetFault::Protocol, "a line is not UTF-8".to_owned()),
        other => cut(NetFault::Protocol, other.to_string()),
    }
}

type TransportStream = launchdarkly_sdk_transport::ByteStream;

/// The transport of the parser's client. Returns the open body once.
#[derive(Clone)]
struct TakeBody(Arc<Mutex<Option<TransportStream>>>);

#[derive(Debug, thiserror::Error)]
#[error("a request for events is sent only once")]
struct AlreadySent;

impl HttpTransport for TakeBody {
    fn request(&self, _: http::Request<Option<Bytes>>) -> ResponseFuture {
        let body = self.0.lock().take();
        Box::pin(ready(
            body.map(http::Response::new)
                .ok_or_else(|| TransportError::new(AlreadySent)),
        ))
    }
}

/// A body of lines that the parser knows. Ends with an error if an event exceeds the limit or is unfinished, and after
/// any error.
struct CappedBody {
    body: Option<ByteStream>,
    cap: EventCap,
    lines: EventLines,
    event_bytes: usize,
    place: String,
}

impl CappedBody {
    fn check(&mut self, next: Option<Result<Bytes, NetError>>) -> Option<Result<Bytes, NetError>> {
        match next {
            Some(Ok(bytes)) if self.cap.feed(&bytes, self.event_bytes) => {
                Some(Ok(self.lines.feed(&bytes)))
            }
            Some(Ok(_)) => Some(Err(NetError::new(
                NetFault::EventTooLarge,
                Sent::Unknown,
                format!(
                    "an event of `{}` is larger than {} bytes",
                    self.place, self.event_bytes
                ),
            ))),
            None if self.cap.unfinished() => Some(Err(NetError::new(
                NetFault::Cut,
                Sent::Unknown,
                format!(
                    "the events of `{}` broke off: the last one is unfinished",
                    self.place
                ),
            ))),
            other => other,
        }
    }
}

impl Stream for CappedBody {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let next = std::task::ready!(body.poll_next_unpin(cx));
        let next = self.check(next);
        if !matches!(next, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(next.map(|item| item.map_err(TransportError::new)))
    }
}

#[cfg(test)]
mod tests;
