#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod protocols;

use super::*;
use crate::Sent;
use crate::body::read_all;
use crate::testing::{assert_fault, get, post};
use ::http::header::{ACCEPT, USER_AGENT};
use futures_util::StreamExt;
use testkit::raw_server::{RawServer, Step, send};
use tokio::net::TcpListener;
use url::Url;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn exchange(request: Request) -> Result<Response, NetError> {
    ReqwestClient::new().unwrap().exchange(request).await
}

async fn fails(request: Request) -> NetError {
    exchange(request).await.expect_err("the exchange fails")
}

/// Returns a GET to a public address.
fn public(url: Url) -> Request {
    Request {
        access: AddressPolicy::Public,
        ..get(url)
    }
}

async fn serving(answer: impl Into<Vec<u8>>) -> RawServer {
    RawServer::start(vec![vec![send(answer)]]).await
}

async fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn request_and_response_are_unchanged() {
    let server = serving("HTTP/1.1 418 No\r\nx-a: b\r\ncontent-length: 2\r\n\r\nok").await;
    let mut request = post(server.url("/p?q=1#f"));
    request.headers.insert("x-mine", "1".parse().unwrap());
    let response = exchange(request).await.unwrap();
    assert_eq!(
        (response.status.as_u16(), &response.headers["x-a"]),
        (418, &"b".parse().unwrap())
    );
    assert_eq!(read_all(response.body, 9).await.unwrap(), "ok");
    let sent = server.requests().remove(0);
    assert!(
        sent.starts_with("POST /p?q=1 HTTP/1.1\r\n") && sent.ends_with("\r\n\r\n{}"),
        "{sent}"
    );
    let mut lookup: Vec<_> = sent
        .lines()
        .skip(1)
        .filter_map(|l| Some(l.split_once(':')?.0))
        .collect();
    lookup.retain(|n| *n != "{}");
    lookup.sort_unstable();
    assert_eq!(
        lookup,
        [
            "accept",
            "accept-encoding",
            "content-length",
            "host",
            "user-agent",
            "x-mine"
        ]
    );
    assert!(sent.contains(PRODUCT_TOKEN), "{sent}");
}

#[tokio::test]
async fn request_header_precedes_default_header() {
    let server = serving(OK).await;
    let mut request = get(server.url("/"));
    request.headers.insert(ACCEPT, "a/b".parse().unwrap());
    request.headers.insert(USER_AGENT, "me".parse().unwrap());
    exchange(request).await.unwrap();
    let sent = server.requests().remove(0);
    let host = server.address;
    assert_eq!(
        sent,
        format!(
            "GET / HTTP/1.1\r\naccept: a/b\r\nuser-agent: me\r\naccept-encoding: identity\r\nhost: {host}\r\n\r\n"
        )
    );
}

