//! The HTTP/1.1 server of scripted peers and of tests. It reads requests and leaves every byte of a response to its handler.
#![allow(missing_docs, reason = "used only by scripted peers and tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const MAX_HEADERS: usize = 128;

/// A server on loopback. Dropping the value closes its listener and every connection.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Listens on a free port and runs `handler` for each connection, with the number of the connection, from 1.
    ///
    /// # Panics
    /// Loopback has no free port.
    #[allow(clippy::expect_used, reason = "used only by scripted peers and tests")]
    pub async fn start<F, R>(handler: F) -> Self
    where
        F: Fn(TcpStream, usize) -> R + Send + 'static,
        R: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        Self::on(listener.expect("a free port"), handler)
    }

    /// Starts a server on an existing listener.
    ///
    /// # Panics
    /// The listener has no address.
    #[allow(clippy::expect_used, reason = "used only by scripted peers and tests")]
    pub fn on<F, R>(listener: TcpListener, handler: F) -> Self
    where
        F: Fn(TcpStream, usize) -> R + Send + 'static,
        R: Future<Output = io::Result<()>> + Send + 'static,
    {
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut running = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
                while running.try_join_next().is_some() {}
                let serving = handler(stream, number);
                // A client that disconnects ends only its connection.
                running.spawn(async move { drop(serving.await) });
            }
        });
        Self {
            address,
            connections,
            _tasks: tasks,
        }
    }

    /// Returns the URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Upper-case method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case; values of repeated headers joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The bytes of the head as text, from the request line to the empty line.
    pub head: String,
    pub body: Bytes,
}

impl Request {
    /// Returns a header, by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the body as JSON; `Null` if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns head and body.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.head, String::from_utf8_lossy(&self.body))
    }

    /// Returns whether the client closes the connection after the response.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// A connection, and the bytes that were read ahead.
pub struct Connection<S = TcpStream> {
    pub stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// Returns the next request; `None` after the client has closed the connection.
    ///
    /// # Errors
    /// `InvalidData` for a malformed request, else the error of the socket.
    pub async fn next(&mut self) -> io::Result<Option<Request>> {
        let (mut request, length) = loop {
            if let Some(parsed) = parse_head(&self.buffer)? {
                break parsed;
            }
            if !self.fill().await? {
                return Ok(None);
            }
        };
        self.buffer.advance(length);
        request.body = self.body(&request.headers).await?;
        Ok(Some(request))
    }

    /// Writes a response, or a part of one.
    ///
    /// # Errors
    /// The error of the socket.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Reads and discards bytes until the client closes.
    ///
    /// # Errors
    /// The error of the socket.
    pub async fn drain(&mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            if !self.fill().await? {
                return Ok(());
            }
        }
    }

    /// Returns the socket, and the bytes that were read ahead.
    pub fn into_parts(self) -> (S, BytesMut) {
        (self.stream, self.buffer)
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
            // No client here uses trailers: a zero chunk is followed by an empty line.
            body.extend_from_slice(&self.exactly(size).await?);
            self.exactly(2).await?;
            if size == 0 {
                return Ok(body.freeze());
            }
        }
    }
}

/// Returns a response with a `content-length`; `headers` are whole lines.
#[must_use]
pub fn response(status: &str, content_type: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn parse_head(bytes: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(length)) => length,
        Err(error) => return Err(invalid(&error.to_string())),
    };
    let parsed = Request {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        headers: gather(request.headers),
        head: String::from_utf8_lossy(&bytes[..length]).into_owned(),
        body: Bytes::new(),
    };
    Ok(Some((parsed, length)))
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

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad request: {reason}"))
}
