#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! The peers, tested over bare sockets.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Peers;

const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const NOT_YET: Duration = Duration::from_millis(100);

async fn one(peer: Value) -> Peers {
    Peers::start(&json!({"peers": {"main": peer}}))
        .await
        .unwrap()
}

async fn connect(peers: &Peers, name: &str) -> TcpStream {
    TcpStream::connect(peers.origin(name).strip_prefix("http://").unwrap())
        .await
        .unwrap()
}

/// Starts a peer, and returns a connection to it.
async fn connected(peer: Value) -> (Peers, TcpStream) {
    let peers = one(peer).await;
    let stream = connect(&peers, "main").await;
    (peers, stream)
}

async fn get(stream: &mut TcpStream, path: &str) {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
}

async fn post(stream: &mut TcpStream, path: &str, body: &str) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
}

/// Returns all bytes up to the end of the connection, and its error.
async fn read_out(stream: &mut TcpStream) -> (String, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = timeout(EXIT_TIMEOUT, stream.read_to_end(&mut bytes))
        .await
        .expect("the peer ends the connection");
    (
        String::from_utf8_lossy(&bytes).into_owned(),
        end.err().map(|error| error.kind()),
    )
}

/// Reads until `text` has arrived.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut bytes = [0; 4096];
        let count = timeout(EXIT_TIMEOUT, stream.read(&mut bytes))
            .await
            .expect("more bytes arrive")
            .unwrap();
        assert!(count > 0, "the connection ended before {text:?}: {seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    seen
}

/// Returns head and body of one answer with `content-length`.
async fn read_answer(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let seen = read_until(stream, "\r\n\r\n").await;
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    let mut body = body.as_bytes().to_vec();
    let mut rest = vec![0; length - body.len()];
    timeout(EXIT_TIMEOUT, stream.read_exact(&mut rest))
        .await
        .expect("the body arrives")
        .unwrap();
    body.append(&mut rest);
    (head.to_owned(), body)
}

async fn nothing_comes(stream: &mut TcpStream) {
    let mut byte = [0];
    assert!(
        timeout(NOT_YET, stream.read(&mut byte)).await.is_err(),
        "the peer stays silent and open"
    );
}