#[tokio::test]
async fn unrepresentable_url_is_a_protocol_error() {
    let url = format!("http://127.0.0.1:1/{}", "s3cret".repeat(20_000));
    let error = fails(get(Url::parse(&url).unwrap())).await;
    assert_fault(&error, NetFault::Protocol, Sent::No);
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[test]
fn plain_http_url_has_no_user_info() {
    for (url, expected) in [
        ("http://me:s3cret@A.example/b", "http://a.example/b"),
        ("https://a.example:80/?q", "https://a.example:80/?q"),
        ("ws://me@[::1]:8080/", "http://[::1]:8080/"),
        ("wss://a.example:443/", "https://a.example/"),
    ] {
        let expected = Url::parse(expected).unwrap();
        assert_eq!(over_http(&Url::parse(url).unwrap()), expected);
    }
}

#[tokio::test]
async fn user_info_of_a_url_is_never_sent() {
    let server = serving(OK).await;
    let mut url = server.url("/");
    url.set_username("me").unwrap();
    url.set_password(Some("s3cret")).unwrap();
    exchange(get(url)).await.unwrap();
    let sent = server.requests().remove(0).to_lowercase();
    assert!(
        !sent.contains("s3cret") && !sent.contains("authorization"),
        "{sent}"
    );
}

#[tokio::test]
async fn redirect_is_a_response() {
    let server = serving("HTTP/1.1 307 Go\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n").await;
    let response = exchange(post(server.url("/a"))).await.unwrap();
    assert_eq!(
        (response.status.as_u16(), server.requests().len()),
        (307, 1)
    );
}

#[tokio::test]
async fn refused_port_is_unreachable_and_unsent() {
    let url = format!("http://127.0.0.1:{}/", closed_port().await);
    let error = fails(post(Url::parse(&url).unwrap())).await;
    assert_fault(&error, NetFault::Unreachable, Sent::No);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn error_shows_no_user_info_path_or_query() {
    let url = format!(
        "http://me:s3cret@127.0.0.1:{}/s3cret?key=s3cret",
        closed_port().await
    );
    let error = fails(get(Url::parse(&url).unwrap())).await;
    assert!(
        !format!("{error} {error:?}").contains("s3cret"),
        "{error:?}"
    );
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn unknown_host_is_a_dns_fault_and_unsent() {
    for access in [AddressPolicy::Public, AddressPolicy::AnyAddress] {
        let request = get(Url::parse("http://does-not-resolve.invalid/").unwrap());
        let error = fails(Request { access, ..request }).await;
        assert_fault(&error, NetFault::Dns, Sent::No);
    }
}

#[tokio::test]
async fn another_scheme_is_refused() {
    let error = fails(get(Url::parse("ftp://127.0.0.1/").unwrap())).await;
    assert_fault(&error, NetFault::Protocol, Sent::No);
}

#[tokio::test]
async fn public_access_refuses_private_addresses_in_any_spelling() {
    let server = serving(OK).await;
    let port = server.address.port();
    let six = TcpListener::bind(("::1", port)).await;
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "2130706433",
        "0x7f.1",
        "127.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ] {
        let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
        let error = fails(public(url)).await;
        assert_fault(&error, NetFault::AddressRefused, Sent::No);
    }
    if let Ok(six) = six {
        let accepted =
            std::future::poll_fn(|cx| std::task::Poll::Ready(six.poll_accept(cx).is_ready())).await;
        assert!(!accepted, "a connection to [::1] was made");
    }
    // The server accepts connections one after the other, so an earlier connection would be answered first.
    exchange(get(server.url("/"))).await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn public_access_does_not_reuse_private_connections() {
    let server = RawServer::start(vec![vec![send(OK), Step::KeepAlive]]).await;
    let url = Url::parse(&format!("http://localhost:{}/", server.address.port())).unwrap();
    let http = ReqwestClient::new().unwrap();
    for _ in 0..2 {
        let response = http.exchange(get(url.clone())).await.unwrap();
        read_all(response.body, 9).await.unwrap();
    }
    assert_eq!(
        (server.connections(), server.requests().len()),
        (1, 2),
        "a connection is kept"
    );
    let error = http.exchange(public(url)).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::AddressRefused, "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn incomplete_body_is_a_cut() {
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart";
    let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n";
    for steps in [
        vec![send(part), Step::Reset],
        vec![send(part)],
        vec![send(chunk)],
        vec![send(chunk), Step::Reset],
    ] {
        let server = RawServer::start(vec![steps]).await;
        // A reset may overtake the head, and then there is no response at all.
        let error = match exchange(get(server.url("/"))).await {
            Ok(response) => read_all(response.body, 1000).await.unwrap_err(),
            Err(error) => error,
        };
        assert_fault(&error, NetFault::Cut, Sent::Unknown);
    }
}

#[tokio::test]
async fn body_ends_at_its_first_error() {
    let server = serving("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart").await;
    let response = exchange(get(server.url("/"))).await.unwrap();
    let items: Vec<_> = response.body.collect().await;
    assert_eq!(items.iter().filter(|i| i.is_err()).count(), 1);
    assert!(items.last().unwrap().is_err());
}

#[tokio::test]
async fn connection_closed_before_response_is_not_retried() {
    for last in [vec![], vec![Step::Reset]] {
        let server = RawServer::start(vec![vec![send(OK), Step::KeepAlive], last]).await;
        let http = ReqwestClient::new().unwrap();
        let response = http.exchange(post(server.url("/"))).await.unwrap();
        read_all(response.body, 9).await.unwrap();
        let error = http.exchange(post(server.url("/"))).await.unwrap_err();
        assert_fault(&error, NetFault::Cut, Sent::Unknown);
        assert_eq!((server.connections(), server.requests().len()), (1, 2));
    }
}

#[tokio::test]
async fn dropping_a_body_closes_its_connection() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart";
    let (server, closed) =
        RawServer::start_with_close_signal(vec![vec![send(head), Step::WaitForClose]]).await;
    let response = exchange(get(server.url("/"))).await.unwrap();
    drop(response);
    let _gone = closed.acquire().await.unwrap();
}

#[test]
fn client_needs_no_runtime_and_can_be_shared() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&ReqwestClient::new().unwrap());
}

