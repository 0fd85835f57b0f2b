//! One WebSocket connection, from its upgrade to its end, and its timeouts: write, authentication, credential, idle (Heretek A2A
//! §3.2).
//!
//! Three futures run concurrently: one reads, one writes the outbox, one checks the timeouts.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode as WireCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use collective::{CloseCode, Envelope, ErrorCode};
use http_server::serve::Connection;

use super::access::Identity;
use super::agent::CLIENT_ID_PREFIX;
use super::connected_client::Client;
use super::frames;
use super::frames::RequestError;
use super::handlers::FrameHandler;
use super::links::Link;
use super::outbox::{Close, Item, Next, Outbox};
use super::socket::{FrameTracker, Socket};
use super::state::GatewayState;

/// The size of a connection's read buffer. Most frames are small.
const READ_BUFFER_BYTES: usize = 4 * 1024;

/// The maximum size of one write.
const MAX_BATCH_BYTES: usize = 64 * 1024;

/// Registers the client of a connection. The connection counts as unauthenticated until the client is authenticated. Returns
/// `None` if the gateway has its maximum number of clients, or the client's identity its share of them.
pub(super) fn register(
    state: &GatewayState,
    connection: Connection,
    address: IpAddr,
) -> Option<Arc<Client>> {
    let client = new_client(state, Some(address));
    let certificate = connection.client_certificate();
    let identity = certificate.and_then(|certificate| state.keyring.certificate(certificate));
    let name = identity.as_ref().map(|identity| identity.name.as_str());
    if let Some(link) = name.and_then(|name| state.links.of_certificate(name)) {
        client.set_link(Arc::clone(link));
    }
    if let Some(identity) = identity.or_else(|| state.keyring.anonymous().ok()) {
        state.admit(&client, identity.into()).ok()?;
    }
    client.set_unauthenticated(connection);
    add(state, client)
}

/// Registers a client in the gateway's own process, authenticated as `identity`: an agent, or the other gateway of `link`.
/// Returns `None` if the gateway has its maximum number of clients.
pub(super) fn register_local(
    state: &GatewayState,
    identity: Identity,
    link: Option<Arc<Link>>,
) -> Option<Arc<Client>> {
    let client = new_client(state, None);
    if let Some(link) = link {
        client.set_link(link);
    }
    state.admit(&client, identity.into()).ok()?;
    add(state, client)
}

/// Adds a client to the registry, unless the gateway has its maximum number of clients.
fn add(state: &GatewayState, client: Arc<Client>) -> Option<Arc<Client>> {
    let limit = state.config.limits.connections;
    let registered = state.registry_mut().add_client(&client, limit);
    if registered {
        state.attach_link(&client);
    }
    registered.then_some(client)
}

fn new_client(state: &GatewayState, address: Option<IpAddr>) -> Arc<Client> {
    let id = format!("{CLIENT_ID_PREFIX}{}", state.env.uuid());
    let outbox = Outbox::new(
        state.config.limits.queue_bytes,
        Arc::clone(&state.queue_budget),
    );
    Client::new(id, address, outbox, state.env.now())
}

/// Serves a client over an upgraded connection until the connection ends.
pub(super) async fn serve<S>(state: Arc<GatewayState>, client: Arc<Client>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let max_bytes = Some(state.config.limits.frame_bytes);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(MAX_BATCH_BYTES)
        .max_message_size(max_bytes)
        .max_frame_size(max_bytes);
    let socket = Socket::new(stream, config).await;
    {
        let mut sink = &socket;
        let mut handler = FrameHandler::new(Arc::clone(&state), Arc::clone(&client));
        let mut reading = pin!(read_all(&mut handler, &socket));
        let mut writing = pin!(write_all(&state, &client.outbox, &mut sink));
        tokio::select! {
            () = &mut reading => {}
            // Keep reading, so that the client can still receive the close frame.
            written = &mut writing => if written.is_ok() {
                state.remove_client(&client);
                let _ = timeout(state.timeouts.close, &mut reading).await;
            },
            () = enforce(&state, &client, || socket.is_blocked()) => {}
        }
    }
    state.remove_client(&client);
    if let Some(socket) = socket.into_inner() {
        drain(socket, state.timeouts.close).await;
    }
}

/// Reads until the connection ends. Ignores messages that arrive after the gateway has closed the connection.
async fn read_all<S>(handler: &mut FrameHandler, mut socket: &Socket<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        if handler.client.identity().is_some() {
            socket.set_authenticated();
        }
        let Some(frame) = socket.next().await else {
            return;
        };
        handler.client.touch(handler.state.env.now());
        if handler.client.outbox.is_closed() {
            continue;
        }
        handler.client.set_busy(true);
        handler.client.outbox.wait_for_share().await;
        let close = match frame {
            Ok(Message::Text(text)) => handler.handle_text(&text).await,
            Ok(Message::Binary(_)) => handler.handle_binary().await,
            Ok(_) => handler.handle_control(),
            Err(error) => match close_for(&error) {
                Some(close) => {
                    handler.client.outbox.close(close);
                    // The stream is unusable, but the close frame must still be written.
                    return std::future::pending().await;
                }
                None => return,
            },
        };
        handler.client.touch(handler.state.env.now());
        handler.client.set_busy(false);
        if let Some(close) = close {
            handler.client.outbox.close(close);
        }
    }
}

