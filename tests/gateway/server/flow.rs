//! Connections: pings, ends, and the start of the gateway.

use testkit::http::{Connection, Server};

use super::*;
use gateway_server::Occupant;

#[tokio::test]
async fn h_47_disconnected_client_is_gone_at_once() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.request(json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": ["alpha"]}})).await;
    client.recv().await;
    alpha
        .send(json!({"type": "disconnect", "content": {"reason": "manual"}}))
        .await;
    assert_eq!(client.recv().await["content"]["status"], "offline");
    alpha.send(json!({"type": "ping", "id": "too late"})).await;
    alpha.0.close(None).await.unwrap();
    while let Some(frame) = timeout(WAIT_TIMEOUT, alpha.0.next()).await.unwrap() {
        assert!(frame.unwrap().is_close());
    }
}

#[tokio::test]
async fn h_47_gateway_closes_after_disconnect() {
    let timeouts = Timeouts {
        close: Duration::from_millis(50),
        ..Timeouts::default()
    };
    let gateway = Gateway::with_timeouts(json!({}), timeouts).await;
    let mut client = gateway.client().await;
    client
        .send(json!({"type": "disconnect", "content": {"reason": "shutdown"}}))
        .await;
    assert_eq!(client.wait_for_close().await, 1000);
}

#[tokio::test]
async fn h_47_shutdown_notifies_clients_and_fails_open_requests() {
    let mut gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(message("alpha", "c-1")).await;
    alpha.recv().await;
    gateway.shutdown.cancel();
    let error = client.recv().await;
    assert_has(
        &error,
        json!({"content": {"code": 1003}, "metadata": {"correlationId": "c-1"}}),
    );
    for client in [&mut client, &mut alpha] {
        let frame = client.recv().await;
        assert_has(
            &frame,
            json!({"type": "disconnect", "content": {"reason": "shutdown"}}),
        );
        assert_eq!(client.wait_for_close().await, 1001);
    }
    timeout(WAIT_TIMEOUT, gateway.running.take().unwrap())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn shutdown_does_not_wait_for_slow_readers() {
    let timeouts = Timeouts {
        shutdown: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let mut gateway = Gateway::with_timeouts(json!({}), timeouts).await;
    let _silent = gateway.client().await;
    gateway.shutdown.cancel();
    timeout(Duration::from_secs(5), gateway.running.take().unwrap())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn h_07_silent_client_is_pinged_then_closed() {
    let gateway = Gateway::start(json!({"heartbeatMs": 1000, "limits": {"idleMs": 2500}})).await;
    // A WebSocket library would answer pings. This client only reads bytes.
    let mut client = gateway.client().await;
    let stream = client.0.get_mut();
    let mut read = Vec::new();
    timeout(WAIT_TIMEOUT, stream.read_to_end(&mut read))
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&read);
    let ping = text.find(r#""type":"ping""#).expect("a ping");
    let farewell = text.find(r#""reason":"timeout""#).expect("a farewell");
    assert!(ping < farewell);
    assert!(
        read.windows(4)
            .any(|bytes| bytes[0] == 0x88 && bytes[2..4] == 1001_u16.to_be_bytes())
    );
}

#[tokio::test]
async fn client_that_answers_pings_stays() {
    let gateway = Gateway::start(json!({"heartbeatMs": 1000, "limits": {"idleMs": 2000}})).await;
    let mut client = gateway.client().await;
    for _ in 0..3 {
        let ping = client.recv().await;
        assert_eq!(ping["type"], "ping");
        client
            .send(json!({"type": "pong", "metadata": {"parentId": ping["id"]}}))
            .await;
    }
    client.advertise(&[]).await;
}

#[tokio::test]
async fn taken_port_names_its_holder() {
    let gateway = Gateway::start(json!({})).await;
    let mut second = server_config(json!({}));
    second.listen = gateway.address;
    let Err(StartError::Taken { occupant, .. }) = bind(second, Timeouts::default()).await else {
        panic!("two gateways on one port");
    };
    assert_eq!(occupant, Occupant::A2aV1);
}

#[tokio::test]
async fn taken_port_names_web_server_or_unknown() {
    for (answer, expected) in [
        (
            Some(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            ),
            Occupant::Web(200),
        ),
        (
            Some("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
            Occupant::Web(400),
        ),
        (None, Occupant::Silent),
    ] {
        let server = Server::start(move |stream, _| async move {
            let mut connection = Connection::new(stream);
            connection.next().await?;
            connection.write(answer.unwrap_or_default()).await?;
            connection.drain().await
        });
        let server = server.await;
        let mut taken = server_config(json!({}));
        taken.listen = server.address;
        let Err(StartError::Taken { occupant, .. }) = bind(taken, Timeouts::default()).await else {
            panic!("a taken port was given");
        };
        assert_eq!(occupant, expected);
    }
}
