#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use axum::response::sse::{Event, Sse};
use axum::routing::get;
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::testing::{read, start};

/// The default maximum size of a request head, in bytes.
const MAX_HEADER: usize = 64 << 10;

const HELLO: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn quick() -> ConnectionConfig {
    ConnectionConfig {
        header_timeout: Duration::from_millis(100),
        handshake_timeout: Duration::from_millis(100),
        drain_timeout: Duration::from_millis(200),
        ..ConnectionConfig::default()
    }
}

#[tokio::test]
async fn slow_header_is_cut_and_others_are_served() {
    let server = start(hello(), quick()).await;
    let mut slow = server.write("GET / HTTP/1.1\r\nHost: loc").await;
    let answer = server.request("GET /", &[], "").await;
    assert_eq!(answer.status, 200);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200"));
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let server = start(hello(), quick()).await;
    let mut silent = server.write(HELLO).await;
    let mut all = String::new();
    silent.read_to_string(&mut all).await.unwrap();
    assert!(all.ends_with("hello"), "{all}");
}

/// Returns limits that the tests do not reach.
fn patient() -> ConnectionConfig {
    ConnectionConfig {
        total: 4,
        header_timeout: Duration::from_secs(3600),
        ..quick()
    }
}

/// Waits until the server closes an idle connection.
async fn closed(mut stream: TcpStream) {
    let end = tokio::time::timeout(Duration::from_secs(20), stream.read_u8());
    assert!(end.await.expect("the connection stays open").is_err());
}

#[tokio::test]
async fn full_server_closes_longest_silent_for_newcomer() {
    let server = start(hello(), patient()).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.get("/", &[]).await, 200);
    closed(silent.remove(0)).await;
}

#[tokio::test]
async fn address_over_its_share_closes_its_own_connection() {
    let connections = ConnectionConfig {
        per_address: 1,
        ..patient()
    };
    let server = start(hello(), connections).await;
    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(server.address).await.unwrap();
    let first = TcpStream::connect(server.address).await.unwrap();
    let _second = TcpStream::connect(server.address).await.unwrap();
    closed(first).await;
    other.write_all(HELLO.as_bytes()).await.unwrap();
    until(&mut other, "hello").await;
}

#[tokio::test]
async fn trusted_proxy_has_more_than_one_share() {
    let connections = ConnectionConfig {
        per_address: 1,
        proxies: Some(TrustedProxies::default()),
        ..patient()
    };
    let server = start(hello(), connections).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    for stream in [&mut first, &mut second] {
        stream.write_all(HELLO.as_bytes()).await.unwrap();
        until(stream, "hello").await;
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_warning_is_counted() {
    let mut limiter = WarningLimiter::default();
    assert_eq!(limiter.admit().as_deref(), Some(""));
    for _ in 0..2 {
        assert_eq!(limiter.admit(), None);
    }
    tokio::time::advance(WARNING_INTERVAL).await;
    let counted = limiter.admit();
    assert_eq!(counted.as_deref(), Some(" (2 more since the last warning)"));
    assert_eq!(limiter.admit(), None);
}

#[tokio::test]
async fn long_header_is_rejected() {
    let server = start(hello(), quick()).await;
    let long = format!("X-Long: {}", "x".repeat(4 * MAX_HEADER));
    // The server may reset the connection before the client has read the status.
    assert!(matches!(server.get("/", &[&long]).await, 431 | 0));
}

/// Returns a route that streams `one`, and then the texts from the channel until its sender is dropped.
fn streaming() -> (Router, mpsc::Sender<&'static str>) {
    let (send, receive) = mpsc::channel::<&'static str>(4);
    let receive = Arc::new(parking_lot::Mutex::new(Some(receive)));
    let stream = move || {
        let receive = receive.lock().take().unwrap();
        let rest = futures_util::stream::unfold(receive, |mut receive| async move {
            Some((receive.recv().await?, receive))
        });
        let all = futures_util::stream::once(async { "one" }).chain(rest);
        async { Sse::new(all.map(|text| Ok::<_, Infallible>(Event::default().data(text)))) }
    };
    (Router::new().route("/", get(stream)), send)
}

async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(text) {
        all.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn shutdown_finishes_streams_and_admits_no_more() {
    let (app, send) = streaming();
    let server = start(app, ConnectionConfig::default()).await;
    let mut stream = server.write(HELLO).await;
    until(&mut stream, "one").await;
    server.stop.cancel();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    send.send("last").await.unwrap();
    drop(send);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(
        rest.contains("data: last") && rest.ends_with("0\r\n\r\n"),
        "{rest}"
    );
    server.ended.await.unwrap();
}

#[tokio::test]
async fn shutdown_cuts_unfinished_responses() {
    let (app, send) = streaming();
    let server = start(app, quick()).await;
    let mut stream = server.write(HELLO).await;
    until(&mut stream, "one").await;
    server.stop.cancel();
    server.ended.await.unwrap();
    assert!(send.send("late").await.is_err());
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest).await;
    assert!(!rest.contains("late"));
}

#[tokio::test]
async fn shutdown_ignores_silent_connections() {
    let connections = ConnectionConfig {
        header_timeout: Duration::from_secs(3600),
        drain_timeout: Duration::from_secs(3600),
        ..ConnectionConfig::default()
    };
    let server = start(hello(), connections).await;
    let mut idle = server.write(HELLO).await;
    until(&mut idle, "hello").await;
    server.stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), server.ended);
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn unread_response_is_cut_and_dropped() {
    let (received, dropped) = tokio::sync::oneshot::channel::<()>();
    let received = Arc::new(parking_lot::Mutex::new(Some(received)));
    let endless = move || {
        let received = received.lock().take();
        let all = futures_util::stream::repeat_with(move || {
            let _ends_with_the_answer = &received;
            Ok::<_, Infallible>(vec![0; MAX_HEADER])
        });
        async { Body::from_stream(all) }
    };
    let connections = ConnectionConfig {
        write_timeout: Duration::from_millis(100),
        ..ConnectionConfig::default()
    };
    let app = Router::new().route("/", get(endless));
    let server = start(app, connections).await;
    let _idle = server.write(HELLO).await;
    let ended = tokio::time::timeout(Duration::from_secs(20), dropped);
    assert!(ended.await.unwrap().is_err());
}

#[tokio::test]
async fn ambiguous_body_length_is_rejected() {
    let server = start(hello(), ConnectionConfig::default()).await;
    for lines in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: -1",
        "Content-Length: +1",
        "Content-Length: 1, 2",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding : chunked",
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n");
        let stream = server.write(&head).await;
        assert_eq!(read(stream).await.status, 400, "{lines}");
    }
}

#[tokio::test]
async fn upgrade_request_gets_no_other_protocol() {
    let server = start(hello(), ConnectionConfig::default()).await;
    let upgrade = [
        "Connection: upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    assert_eq!(server.get("/", &upgrade).await, 200);
    assert_eq!(
        server.request("CONNECT localhost:1", &[], "").await.status,
        404
    );
    assert_eq!(server.request("OPTIONS *", &[], "").await.status, 404);
}
