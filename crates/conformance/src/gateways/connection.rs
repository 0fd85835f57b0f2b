//! The upgrade from HTTP to a WebSocket (RFC 6455 §4), on both sides, and the sending side of one connection.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::script::Vars;
use super::script::{End, Frame, UpgradeReply};
use crate::peers::{Padding, Piece, Recorded};
use crate::websocket;
use crate::websocket::{Head, accept};

/// The delay before a reset, because a reset discards bytes that the other side has not read.
const RESET_DELAY: Duration = Duration::from_millis(5);

/// The timeout of the answer to a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The size of the write buffer, in bytes.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// The sending half, and the unsent bytes of a stopped script. The next writer sends them first, so that no frame is
/// incomplete.
#[derive(Debug)]
struct SendHalf {
    half: OwnedWriteHalf,
    unsent: VecDeque<u8>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: usize,
    /// The path of the upgrade request.
    pub(super) path: String,
    /// Whether to mask frames, as clients must.
    masked: bool,
    half: Mutex<Option<SendHalf>>,
    /// Whether a close frame was sent.
    closing: AtomicBool,
    /// Cancelled once the connection stops reading.
    pub(super) hung: CancellationToken,
    /// Cancelled once the connection should close.
    pub(super) ended: CancellationToken,
}

impl Connection {
    pub(super) fn new(number: usize, path: String, masked: bool, half: OwnedWriteHalf) -> Self {
        Self {
            number,
            path,
            masked,
            half: Mutex::new(Some(SendHalf {
                half,
                unsent: VecDeque::new(),
            })),
            closing: AtomicBool::new(false),
            hung: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Sends a whole message or a control frame.
    pub(super) async fn send(&self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Head::whole(opcode, self.masked, payload.len()).bytes();
        let head = bytes.len();
        bytes.extend_from_slice(payload);
        if self.masked {
            websocket::mask(&mut bytes[head..], 0);
        }
        self.write(&bytes).await
    }

    pub(super) async fn text(&self, text: &str) -> io::Result<()> {
        self.send(websocket::TEXT, text.as_bytes()).await
    }

    pub(super) async fn json(&self, value: &Value) -> io::Result<()> {
        self.text(&value.to_string()).await
    }

    /// Sends raw bytes.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.half.lock().await.as_mut() {
            Some(SendHalf { half, unsent }) => {
                unsent.extend(bytes);
                half.write_all_buf(unsent).await
            }
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends a frame of any shape: a long one in pieces, others with one write, so that no other frame interrupts them.
    pub(super) async fn frame(&self, shape: &Frame, vars: &Vars<'_>) -> io::Result<()> {
        let mut length = 0_usize;
        let mut pauses = false;
        for piece in &shape.payload {
            length = length.saturating_add(piece_length(piece, vars));
            pauses |= match piece {
                Piece::Wait(_) => true,
                Piece::Padding(fill) => fill.gap_ms > 0 || fill.count.is_none(),
                Piece::Text(_) | Piece::Bytes(_) => false,
            };
        }
        let mut bytes = Head {
            last: shape.last,
            reserved: shape.reserved,
            opcode: shape.opcode,
            masked: shape.masked,
            length: shape.length.unwrap_or(length as u64),
        }
        .bytes();
        if !shape.masked && (pauses || length > WRITE_BUFFER_BYTES) {
            self.write(&bytes).await?;
            return self.pieces(&shape.payload, vars).await;
        }
        let head = bytes.len();
        for piece in &shape.payload {
            match piece {
                Piece::Text(text) => bytes.extend_from_slice(vars.text(text).as_bytes()),
                Piece::Bytes(piece) => bytes.extend_from_slice(piece),
                Piece::Padding(fill) => {
                    bytes.extend(fill.chunk.repeat(fill.count.unwrap_or(0) as usize).bytes());
                }
                Piece::Wait(_) => {}
            }
        }
        if shape.masked {
            websocket::mask(&mut bytes[head..], 0);
        }
        self.write(&bytes).await
    }

    /// Sends texts, bytes and repetitions unchanged, with pauses.
    pub(super) async fn pieces(&self, pieces: &[Piece], vars: &Vars<'_>) -> io::Result<()> {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.write(vars.text(text).as_bytes()).await?,
                Piece::Bytes(bytes) => self.write(bytes).await?,
                Piece::Wait(ms) => sleep(Duration::from_millis(*ms)).await,
                Piece::Padding(fill) => self.fill(fill).await?,
            }
        }
        Ok(())
    }

    async fn fill(&self, fill: &Padding) -> io::Result<()> {
        let chunk = match fill.gap_ms {
            0 => (WRITE_BUFFER_BYTES / fill.chunk.len().max(1)).max(1) as u64,
            _ => 1,
        };
        let gathered = fill.chunk.repeat(chunk as usize);
        let mut remaining = fill.count.unwrap_or(u64::MAX);
        while remaining > 0 {
            let now = remaining.min(chunk);
            self.write(&gathered.as_bytes()[..fill.chunk.len() * now as usize])
                .await?;
            remaining -= now;
            if fill.gap_ms > 0 {
                sleep(Duration::from_millis(fill.gap_ms)).await;
            }
        }
        Ok(())
    }

