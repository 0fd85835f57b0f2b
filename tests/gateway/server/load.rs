//! Limits for clients that send too much or read too little.

use super::*;

fn big(agent: &str, n: usize) -> Value {
    json!({"type": "message", "id": format!("m-{n}"), "agent": agent, "content": {"role": "user", "content": "x".repeat(60_000)}})
}

#[tokio::test]
async fn rate_limited_message_has_retry_after() {
    let gateway = Gateway::start(json!({"limits": {"messagesPerSecond": 1, "burst": 2}})).await;
    let mut client = gateway.client().await;
    for n in 0..3 {
        client
            .send(json!({"type": "ping", "id": format!("p-{n}")}))
            .await;
    }
    for _ in 0..2 {
        assert_eq!(client.recv().await["type"], "pong");
    }
    let refused = client.recv().await;
    assert_has(
        &refused,
        json!({"content": {"code": 3003}, "metadata": {"parentId": "p-2"}}),
    );
    let wait = refused["content"]["retryAfterMs"].as_u64().unwrap();
    assert!((1..=2000).contains(&wait), "{wait}");
    tokio::time::sleep(Duration::from_millis(wait + 20)).await;
    assert_eq!(
        client.request(json!({"type": "ping"})).await["type"],
        "pong"
    );
}

#[tokio::test]
async fn persistent_flood_is_closed_with_1008() {
    let gateway = Gateway::start(json!({"limits": {"messagesPerSecond": 1, "burst": 1}})).await;
    let mut client = gateway.client().await;
    for _ in 0..150 {
        let _ = client.0.feed(Message::Text("{}".into())).await;
    }
    let _ = client.0.flush().await;
    assert_eq!(client.wait_for_close().await, 1008);
}

#[tokio::test]
async fn non_reading_client_costs_only_its_queue() {
    let timeouts = Timeouts {
        // A busy host also leaves time to fill the queue before the gateway closes the client.
        write: Duration::from_secs(10),
        close: Duration::from_millis(100),
        ..Timeouts::default()
    };
    let limits = json!({"queueBytes": 2_000_000, "totalQueueBytes": 4_000_000, "messagesPerSecond": 100_000, "burst": 100_000});
    let gateway =
        Gateway::with_timeouts(json!({"fsync": "never", "limits": limits}), timeouts).await;
    let _deaf = gateway.serving_client(&["alpha"]).await;
    let mut watcher = gateway.client().await;
    watcher.request(json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": ["alpha"]}})).await;
    watcher.recv().await;
    let mut client = gateway.client().await;
    // The socket buffers hold a few megabytes, then the queue fills, and then the gateway refuses every message.
    let (mut taken, mut refused) = (0, 0);
    'sending: for n in 0.. {
        client.send(big("alpha", n)).await;
        client.send(json!({"type": "ping"})).await;
        taken += 1;
        loop {
            let received = client.recv().await;
            match received["content"]["code"].as_u64() {
                None => break,
                Some(3003) => assert!(received["content"]["retryAfterMs"].is_u64()),
                _ => {
                    assert_eq!(client.recv().await["type"], "pong");
                    break 'sending;
                }
            }
            (taken, refused) = (taken - 1, refused + 1);
        }
    }
    assert!(
        refused > 10 && taken < 250,
        "{taken} messages of 60 kB were taken and {refused} refused"
    );
    // The gateway closes it in the end.
    assert_eq!(watcher.recv().await["content"]["status"], "offline");
    client.refuse(message("alpha", "c"), 3002).await;
}

#[tokio::test]
async fn slow_reader_delays_no_other_client() {
    let limits = json!({"queueBytes": 2_000_000, "messagesPerSecond": 100_000, "burst": 100_000});
    let gateway = Gateway::start(json!({"fsync": "never", "limits": limits})).await;
    let _deaf = gateway.serving_client(&["alpha"]).await;
    let mut beta = gateway.serving_client(&["beta"]).await;
    let mut client = gateway.client().await;
    for n in 0..200 {
        client.send(big("alpha", n)).await;
        client.send(json!({"type": "message", "agent": "beta", "id": format!("b-{n}"), "content": {"role": "user", "content": "x"}})).await;
        assert_eq!(beta.recv().await["id"], format!("b-{n}"));
    }
}

#[tokio::test]
async fn message_queued_beyond_its_ttl_is_dropped() {
    let limits = json!({"queueBytes": 4_000_000, "messagesPerSecond": 100_000, "burst": 100_000});
    let gateway = Gateway::start(json!({"fsync": "never", "limits": limits})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut client = gateway.client().await;
    // Fills the socket, but not the queue.
    let mut sent = 0;
    let full = loop {
        client.send(big("alpha", sent)).await;
        sent += 1;
        client.send(json!({"type": "ping"})).await;
        let received = client.recv().await;
        if received["type"] == "error" {
            client.recv().await;
            break sent;
        }
        assert!(sent < 2_000, "the queue never fills");
    };
    // A small message still fits, a large one does not. The recipient does not read until it expires.
    let mut short = message("alpha", "short");
    short["metadata"]["ttl"] = json!(0.05);
    client.send(short).await;
    assert_eq!(
        client.request(json!({"type": "ping"})).await["type"],
        "pong"
    );
    tokio::time::sleep(SILENCE_TIMEOUT).await;
    let mut received = Vec::new();
    for _ in 1..full {
        received.push(alpha.recv().await["id"].clone());
    }
    assert!(!received.contains(&json!("msg-short")));
    let error = client.recv().await;
    assert_has(
        &error,
        json!({"content": {"code": 2005}, "metadata": {"correlationId": "short"}}),
    );
}
