//! Server-sent events over [`HttpClient`].
//!
//! `eventsource-client` parses the lines. It would also connect, reconnect, follow redirects, accept any content type
//! and buffer events of any size, and fail at an event without a known field. This module prevents all of that: it sends
//! the request once, and passes the parser an open body that can be read once and has only known fields.

use std::collections::VecDeque;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use base::text::essence;
use bytes::Bytes;
use eventsource_client::{BoxStream, Client, ClientBuilder, Error, ReconnectOptions, SSE};
use futures_util::{Stream, StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use launchdarkly_sdk_transport::{HttpTransport, ResponseFuture, TransportError};
use memchr::memchr2;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use url::Url;

use super::body::{BodyRest, error_prefix, prefix};
use super::event_lines::{BodyForm, EventCap, EventLines, JsonLines, MAX_BLANK_BYTES, form_of};
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
    /// Another response: the status is not 2xx, or neither its content type nor its first bytes are those of events.
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
/// A body of another content type that begins like events is a stream of events, and one document of JSON with the
/// content type of events is the data of one event.
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
    let (status, headers) = (response.status, response.headers);
    let (is_events, body) = match status.is_success() && !is_event_stream(&headers) {
        true => begins_with_events(response.body).await,
        false => (status.is_success(), response.body),
    };
    if is_events {
        let reader = EventReader::new(body, limits.event_bytes, place)?;
        return Ok(Opened::Events { reader, headers });
    }
    let (body, rest) = if status.is_success() {
        prefix(body, limits.answer_bytes).await
    } else {
        error_prefix(body, limits.answer_bytes).await
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

/// Reads the first bytes of a body, and returns whether it is one of events, and the whole body.
async fn begins_with_events(mut body: ByteStream) -> (bool, ByteStream) {
    let (mut head, mut read) = (Vec::new(), Vec::new());
    let form = loop {
        if let Some(form) = form_of(&head) {
            break Some(form);
        }
        let Some(chunk) = body.next().await else {
            break None;
        };
        head.extend(chunk.iter().flatten().take(MAX_BLANK_BYTES));
        let is_broken = chunk.is_err();
        read.push(chunk);
        if is_broken {
            break None;
        }
    };
    let is_events = form == Some(BodyForm::Events);
    (is_events, Box::pin(stream::iter(read).chain(body)))
}

/// How many events of a whole body are kept.
const MAX_KEPT_EVENTS: usize = 64;

/// Returns the data of the last `MAX_KEPT_EVENTS` events in a whole body that begins like events, and `None` for another body.
/// `url` is its address, for the error.
///
/// # Errors
/// As [`EventReader::next`].
pub async fn data_in(body: &Bytes, url: &Url) -> Option<Result<Vec<String>, NetError>> {
    if form_of(body) != Some(BodyForm::Events) {
        return None;
    }
    let once: ByteStream = Box::pin(stream::iter([Ok(body.clone())]));
    let read = async {
        let mut reader = EventReader::new(once, body.len(), super::error::place(url))?;
        let mut kept = VecDeque::new();
        while let Some(item) = reader.next().await.transpose()? {
            if let SseItem::Event { data, .. } = item {
                if kept.len() == MAX_KEPT_EVENTS {
                    kept.pop_front();
                }
                kept.push_back(data);
            }
        }
        Ok(kept.into())
    };
    Some(read.await)
}

/// The events of one response. Dropping it closes the connection.
pub struct EventReader {
    /// `None` after the end, which closes the connection.
    events: Option<BoxStream<Result<SSE, Error>>>,
    /// The end of the body, once known.
    end: Option<Result<(), NetError>>,
    /// Whether the body has ended inside an event, which the parser has still to return.
    is_unfinished: Arc<AtomicBool>,
    place: String,
}

impl EventReader {
    fn new(body: ByteStream, event_bytes: usize, place: String) -> Result<Self, NetError> {
        let is_unfinished = Arc::new(AtomicBool::new(false));
        let body = CappedBody {
            body: Some(body),
            form: None,
            head: Vec::new(),
            json: JsonLines::default(),
            cap: EventCap::default(),
            lines: EventLines::default(),
            is_unfinished: Arc::clone(&is_unfinished),
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
            is_unfinished,
            place,
        })
    }

    /// Returns the next item, or `None` at the end of a complete body. The end of the stream is not the end of the task
    /// that the events report on. Cancelling the wait loses no item.
    ///
    /// # Errors
    /// The body broke off, ended inside an event whose data is no whole document of JSON, contained an event above the limit,
    /// or is not an event stream.
    /// Further calls return the same error.
    pub async fn next(&mut self) -> Option<Result<SseItem, NetError>> {
        while let Some(events) = &mut self.events {
            match events.next().await {
                Some(Ok(SSE::Event(event))) => {
                    if self.is_unfinished.load(Ordering::Relaxed) {
                        if !is_document(&event.data) {
                            continue;
                        }
                        self.is_unfinished.store(false, Ordering::Relaxed);
                    }
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
                None => {
                    self.events = None;
                    if self.is_unfinished.load(Ordering::Relaxed)
                        && !matches!(self.end, Some(Err(_)))
                    {
                        let message = format!(
                            "the events of `{}` broke off: the last one is unfinished",
                            self.place
                        );
                        let error = NetError::new(NetFault::Cut, Sent::Unknown, message);
                        self.end = Some(Err(error));
                    }
                }
            }
        }
        self.end.clone()?.err().map(Err)
    }
}

/// Returns whether the data is one whole document of JSON, which ends where it says: an object or a list.
fn is_document(data: &str) -> bool {
    data.trim_start_matches(['\u{FEFF}', ' ', '\t', '\n'])
        .starts_with(['{', '['])
        && serde_json::from_str::<IgnoredAny>(data.trim_start_matches('\u{FEFF}')).is_ok()
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

/// A body of lines that the parser knows. Ends with an error if an event exceeds the limit, and after any error. Ends an
/// unfinished event, and notes that it has.
struct CappedBody {
    body: Option<ByteStream>,
    /// The form of the body, once its first bytes show it.
    form: Option<BodyForm>,
    /// The first bytes, until then.
    head: Vec<u8>,
    json: JsonLines,
    is_unfinished: Arc<AtomicBool>,
    cap: EventCap,
    lines: EventLines,
    event_bytes: usize,
    place: String,
}

impl CappedBody {
    fn check(&mut self, next: Option<Result<Bytes, NetError>>) -> Option<Result<Bytes, NetError>> {
        let place = &self.place;
        match next {
            Some(Ok(bytes)) => {
                if self.form.is_none() {
                    self.head.extend(bytes.iter().take(MAX_BLANK_BYTES));
                    self.form = form_of(&self.head);
                }
                let (fits, lines) = match self.form {
                    Some(BodyForm::Encoded(encoding)) => {
                        let message = format!("the events of `{place}` cannot be read: {encoding}");
                        return Some(Err(NetError::new(
                            NetFault::Protocol,
                            Sent::Unknown,
                            message,
                        )));
                    }
                    Some(BodyForm::Json) => {
                        // What is before it is blank.
                        let start = match self.json.bytes() {
                            0 => memchr2(b'{', b'[', &bytes).unwrap_or_default(),
                            _ => 0,
                        };
                        let lines = self.json.feed(&bytes[start..]);
                        (self.json.bytes() <= self.event_bytes, lines)
                    }
                    _ => (
                        self.cap.feed(&bytes, self.event_bytes),
                        self.lines.feed(&bytes),
                    ),
                };
                if fits {
                    return Some(Ok(lines));
                }
                Some(Err(NetError::new(
                    NetFault::EventTooLarge,
                    Sent::Unknown,
                    format!(
                        "an event of `{place}` is larger than {} bytes",
                        self.event_bytes
                    ),
                )))
            }
            None if self.cap.unfinished() || self.json.bytes() > 0 => {
                self.is_unfinished.store(true, Ordering::Relaxed);
                // The parser returns an event at the blank line after it.
                let mut end = self.lines.feed(b"\n\n").to_vec();
                end.extend_from_slice(b"\n\n");
                Some(Ok(end.into()))
            }
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
        let is_end = next.is_none();
        let next = self.check(next);
        if is_end || !matches!(next, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(next.map(|item| item.map_err(TransportError::new)))
    }
}

#[cfg(test)]
mod tests;