/// Returns each of these answers in turn, the last one repeatedly.
struct InTurn {
    answers: std::sync::Mutex<Vec<&'static str>>,
    lookup_started: tokio::sync::Notify,
}

impl InTurn {
    fn new(answers: &[&'static str]) -> Arc<Self> {
        Arc::new(Self {
            answers: answers.to_vec().into(),
            lookup_started: tokio::sync::Notify::new(),
        })
    }

    fn remaining(&self) -> Vec<&'static str> {
        self.answers.lock().unwrap().clone()
    }
}

impl Lookup for InTurn {
    fn lookup(&self, _: String) -> BoxFuture<'static, std::io::Result<Vec<std::net::IpAddr>>> {
        self.lookup_started.notify_one();
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.remove(0)
        } else {
            answers[0]
        };
        Box::pin(std::future::ready(Ok(vec![answer.parse().unwrap()])))
    }
}

/// With separate lookups for the check and for the connection, the second answer would refuse the first request or send it
/// to another address.
#[tokio::test]
async fn connects_to_the_checked_address_after_one_lookup() {
    let server = serving(OK).await;
    let lookup = InTurn::new(&["127.0.0.1", "8.8.8.8"]);
    let http = ReqwestClient::new().unwrap().with_lookup(lookup.clone());
    let url = Url::parse(&format!("http://a.example:{}/", server.address.port())).unwrap();
    let response = http.exchange(get(url)).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(lookup.remaining(), ["8.8.8.8"], "one question");
}

#[tokio::test]
async fn dns_answer_that_turns_private_is_refused() {
    let server = serving(OK).await;
    let port = server.address.port();
    // The first request is dropped once it has its address.
    let lookup = InTurn::new(&["2a00::1", "127.0.0.1"]);
    let http = ReqwestClient::new().unwrap().with_lookup(lookup.clone());
    let request = || public(Url::parse(&format!("http://a.example:{port}/")).unwrap());
    tokio::select! {
        biased;
        () = lookup.lookup_started.notified() => {}
        early = http.exchange(request()) => panic!("{early:?} before the name was resolved"),
    }
    assert_eq!(lookup.remaining(), ["127.0.0.1"], "one question");
    let error = http.exchange(request()).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::AddressRefused, "{error}");
    assert_eq!(server.connections(), 0);
}

/// Never answers a lookup.
struct Silent;

impl Lookup for Silent {
    fn lookup(&self, _: String) -> BoxFuture<'static, std::io::Result<Vec<std::net::IpAddr>>> {
        Box::pin(std::future::pending())
    }
}

fn assert_timed_out(error: &NetError, start: tokio::time::Instant) {
    assert_fault(error, NetFault::Unreachable, Sent::No);
    assert!(error.to_string().contains("took too long"), "{error}");
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn endless_lookup_times_out() {
    let start = tokio::time::Instant::now();
    let http = ReqwestClient::new().unwrap().with_lookup(Arc::new(Silent));
    let url = Url::parse("http://a.example/").unwrap();
    let error = http.exchange(get(url)).await.unwrap_err();
    assert_timed_out(&error, start);
}

#[tokio::test(start_paused = true)]
async fn endless_handshake_times_out() {
    let start = tokio::time::Instant::now();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let error = fails(post(Url::parse(&url).unwrap())).await;
    assert_timed_out(&error, start);
}
