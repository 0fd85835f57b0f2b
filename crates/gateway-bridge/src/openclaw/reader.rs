//! Reads the connection until it ends, and finds out when it has died in silence.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::settings::{Settings, without_token};
use collective::ErrorCode;
use common::log::{Level, Log};
use egress::websocket::{Frame, Receiver};
use peer::{PeerError, PeerErrorKind};

use super::connection::OpenClawConnection;
use super::errors;

/// After so many messages that are no frames of the protocol the connection is ended.
const MAX_BAD_FRAMES: usize = 5;

/// How long the gateway has to answer the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads until the end. The gateway ticks every `period` at least: after that much silence it is asked whether it is there,
/// after twice as much the connection counts as dead.
pub(super) async fn run(
    connection: Arc<OpenClawConnection>,
    mut receiver: Receiver,
    settings: Arc<Settings>,
    period: Duration,
    leave: CancellationToken,
    log: Arc<dyn Log>,
) {
    let mut received = Instant::now();
    let mut asked = false;
    let mut nonsense = 0;
    let why = loop {
        let next = received + if asked { period * 2 } else { period };
        tokio::select! {
            frame = receiver.next() => {
                match frame {
                    Frame::Text(text) if connection.handle_frame(&without_token(&text, &settings)) => {}
                    Frame::Text(_) | Frame::Binary(_) => {
                        nonsense += 1;
                        log.log(Level::Debug, "the gateway sent a message that is no frame of its protocol; it is passed over");
                        if nonsense >= MAX_BAD_FRAMES {
                            let _ = timeout(CLOSE_TIMEOUT, connection.close()).await;
                            break PeerError::new(
                                PeerErrorKind::Gateway(ErrorCode::ProtocolError),
                                format!("the gateway sent {MAX_BAD_FRAMES} messages that are no frames of its protocol"),
                            );
                        }
                    }
                    Frame::Ping | Frame::Pong => {}
                    Frame::Closed { code, reason } => {
                        let reason = without_token(&reason, &settings);
                        break errors::cut(&errors::closed(code, &reason));
                    }
                    Frame::Broken(error) => break errors::cut(&error.to_string()),
                }
                (received, asked) = (Instant::now(), false);
            }
            () = sleep_until(next) => {
                if asked {
                    break errors::cut(&format!("the gateway has been silent for {} ms", (period * 2).as_millis()));
                }
                asked = true;
                // A connection that takes nothing is no reason to wait longer for its end.
                let _ = timeout(period, connection.ping()).await;
            }
            () = leave.cancelled() => {
                let farewell = async {
                    connection.close().await;
                    while !matches!(receiver.next().await, Frame::Closed { .. } | Frame::Broken(_)) {}
                };
                // Who does not answer in time is left without.
                let _ = timeout(CLOSE_TIMEOUT, farewell).await;
                break errors::cut("it was closed from here");
            }
        }
    };
    log.log(Level::Debug, &why.message);
    connection.mark_closed(why);
}
