//! The request that opens a WebSocket (RFC 6455 §4.2), and what any other request is told.

use std::fmt::Write as _;
use std::io;

use http::uri::Authority;
use http_server::host::HostNames;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::config::ServerConfig;
use collective::SUBPROTOCOL;
use egress::websocket;

/// The largest head of a request, in bytes.
const HEAD: usize = 8 * 1024;
/// The most header lines.
const LINES: usize = 64;

/// Headers that only a proxy sets.
const FORWARDED: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
];

/// What the gateway calls itself in HTTP.
const SERVER: &str = concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION"));

/// Which requests may open a WebSocket, whatever they ask for.
pub(super) struct AccessControl {
    names: HostNames,
    /// Of the gateway's own URL.
    scheme: &'static str,
    origins: Vec<String>,
    /// A client that is not on this machine may connect: it has to show a credential.
    accepts_forwarded: bool,
}

impl AccessControl {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let hosts = config.hosts.iter().map(String::as_str);
        Self {
            names: HostNames::new(config.listen.ip(), hosts),
            scheme: if config.tls.is_some() {
                "https"
            } else {
                "http"
            },
            origins: config.origins.clone(),
            accepts_forwarded: config.auth.is_some(),
        }
    }

    fn is_own_name(&self, host: &str) -> bool {
        without_port(host).is_some_and(|name| self.names.contains(name))
    }

    /// A browser says where a page comes from. Only the gateway's own origin, by the name that `host` is, and configured ones
    /// are let in, each as a whole: other ports of this machine are other programs.
    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        let own = format!("{}://{host}", self.scheme);
        origin.eq_ignore_ascii_case(&own) || self.origins.iter().any(|known| known == origin)
    }
}

/// The name in a `Host` header (RFC 9110 §7.2).
fn without_port(host: &str) -> Option<&str> {
    let authority: Authority = host.parse().ok()?;
    let (name, rest) = host.split_at_checked(authority.host().len())?;
    let port = rest.strip_prefix(':').map(str::parse::<u16>);
    let whole = rest.is_empty() || matches!(port, Some(Ok(_)));
    (whole && name == authority.host()).then_some(name)
}

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

/// Reads a request for a WebSocket.
///
/// # Errors
/// The connection broke or ended. In the inner result, why the request is not granted.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    access: &AccessControl,
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
                let granted = grant(&request, access).map(|(accept, subprotocol)| Granted {
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

fn grant(
    request: &httparse::Request<'_, '_>,
    access: &AccessControl,
) -> Result<(String, bool), Refused> {
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
    let hosts = values("host");
    let host = match hosts[..] {
        [host] if access.is_own_name(host) => host,
        _ => {
            return Err(Refused::new(
                "403 Forbidden",
                "cannot open a WebSocket: `Host` is no name of this gateway; connect to its address, or add the name to `hosts` of its configuration",
            ));
        }
    };
    let mut origins = values("origin").into_iter();
    if !origins.all(|origin| access.is_own_origin(origin, host)) {
        return Err(Refused::new(
            "403 Forbidden",
            "cannot open a WebSocket: the page is of another origin; add it to `origins` of the gateway's configuration to let it connect",
        ));
    }
    let forwarded = FORWARDED.iter().any(|name| !values(name).is_empty());
    if forwarded && !access.accepts_forwarded {
        return Err(Refused::new(
            "403 Forbidden",
            "cannot open a WebSocket: a proxy forwarded the request, and this gateway asks its clients for no credential; set `auth`, or connect directly",
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

#[cfg(test)]
mod tests;
