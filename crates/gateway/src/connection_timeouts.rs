//! The timeouts of one connection: write, authentication, credential, idle (Heretek A2A §3.2).

use std::time::Duration;

use collective::{Envelope, ErrorCode};

use super::connected_client::Client;
use super::error::RequestError;
use super::frames;
use super::outbox::{Close, Item};
use super::state::GatewayState;

/// Enforces the timeouts of a client, and sends its pings. Returns when the gateway must drop the connection at once.
/// `is_blocked` returns whether the client does not read the pongs to its pings.
pub(super) async fn enforce(state: &GatewayState, client: &Client, is_blocked: impl Fn() -> bool) {
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
