#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderValue, StatusCode};

use super::*;
use egress::ReqwestClient;
use egress::resolver::Lookup;
use testkit::raw_server::{RawServer, Step, send};

/// A resolver that returns a loopback address for every name.
struct Here;

impl Lookup for Here {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![Ipv4Addr::LOCALHOST.into()])))
    }
}

fn sender(listed: &[&str], anywhere: bool) -> HttpPushSender {
    let listed = listed.iter().map(|url| Url::parse(url).unwrap()).collect();
    let net = ReqwestClient::new().unwrap().with_lookup(Arc::new(Here));
    HttpPushSender::new(Arc::new(net), WebhookPolicy { listed, anywhere })
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

async fn post(sender: &HttpPushSender, url: Url) -> Result<Response<()>, PushError> {
    let mut headers = HeaderMap::new();
    headers.insert("x-a2a-notification-token", HeaderValue::from_static("tok"));
    sender.post(url, headers, Bytes::from_static(b"{}")).await
}

fn answers(head: &str) -> Vec<Step> {
    vec![send(format!(
        "HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n"
    ))]
}

#[tokio::test]
async fn notification_is_posted_unchanged() {
    let hook = RawServer::start(vec![answers("429 Busy\r\nretry-after: 7")]).await;
    let sender = sender(&[hook.url("/").as_str()], false);
    let answer = post(&sender, hook.url("/hook?a=b")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "7");
    let requests = hook.requests();
    let request = requests[0].as_str();
    assert!(request.starts_with("POST /hook?a=b HTTP/1.1"), "{request}");
    assert!(
        request.contains("x-a2a-notification-token: tok"),
        "{request}"
    );
    assert!(
        request.contains("user-agent: openclaw-remote-agent/"),
        "{request}"
    );
    assert!(request.ends_with("{}"), "{request}");
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let other = RawServer::start(vec![answers("200 OK")]).await;
    let to_other = format!("307 Elsewhere\r\nlocation: {}", other.url("/"));
    let hook = RawServer::start(vec![answers(&to_other)]).await;
    let answer = post(&sender(&[], true), hook.url("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(other.connections(), 0);
}

#[test]
fn unlisted_webhooks_are_public_and_https() {
    let sender = sender(&[], false);
    assert_eq!(sender.accepts(&url("https://hook.example/a")), Ok(()));
    for (refused, reason) in [
        ("https://127.0.0.1/", "loopback"),
        ("https://localhost:1/", "loopback"),
        ("https://10.0.0.1/", "private"),
        ("https://[::ffff:192.168.1.1]/", "private"),
        ("https://169.254.169.254/latest", "link-local"),
        ("http://hook.example/", "not https"),
    ] {
        let error = sender.accepts(&url(refused)).unwrap_err();
        assert!(error.contains(reason), "{refused}: {error}");
    }
}

#[test]
fn unlisted_webhook_is_rejected_if_a_list_is_set() {
    let sender = sender(&["http://127.0.0.1:9000/hooks"], false);
    for accepted in [
        "http://127.0.0.1:9000/hooks",
        "http://127.0.0.1:9000/hooks/a",
    ] {
        assert_eq!(sender.accepts(&url(accepted)), Ok(()), "{accepted}");
    }
    for refused in [
        "http://127.0.0.1:9000/admin",
        "http://127.0.0.1:9000/hooks/%2e%2e%2fadmin",
        "http://127.0.0.1:9001/hooks",
        "https://hook.example/",
    ] {
        assert!(sender.accepts(&url(refused)).is_err(), "{refused}");
    }
}

#[test]
fn operator_may_allow_any_webhook() {
    let sender = sender(&[], true);
    for accepted in [
        "http://127.0.0.1:1/",
        "http://10.0.0.1/",
        "http://hook.example/",
    ] {
        assert_eq!(sender.accepts(&url(accepted)), Ok(()), "{accepted}");
    }
}

#[tokio::test]
async fn public_name_with_a_loopback_address_is_not_connected() {
    let hook = RawServer::start(vec![answers("200 OK")]).await;
    let port = hook.address.port();
    let sender = sender(&[], false);
    let address = url(&format!("https://hook.example:{port}/"));
    assert_eq!(sender.accepts(&address), Ok(()));
    let error = post(&sender, address).await.unwrap_err();
    assert!(!error.retryable, "{error}");
    assert!(error.text.contains("loopback"), "{error}");
    assert_eq!(hook.connections(), 0);
}

#[tokio::test]
async fn webhook_refused_by_new_policy_is_not_sent() {
    let hook = RawServer::start(vec![answers("200 OK")]).await;
    let error = post(&sender(&[], false), hook.url("/")).await.unwrap_err();
    assert!(!error.retryable, "{error}");
    assert_eq!(hook.connections(), 0);
}

#[tokio::test]
async fn failed_webhook_is_retryable() {
    let hook = RawServer::start(vec![vec![]]).await;
    let sender = sender(&[], true);
    let address = hook.url("/hook?key=s3cret");
    let cut = post(&sender, address.clone()).await.unwrap_err();
    drop(hook);
    let gone = post(&sender, address).await.unwrap_err();
    for error in [cut, gone] {
        assert!(error.retryable, "{error}");
        assert!(!error.text.contains("s3cret"), "{error}");
    }
}
