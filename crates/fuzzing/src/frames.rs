//! Runs the tool with a local gateway that sends the frames of the input.

use std::sync::Arc;
use std::time::Duration;

use gateway_bridge::testing::{Connection, network};
use serde_json::Value;
use tokio::time::timeout;

use crate::tool::{SECRET, call};

/// Answers each frame of the client with the next line. Replaces `$ID`, `$CORRELATION` and `$RUN` in a line with values of
/// the client's last frame.
async fn play(mut connection: Connection, lines: Vec<String>) {
    let mut frame = Value::Null;
    for line in lines {
        // A gateway may send the first frame, or several in a row.
        if let Ok(received) = timeout(Duration::from_millis(1), connection.recv_text()).await {
            let Some(text) = received else { return };
            frame = serde_json::from_str(&text).expect("a frame is JSON");
        }
        let value = |pointer| frame.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let line = line
            .replace("$ID", value("/id"))
            .replace("$CORRELATION", value("/metadata/correlationId"))
            .replace("$RUN", value("/params/idempotencyKey"));
        // The client closes a connection with an invalid frame.
        if connection.try_send_text(&line).await.is_err() {
            return;
        }
    }
    while connection.recv_text().await.is_some() {}
}

fn gateway(dialect: &str, data: &[u8]) {
    let config = serde_json::json!({
        "gateway": {"enabled": true, "url": "ws://127.0.0.1:1", "dialect": dialect, "token": SECRET, "timeoutMs": 2000},
        "limits": {"waitMs": 1000},
    });
    let request = serde_json::json!({
        "action": "send", "target_alias": "gateway:main", "parts": [{"kind": "text", "text": "Hello"}],
        "follow_updates": true, "timeout_ms": 3000,
    });
    let text = String::from_utf8_lossy(data).into_owned();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (net, mut arrivals) = network();
    let play_all = async move {
        for _ in 0..3 {
            let connection = arrivals.next().await;
            tokio::spawn(play(connection, lines.clone()));
        }
    };
    call(
        &config.to_string(),
        Arc::new(net),
        &request.to_string(),
        play_all,
    );
}

/// Sends frames of OpenClaw's gateway, one per line.
pub(crate) fn openclaw(data: &[u8]) {
    gateway("openclaw", data);
}

/// Sends frames of an `a2a-v1` gateway, one per line.
pub(crate) fn a2a_v1(data: &[u8]) {
    gateway("a2a-v1", data);
}
