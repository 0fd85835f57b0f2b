//! Writes one scripted response to a socket: its head, and its body or events. Bodies are written in pieces, so that a
//! hundred megabytes need no memory.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::script::Vars;
use super::script::{Close, End, Item, Padding, Piece, Response};
use crate::http::Connection;

/// The delay before a reset, because a reset discards bytes that the client has not read.
const RESET_DELAY: Duration = Duration::from_millis(5);

/// Whether the connection can carry another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    KeepAlive,
    Close,
}

pub(super) async fn send(
    connection: &mut Connection,
    response: &Response,
    vars: &Vars<'_>,
    bodiless: bool,
) -> io::Result<KeepAlive> {
    if response.delay_ms > 0 {
        sleep(Duration::from_millis(response.delay_ms)).await;
    }
    if let Some(pieces) = &response.raw_response {
        for piece in pieces {
            write_piece(connection, piece, vars).await?;
        }
        let after = finish(connection, response).await?;
        if after == KeepAlive::KeepAlive {
            connection.stream.shutdown().await?;
        }
        return Ok(KeepAlive::Close);
    }
    if response.end == Some(End::Destroy) && response.sse.is_none() {
        return reset(connection);
    }
    let mut head = Head::new(response.status.unwrap_or(200));
    if let Some(items) = &response.sse {
        head.set("content-type", "text/event-stream");
        head.set("cache-control", "no-cache");
        head.set("transfer-encoding", "chunked");
        connection
            .stream
            .write_all(head.bytes(&response.headers, vars)?.as_bytes())
            .await?;
        let mut sink = Sink::chunked(&mut connection.stream);
        sse_items(&mut sink, items, vars).await?;
        sink.end(response.end.is_none() && response.close.is_none())
            .await?;
        return finish(connection, response).await;
    }
    let body = body_of(response, vars);
    head.set("content-type", body.content_type());
    let empty = matches!(response.status, Some(100..=199 | 204 | 304));
    match body.length() {
        _ if empty => {}
        Some(length) => head.set("content-length", &length.to_string()),
        None => head.set("transfer-encoding", "chunked"),
    }
    connection
        .stream
        .write_all(head.bytes(&response.headers, vars)?.as_bytes())
        .await?;
    if empty || bodiless {
        return Ok(KeepAlive::KeepAlive);
    }
    let chunked = body.length().is_none();
    let limit = match (response.truncate_at, response.end, body.length()) {
        (Some(limit), _, _) => Some(limit),
        (None, Some(End::Hang), Some(length)) => Some(length / 2),
        _ => None,
    };
    let mut sink = if chunked {
        Sink::chunked(&mut connection.stream)
    } else {
        Sink::plain(&mut connection.stream)
    };
    body.write(&mut sink, limit).await?;
    sink.end(chunked && limit.is_none() && response.close.is_none())
        .await?;
    if response.truncate_at.is_some() && response.close.is_none() && response.end.is_none() {
        sleep(RESET_DELAY).await;
        return reset(connection);
    }
    finish(connection, response).await
}

async fn sse_items(
    sink: &mut Sink<'_>,
    items: &[super::script::Item],
    vars: &Vars<'_>,
) -> io::Result<()> {
    for item in items {
        if item.delay_ms > 0 {
            sink.flush().await?;
            sleep(Duration::from_millis(item.delay_ms)).await;
        }
        if let Some(repeat) = &item.repeat {
            let frames: Vec<String> = repeat
                .each
                .iter()
                .filter_map(|each| frame(each, vars))
                .collect();
            let mut i = repeat.from;
            while repeat
                .count
                .is_none_or(|count| i < repeat.from.saturating_add(count))
            {
                if repeat.gap_ms > 0 {
                    sink.flush().await?;
                    sleep(Duration::from_millis(repeat.gap_ms)).await;
                }
                let number = i.to_string();
                for frame in &frames {
                    sink.write(frame.replace("{{i}}", &number).as_bytes())
                        .await?;
                }
                i += 1;
            }
        } else if let Some(fill) = &item.raw_repeat {
            Body::Padding(fill).write(sink, None).await?;
        } else if let Some(frame) = frame(item, vars) {
            sink.write(frame.as_bytes()).await?;
        }
        sink.flush().await?;
    }
    Ok(())
}