#[tokio::test]
async fn card_is_served_with_its_origin_filled_in() {
    let (peers, mut stream) =
        connected(json!({"card": {"url": "{{origin}}/a2a", "port": "{{port:main}}"}})).await;
    get(&mut stream, "/.well-known/agent-card.json").await;
    let origin = peers.origin("main").to_owned();
    let port = origin.rsplit(':').next().unwrap();
    let seen = read_until(&mut stream, "}").await;
    assert!(seen.contains(&format!(r#""url":"{origin}/a2a""#)), "{seen}");
    assert!(seen.contains(&format!(r#""port":"{port}""#)), "{seen}");
}

#[tokio::test]
async fn answers_are_used_in_order_and_the_last_stays() {
    let (peers, mut stream) =
        connected(json!({"rpc": {"m": [{"result": "first"}, {"result": "last"}]}})).await;
    for expected in ["first", "last", "last"] {
        post(
            &mut stream,
            "/a2a/jsonrpc",
            r#"{"jsonrpc":"2.0","id":"q-7","method":"m"}"#,
        )
        .await;
        let (_, body) = read_answer(&mut stream).await;
        let expected = json!({"jsonrpc": "2.0", "id": "q-7", "result": expected});
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
    }
    assert_eq!(peers.connections("main"), 1, "the connection is kept alive");
}

#[tokio::test]
async fn route_precedes_card_and_rpc() {
    let (_peers, mut stream) = connected(json!({"card": {}, "routes": {"GET /.well-known/agent-card.json": {"status": 418, "body": "tea"}}})).await;
    get(&mut stream, "/.well-known/agent-card.json?x=1").await;
    assert!(
        read_until(&mut stream, "tea")
            .await
            .starts_with("HTTP/1.1 418 ")
    );
}

#[tokio::test]
async fn unknown_methods_and_paths_are_refused() {
    let (_peers, mut stream) = connected(json!({})).await;
    post(&mut stream, "/a2a/jsonrpc", r#"{"id":1,"method":"nope"}"#).await;
    let (head, body) = read_answer(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(
        serde_json::from_slice::<Value>(&body).unwrap()["error"]["code"],
        -32601
    );
    get(&mut stream, "/elsewhere").await;
    let (head, _) = read_answer(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
}

#[tokio::test]
async fn chunked_request_body_is_put_together() {
    let (peers, mut stream) = connected(json!({"routes": {"POST /x": {"body": "ok"}}})).await;
    stream
        .write_all(b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\nX-A: 1\r\nx-a: 2\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut stream, "ok").await;
    let log = peers.log("main");
    assert_eq!(log[0].body, Some(json!({"a": 1})));
    assert_eq!(log[0].headers["x-a"], "1, 2");
}

#[tokio::test]
async fn destroy_resets_the_connection() {
    let (_peers, mut stream) = connected(json!({"routes": {"GET /": {"end": "destroy"}}})).await;
    get(&mut stream, "/").await;
    assert_eq!(
        read_out(&mut stream).await,
        (String::new(), Some(ErrorKind::ConnectionReset))
    );
}

#[tokio::test]
async fn truncate_promises_everything_sends_a_part_and_resets() {
    let (_peers, mut stream) =
        connected(json!({"routes": {"GET /": {"body": "0123456789", "truncate_at": 4}}})).await;
    get(&mut stream, "/").await;
    let (seen, end) = read_out(&mut stream).await;
    assert!(seen.contains("content-length: 10\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\n0123"), "{seen}");
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn hanging_body_stops_and_stays_open() {
    let (_peers, mut stream) =
        connected(json!({"routes": {"GET /": {"body": "0123456789", "end": "hang"}}})).await;
    get(&mut stream, "/").await;
    assert!(
        read_until(&mut stream, "01234")
            .await
            .ends_with("\r\n\r\n01234")
    );
    nothing_comes(&mut stream).await;
}

#[tokio::test]
async fn ended_event_stream_keeps_the_connection() {
    let (_peers, mut stream) = connected(json!({"rpc": {"s": {"sse": [
        {"event": "e", "result": {"n": 1}},
        {"repeat": {"from": 2, "count": 2, "each": {"rest": {"n": "{{i}}"}}}},
        {"raw": ": id {{rpc_id}}\n\n"}
    ]}}}))
    .await;
    for id in [5, 6] {
        post(
            &mut stream,
            "/a2a/jsonrpc",
            &format!(r#"{{"id":{id},"method":"s"}}"#),
        )
        .await;
        let seen = read_until(&mut stream, "0\r\n\r\n").await;
        assert!(
            seen.contains("content-type: text/event-stream\r\n"),
            "{seen}"
        );
        let (_, first) = seen.split_once("event: e\ndata: ").unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(first.lines().next().unwrap()).unwrap(),
            json!({"jsonrpc": "2.0", "id": id, "result": {"n": 1}})
        );
        assert!(
            seen.contains("data: {\"n\":\"2\"}\n\ndata: {\"n\":\"3\"}\n\n"),
            "{seen}"
        );
        assert!(seen.contains(&format!(": id {id}\n\n")), "{seen}");
    }
}

#[tokio::test]
async fn event_stream_is_reset_or_stays_open() {
    let events = json!([{"raw": "data: 1\n\n"}]);
    let peers = one(json!({"routes": {
        "GET /cut": {"sse": events, "end": "destroy"},
        "GET /open": {"sse": events, "end": "hang"}
    }}))
    .await;
    let mut cut = connect(&peers, "main").await;
    get(&mut cut, "/cut").await;
    let (seen, end) = read_out(&mut cut).await;
    assert!(
        seen.contains("data: 1\n\n") && !seen.contains("0\r\n\r\n"),
        "{seen}"
    );
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
    let mut open = connect(&peers, "main").await;
    get(&mut open, "/open").await;
    read_until(&mut open, "data: 1\n\n").await;
    nothing_comes(&mut open).await;
}

#[tokio::test]
async fn half_closed_stream_lacks_its_end() {
    let (_peers, mut stream) =
        connected(json!({"routes": {"GET /": {"sse": [{"raw": "data: 1\n\n"}], "close": "half"}}}))
            .await;
    get(&mut stream, "/").await;
    let (seen, end) = read_out(&mut stream).await;
    assert!(seen.ends_with("data: 1\n\n\r\n"), "{seen}");
    assert_eq!(end, None);
    stream.write_all(b"still listened to").await.unwrap();
}

#[tokio::test]
async fn raw_pieces_are_written_unchanged() {
    let pieces = json!(["HTTP/1.1 200 OK\r\n\r\n", {"delay_ms": 1}, {"hex": "ff00"}, {"repeat": {"chunk": "ab", "count": 3}}]);
    let (_peers, mut stream) =
        connected(json!({"routes": {"GET /": {"raw_response": pieces}}})).await;
    get(&mut stream, "/").await;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, b"HTTP/1.1 200 OK\r\n\r\n\xff\x00ababab");
}

#[tokio::test]
async fn repeated_body_has_its_length_or_never_ends() {
    let peers = one(json!({"routes": {
        "GET /long": {"body_repeat": {"chunk": "abc", "count": 100_000}},
        "GET /endless": {"body_repeat": {"chunk": "abc"}}
    }}))
    .await;
    let mut long = connect(&peers, "main").await;
    long.write_all(b"GET /long HTTP/1.1\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let (seen, end) = read_out(&mut long).await;
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-length: 300000"), "{head}");
    assert_eq!((body.len(), end), (300_000, None));
    let mut endless = connect(&peers, "main").await;
    get(&mut endless, "/endless").await;
    let mut sink = vec![0; 1 << 20];
    timeout(EXIT_TIMEOUT, endless.read_exact(&mut sink))
        .await
        .expect("a megabyte arrives")
        .unwrap();
    assert!(String::from_utf8_lossy(&sink[..200]).contains("transfer-encoding: chunked"));
}

#[tokio::test]
async fn scripted_headers_win_and_may_repeat_or_vanish() {
    let headers = json!({"Content-Type": null, "set-cookie": ["a=1", "b=2"], "location": "{{origin:main}}/y"});
    let (peers, mut stream) =
        connected(json!({"routes": {"GET /": {"status": 302, "headers": headers, "body": "."}}}))
            .await;
    get(&mut stream, "/").await;
    let seen = read_until(&mut stream, "\r\n\r\n.").await;
    assert!(!seen.contains("content-type"), "{seen}");
    assert!(
        seen.contains("set-cookie: a=1\r\nset-cookie: b=2\r\n"),
        "{seen}"
    );
    assert!(
        seen.contains(&format!("location: {}/y\r\n", peers.origin("main"))),
        "{seen}"
    );
}

#[tokio::test]
async fn status_without_body_is_empty() {
    let (_peers, mut stream) =
        connected(json!({"routes": {"GET /": [{"status": 204, "body": "x"}, {"body": "next"}]}}))
            .await;
    get(&mut stream, "/").await;
    assert!(
        read_until(&mut stream, "\r\n\r\n")
            .await
            .ends_with("\r\n\r\n")
    );
    get(&mut stream, "/").await;
    assert!(
        read_until(&mut stream, "next")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
}

#[tokio::test]
async fn unreachable_peer_refuses() {
    let peers = one(json!({"unreachable": true})).await;
    let error = TcpStream::connect(peers.origin("main").strip_prefix("http://").unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn silent_peer_accepts_without_response() {
    let (peers, mut stream) = connected(json!({"accept_only": true})).await;
    get(&mut stream, "/").await;
    timeout(EXIT_TIMEOUT, peers.wait_for_connections("main", 1))
        .await
        .expect("the connection is counted");
    nothing_comes(&mut stream).await;
    assert!(peers.log("main").is_empty());
}

#[tokio::test]
async fn test_can_wait_for_requests() {
    let peers = one(json!({})).await;
    assert!(
        timeout(NOT_YET, peers.wait_for("main", 1)).await.is_err(),
        "nothing was sent yet"
    );
    let mut stream = connect(&peers, "main").await;
    get(&mut stream, "/a?b=c").await;
    timeout(EXIT_TIMEOUT, peers.wait_for("main", 1))
        .await
        .expect("the request is logged");
    assert_eq!(peers.log("main")[0].path, "/a?b=c");
}

#[tokio::test]
async fn dropping_the_peers_closes_every_socket() {
    let (peers, mut stream) =
        connected(json!({"routes": {"GET /": {"sse": [], "end": "hang"}}})).await;
    get(&mut stream, "/").await;
    read_until(&mut stream, "\r\n\r\n").await;
    drop(peers);
    let mut rest = Vec::new();
    let _result = timeout(EXIT_TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("the connection ends");
}
