//! A server on a socket, and clients that send raw bytes, for tests.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::serve::{ConnectionConfig, serve};

/// A server that ends with the test.
pub struct Server {
    /// Its address.
    pub address: SocketAddr,
    /// Stops the server.
    pub stop: CancellationToken,
    /// Finishes with the server.
    pub ended: JoinHandle<()>,
    _end: DropGuard,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// The status; 0 without a response.
    pub status: u16,
    /// The header lines, with names in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

/// Serves `app`.
///
/// # Panics
/// No port of 127.0.0.1 is free.
pub async fn start(app: Router, config: ConnectionConfig) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let ended = tokio::spawn(serve(listener, None, app, config, stop.clone(), |_| {}));
    Server {
        address,
        ended,
        _end: stop.clone().drop_guard(),
        stop,
    }
}

impl Server {
    /// Connects and writes `text`.
    ///
    /// # Panics
    /// The server refuses the connection.
    pub async fn write(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request with these header lines and `Connection: close`. `Host` is the server's own unless a line names
    /// another.
    pub async fn ask(&self, what: &str, lines: &[&str], body: &str) -> Answer {
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

    /// Returns the status of a GET of `path` with these header lines.
    pub async fn get(&self, path: &str, lines: &[&str]) -> u16 {
        self.ask(&format!("GET {path}"), lines, "").await.status
    }
}

/// Reads a response until the server closes the connection.
pub async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A server that closes early may reset the connection; what arrived before counts.
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

/// Converts the name of a header line to lower case.
fn lower(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) => format!("{}:{value}\n", name.to_ascii_lowercase()),
        None => format!("{line}\n"),
    }
}