/// Returns the close frame for a protocol error of the client; `None` if the connection has ended.
fn close_for(error: &Error) -> Option<Close> {
    use tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    let (code, reason) = match error {
        Error::Capacity(_) => (CloseCode::TooLarge, "the message is too large"),
        Error::Protocol(ResetWithoutClosingHandshake) => return None,
        Error::Protocol(_) => (CloseCode::Policy, "invalid frame (RFC 6455)"),
        Error::Utf8(_) => (CloseCode::Policy, "a text frame is not UTF-8"),
        _ => return None,
    };
    Some(Close { code, reason })
}

/// Writes the outbox, up to and including its close frame.
async fn write_all(
    state: &GatewayState,
    outbox: &Outbox,
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> Result<(), Error> {
    loop {
        match outbox.next_batch(MAX_BATCH_BYTES, || state.env.now()).await {
            Next::Write(items) => {
                for item in items {
                    let message = match item {
                        Item::Text(text) => Message::Text(text),
                        Item::Ping => Message::Ping(bytes::Bytes::new()),
                        Item::Expiring {
                            expires_at,
                            on_expired,
                            ..
                        } if state.now_millis() > expires_at => {
                            on_expired();
                            continue;
                        }
                        Item::Expiring { text, .. } => Message::Text(text),
                    };
                    sink.feed(message).await?;
                }
                sink.flush().await?;
                outbox.batch_written();
            }
            Next::Close(close) => {
                let frame = CloseFrame {
                    code: WireCode::from(close.code.number()),
                    reason: close.reason.into(),
                };
                return sink.send(Message::Close(Some(frame))).await;
            }
        }
    }
}

/// Reads until the client closes. Dropping a socket with unread bytes would reset it, and the client might not receive the
/// close frame.
async fn drain<S>(mut socket: WebSocketStream<FrameTracker<S>>, limit: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _ = timeout(limit, async {
        let _ = socket.close(None).await;
        let mut stream = socket.into_inner().into_inner();
        let _ = stream.shutdown().await;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    })
    .await;
}

/// Enforces the timeouts of a client, and sends its pings. Returns when the gateway must drop the connection at once.
/// `is_blocked` returns whether the client does not read the pongs to its pings.
async fn enforce(state: &GatewayState, client: &Client, is_blocked: impl Fn() -> bool) {
    let heartbeat = Duration::from_millis(state.config.heartbeat_ms);
    let idle = Duration::from_millis(state.config.limits.idle_ms);
    let timeouts = state.timeouts;
    let tick = [
        Duration::from_secs(1),
        heartbeat / 4,
        idle / 4,
        timeouts.write / 4,
        timeouts.authentication / 4,
        timeouts.reply / 4,
    ];
    let tick = tick
        .into_iter()
        .min()
        .unwrap_or_default()
        .max(Duration::from_millis(5));
    let connected_at = state.env.now();
    let mut last_ping = connected_at;
    let mut pongs_blocked_since = None;
    loop {
        tokio::time::sleep(tick).await;
        let now = state.env.now();
        state.expire_pending(client);
        pongs_blocked_since = is_blocked().then(|| pongs_blocked_since.unwrap_or(now));
        let blocked = client.outbox.writing_since().or(pongs_blocked_since);
        if blocked.is_some_and(|since| now.saturating_duration_since(since) > timeouts.write) {
            client.outbox.abort(Close::SLOW_READER);
            // The client may start to read again, and then receives the reason.
            tokio::time::sleep(timeouts.close).await;
            return;
        }
        if client.outbox.is_closed() {
            continue;
        }
        let late = now.saturating_duration_since(connected_at) > timeouts.authentication;
        if client.identity().is_none() && (late || client.is_evicted()) {
            let message = "no credential arrived in time; connect again and send `auth` first";
            let error = Envelope::error(ErrorCode::AuthRequired, message, None)
                .with("timestamp", state.now_millis());
            let _ = client.outbox.try_send(error.to_text());
            client.outbox.close(Close::AUTH_REQUIRED);
            continue;
        }
        if client.has_expired(state.env.system_time()) {
            let error = RequestError::token_expired()
                .to_envelope()
                .with("timestamp", state.now_millis());
            let _ = client.outbox.try_send(error.to_text());
            client.outbox.close(Close::TOKEN_EXPIRED);
            continue;
        }
        let idle_time = client.idle_time(now);
        if idle_time >= idle {
            let _ = client
                .outbox
                .try_send(frames::disconnect("timeout", Close::IDLE.reason));
            client.outbox.close(Close::IDLE);
        } else if idle_time >= heartbeat && now.saturating_duration_since(last_ping) >= heartbeat {
            last_ping = now;
            // Send both kinds of ping: some clients respond only to the message, and every WebSocket implementation to the
            // frame.
            let id = format!("ping-{}", state.env.uuid());
            let _ = client
                .outbox
                .try_send(frames::ping(&id, state.now_millis()));
            let _ = client.outbox.push(Item::Ping);
        }
    }
}
