//! One WebSocket, from its upgrade to its end.
//!
//! Three things go on side by side and none waits for another: the client is read, what waits for it is written, and its time
//! is watched.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode as WireCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use collective::CloseCode;
use http_server::serve::Connection;

use super::client::Client;
use super::hub::Hub;
use super::names::CLIENT;
use super::outbox::{Close, Item, Next, Outbox};
use super::socket::Socket;
use super::talk::Talk;
use super::watch::watch;

/// Most frames are small, and each connection has one of these.
const READ_BUFFER: usize = 4 * 1024;

/// What is written at a time, in bytes.
const BATCH: usize = 64 * 1024;

/// Adds the client of a connection. It keeps its place among unauthenticated connections until it is authenticated. `None` where
/// there are as many clients as there may be.
pub(super) fn enter(hub: &Hub, connection: Connection) -> Option<Arc<Client>> {
    let id = format!("{CLIENT}{}", hub.env.uuid());
    let outbox = Outbox::new(hub.config.limits.queue_bytes, Arc::clone(&hub.load));
    let client = Client::new(id, outbox, hub.env.now());
    let certificate = connection.client_certificate();
    let known = certificate.and_then(|certificate| hub.keyring.certificate(certificate));
    if let Some(identity) = known.or_else(|| hub.keyring.anonymous().ok()) {
        client.identify(identity.into());
    }
    client.hold(connection);
    let limit = hub.config.limits.connections;
    let entered = hub.registry_mut().enter(&client, limit, hub.env.now());
    entered.then_some(client)
}

/// Serves a client over a connection that was upgraded, until it ends.
pub(super) async fn serve<S>(hub: Arc<Hub>, client: Arc<Client>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let largest = Some(hub.config.limits.frame_bytes);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(BATCH)
        .max_message_size(largest)
        .max_frame_size(largest);
    let socket = Socket::new(stream, config).await;
    {
        let (mut sink, mut frames) = (&socket, &socket);
        let mut talk = Talk::new(Arc::clone(&hub), Arc::clone(&client));
        let mut reading = pin!(read_all(&mut talk, &mut frames));
        let mut writing = pin!(write_all(&hub, &client.outbox, &mut sink));
        tokio::select! {
            () = &mut reading => {}
            // What the client still says is read, so that it reads the last of what it was told.
            said = &mut writing => if said.is_ok() {
                hub.leave(&client);
                let _ = timeout(hub.pace.farewell, &mut reading).await;
            },
            () = watch(&hub, &client) => {}
        }
    }
    hub.leave(&client);
    if let Some(socket) = socket.into_inner() {
        end(socket, hub.pace.farewell).await;
    }
}

/// Reads until the client ends the connection, or breaks it. Once we have said the end, nothing it says counts.
async fn read_all(
    talk: &mut Talk,
    frames: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
) {
    while let Some(frame) = frames.next().await {
        talk.client.heard(talk.hub.env.now());
        if talk.client.outbox.is_over() {
            continue;
        }
        talk.client.works(true);
        let close = match frame {
            Ok(Message::Text(text)) => talk.text(&text).await,
            Ok(Message::Binary(_)) => talk.binary().await,
            Ok(_) => None,
            Err(error) => match fault(&error) {
                Some(close) => {
                    talk.client.outbox.finish(close);
                    // Nothing more can be read. The end is still to be written.
                    return std::future::pending().await;
                }
                None => return,
            },
        };
        talk.client.heard(talk.hub.env.now());
        talk.client.works(false);
        if let Some(close) = close {
            talk.client.outbox.finish(close);
        }
    }
}

/// What a client did wrong that ends its connection; nothing where the connection is just over.
fn fault(error: &Error) -> Option<Close> {
    use tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    let (code, reason) = match error {
        Error::Capacity(_) => (CloseCode::TooLarge, "the message is too large"),
        Error::Protocol(ResetWithoutClosingHandshake) => return None,
        Error::Protocol(_) => (CloseCode::Policy, "the frames do not keep to RFC 6455"),
        Error::Utf8(_) => (CloseCode::Policy, "a text frame is not UTF-8"),
        _ => return None,
    };
    Some(Close { code, reason })
}

/// Writes what waits until the end is written, or the connection breaks.
async fn write_all(
    hub: &Hub,
    outbox: &Outbox,
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> Result<(), Error> {
    loop {
        match outbox.next(BATCH, || hub.env.now()).await {
            Next::Write(items) => {
                for item in items {
                    let message = match item {
                        Item::Text(text) => Message::Text(text),
                        Item::Ping => Message::Ping(bytes::Bytes::new()),
                        Item::Perishable(_, until, expired) if hub.millis() > until => {
                            expired();
                            continue;
                        }
                        Item::Perishable(text, ..) => Message::Text(text),
                    };
                    sink.feed(message).await?;
                }
                sink.flush().await?;
                outbox.written();
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

/// Lets the other side read the last word before the connection goes: a socket that is dropped with bytes unread takes back what it wrote.
async fn end<S>(mut socket: WebSocketStream<S>, within: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _ = timeout(within, async {
        let _ = socket.close(None).await;
        let mut stream = socket.into_inner();
        let _ = stream.shutdown().await;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    })
    .await;
}
