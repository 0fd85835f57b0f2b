//! Reads the connection until it ends, and detects a dead one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::settings::{Settings, is_keep_alive, without_token};
use base::log::{Level, Log};
use collective::ErrorCode;
use egress::websocket::{Frame, Receiver};
use peer::{PeerError, PeerErrorKind};

use super::connection::OpenClawConnection;
use super::errors;

/// The number of invalid messages that closes the connection.
const MAX_BAD_FRAMES: usize = 5;

/// How long the gateway has to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads until the connection ends. The gateway ticks at least every `period`. The client pings it after that much
/// silence, and closes the connection after twice as much.
pub(super) async fn run(
    connection: Arc<OpenClawConnection>,
    mut receiver: Receiver,
    settings: Arc<Settings>,
    period: Duration,
    shutdown: CancellationToken,
    log: Arc<dyn Log>,
) {
    let mut received = Instant::now();
    let mut ping_pending = false;
    let mut invalid_frames = 0;
    let error = loop {
        let next = received + if ping_pending { period * 2 } else { period };
        tokio::select! {
            frame = receiver.next() => {
                match frame {
                    Frame::Text(text) if is_keep_alive(&text) => {}
                    Frame::Text(text) if connection.handle_frame(&without_token(&text, &settings)) => {
                        invalid_frames = 0;
                    }
                    Frame::Text(_) | Frame::Binary(_) => {
                        invalid_frames += 1;
                        log.log(Level::Debug, "ignored an invalid frame of the gateway");
                        if invalid_frames >= MAX_BAD_FRAMES {
                            let _ = timeout(CLOSE_TIMEOUT, connection.close()).await;
                            break PeerError::new(
                                PeerErrorKind::Gateway(ErrorCode::ProtocolError),
                                format!("the gateway sent {MAX_BAD_FRAMES} invalid frames in a row"),
                            );
                        }
                    }
                    Frame::Ping | Frame::Pong => {}
                    Frame::Closed { code, reason } => {
                        let reason = without_token(&reason, &settings);
                        break errors::connection_lost(&errors::closed(code, &reason));
                    }
                    Frame::Broken(error) => break errors::connection_lost(&error.to_string()),
                }
                (received, ping_pending) = (Instant::now(), false);
            }
            () = sleep_until(next) => {
                if ping_pending {
                    break errors::connection_lost(&format!("the gateway has been silent for {} ms", (period * 2).as_millis()));
                }
                ping_pending = true;
                // A blocked send must not delay the check for the end.
                let _ = timeout(period, connection.ping()).await;
            }
            () = shutdown.cancelled() => {
                let close = async {
                    connection.close().await;
                    while !matches!(receiver.next().await, Frame::Closed { .. } | Frame::Broken(_)) {}
                };
                // The gateway may not answer in time; close anyway.
                let _ = timeout(CLOSE_TIMEOUT, close).await;
                break errors::connection_lost("this client closed it");
            }
        }
    };
    log.log(Level::Debug, &error.message);
    connection.mark_closed(error);
}
