//! The reference gateway over real sockets, with a client that shares only its framing code.

mod admission;
mod codes;
mod events;
mod flow;
mod handshake;
mod lists;
mod load;
mod managing;
mod messages;
mod sessions;
mod shares;
mod signatures;
mod tls;
mod traces;
mod triad;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use base::environment::SystemEnvironment;
use base::log::Silent;
use futures_util::{SinkExt as _, StreamExt as _};
use gateway_server::{Server, StartError, Timeouts, config::ServerConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use tokio_util::sync::CancellationToken;

use crate::support::assert_has;

/// The timeout of a wait for an event.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// The time in which no message may arrive.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(200);

/// A gateway with its folder. It ends with the test.
struct Gateway {
    address: SocketAddr,
    folder: PathBuf,
    shutdown: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn server_config(settings: Value) -> ServerConfig {
    let mut config = ServerConfig::parse(&settings.to_string()).unwrap();
    config.listen = "127.0.0.1:0".parse().unwrap();
    let name = format!("gateway-{}", uuid::Uuid::new_v4());
    config.state_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    config
}

async fn bind(config: ServerConfig, timeouts: Timeouts) -> Result<Server, StartError> {
    Server::bind_with_timeouts(
        config,
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
        timeouts,
    )
    .await
}

impl Gateway {
    async fn start(settings: Value) -> Self {
        Self::with_timeouts(settings, Timeouts::default()).await
    }

    async fn with_timeouts(settings: Value, timeouts: Timeouts) -> Self {
        Self::with_config(server_config(settings), timeouts).await
    }

    async fn with_config(config: ServerConfig, timeouts: Timeouts) -> Self {
        let folder = config.state_dir.clone();
        let server = bind(config, timeouts).await.unwrap();
        let shutdown = CancellationToken::new();
        Self {
            address: server.address(),
            folder,
            running: Some(tokio::spawn(server.run(shutdown.clone()))),
            shutdown,
        }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Returns a client that has authenticated with `KEY`.
    async fn authenticated_client(&self) -> Client {
        let mut client = self.client().await;
        let response = client
            .request(json!({"type": "auth", "content": {"token": "KEY"}}))
            .await;
        assert_eq!(response["content"]["status"], "ok", "{response}");
        client
    }

    /// Returns the agent `alpha` and another client.
    async fn alpha_and_client(&self) -> (Client, Client) {
        (self.serving_client(&["alpha"]).await, self.client().await)
    }

    /// Returns a client that serves agents.
    async fn serving_client(&self, names: &[&str]) -> Client {
        let mut client = self.client().await;
        client.advertise(names).await;
        client
    }
}

/// Returns the SHA-256 of a key or certificate in the form of the configuration.
pub(crate) fn digest(key: impl AsRef<[u8]>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.as_ref());
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Performs the WebSocket handshake.
async fn upgrade(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    address: SocketAddr,
) -> std::io::Result<()> {
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: a2a-v1\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let head = head(stream).await?;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        head.contains("sec-websocket-protocol: a2a-v1\r\n"),
        "{head}"
    );
    Ok(())
}

/// Returns the head of an HTTP response.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head).unwrap())
}

/// A client that the test drives.
struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        upgrade(&mut stream, address).await.unwrap();
        Self(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    async fn send_raw(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.send_raw(Message::Text(message.to_string().into()))
            .await;
    }

    async fn advertise(&mut self, names: &[&str]) -> Value {
        let capabilities = json!({"supportedMessageTypes": ["message"], "supportedAgents": names, "version": "1.0.0"});
        self.send(advertisement(&capabilities)).await;
        let acknowledged = self.recv().await;
        assert_has(&acknowledged, json!({"content": {"action": "acknowledge"}}));
        acknowledged
    }

    /// Returns the next message.
    async fn recv(&mut self) -> Value {
        loop {
            let frame = timeout(WAIT_TIMEOUT, self.0.next()).await.expect("a frame");
            match frame.expect("an open connection").unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn request(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.recv().await
    }

    /// Returns the code of the next message, which must be an error (Heretek Architecture, "Error Message Format").
    async fn expect_error(&mut self) -> u64 {
        let error = self.recv().await;
        assert_has(&error, json!({"type": "error", "from": "gateway"}));
        let content = &error["content"];
        let has_texts = content["error"].is_string() && content["message"].is_string();
        assert!(has_texts && error["timestamp"].is_u64(), "{error}");
        content["code"].as_u64().unwrap()
    }

    /// Sends a message that the gateway answers with an error of this code.
    async fn refuse(&mut self, message: Value, code: u64) {
        self.send(message.clone()).await;
        assert_eq!(self.expect_error().await, code, "{message}");
    }

    async fn assert_silent(&mut self) {
        let frame = timeout(SILENCE_TIMEOUT, self.0.next()).await;
        assert!(frame.is_err(), "{frame:?}");
    }

    /// Returns the close code of the gateway, and skips earlier messages.
    async fn wait_for_close(&mut self) -> u16 {
        loop {
            let frame = timeout(WAIT_TIMEOUT, self.0.next()).await.expect("a close");
            match frame.expect("a close frame").unwrap() {
                Message::Close(Some(close)) => return close.code.into(),
                Message::Close(None) => panic!("a close without a code"),
                _ => {}
            }
        }
    }
}

fn advertisement(capabilities: &Value) -> Value {
    json!({"type": "handshake", "content": {"action": "advertise", "capabilities": capabilities}})
}

/// Returns a message that requires a response.
fn message(agent: &str, correlation: &str) -> Value {
    json!({
        "type": "message",
        "id": format!("msg-{correlation}"),
        "agent": agent,
        "content": {"role": "user", "content": "hello"},
        "metadata": {"correlationId": correlation, "requiresResponse": true},
    })
}

/// Returns an answer to a message that the agent received.
fn answer(request: &Value, text: &str) -> Value {
    json!({
        "type": "message",
        "agent": request["from"],
        "content": {"role": "agent", "content": text},
        "metadata": {"correlationId": request["metadata"]["correlationId"]},
    })
}
