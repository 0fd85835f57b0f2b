//! The gateway, and as its baseline an echo server on the same WebSocket library.

use std::{path::Path, sync::Arc};

use base::environment::SystemEnvironment;
use base::log::Silent;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt as _, StreamExt as _};
use gateway_agent::Supervisor;
use gateway_server::{Server, config::ServerConfig};
use serde_json::{Value, json};
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

/// Serves until the process is killed: as the echo server, or as a gateway with these settings.
pub(crate) fn serve(what: &str, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    match what {
        "echo" => runtime.block_on(echo()),
        settings => runtime.block_on(gateway(settings, folder)),
    }
}

/// Returns the settings of a measured gateway. A role that is no value of `fsync` has `never`.
pub(crate) fn settings(role: &str) -> Value {
    let limits = json!({"connections": 20_000, "messagesPerSecond": 1_000_000, "burst": 1_000_000});
    let audit = json!({"enabled": false});
    let mut settings = json!({"fsync": "never", "limits": limits, "audit": audit});
    match role {
        "signed" => {
            let key = gateway_clients::signing_key().public_key();
            let agent = |n| json!({"name": format!("sender-{n}"), "role": "sender", "keys": [key]});
            settings["agents"] = (0..16).map(agent).collect();
            settings["signing"] = json!({"mode": "verify"});
        }
        "encrypted" => {
            // The bytes 0 to 31.
            let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
            settings["sessions"] = json!({"encryption": {"keys": [{"key": key}]}});
        }
        "linked" => {}
        fsync => settings["fsync"] = fsync.into(),
    }
    settings
}

async fn gateway(settings: &str, folder: &Path) {
    let mut config = ServerConfig::parse(settings).unwrap();
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.state_dir = folder.to_owned();
    let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent))
        .await
        .unwrap();
    println!("{}", server.address());
    let mut links = Supervisor::new(Arc::new(Silent));
    links.add_links(&server);
    let shutdown = CancellationToken::new();
    tokio::join!(server.run(shutdown.clone()), links.run(shutdown));
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
