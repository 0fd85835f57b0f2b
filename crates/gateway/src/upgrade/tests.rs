#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const KEY: &str = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";

fn request(line: &str, headers: &[&str]) -> String {
    format!("{line}\r\n{}\r\n\r\n", headers.join("\r\n"))
}

fn usual(line: &str, more: &[&str]) -> String {
    let mut headers = vec![
        "connection: keep-alive, Upgrade",
        "upgrade: WebSocket",
        "sec-websocket-version: 13",
        KEY,
    ];
    headers.extend(more);
    request(line, &headers)
}

async fn asked(request: &str) -> Result<Granted, Refused> {
    asked_at(&ServerConfig::default(), request).await
}

async fn asked_at(config: &ServerConfig, request: &str) -> Result<Granted, Refused> {
    let access = AccessControl::new(config);
    read(&mut request.as_bytes(), &access).await.unwrap()
}

async fn status(request: &str) -> &'static str {
    asked(request)
        .await
        .unwrap_err()
        .status
        .split(' ')
        .next()
        .unwrap()
}

#[tokio::test]
async fn the_accept_key_is_that_of_the_rfc() {
    let granted = asked(&usual("GET / HTTP/1.1", &["host: 127.0.0.1"]))
        .await
        .unwrap();
    assert_eq!(granted.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[tokio::test]
async fn h_01_paths_other_than_the_root_are_not_found() {
    for path in ["/a2a", "/?token=x", "//"] {
        let line = format!("GET {path} HTTP/1.1");
        assert_eq!(
            status(&usual(&line, &["host: localhost:1"])).await,
            "404",
            "{path}"
        );
    }
}

#[tokio::test]
async fn h_02_the_subprotocol_is_chosen_where_it_is_offered_and_not_needed() {
    let line = "GET / HTTP/1.1";
    let offers = "sec-websocket-protocol: other, a2a-v1";
    assert!(
        asked(&usual(line, &["host: localhost", offers]))
            .await
            .unwrap()
            .subprotocol
    );
    let offers = "sec-websocket-protocol: other";
    assert!(
        !asked(&usual(line, &["host: localhost", offers]))
            .await
            .unwrap()
            .subprotocol
    );
    assert!(
        !asked(&usual(line, &["host: localhost"]))
            .await
            .unwrap()
            .subprotocol
    );
}

#[tokio::test]
async fn a_page_from_elsewhere_may_not_connect() {
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "http://localhost:5173",
        "file://",
    ] {
        let origin = format!("origin: {origin}");
        let request = usual("GET / HTTP/1.1", &["host: 127.0.0.1", &origin]);
        assert_eq!(status(&request).await, "403", "{origin}");
    }
    let request = usual(
        "GET / HTTP/1.1",
        &["host: LOCALHOST:1", "origin: http://localhost:1"],
    );
    asked(&request).await.unwrap();
}

#[tokio::test]
async fn a_name_that_was_pointed_at_this_machine_is_refused() {
    for host in [
        "evil.example:18789",
        "10.0.0.1",
        "",
        "a@localhost",
        "localhost:",
        "localhost:x",
        "localhost/evil.example",
    ] {
        let host = format!("host: {host}");
        assert_eq!(
            status(&usual("GET / HTTP/1.1", &[&host])).await,
            "403",
            "{host}"
        );
    }
    assert_eq!(status(&usual("GET / HTTP/1.1", &[])).await, "403");
    for host in ["[::1]:18789", "127.0.0.2:1", "LOCALHOST."] {
        let host = format!("host: {host}");
        asked(&usual("GET / HTTP/1.1", &[&host])).await.unwrap();
    }
}

#[tokio::test]
async fn gateway_beyond_loopback_answers_to_its_own_names_alone() {
    let mut config = ServerConfig {
        listen: "192.0.2.1:1".parse().unwrap(),
        hosts: vec!["Gate.example".into()],
        ..ServerConfig::default()
    };
    let ask = async |config: &ServerConfig, host: &str| {
        let host = format!("host: {host}");
        let request = usual("GET / HTTP/1.1", &[&host]);
        asked_at(config, &request).await.is_ok()
    };
    for host in ["192.0.2.1:1", "gate.example:443", "localhost"] {
        assert!(ask(&config, host).await, "{host}");
    }
    for host in ["rebound.example", "192.0.2.7", "a.gate.example"] {
        assert!(!ask(&config, host).await, "{host}");
    }
    config.listen = "0.0.0.0:1".parse().unwrap();
    assert!(ask(&config, "192.0.2.7").await);
    assert!(!ask(&config, "rebound.example").await);
}

#[tokio::test]
async fn what_is_no_upgrade_is_told_to_upgrade() {
    let plain = request("GET / HTTP/1.1", &["host: localhost"]);
    assert_eq!(status(&plain).await, "426");
    let old = usual("GET / HTTP/1.1", &["host: localhost"]).replace("version: 13", "version: 8");
    assert_eq!(status(&old).await, "426");
    assert_eq!(
        status(&usual("POST / HTTP/1.1", &["host: localhost"])).await,
        "426"
    );
}

#[tokio::test]
async fn a_head_without_end_is_not_read_to_its_end() {
    let long = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}",
        "y".repeat(2 * HEAD)
    );
    assert_eq!(status(&long).await, "431");
    assert_eq!(
        status("\u{16}\u{3}\u{1} no HTTP at all\r\n\r\n").await,
        "400"
    );
}

#[tokio::test]
async fn what_comes_behind_the_request_is_kept() {
    let request = usual("GET / HTTP/1.1", &["host: localhost"]) + "frames";
    assert_eq!(asked(&request).await.unwrap().read, b"frames");
}
