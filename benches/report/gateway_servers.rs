//! The gateway, and as its baseline an echo server on the same WebSocket library.

use std::{path::Path, sync::Arc};

use base::environment::SystemEnvironment;
use base::log::Silent;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt as _, StreamExt as _};
use gateway_server::{Server, config::ServerConfig};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};
use tokio_util::sync::CancellationToken;

use crate::gateway_clients;

pub(crate) const ROLE: &str = "--gateway";

/// Serves until the process is killed.
pub(crate) fn serve(role: &str, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    match role {
        "echo" => runtime.block_on(echo()),
        fsync => runtime.block_on(gateway(fsync, folder)),
    }
}

async fn gateway(fsync: &str, folder: &Path) {
    let limits = json!({"connections": 20_000, "messagesPerSecond": 1_000_000, "burst": 1_000_000});
    let audit = json!({"enabled": false});
    let mut settings = json!({"fsync": fsync, "limits": limits, "audit": audit});
    if fsync == "signed" {
        let key = gateway_clients::signing_key().public_key();
        let agent = |n| json!({"name": format!("sender-{n}"), "role": "sender", "keys": [key]});
        settings["fsync"] = "never".into();
        settings["agents"] = (0..16).map(agent).collect();
        settings["signing"] = json!({"mode": "verify"});
    }
    let mut config = ServerConfig::parse(&settings.to_string()).unwrap();
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.state_dir = folder.to_owned();
    let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent))
        .await
        .unwrap();
    println!("{}", server.address());
    server.run(CancellationToken::new()).await;
}

async fn echo() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(echo_frames(stream));
    }
}

async fn echo_frames(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let key = head
        .lines()
        .find_map(|line| line.strip_prefix("sec-websocket-key: "))
        .unwrap();
    let digest_input = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = STANDARD.encode(ring::digest::digest(
        &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
        digest_input.as_bytes(),
    ));
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.write_all(response.as_bytes()).await.unwrap();
    // The same buffer size as in the gateway.
    let config = WebSocketConfig::default().read_buffer_size(4096);
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    while let Some(Ok(frame)) = socket.next().await {
        if let Message::Text(_) = frame
            && socket.send(frame).await.is_err()
        {
            return;
        }
    }
}
