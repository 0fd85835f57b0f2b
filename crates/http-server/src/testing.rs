//! A server on a loopback socket, and clients that send raw bytes, for tests.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::serve::{ConnectionConfig, serve};

/// A server that stops when the test ends.
pub struct Server {
    /// The address of the server.
    pub address: SocketAddr,
    /// Cancelled to stop the server.
    pub stop: CancellationToken,
    /// Finishes when the server has stopped.
    pub ended: JoinHandle<()>,
    _end: DropGuard,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// The status; 0 if the server sent no response.
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
    /// Connects to the server and writes `text`.
    ///
    /// # Panics
    /// The server refuses the connection.
    pub async fn write(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request with these header lines and `Connection: close`. `Host` is that of the server, unless a line
    /// contains another.
    pub async fn request(&self, method_and_path: &str, lines: &[&str], body: &str) -> Answer {
        let mut head = format!("{method_and_path} HTTP/1.1\r\nConnection: close\r\n");
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

    /// Sends a GET request for `path` with these header lines, and returns the status.
    pub async fn get(&self, path: &str, lines: &[&str]) -> u16 {
        self.request(&format!("GET {path}"), lines, "").await.status
    }
}

/// Reads a response until the server closes the connection.
pub async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // If the server closes the connection early, the read may fail. The bytes received before still count.
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
