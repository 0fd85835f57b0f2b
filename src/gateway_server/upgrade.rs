//! The request that opens a WebSocket (RFC 6455 §4.2), and what any other request is told.

use std::fmt::Write as _;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use url::Url;

use crate::address::is_this_machine;
use crate::collective::SUBPROTOCOL;
use crate::net::websocket;

/// The largest head of a request, in bytes.
const HEAD: usize = 8 * 1024;
/// The most header lines.
const LINES: usize = 64;

/// What the gateway calls itself in HTTP.
const SERVER: &str = concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION"));

/// A request for a WebSocket that can be granted.
#[derive(Debug)]
pub(super) struct Granted {
    /// What came behind the request already.
    pub(super) read: Vec<u8>,
    accept: String,
    subprotocol: bool,
}

/// Why a request is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    status: &'static str,
    why: String,
}

impl Refused {
    fn new(status: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }

    /// There are as many connections as there may be.
    pub(super) fn full() -> Self {
        Self::new(
            "503 Service Unavailable",
            "this gateway has as many connections as it may; try again later",
        )
    }
}

/// Reads a request for a WebSocket. `local`: only this machine is meant to connect, so that its names must be asked for.
///
/// # Errors
/// The connection broke or ended. In the inner result, why the request is not granted.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    local: bool,
) -> io::Result<Result<Granted, Refused>> {
    let mut head = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut lines = [httparse::EMPTY_HEADER; LINES];
        let mut request = httparse::Request::new(&mut lines);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(length)) => {
                let granted = grant(&request, local).map(|(accept, subprotocol)| Granted {
                    read: head[length..].to_vec(),
                    accept,
                    subprotocol,
                });
                return Ok(granted);
            }
            Ok(httparse::Status::Partial) if head.len() < HEAD => {}
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Ok(Err(Refused::new(
                    "431 Request Header Fields Too Large",
                    "the head of the request is too large",
                )));
            }
            Err(_) => {
                return Ok(Err(Refused::new(
                    "400 Bad Request",
                    "the request is not HTTP/1.1",
                )));
            }
        }
    }
}

/// Answers a request that is granted.
pub(super) async fn accept(
    stream: &mut (impl AsyncWrite + Unpin),
    granted: &Granted,
) -> io::Result<()> {
    let mut answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nserver: {SERVER}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {}\r\n",
        granted.accept
    );
    if granted.subprotocol {
        let _ = write!(answer, "sec-websocket-protocol: {SUBPROTOCOL}\r\n");
    }
    answer.push_str("\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await
}

/// Answers a request that is not granted.
pub(super) async fn refuse(
    stream: &mut (impl AsyncWrite + Unpin),
    refused: &Refused,
) -> io::Result<()> {
    let extra = match refused.status {
        UPGRADE_REQUIRED => "upgrade: websocket\r\nsec-websocket-version: 13\r\n",
        _ => "",
    };
    let answer = format!(
        "HTTP/1.1 {}\r\nserver: {SERVER}\r\nconnection: close\r\n{extra}content-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\r\n{}\n",
        refused.status,
        refused.why.len() + 1,
        refused.why
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

const UPGRADE_REQUIRED: &str = "426 Upgrade Required";

fn grant(request: &httparse::Request<'_, '_>, local: bool) -> Result<(String, bool), Refused> {
    let values = |name: &str| {
        let lines = request
            .headers
            .iter()
            .filter(move |line| line.name.eq_ignore_ascii_case(name));
        lines
            // What is no text is there all the same, and is nothing that is known.
            .map(|line| std::str::from_utf8(line.value).unwrap_or("\u{fffd}"))
            .map(str::trim)
            .collect::<Vec<_>>()
    };
    let has = |name: &str, token: &str| {
        values(name)
            .iter()
            .flat_map(|value| value.split(','))
            .any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    // Before anything else is answered: a page from elsewhere learns nothing, not even which paths there are.
    if local && !matches!(values("host")[..], [host] if is_local(host)) {
        return Err(Refused::new(
            "403 Forbidden",
            "this gateway is asked for by a name of its own machine, such as 127.0.0.1 or localhost",
        ));
    }
    if !values("origin").into_iter().all(is_local_origin) {
        return Err(Refused::new(
            "403 Forbidden",
            "pages from other machines may not connect here",
        ));
    }
    let path = request.path.unwrap_or_default();
    if path != "/" {
        return Err(Refused::new(
            "404 Not Found",
            "this gateway of a2a-v1 is at `/`, and nothing else is here",
        ));
    }
    let upgrades = has("connection", "upgrade") && has("upgrade", "websocket");
    let key = values("sec-websocket-key");
    if request.method != Some("GET") || !upgrades || values("sec-websocket-version") != ["13"] {
        return Err(Refused::new(
            UPGRADE_REQUIRED,
            "this is a gateway of a2a-v1; connect with a WebSocket",
        ));
    }
    match key[..] {
        [key] if !key.is_empty() && key.len() <= 64 => Ok((
            websocket::accept(key),
            has("sec-websocket-protocol", SUBPROTOCOL),
        )),
        _ => Err(Refused::new(
            "400 Bad Request",
            "`sec-websocket-key` is missing",
        )),
    }
}

/// Whether a `Host` header means this machine.
fn is_local(host: &str) -> bool {
    Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_this_machine(&url))
}

/// Whether a page comes from this machine. What hides where it comes from says `null`.
fn is_local_origin(origin: &str) -> bool {
    Url::parse(origin).is_ok_and(|url| is_this_machine(&url))
}

#[cfg(test)]
mod tests;
