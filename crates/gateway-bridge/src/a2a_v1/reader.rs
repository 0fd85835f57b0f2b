//! Reads frames, and pings a silent gateway (Heretek A2A appendix A.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::settings::{is_keep_alive, without_token};
use collective::{CloseCode, Envelope, ErrorCode, Kind, MAX_FRAME_BYTES};
use egress::websocket::{Frame, Receiver};
use peer::excerpt;

use super::connection::A2aV1Connection;
use super::{discovery, replies};

/// The number of invalid frames in a row that closes the connection.
const MAX_BAD_FRAMES: usize = 5;

/// The maximum number of unanswered pings. The connection closes when the next one is due.
const MAX_UNANSWERED_PINGS: usize = 2;

/// Reads frames until the connection ends.
pub(super) async fn run(connection: Arc<A2aV1Connection>, mut receiver: Receiver) {
    let mut reader = FrameReader {
        connection: &connection,
        bad_frames: 0,
        unanswered_pings: 0,
    };
    let mut next_ping = Instant::now() + connection.settings.heartbeat;
    while connection.is_open() {
        tokio::select! {
            () = connection.closed.cancelled() => {}
            frame = receiver.next() => {
                // Every frame shows that the gateway is alive.
                reader.unanswered_pings = 0;
                next_ping = Instant::now() + connection.settings.heartbeat;
                reader.handle_frame(frame).await;
            }
            () = sleep_until(next_ping) => {
                next_ping = Instant::now() + connection.settings.heartbeat;
                reader.ping().await;
            }
        }
    }
}

struct FrameReader<'a> {
    connection: &'a Arc<A2aV1Connection>,
    bad_frames: usize,
    unanswered_pings: usize,
}

impl FrameReader<'_> {
    /// Pings the gateway.
    async fn ping(&mut self) {
        if self.unanswered_pings == MAX_UNANSWERED_PINGS {
            let reason = "the gateway did not answer two pings in a row";
            self.connection
                .close_with(CloseCode::GoingAway, reason)
                .await;
            return;
        }
        self.unanswered_pings += 1;
        self.connection.pinging.store(true, Ordering::SeqCst);
        let ping = self.connection.envelope(Kind::Ping, json!({}));
        // A lost connection ends the loop.
        drop(self.connection.send(ping).await);
    }

    async fn handle_frame(&mut self, frame: Frame) {
        match frame {
            Frame::Text(text) if text.len() > MAX_FRAME_BYTES => {
                let reason = format!(
                    "the gateway sent a frame of {} bytes; the limit is {MAX_FRAME_BYTES}",
                    text.len()
                );
                self.connection
                    .close_with(CloseCode::TooLarge, &reason)
                    .await;
            }
            Frame::Text(text) => self.read(&text).await,
            Frame::Binary(bytes) => {
                self.drop_frame(&format!("{bytes} bytes that are not text"))
                    .await
            }
            Frame::Ping | Frame::Pong => {}
            Frame::Closed { code, .. } => {
                let code = code.map_or_else(String::new, |code| format!(" ({code})"));
                self.connection
                    .mark_closed(&format!("the gateway closed it{code}"), false);
            }
            Frame::Broken(error) => self.connection.mark_closed(&error.to_string(), false),
        }
    }

    async fn read(&mut self, text: &str) {
        if is_keep_alive(text) {
            return;
        }
        let text = without_token(text, &self.connection.settings);
        match (self.connection.codec.decode)(&text) {
            Ok(envelope) => {
                self.bad_frames = 0;
                self.handle_envelope(envelope).await;
            }
            // A later version of the protocol may define unknown types.
            Err(error) if error.code == ErrorCode::UnknownType => {
                self.connection
                    .debug(|| format!("ignored: {}", error.message));
            }
            Err(error) => self.drop_frame(&error.message).await,
        }
    }

    async fn drop_frame(&mut self, description: &str) {
        self.bad_frames += 1;
        self.connection.warn(&format!(
            "dropped a frame ({} of {MAX_BAD_FRAMES}): {description}",
            self.bad_frames
        ));
        if self.bad_frames == MAX_BAD_FRAMES {
            let reason = "the gateway sent too many invalid frames";
            self.connection.close_with(CloseCode::Policy, reason).await;
        }
    }

    async fn handle_envelope(&mut self, envelope: Envelope) {
        match envelope.kind() {
            Kind::Ping => {
                let pong = self.connection.envelope(Kind::Pong, json!({}));
                let pong = match envelope.id() {
                    Some(id) => pong.with_metadata("parentId", id),
                    None => pong,
                };
                drop(self.connection.send(pong).await);
            }
            Kind::Pong => self.connection.pinging.store(false, Ordering::SeqCst),
            Kind::Status => discovery::handle_status(self.connection, &envelope),
            Kind::Discovery => discovery::handle_list(self.connection, &envelope),
            Kind::Message
            | Kind::Response
            | Kind::Error
            | Kind::Vote
            | Kind::Decision
            | Kind::Event => replies::handle(self.connection, envelope),
            Kind::Disconnect => self.handle_disconnect(&envelope),
            // Ignore unneeded acknowledgements and messages between other agents and gateways.
            _ => self
                .connection
                .debug(|| format!("ignored a `{}`", envelope.kind())),
        }
    }

    /// Handles the gateway's `disconnect` (Heretek A2A §5.5). After `manual` only a new call connects again.
    fn handle_disconnect(&self, envelope: &Envelope) {
        let reason = excerpt(envelope.content_str("reason").unwrap_or("no reason"));
        let message = format!("the gateway disconnected ({reason})");
        self.connection.mark_closed(&message, reason == "manual");
    }
}
