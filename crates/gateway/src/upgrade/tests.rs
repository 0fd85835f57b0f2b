#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;

use base::environment::SystemEnvironment;
use base::log::Silent;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::Server;
use crate::access::OriginCheck;
use crate::config::ServerConfig;

const KEY: &str = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";

fn request(line: &str, headers: &[&str]) -> String {
    format!("{line}\r\n{}\r\n\r\n", headers.join("\r\n"))
}

fn upgrade_request(line: &str, more: &[&str]) -> String {
    let mut headers = vec![
        "connection: keep-alive, Upgrade",
        "upgrade: WebSocket",
        "sec-websocket-version: 13",
        KEY,
    ];
    headers.extend(more);
    request(line, &headers)
}

/// A running gateway, stopped on drop.
struct Gateway {
    address: SocketAddr,
    _stop: DropGuard,
    _state: TempDir,
}

impl Gateway {
    async fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let config = ServerConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            state_dir: state.path().to_owned(),
            ..ServerConfig::default()
        };
        let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent)).await;
        let server = server.unwrap();
        let stop = CancellationToken::new();
        let address = server.address();
        tokio::spawn(server.run(stop.clone()));
        Self {
            address,
            _stop: stop.drop_guard(),
            _state: state,
        }
    }

    /// Returns the head of the response to a request, in lower case.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Returns the head of the response to an upgrade request with these headers too.
    async fn upgrade_exchange(&self, more: &[&str]) -> String {
        self.exchange(&upgrade_request("GET / HTTP/1.1", more))
            .await
    }

    async fn upgrade_status(&self, more: &[&str]) -> String {
        self.status(&upgrade_request("GET / HTTP/1.1", more)).await
    }

    async fn status(&self, request: &str) -> String {
        let head = self.exchange(request).await;
        head.split(' ').nth(1).unwrap().to_owned()
    }
}

#[tokio::test]
async fn accept_key_matches_the_rfc() {
    let gateway = Gateway::start().await;
    let head = gateway.upgrade_exchange(&["host: 127.0.0.1"]).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let accept = "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    assert!(head.contains(accept), "{head}");
    assert!(head.contains("connection: Upgrade\r\n"), "{head}");
}

#[tokio::test]
async fn h_01_paths_other_than_the_root_are_not_found() {
    let gateway = Gateway::start().await;
    for path in ["/a2a", "/?token=x", "//"] {
        let line = format!("GET {path} HTTP/1.1");
        let status = gateway
            .status(&upgrade_request(&line, &["host: localhost:1"]))
            .await;
        assert_eq!(status, "404", "{path}");
    }
}

#[tokio::test]
async fn h_02_offered_subprotocol_is_selected() {
    let gateway = Gateway::start().await;
    for (offers, chosen) in [
        ("sec-websocket-protocol: other, a2a-v1", true),
        ("sec-websocket-protocol: other", false),
        ("x: y", false),
    ] {
        let head = gateway.upgrade_exchange(&["host: localhost", offers]).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let is_chosen = head.contains("sec-websocket-protocol: a2a-v1\r\n");
        assert_eq!(is_chosen, chosen, "{offers}");
    }
}

#[tokio::test]
async fn foreign_origin_is_refused() {
    let gateway = Gateway::start().await;
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "http://localhost:5173",
        "file://",
    ] {
        let origin = format!("origin: {origin}");
        let request = upgrade_request("GET / HTTP/1.1", &["host: 127.0.0.1", &origin]);
        assert_eq!(gateway.status(&request).await, "403", "{origin}");
    }
    let request = upgrade_request(
        "GET / HTTP/1.1",
        &["host: LOCALHOST:1", "origin: http://localhost:1"],
    );
    assert_eq!(gateway.status(&request).await, "101");
}

#[tokio::test]
async fn rebound_host_name_is_refused() {
    let gateway = Gateway::start().await;
    for host in [
        "evil.example:18789",
        "10.0.0.1",
        "",
        "a@localhost",
        "localhost:",
        "localhost:x",
        "localhost:+80",
        "localhost/evil.example",
    ] {
        let host = format!("host: {host}");
        let status = gateway.upgrade_status(&[&host]).await;
        assert_eq!(status, "403", "{host}");
    }
    let nameless = upgrade_request("GET / HTTP/1.1", &[]);
    assert_eq!(gateway.status(&nameless).await, "403");
    for host in ["[::1]:18789", "127.0.0.2:1", "LOCALHOST."] {
        let host = format!("host: {host}");
        let status = gateway.upgrade_status(&[&host]).await;
        assert_eq!(status, "101", "{host}");
    }
}

#[test]
fn public_gateway_accepts_only_its_names() {
    let mut config = ServerConfig {
        listen: "192.0.2.1:1".parse().unwrap(),
        hosts: vec!["Gate.example".into()],
        ..ServerConfig::default()
    };
    let answers_to = |config: &ServerConfig, host: &str| {
        let headers = HeaderMap::from_iter([(http::header::HOST, host.parse().unwrap())]);
        let check = OriginCheck::new(config);
        check.check(&headers, &http::Uri::from_static("/")).is_ok()
    };
    for host in ["192.0.2.1:1", "gate.example:443", "localhost"] {
        assert!(answers_to(&config, host), "{host}");
    }
    for host in ["rebound.example", "192.0.2.7", "a.gate.example"] {
        assert!(!answers_to(&config, host), "{host}");
    }
    config.listen = "0.0.0.0:1".parse().unwrap();
    assert!(answers_to(&config, "192.0.2.7"));
    assert!(!answers_to(&config, "rebound.example"));
}

#[tokio::test]
async fn plain_request_gets_426() {
    let gateway = Gateway::start().await;
    let plain = request("GET / HTTP/1.1", &["host: localhost"]);
    let head = gateway.exchange(&plain).await;
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    for line in [
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "connection: close",
    ] {
        assert!(head.contains(&format!("{line}\r\n")), "{head}");
    }
    let line = "GET / HTTP/1.1";
    let old = upgrade_request(line, &["host: localhost"]).replace("version: 13", "version: 8");
    assert_eq!(gateway.status(&old).await, "426");
    for line in ["POST / HTTP/1.1", "GET / HTTP/1.0"] {
        let other = upgrade_request(line, &["host: localhost"]);
        assert_eq!(gateway.status(&other).await, "426", "{line}");
    }
}

#[tokio::test]
async fn endless_request_head_is_bounded() {
    let gateway = Gateway::start().await;
    let mut long = "GET / HTTP/1.1\r\nhost: localhost\r\nx: ".to_owned();
    // Exactly the limit, because unread bytes would reset the connection.
    long.push_str(&"y".repeat((8 << 10) - long.len()));
    assert_eq!(gateway.status(&long).await, "431");
    let other = "\u{16}\u{3}\u{1} no HTTP at all\r\n\r\n";
    assert_eq!(gateway.status(other).await, "400");
}

#[tokio::test]
async fn frames_behind_the_request_are_read() {
    let gateway = Gateway::start().await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let mut request = upgrade_request("GET / HTTP/1.1", &["host: localhost"]).into_bytes();
    // A ping with the payload `?` and a zero mask.
    request.extend_from_slice(&[0x89, 0x81, 0, 0, 0, 0, b'?']);
    stream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(&[0x8a, 1, b'?']) {
        answer.push(stream.read_u8().await.unwrap());
    }
}
