//! Hears the gateway, and asks whether it is still there (000 appendix A.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::settings::without_token;
use collective::{CloseCode, Envelope, ErrorCode, Kind, LARGEST_FRAME};
use egress::websocket::{Frame, Receiver};
use peer::excerpt;

use super::line::Line;
use super::{replies, roll};

/// So many frames that are no messages end a connection.
const BAD_FRAMES: usize = 5;

/// So many pings that nobody answers end it.
const SILENCES: usize = 2;

/// Hears the gateway until the connection ends.
pub(super) async fn run(line: Arc<Line>, mut receiver: Receiver) {
    let mut hearing = Hearing {
        line: &line,
        bad: 0,
        unanswered: 0,
    };
    let mut quiet_until = Instant::now() + line.settings.heartbeat;
    while line.is_open() {
        tokio::select! {
            () = line.over.cancelled() => {}
            frame = receiver.next() => {
                // Whatever comes is a sign of life.
                hearing.unanswered = 0;
                quiet_until = Instant::now() + line.settings.heartbeat;
                hearing.hear(frame).await;
            }
            () = sleep_until(quiet_until) => {
                quiet_until = Instant::now() + line.settings.heartbeat;
                hearing.ask().await;
            }
        }
    }
}

struct Hearing<'a> {
    line: &'a Arc<Line>,
    bad: usize,
    unanswered: usize,
}

impl Hearing<'_> {
    /// Asks whether the gateway is still there.
    async fn ask(&mut self) {
        if self.unanswered == SILENCES {
            let why = "the gateway has answered two pings in a row with nothing";
            self.line.refuse(CloseCode::GoingAway, why).await;
            return;
        }
        self.unanswered += 1;
        self.line.pinging.store(true, Ordering::SeqCst);
        let ping = self.line.envelope(Kind::Ping, json!({}));
        // A connection that is lost ends the loop.
        drop(self.line.tell(ping).await);
    }

    async fn hear(&mut self, frame: Frame) {
        match frame {
            Frame::Text(text) if text.len() > LARGEST_FRAME => {
                let why = format!(
                    "the gateway sent a frame of {} bytes, and {LARGEST_FRAME} are allowed",
                    text.len()
                );
                self.line.refuse(CloseCode::TooLarge, &why).await;
            }
            Frame::Text(text) => self.read(&text).await,
            Frame::Binary(bytes) => self.bad(&format!("{bytes} bytes that are no text")).await,
            Frame::Ping | Frame::Pong => {}
            Frame::Closed { code, .. } => {
                let code = code.map_or_else(String::new, |code| format!(" ({code})"));
                self.line
                    .end(&format!("the gateway closed it{code}"), false);
            }
            Frame::Broken(error) => self.line.end(&error.to_string(), false),
        }
    }

    async fn read(&mut self, text: &str) {
        let text = without_token(text, &self.line.settings);
        match (self.line.speech.read)(&text) {
            Ok(envelope) => self.take(envelope).await,
            // Types that we do not know may be of a version to come.
            Err(wrong) if wrong.code == ErrorCode::UnknownType => {
                self.line.debug(|| format!("ignored: {}", wrong.message));
            }
            Err(wrong) => self.bad(&wrong.message).await,
        }
    }

    async fn bad(&mut self, what: &str) {
        self.bad += 1;
        self.line.warn(&format!(
            "dropped a frame ({} of {BAD_FRAMES}): {what}",
            self.bad
        ));
        if self.bad == BAD_FRAMES {
            let why = "the gateway sent too many frames that are no messages";
            self.line.refuse(CloseCode::Policy, why).await;
        }
    }

    async fn take(&mut self, envelope: Envelope) {
        match envelope.kind() {
            Kind::Ping => {
                let pong = self.line.envelope(Kind::Pong, json!({}));
                let pong = match envelope.id() {
                    Some(id) => pong.with_metadata("parentId", id),
                    None => pong,
                };
                drop(self.line.tell(pong).await);
            }
            Kind::Pong => self.line.pinging.store(false, Ordering::SeqCst),
            Kind::Status => roll::status(self.line, &envelope),
            Kind::Discovery => roll::listed(self.line, &envelope),
            Kind::Message
            | Kind::Response
            | Kind::Error
            | Kind::Vote
            | Kind::Decision
            | Kind::Event => replies::take(self.line, envelope),
            Kind::Disconnect => self.dismissed(&envelope),
            // Acknowledgements of what needs none, and what agents and gateways say to each other.
            _ => self
                .line
                .debug(|| format!("ignored a `{}`", envelope.kind())),
        }
    }

    /// The gateway takes leave (000 §5.5). Only `manual` means that nobody is to come back by himself.
    fn dismissed(&self, envelope: &Envelope) {
        let reason = excerpt(envelope.said("reason").unwrap_or("no reason"));
        let why = format!("the gateway took leave ({reason})");
        self.line.end(&why, reason == "manual");
    }
}
