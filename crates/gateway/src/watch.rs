//! The time of one connection: is the client there, does it read, has it said who it is (000 §3.2).

use std::time::Duration;

use collective::{CloseCode, Envelope, ErrorCode};

use super::client::Client;
use super::frames;
use super::hub::Hub;
use super::outbox::{Close, Item};
use super::talk::{EXPIRED, NO_CREDENTIAL, expired};

/// Watches a client, and returns when its connection is to be dropped without another word.
pub(super) async fn watch(hub: &Hub, client: &Client) {
    let heartbeat = Duration::from_millis(hub.config.heartbeat_ms);
    let idle = Duration::from_millis(hub.config.limits.idle_ms);
    let pace = hub.pace;
    let tick = [
        Duration::from_secs(1),
        heartbeat / 4,
        idle / 4,
        pace.reading / 4,
        pace.credential / 4,
        pace.answer / 4,
    ];
    let tick = tick
        .into_iter()
        .min()
        .unwrap_or_default()
        .max(Duration::from_millis(5));
    let came = hub.env.now();
    let mut asked = came;
    loop {
        tokio::time::sleep(tick).await;
        let now = hub.env.now();
        hub.expire_questions(client);
        let blocked = client.outbox.writing_since();
        if blocked.is_some_and(|since| now.saturating_duration_since(since) > pace.reading) {
            client.outbox.cut_short(Close {
                code: CloseCode::Policy,
                reason: "what was sent is not read",
            });
            // It may read again, and then it hears why.
            tokio::time::sleep(pace.farewell).await;
            return;
        }
        if client.outbox.is_over() {
            continue;
        }
        let late = now.saturating_duration_since(came) > pace.credential;
        if client.identity().is_none() && (late || client.is_evicted()) {
            let message = "no credential came in time; connect again and send `auth` first";
            let error = Envelope::error(ErrorCode::AuthRequired, message, None)
                .with("timestamp", hub.millis());
            let _ = client.outbox.text(error.to_text());
            client.outbox.finish(NO_CREDENTIAL);
            continue;
        }
        if client.has_expired(hub.env.system_time()) {
            let error = expired().answer(None).with("timestamp", hub.millis());
            let _ = client.outbox.text(error.to_text());
            client.outbox.finish(EXPIRED);
            continue;
        }
        let silent = client.silent(now);
        if silent >= idle {
            let _ = client.outbox.text(frames::disconnect(
                "timeout",
                "nothing was heard of this client for too long",
            ));
            client.outbox.finish(Close {
                code: CloseCode::GoingAway,
                reason: "nothing was heard for too long",
            });
        } else if silent >= heartbeat && now.saturating_duration_since(asked) >= heartbeat {
            asked = now;
            // Both kinds: some clients answer the one, all stacks answer the other.
            let id = format!("ping-{}", hub.env.uuid());
            let _ = client.outbox.text(frames::ping(&id, hub.millis()));
            let _ = client.outbox.put(Item::Ping);
        }
    }
}