fn body_of<'a>(response: &'a Response, vars: &Vars<'_>) -> Body<'a> {
    if let Some(fill) = &response.body_repeat {
        Body::Padding(fill)
    } else if let Some(text) = &response.body {
        Body::Text(vars.fill(text).into_owned())
    } else if let Some(json) = &response.json {
        Body::Json(vars.fill_value(json).to_string())
    } else {
        let id = response.id.as_ref().or(vars.rpc_id);
        let envelope = envelope(id, response.result.as_ref(), response.error.as_ref());
        Body::Json(vars.fill_value(&envelope).to_string())
    }
}

async fn write_piece(
    connection: &mut Connection,
    piece: &Piece,
    vars: &Vars<'_>,
) -> io::Result<()> {
    match piece {
        Piece::Text(text) => {
            connection
                .stream
                .write_all(vars.fill_raw(text).as_bytes())
                .await
        }
        Piece::Bytes(bytes) => connection.stream.write_all(bytes).await,
        Piece::Wait(ms) => {
            sleep(Duration::from_millis(*ms)).await;
            Ok(())
        }
        Piece::Padding(fill) => {
            let mut sink = Sink::plain(&mut connection.stream);
            Body::Padding(fill).write(&mut sink, None).await?;
            sink.flush().await
        }
    }
}

async fn finish(connection: &mut Connection, response: &Response) -> io::Result<KeepAlive> {
    match (response.end, response.close) {
        (Some(End::Destroy), _) => {
            sleep(RESET_DELAY).await;
            reset(connection)
        }
        (Some(End::Hang), _) => {
            connection.drain().await?;
            Ok(KeepAlive::Close)
        }
        (None, Some(Close::Half)) => {
            connection.stream.shutdown().await?;
            connection.drain().await?;
            Ok(KeepAlive::Close)
        }
        (None, None) => Ok(KeepAlive::KeepAlive),
    }
}

/// Dropping a socket with a linger time of zero sends a reset instead of a FIN.
fn reset(connection: &Connection) -> io::Result<KeepAlive> {
    connection.stream.set_zero_linger()?;
    Ok(KeepAlive::Close)
}

pub(super) struct Head {
    status: u16,
    headers: BTreeMap<String, Vec<String>>,
}

impl Head {
    pub(super) fn new(status: u16) -> Self {
        Self {
            status,
            headers: BTreeMap::new(),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.headers.insert(name.to_owned(), vec![value.to_owned()]);
    }

    /// Returns the head as text. Headers of the script replace the default ones; `null` removes one, a list sends one
    /// several times.
    pub(super) fn bytes(
        mut self,
        scripted: &Map<String, Value>,
        vars: &Vars<'_>,
    ) -> io::Result<String> {
        for (name, value) in scripted {
            let values = match value {
                Value::Null => Vec::new(),
                Value::Array(values) => values
                    .iter()
                    .map(|value| header_text(value, vars))
                    .collect(),
                value => vec![header_text(value, vars)],
            };
            self.headers.insert(name.to_ascii_lowercase(), values);
        }
        let reason = http::StatusCode::from_u16(self.status)
            .map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("not an HTTP status: {}", self.status),
                )
            })?
            .canonical_reason()
            .unwrap_or("Unknown");
        let mut text = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        for (name, values) in &self.headers {
            for value in values {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str("\r\n");
        Ok(text)
    }
}

fn header_text(value: &Value, vars: &Vars<'_>) -> String {
    match value {
        Value::String(text) => vars.fill(text).into_owned(),
        other => other.to_string(),
    }
}

