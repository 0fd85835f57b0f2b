//! Requests off a socket, in HTTP/1.1: heads by httparse, bodies by content-length or in chunks.

use std::collections::BTreeMap;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::log::Recorded;

/// A client's connection and what was read of it ahead of time.
pub(crate) struct Connection {
    pub(super) stream: TcpStream,
    buffer: BytesMut,
}

pub(crate) struct Request {
    pub(crate) recorded: Recorded,
    /// Whether the client wants the connection closed after the answer.
    pub(super) last: bool,
}

struct Head {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    length: usize,
}

const MAX_HEADERS: usize = 128;

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// The next request; `None` when the client is done.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Request>> {
        let head = loop {
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
            if !self.fill().await? {
                return Ok(None);
            }
        };
        self.buffer.advance(head.length);
        let body = self.body(&head.headers).await?;
        let last = head
            .headers
            .get("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let recorded = Recorded {
            method: head.method,
            path: head.path,
            headers: head.headers,
            body: parse_body(&body),
        };
        Ok(Some(Request { recorded, last }))
    }

    /// The socket, and what was read of it ahead of time.
    pub(crate) fn into_parts(self) -> (TcpStream, BytesMut) {
        (self.stream, self.buffer)
    }

    /// Reads and forgets until the client closes.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            if !self.fill().await? {
                return Ok(());
            }
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(16 * 1024);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    async fn body(&mut self, headers: &BTreeMap<String, String>) -> io::Result<Bytes> {
        if headers
            .get("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"))
        {
            return self.chunked().await;
        }
        let length = match headers.get("content-length") {
            Some(text) => text
                .parse()
                .map_err(|_| invalid("content-length is not a number"))?,
            None => 0,
        };
        self.exactly(length).await
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Bytes> {
        while self.buffer.len() < length {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn chunked(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let (head, size) = loop {
                match httparse::parse_chunk_size(&self.buffer) {
                    Ok(httparse::Status::Complete((head, size))) => break (head, size as usize),
                    Ok(httparse::Status::Partial) if self.fill().await? => {}
                    Ok(httparse::Status::Partial) => {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    Err(_) => return Err(invalid("a chunk size is not hex")),
                }
            };
            self.buffer.advance(head);
            // Trailers are not used by any client here: a zero chunk is followed by an empty line.
            body.extend_from_slice(&self.exactly(size).await?);
            self.exactly(2).await?;
            if size == 0 {
                return Ok(body.freeze());
            }
        }
    }
}

fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(length)) => Ok(Some(Head {
            method: request.method.unwrap_or_default().to_owned(),
            path: request.path.unwrap_or_default().to_owned(),
            headers: gather(request.headers),
            length,
        })),
        Err(error) => Err(invalid(&error.to_string())),
    }
}

fn gather(headers: &[httparse::Header<'_>]) -> BTreeMap<String, String> {
    let mut gathered: BTreeMap<String, String> = BTreeMap::new();
    for header in headers {
        let value = String::from_utf8_lossy(header.value);
        gathered
            .entry(header.name.to_ascii_lowercase())
            .and_modify(|earlier| {
                earlier.push_str(", ");
                earlier.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    gathered
}

fn parse_body(body: &[u8]) -> Option<Value> {
    if body.is_empty() {
        return None;
    }
    Some(
        serde_json::from_slice(body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned())),
    )
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad request: {why}"))
}
