//! One connection, from its first byte to its last.
//!
//! Three things go on side by side and none waits for another: the client is read, what waits for it is written, and its time
//! is watched.

use std::io;
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

use super::admission::Place;
use super::client::Client;
use super::hub::Hub;
use super::names::CLIENT;
use super::outbox::{Close, Item, Next, Outbox};
use super::socket::Socket;
use super::talk::Talk;
use super::upgrade::{self, Refused};
use super::watch::watch;

/// Most frames are small, and each connection has one of these.
const READ_BUFFER: usize = 4 * 1024;

/// What is written at a time, in bytes.
const BATCH: usize = 64 * 1024;

/// Serves a connection until it ends. `certificate` is the client's, in DER; `place` is held until the client is authenticated.
pub(super) async fn serve<S>(
    hub: Arc<Hub>,
    mut stream: S,
    certificate: Option<Vec<u8>>,
    place: Place,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let id = format!("{CLIENT}{}", hub.env.uuid());
    let outbox = Outbox::new(hub.config.limits.queue_bytes, Arc::clone(&hub.load));
    let client = Client::new(id, outbox, hub.env.now());
    let known = certificate.and_then(|certificate| hub.keyring.certificate(&certificate));
    if let Some(identity) = known.or_else(|| hub.keyring.anonymous().ok()) {
        client.identify(identity.into());
    }
    let opened = place.open(&hub.pace, open(&hub, &client, &mut stream));
    let Some(Ok(Some(read))) = opened.await else {
        hub.leave(&client);
        return;
    };
    client.hold(place);
    let largest = Some(hub.config.limits.frame_bytes);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(BATCH)
        .max_message_size(largest)
        .max_frame_size(largest);
    let socket = Socket::new(stream, read, config).await;
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

/// Opens the WebSocket. Gives what came behind the request; `None` where it was not granted.
async fn open<S>(hub: &Hub, client: &Arc<Client>, stream: &mut S) -> io::Result<Option<Vec<u8>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let granted = match upgrade::read(stream, &hub.access).await? {
        Ok(granted) => granted,
        Err(refused) => {
            upgrade::refuse(stream, &refused).await?;
            return Ok(None);
        }
    };
    let entered = hub
        .registry_mut()
        .enter(client, hub.config.limits.connections, hub.env.now());
    if !entered {
        upgrade::refuse(stream, &Refused::full()).await?;
        return Ok(None);
    }
    upgrade::accept(stream, &granted).await?;
    client.heard(hub.env.now());
    Ok(Some(granted.read))
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
