//! A server on a socket and clients that write what they like, for tests.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::clients::{ClientRegistry, RegisteredClient, TokenDigest};
use super::guard::{Bounds, Guard, HostNames, Rules, guard};
use super::serve::{Connections, serve};

/// A server that ends with the test.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) stop: CancellationToken,
    pub(super) ended: JoinHandle<()>,
    _end: DropGuard,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

/// Rules of a server that only this machine reaches.
pub(super) fn rules() -> Rules {
    Rules {
        names: HostNames::new([127, 0, 0, 1].into(), []),
        public_url: None,
        proxies: None,
        tls: false,
        bounds: Bounds::default(),
    }
}

/// Ada, whose token is `token-of-ada`, and the operator, whose is `token-of-op`.
pub(super) fn ada_and_the_operator() -> ClientRegistry {
    let client = |name: &str, operator| RegisteredClient {
        name: name.into(),
        digest: TokenDigest::of(&format!("token-of-{name}")),
        operator,
    };
    ClientRegistry::new(vec![client("ada", false), client("op", true)])
}

/// Serves `app` behind a guard.
pub(super) async fn guarded(app: Router, rules: Rules, clients: ClientRegistry) -> Server {
    let guarding = Guard::new(rules, Arc::new(clients));
    let app = app.layer(from_fn_with_state(guarding, guard));
    start(app, Connections::default()).await
}

/// Serves `app` as it is.
pub(super) async fn start(app: Router, connections: Connections) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let ended = tokio::spawn(serve(listener, None, app, connections, stop.clone()));
    Server {
        address,
        ended,
        _end: stop.clone().drop_guard(),
        stop,
    }
}

impl Server {
    /// Connects, and writes `text`.
    pub(super) async fn write(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Asks with these lines of a head, beside those that end the connection; `Host` is the server's own unless a line names one.
    pub(super) async fn ask(&self, what: &str, lines: &[&str], body: &str) -> Answer {
        let mut head = format!("{what} HTTP/1.1\r\nConnection: close\r\n");
        if !lines.iter().any(|line| line.starts_with("Host:")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        for line in lines {
            head += &format!("{line}\r\n");
        }
        let stream = self.write(&format!("{head}\r\n{body}")).await;
        read(stream).await
    }

    /// The status of a GET of `path` with these lines.
    pub(super) async fn get(&self, path: &str, lines: &[&str]) -> u16 {
        self.ask(&format!("GET {path}"), lines, "").await.status
    }
}

/// What comes until the server closes.
pub(super) async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A server that closes while more is sent resets the connection; what it said before counts.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        status: status.unwrap_or(0),
        head: head.lines().map(lower).collect(),
        body: body.to_owned(),
    }
}

/// A line of a head, with its name in lower case.
fn lower(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) => format!("{}:{value}\n", name.to_ascii_lowercase()),
        None => format!("{line}\n"),
    }
}
