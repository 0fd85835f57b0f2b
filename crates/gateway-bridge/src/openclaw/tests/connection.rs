//! The lifetime of the connection.

use super::*;

/// Returns the response to `agent.wait` about a run that has ended without an answer.
fn ended() -> Value {
    json!({"status": "ok", "endedAt": 7, "terminalReply": {"disposition": "empty"}})
}

#[tokio::test(start_paused = true)]
async fn ticks_keep_the_connection_and_two_missed_end_it() {
    let (link, mut gateway) = connected().await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        gateway
            .0
            .send(json!({"type": "event", "event": "tick", "payload": {"ts": 1}}))
            .await;
    }
    assert!(link.is_open());
    let (call, silent) = (call_context(), Instant::now());
    // The gateway does not read, so it sends no pongs.
    let error = link.get_task(&call, "run-9").await.unwrap_err();
    assert_eq!(error_number(&error), ErrorCode::ConnectionTimeout.number());
    while link.is_open() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(
        silent.elapsed() <= Duration::from_secs(61),
        "{:?}",
        silent.elapsed()
    );
}

#[tokio::test]
async fn fifth_invalid_frame_closes_the_connection() {
    let (link, mut gateway) = connected().await;
    for _ in 0..4 {
        gateway.0.send_text("nonsense").await;
    }
    let call = call_context();
    let answers = async {
        gateway.respond("agent.wait", ended()).await;
    };
    let (task, ()) = tokio::join!(link.get_task(&call, "run-9"), answers);
    task.unwrap();
    // The answer was valid, so the count starts again.
    for sign in ["", "ping", "{}", "\"heartbeat\"", "nonsense"] {
        gateway.0.send_text(sign).await;
    }
    for _ in 0..3 {
        gateway.0.send_text("nonsense").await;
    }
    let answers = async {
        let (id, _) = gateway.next_request("agent.wait").await;
        for sign in ["", "ping", "{}"] {
            gateway.0.send_text(sign).await;
        }
        gateway.answer(&id, ended()).await;
    };
    let (task, ()) = tokio::join!(link.get_task(&call, "run-9"), answers);
    task.unwrap();
    for _ in 0..4 {
        gateway.0.send_text("nonsense").await;
    }
    gateway.0.send_bytes(b"bytes").await;
    assert_eq!(gateway.0.recv_close().await, Some(1000));
}

#[tokio::test(start_paused = true)]
async fn close_ends_within_a_second() {
    let (link, _gateway) = connected().await;
    let started_at = Instant::now();
    link.close().await;
    assert!(
        started_at.elapsed() <= Duration::from_secs(1),
        "{:?}",
        started_at.elapsed()
    );
    assert!(!link.is_open());
}

#[tokio::test]
async fn dropped_client_ends_the_connection() {
    let (link, mut gateway) = connected().await;
    drop(link);
    assert_eq!(gateway.0.recv_close().await, Some(1000));
}

#[tokio::test]
async fn close_reason_is_stored_without_token() {
    let (link, mut gateway) = connected().await;
    assert_eq!(link.last_error(), None);
    gateway
        .0
        .close(1012, "restart a-token-of-the-gateway")
        .await;
    while link.is_open() {
        tokio::task::yield_now().await;
    }
    let reason = link.last_error().unwrap();
    assert!(reason.contains("shut down or restarts"), "{reason}");
    assert!(!reason.contains("a-token-of-the-gateway"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn silent_dead_connection_is_closed() {
    let (link, mut gateway) = connected().await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!link.is_open());
    // The connection object still exists, without a socket.
    assert_eq!(gateway.0.recv_text().await, None);
}