/// The size of the write buffer, in bytes.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// A writer of bodies: plain, or as HTTP/1.1 chunks.
pub(super) struct Sink<'a> {
    stream: &'a mut TcpStream,
    chunked: bool,
    gathered: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub(super) fn plain(stream: &'a mut TcpStream) -> Self {
        Self {
            stream,
            chunked: false,
            gathered: Vec::new(),
        }
    }

    pub(super) fn chunked(stream: &'a mut TcpStream) -> Self {
        Self {
            stream,
            chunked: true,
            gathered: Vec::new(),
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITE_BUFFER_BYTES {
            self.flush().await
        } else {
            Ok(())
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        if self.chunked {
            let mut framed = format!("{:x}\r\n", self.gathered.len()).into_bytes();
            framed.append(&mut self.gathered);
            framed.extend_from_slice(b"\r\n");
            return self.stream.write_all(&framed).await;
        }
        self.stream.write_all(&self.gathered).await?;
        self.gathered.clear();
        Ok(())
    }

    /// Flushes; with `whole`, also writes the final chunk.
    pub(super) async fn end(mut self, whole: bool) -> io::Result<()> {
        self.flush().await?;
        if self.chunked && whole {
            self.stream.write_all(b"0\r\n\r\n").await
        } else {
            Ok(())
        }
    }
}

/// The body of a response without events.
pub(super) enum Body<'a> {
    Text(String),
    Json(String),
    Padding(&'a Padding),
}

impl Body<'_> {
    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Text(_) | Self::Padding(_) => "text/plain",
        }
    }

    /// Returns the length in bytes; `None` for an endless body.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Text(text) | Self::Json(text) => Some(text.len() as u64),
            Self::Padding(fill) => Some((fill.chunk.len() as u64).saturating_mul(fill.count?)),
        }
    }

    /// Writes the body, or its first `limit` bytes.
    pub(super) async fn write(&self, sink: &mut Sink<'_>, limit: Option<u64>) -> io::Result<()> {
        let mut remaining = limit.unwrap_or(u64::MAX);
        let (piece, count, gap) = match self {
            Self::Text(text) | Self::Json(text) => (text.as_bytes(), Some(1), 0),
            Self::Padding(fill) => (fill.chunk.as_bytes(), fill.count, fill.gap_ms),
        };
        let mut written = 0;
        while remaining > 0 && !piece.is_empty() && count.is_none_or(|count| written < count) {
            if gap > 0 {
                sink.flush().await?;
                sleep(Duration::from_millis(gap)).await;
            }
            let part = &piece[..piece
                .len()
                .min(usize::try_from(remaining).unwrap_or(usize::MAX))];
            sink.write(part).await?;
            remaining -= part.len() as u64;
            written += 1;
        }
        sink.flush().await
    }
}

/// Returns the bytes of one item, with `{{i}}` still in place; `None` if the item only waits.
pub(super) fn frame(item: &Item, vars: &Vars<'_>) -> Option<String> {
    if let Some(raw) = &item.raw {
        return Some(vars.fill_raw(raw));
    }
    let payload = if let Some(rest) = &item.rest {
        rest.clone()
    } else if item.result.is_some() || item.error.is_some() {
        envelope(
            item.id.as_ref().or(vars.rpc_id),
            item.result.as_ref(),
            item.error.as_ref(),
        )
    } else {
        return None;
    };
    let data = vars.fill_value(&payload);
    let event = item
        .event
        .as_ref()
        .map(|name| format!("event: {name}\n"))
        .unwrap_or_default();
    Some(format!("{event}data: {data}\n\n"))
}

/// Returns a JSON-RPC response, without the field `id` for an absent id.
pub(super) fn envelope(id: Option<&Value>, result: Option<&Value>, error: Option<&Value>) -> Value {
    let mut fields = Map::new();
    fields.insert("jsonrpc".to_owned(), Value::from("2.0"));
    for (name, value) in [("id", id), ("error", error), ("result", result)] {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(fields)
}
