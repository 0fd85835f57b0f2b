//! Admission of connections, and eviction when there are too many.

use super::*;

/// Returns the status of an upgrade with these further header lines.
async fn status(gateway: &Gateway, lines: &[&str]) -> String {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let mut request = String::from(
        "GET / HTTP/1.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    );
    if !lines.iter().any(|line| line.starts_with("host:")) {
        request += &format!("host: {}\r\n", gateway.address);
    }
    for line in lines {
        request += &format!("{line}\r\n");
    }
    stream
        .write_all(format!("{request}\r\n").as_bytes())
        .await
        .unwrap();
    let head = timeout(WAIT_TIMEOUT, head(&mut stream))
        .await
        .unwrap()
        .unwrap();
    head.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn refuses_foreign_origins() {
    let gateway = Gateway::start(json!({})).await;
    let own = format!("origin: http://{}", gateway.address);
    assert_eq!(status(&gateway, &[&own]).await, "101");
    let mut let_in = Vec::new();
    for origin in [
        "http://localhost:3000",
        "https://evil.localhost",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        &format!("https://{}", gateway.address),
        &format!("http://localhost:{}", gateway.address.port()),
        "https://evil.example",
        "null",
        "",
    ] {
        let line = format!("origin: {origin}");
        if status(&gateway, &[&line]).await != "403" {
            let_in.push(origin.to_owned());
        }
    }
    assert!(let_in.is_empty(), "{let_in:?}");
    let both = [&*own, "origin: http://localhost:3000"];
    assert_eq!(status(&gateway, &both).await, "403");
}

#[tokio::test]
async fn accepts_configured_origin_exactly() {
    let gateway = Gateway::start(json!({"origins": ["https://console.example:8443"]})).await;
    for (origin, expected) in [
        ("https://console.example:8443", "101"),
        ("https://console.example", "403"),
        ("http://console.example:8443", "403"),
        ("https://a.console.example:8443", "403"),
    ] {
        let line = format!("origin: {origin}");
        assert_eq!(status(&gateway, &[&line]).await, expected, "{origin}");
    }
}

#[tokio::test]
async fn refuses_names_that_only_resolve_to_it() {
    let gateway = Gateway::start(json!({"hosts": ["gate.example"]})).await;
    for (host, expected) in [
        ("rebound.example", "403"),
        ("gate.example.rebound.example", "403"),
        ("localhost", "101"),
        ("gate.example:18789", "101"),
    ] {
        let line = format!("host: {host}");
        assert_eq!(status(&gateway, &[&line]).await, expected, "{host}");
    }
}

#[tokio::test]
async fn refuses_forwarded_upgrade_without_auth() {
    let forwarded = [
        "x-forwarded-for: 192.0.2.9",
        "forwarded: for=192.0.2.9",
        "x-real-ip: 192.0.2.9",
        "via: 1.1 somewhere",
    ];
    let open = Gateway::start(json!({})).await;
    let upgrade =
        Gateway::start(json!({"auth": {"keys": [{"name": "k", "sha256": digest("KEY")}]}})).await;
    for line in forwarded {
        assert_eq!(status(&open, &[line]).await, "403", "{line}");
        assert_eq!(status(&upgrade, &[line]).await, "101", "{line}");
    }
}

/// The number of concurrent connection attempts.
#[cfg(unix)]
const OPENING: usize = 512;

/// Raises the limit of open files for both ends of the given number of sockets.
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn concurrent_clients_all_connect() {
    raise_file_limit();
    // The gateway reads their frames, even after an eviction.
    let timeouts = Timeouts {
        eviction_grace: Duration::from_secs(3600),
        ..Timeouts::default()
    };
    let gateway = Gateway::with_timeouts(json!({}), timeouts).await;
    let clients = futures_util::future::join_all((0..OPENING).map(|_| gateway.client())).await;
    for mut client in clients {
        client.advertise(&[]).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn silent_sockets_do_not_block_clients() {
    raise_file_limit();
    let timeouts = Timeouts {
        handshake: Duration::from_secs(3600),
        ..Timeouts::default()
    };
    let gateway = Gateway::with_timeouts(json!({}), timeouts).await;
    let mut silent = Vec::new();
    for _ in 0..OPENING {
        silent.push(TcpStream::connect(gateway.address).await.unwrap());
    }
    let client = timeout(WAIT_TIMEOUT, gateway.client()).await;
    client.expect("a connection").advertise(&[]).await;
    // The gateway evicted the longest silent one.
    let ended = timeout(WAIT_TIMEOUT, silent[0].read(&mut [0]))
        .await
        .unwrap();
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
}

#[tokio::test]
async fn unauthenticated_connections_do_not_block_clients() {
    let timeouts = Timeouts {
        authentication: Duration::from_secs(3600),
        ..Timeouts::default()
    };
    let settings = json!({
        "auth": {"keys": (0..4).map(|n| json!({"name": format!("k{n}"), "sha256": digest(format!("KEY{n}"))})).collect::<Vec<_>>()},
        "limits": {"connections": 8},
    });
    let gateway = Gateway::with_timeouts(settings, timeouts).await;
    let mut nameless = Vec::new();
    for _ in 0..8 {
        nameless.push(gateway.client().await);
    }
    let mut known = Vec::new();
    // One identity has at most a quarter of the connections.
    for n in 0..8 {
        let mut client = gateway.client().await;
        let auth = json!({"type": "auth", "content": {"token": format!("KEY{}", n / 2)}});
        let response = client.request(auth).await;
        assert_eq!(response["content"]["status"], "ok", "{response}");
        known.push(client);
    }
    for client in &mut nameless {
        assert_eq!(client.wait_for_close().await, 1008);
    }
    for client in &mut known {
        assert_eq!(
            client.request(json!({"type": "ping"})).await["type"],
            "pong"
        );
    }
    assert_eq!(status(&gateway, &[]).await, "503");
}
