//! Proxies that open no connection.

use super::*;

#[tokio::test]
async fn failing_proxy_is_named_without_its_credentials() {
    let answers =
        |text: &'static str| async move { RawServer::start(vec![vec![send(text)]]).await };
    let refusal = answers("HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n").await;
    let failure = answers("HTTP/1.1 502 Bad\r\ncontent-length: 0\r\n\r\n").await;
    let silence = answers("").await;
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let (forward, tunnel) = ("http://agent.example/", "https://agent.example/");
    use NetFault::{ProxyAuth, Unreachable};
    let (refusal, failure, silence) = (refusal.address, failure.address, silence.address);
    for (address, url, fault, expected) in [
        (refusal, forward, ProxyAuth, "requires a user name"),
        (refusal, tunnel, ProxyAuth, "requires a user name"),
        (failure, tunnel, Unreachable, "refuses a tunnel"),
        (silence, tunnel, Unreachable, "closed the connection"),
        (closed, forward, Unreachable, "refused"),
        (closed, tunnel, Unreachable, "refused"),
    ] {
        let settings = ProxySettings {
            all: Some(format!("http://me:s3cret@{address}")),
            ..ProxySettings::default()
        };
        let http = client(&settings, &Names::new(&[("agent.example", "8.8.8.8")]));
        let request = get(Url::parse(url).unwrap());
        let upgrade = http.upgrade(request.clone()).await.unwrap_err();
        let error = http.exchange(request).await.unwrap_err();
        for error in [upgrade, error] {
            let text = error.to_string();
            assert_eq!((error.fault(), error.sent()), (fault, Sent::No), "{text}");
            assert!(
                text.contains(&format!("proxy `http://{address}`")),
                "{text}"
            );
            assert!(
                text.contains(expected) && !text.contains("s3cret"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn proxy_without_an_address_is_named() {
    let settings = ProxySettings {
        all: Some("http://proxy.example:1".to_owned()),
        ..ProxySettings::default()
    };
    let http = client(&settings, &Names::new(&[("agent.example", "8.8.8.8")]));
    for url in ["http://agent.example/", "https://agent.example/"] {
        let error = public_error(&http, url).await;
        assert_fault(&error, NetFault::Unreachable, Sent::No);
        assert!(
            error.to_string().contains("proxy `http://proxy.example:1`"),
            "{error}"
        );
    }
}
