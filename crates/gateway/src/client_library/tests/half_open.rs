//! Half-open connections: the peer has disappeared without a close.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::*;

/// Forwards connections to a gateway. After a notification, it keeps the open connections but forwards nothing more on them.
async fn proxy(gateway: &Gateways, stall: Arc<Notify>) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let address = gateway.address();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let stall = Arc::clone(&stall);
            let mut server = TcpStream::connect(address).await.unwrap();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                    () = stall.notified() => {}
                }
                std::future::pending::<()>().await;
            });
        }
    });
    Endpoint {
        heartbeat: Duration::from_millis(200),
        ..Endpoint::new(url.parse().unwrap())
    }
}

#[tokio::test]
async fn agent_reconnects_after_a_half_open_connection() {
    let gateway = gateway(&[], &[]).await;
    let stall = Arc::new(Notify::new());
    let mut alpha = Agent::at(proxy(&gateway, Arc::clone(&stall)).await, None);
    alpha.connected().await;
    stall.notify_waiters();
    let lost = alpha.next().await;
    let AgentEvent::Lost(error, _) = lost else {
        panic!("{lost:?}");
    };
    assert!(error.message.contains("not even a ping"), "{error}");
    alpha.connected().await;
}

#[tokio::test]
async fn silent_gateway_that_answers_pings_keeps_its_agent() {
    // The message arrives after many heartbeats.
    let message = json!({"type": "message", "from": "steward", "content": {"role": "user", "content": "hello"}});
    let late = json!({"repeat": {"count": 2, "gap_ms": 1200, "each": [{ "send": message }]}});
    let gateway = gateway(&[late], &[]).await;
    let stall = Arc::new(Notify::new());
    let mut alpha = Agent::at(proxy(&gateway, stall).await, None);
    alpha.connected().await;
    for _ in 0..2 {
        let next = alpha.next().await;
        assert!(matches!(next, AgentEvent::Received(..)), "{next:?}");
    }
}

#[tokio::test]
async fn request_over_a_half_open_connection_fails() {
    let gateway = gateway(&[], &[]).await;
    let stall = Arc::new(Notify::new());
    let endpoint = proxy(&gateway, Arc::clone(&stall)).await;
    let mut requester = Connector::new().unwrap().connect(endpoint).await.unwrap();
    stall.notify_waiters();
    let message = Message {
        agent: "alpha".to_owned(),
        text: "hello".to_owned(),
        session_id: None,
    };
    let result = requester
        .send_and_wait(&message, Duration::from_secs(60), |_| {})
        .await;
    assert_eq!(result.unwrap_err().kind, ClientErrorKind::Unreachable);
}