    /// Sends a close frame, and waits up to a second for its answer.
    pub(super) async fn close(&self, code: Option<u16>, reason: &str) -> io::Result<()> {
        self.closing.store(true, Ordering::Relaxed);
        self.send(websocket::CLOSE, &websocket::closing(code, reason))
            .await?;
        sleep(CLOSE_TIMEOUT).await;
        self.ended.cancel();
        Ok(())
    }

    /// Ends the connection without a close frame.
    pub(super) async fn end(&self, end: End) -> io::Result<()> {
        match end {
            End::Hang => self.hung.cancel(),
            // Dropping the half closes the sending side.
            End::Drop => drop(self.half.lock().await.take()),
            End::Destroy => {
                sleep(RESET_DELAY).await;
                if let Some(SendHalf { half, .. }) = self.half.lock().await.take() {
                    // Dropping a socket with a linger time of zero sends a reset. Dropping the half would send a FIN first.
                    half.as_ref().set_zero_linger()?;
                    half.forget();
                }
                self.ended.cancel();
            }
        }
        Ok(())
    }
}

fn piece_length(piece: &Piece, vars: &Vars<'_>) -> usize {
    match piece {
        Piece::Text(text) => vars.text(text).len(),
        Piece::Bytes(bytes) => bytes.len(),
        Piece::Wait(_) => 0,
        Piece::Padding(fill) => fill.chunk.len() * fill.count.unwrap_or(0) as usize,
    }
}

/// The client's key. It is fixed, because tests need no protection against attacks on caches.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The maximum size of a head, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Returns the request in the form that `when` of an upgrade matches.
pub(super) fn request_json(request: &Recorded, connection: usize) -> Value {
    let (path, query) = match request.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (request.path.as_str(), None),
    };
    let key = request.headers.get("sec-websocket-key");
    json!({
        "method": request.method, "path": path, "query": query, "headers": request.headers, "connection": connection,
        "accept": key.map(|key| accept(key)),
    })
}

/// Returns the head of a successful upgrade.
pub(super) fn answer(reply: &UpgradeReply, upgrade: &Value, vars: &Vars<'_>) -> String {
    let mut headers = BTreeMap::from([
        ("connection".to_owned(), "Upgrade".to_owned()),
        ("upgrade".to_owned(), "websocket".to_owned()),
    ]);
    if let Some(accept) = upgrade["accept"].as_str() {
        headers.insert("sec-websocket-accept".to_owned(), accept.to_owned());
    }
    let offered = upgrade["headers"]["sec-websocket-protocol"].as_str();
    let chosen = match reply.protocol.as_deref() {
        Some("echo") => offered
            .and_then(|offered| offered.split(',').next())
            .map(str::trim),
        chosen => chosen,
    };
    if let Some(chosen) = chosen {
        headers.insert("sec-websocket-protocol".to_owned(), chosen.to_owned());
    }
    override_headers(&mut headers, &reply.headers, vars);
    head("HTTP/1.1 101 Switching Protocols", &headers)
}

/// Requests a WebSocket, and returns the bytes after the head of the answer.
pub(super) async fn request(
    stream: &mut TcpStream,
    host: &str,
    path: &str,
    reply: &UpgradeReply,
    vars: &Vars<'_>,
) -> io::Result<BytesMut> {
    let mut headers = BTreeMap::from(
        [
            ("host", host),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", KEY),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if let Some(protocol) = &reply.protocol {
        headers.insert("sec-websocket-protocol".to_owned(), protocol.clone());
    }
    override_headers(&mut headers, &reply.headers, vars);
    let request = head(&format!("GET {path} HTTP/1.1"), &headers);
    stream.write_all(request.as_bytes()).await?;
    let mut read = BytesMut::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if read.len() > MAX_HEAD_BYTES || stream.read_buf(&mut read).await? == 0 {
            return Err(refused(&read));
        }
    };
    let head = read.split_to(end);
    let is_accepted =
        head.starts_with(b"HTTP/1.1 101 ") && String::from_utf8_lossy(&head).contains(&accept(KEY));
    if is_accepted {
        Ok(read)
    } else {
        Err(refused(&head))
    }
}

fn head(first: &str, headers: &BTreeMap<String, String>) -> String {
    let mut text = format!("{first}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

/// Replaces headers by those of the script; `null` removes one.
fn override_headers(
    headers: &mut BTreeMap<String, String>,
    scripted: &Map<String, Value>,
    vars: &Vars<'_>,
) {
    for (name, value) in scripted {
        let name = name.to_ascii_lowercase();
        match value {
            Value::Null => drop(headers.remove(&name)),
            Value::String(text) => drop(headers.insert(name, vars.text(text))),
            other => drop(headers.insert(name, other.to_string())),
        }
    }
}

fn refused(answer: &[u8]) -> io::Error {
    let answer = String::from_utf8_lossy(answer);
    let first = answer.lines().next().unwrap_or("nothing");
    io::Error::new(
        io::ErrorKind::ConnectionRefused,
        format!("expected an upgrade to a WebSocket, got `{first}`"),
    )
}

#[cfg(test)]
mod upgrade_tests {
    use super::*;

    #[test]
    fn example_of_rfc_is_accepted() {
        assert_eq!(accept(KEY), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
