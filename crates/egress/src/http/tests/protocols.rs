//! Peers that speak no HTTP/1.1, or too much of it.

use tokio::io::AsyncWriteExt as _;

use super::*;

#[tokio::test]
async fn non_http_response_is_a_protocol_error() {
    for answer in ["HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\na b\r\n\r\n"] {
        let server = serving(answer).await;
        let error = fails(get(server.url("/"))).await;
        assert_fault(&error, NetFault::Protocol, Sent::Unknown);
    }
}

#[tokio::test]
async fn peer_of_another_protocol_is_named_and_may_have_the_request() {
    for answer in [
        // An alert and a handshake of TLS, the settings of HTTP/2, and greetings.
        &b"\x15\x03\x01\x00\x02\x02\x46"[..],
        b"\x16\x03\x03\x00\x04\x0e\x00\x00\x00",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80",
        b"220 mail.example.com ESMTP\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        // A response of which one bit is damaged.
        b"ITTP/1.1 200 OK\r\n\r\n",
        b"HTTP/3.1 200 OK\r\n\r\n",
    ] {
        let server = serving(answer).await;
        let error = fails(post(server.url("/"))).await;
        assert_fault(&error, NetFault::Protocol, Sent::Unknown);
        assert!(error.to_string().contains("use an `https`"), "{error}");
    }
}

#[tokio::test]
async fn excessive_headers_are_named() {
    let headers = "x-filler: a\r\n".repeat(120);
    let answer = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\n\r\nok");
    let server = serving(answer).await;
    let error = fails(post(server.url("/"))).await;
    assert!(
        error.to_string().contains("more than 100 headers"),
        "{error}"
    );
}

#[tokio::test]
async fn head_without_end_is_refused() {
    let endless = Step::Endless(
        b"x-filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".to_vec(),
    );
    let server = RawServer::start(vec![vec![send("HTTP/1.1 200 OK\r\n"), endless]]).await;
    let error = fails(get(server.url("/"))).await;
    assert_eq!(error.fault(), NetFault::Protocol, "{error}");
}

#[tokio::test]
async fn tls_to_plain_server_is_a_tls_fault_and_unsent() {
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("https://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
        });
        let error = fails(post(url)).await;
        assert_fault(&error, NetFault::Tls, Sent::No);
        let expected = if answer.is_empty() {
            "broke off"
        } else {
            "use an `http`"
        };
        assert!(error.to_string().contains(expected), "{error}");
    }
}
