//! The opening handshake of a WebSocket, and its allowed addresses.

use super::*;

/// Returns the error for this fixed answer of a server.
async fn connect_error(answer: &str) -> (WsError, RawServer) {
    let server = RawServer::start(vec![vec![send(answer), Step::WaitForClose]]).await;
    let url = format!("ws://{}/", server.address);
    (open(dial(url)).await.expect_err("no WebSocket"), server)
}

#[tokio::test]
async fn accept_value_is_that_of_the_rfc() {
    assert_eq!(
        handshake::accept("dGhlIHNhbXBsZSBub25jZQ=="),
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
}

#[tokio::test]
async fn answer_that_is_no_upgrade_for_this_key_is_rejected() {
    for (headers, reason) in [
        (
            "upgrade: websocket\r\nconnection: Upgrade\r\n",
            "does not match the key",
        ),
        (
            "upgrade: h2c\r\nconnection: Upgrade\r\n",
            "`upgrade` header is not `websocket`",
        ),
        (
            "upgrade: websocket\r\nconnection: keep-alive\r\n",
            "`connection` header is not `upgrade`",
        ),
    ] {
        let (error, _server) = connect_error(&format!(
            "HTTP/1.1 101 Switching Protocols\r\n{headers}sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
        ))
        .await;
        assert!(
            matches!(error, WsError::Handshake(message) if message.contains(reason)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn refuses_upgrade_with_unrequested_extension() {
    for more in [
        "sec-websocket-protocol: chat\r\n",
        "sec-websocket-protocol: a2a-v1\r\nsec-websocket-protocol: a2a-v1\r\n",
        "sec-websocket-extensions: permessage-deflate\r\n",
    ] {
        let (url, _taken) = server(more, Vec::new()).await;
        let error = open(dial(url)).await.expect_err(more);
        assert!(matches!(error, WsError::Handshake(_)), "{error}");
    }
}

#[tokio::test]
async fn plain_response_is_reported_with_status_and_media_type() {
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\ncontent-length: 6\r\n\r\n<html>",
            (200, Some("text/html")),
        ),
        (
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
            (400, None),
        ),
        ("HTTP/1.1 404 Not Found\r\n\r\n", (404, None)),
    ] {
        let (error, _server) = connect_error(answer).await;
        let WsError::NoUpgrade {
            status,
            content_type,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((status.as_u16(), content_type.as_deref()), expected);
    }
}

#[tokio::test]
async fn redirect_of_upgrade_is_not_followed() {
    let other = RawServer::start(vec![vec![Step::WaitForClose]]).await;
    let location = format!(
        "HTTP/1.1 302 Found\r\nlocation: ws://{}/\r\ncontent-length: 0\r\n\r\n",
        other.address
    );
    let (error, server) = connect_error(&location).await;
    assert!(matches!(error, WsError::NoUpgrade { status, .. } if status.as_u16() == 302));
    assert_eq!((server.connections(), other.connections()), (1, 0));
}

#[tokio::test]
async fn dripping_handshake_ends_at_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let (drip, dripping) = oneshot::channel();
    let server = tokio::spawn(async move {
        let mut connection = Connection::new(listener.accept().await.unwrap().0);
        let request = connection.next().await.unwrap().unwrap();
        let answer = switching(&request, "x-more: is to come\r\n").into_bytes();
        // All but its end, a byte at a time.
        for byte in &answer[..answer.len() - 2] {
            connection.write([*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        drip.send(()).unwrap();
        // The end of the connection: zero bytes or an error.
        connection.stream.read(&mut [0]).await.unwrap_or(0)
    });
    tokio::select! {
        opened = open(dial(url)) => panic!("{opened:?}"),
        // The timeout of the caller drops the future.
        dripped = dripping => dripped.unwrap(),
    }
    let remaining = timeout(Duration::from_secs(60), server).await;
    assert_eq!(remaining.expect("the connection is closed").unwrap(), 0);
}

#[tokio::test]
async fn local_policy_connects_to_this_machine_only() {
    for url in [
        "ws://192.0.2.1:9/",
        "ws://8.8.8.8/",
        "wss://10.0.0.1/",
        "ws://0.0.0.0:9/",
    ] {
        let error = open(dial(url)).await.expect_err(url);
        let WsError::Net(error) = error else {
            panic!("{error}")
        };
        assert_fault(&error, NetFault::AddressRefused, Sent::No);
        let origin = url.trim_end_matches('/');
        assert!(error.to_string().contains(origin), "{error}");
    }
}

#[tokio::test]
async fn name_of_this_machine_is_connected() {
    let (url, _taken) = server("", frame(0x81, b"here")).await;
    let mut opened = open(dial(url.replace("127.0.0.1", "localhost")))
        .await
        .unwrap();
    assert!(matches!(opened.receiver.next().await, Frame::Text(text) if text == "here"));
}

#[tokio::test]
async fn dial_debug_hides_secrets() {
    let (error, server) = connect_error("HTTP/1.1 401 Unauthorized\r\n\r\n").await;
    drop(server);
    let mut secret = dial("ws://me:s3cret@127.0.0.1:1/s3cret?token=s3cret");
    secret
        .headers
        .insert("authorization", "s3cret".parse().unwrap());
    let shown = format!(
        "{secret:?} {error} {:?}",
        open(secret.clone()).await.unwrap_err()
    );
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// Returns a TLS server with a private certificate that prefers HTTP/2 and sends `hello` over the WebSocket.
async fn secured() -> (Server, String) {
    let (mut config, ca) = tls_server("localhost");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let server = Server::start(move |socket, _| {
        let acceptor = acceptor.clone();
        async move {
            let socket = acceptor.accept(socket).await?;
            assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            let mut connection = Connection::new(socket);
            let request = connection.next().await?.unwrap();
            connection.write(switching(&request, "")).await?;
            connection.write(frame(0x81, b"hello")).await?;
            connection.drain().await
        }
    });
    (server.await, ca)
}

#[tokio::test]
async fn wss_uses_http_1_1_and_the_configured_trust() {
    let (server, ca) = secured().await;
    let port = server.address.port();
    let trust = Trust::read(Some(ca.as_bytes()), None).unwrap();
    let trusting = Dial {
        trust: Some(Arc::new(trust)),
        ..dial(format!("wss://localhost:{port}/"))
    };
    let mut opened = open(trusting).await.unwrap();
    assert!(matches!(opened.receiver.next().await, Frame::Text(text) if text == "hello"));
}

#[tokio::test]
async fn untrusted_certificate_is_a_tls_fault() {
    let (server, _) = secured().await;
    let port = server.address.port();
    let error = open(dial(format!("wss://localhost:{port}/")))
        .await
        .unwrap_err();
    assert!(
        matches!(error, WsError::Net(error) if error.fault() == NetFault::Tls && error.sent() == Sent::No)
    );
}
