#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod failures;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;

use super::*;
use crate::credential::Trust;
use crate::resolver::Lookup;
use crate::testing::{assert_fault, get, tls_server};
use crate::{
    AddressPolicy, BoxFuture, HttpClient, NetError, NetFault, Request, ReqwestClient, Response,
    Sent,
};
use testkit::http::Connection;
use testkit::raw_server::{RawServer, send};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Resolves a few names, and records the lookups.
struct Names {
    records: Vec<(&'static str, &'static str)>,
    names: Mutex<Vec<String>>,
}

impl Names {
    fn new(records: &[(&'static str, &'static str)]) -> Arc<Self> {
        Arc::new(Self {
            records: records.to_vec(),
            names: Mutex::default(),
        })
    }
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.records.iter().find(|(records, _)| *records == name);
        let answer = found
            .map(|(_, ip)| vec![ip.parse().unwrap()])
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        self.names.lock().unwrap().push(name);
        Box::pin(std::future::ready(answer))
    }
}

fn client(settings: &ProxySettings, names: &Arc<Names>) -> ReqwestClient {
    ReqwestClient::new()
        .unwrap()
        .with_lookup(Arc::clone(names) as Arc<dyn Lookup>)
        .with_proxies(Proxies::new(settings).unwrap())
}

fn all(proxy: &RawServer) -> ProxySettings {
    ProxySettings {
        all: Some(proxy.url("").to_string()),
        ..ProxySettings::default()
    }
}

async fn exchange(
    http: &ReqwestClient,
    url: &str,
    access: AddressPolicy,
) -> Result<Response, NetError> {
    let request = get(Url::parse(url).unwrap());
    http.exchange(Request { access, ..request }).await
}

/// Requests a URL at a public address, and returns the error.
async fn public_error(http: &ReqwestClient, url: &str) -> NetError {
    let result = exchange(http, url, AddressPolicy::Public).await;
    result.expect_err("no response")
}

fn first_line(server: &RawServer) -> String {
    let requests = server.requests();
    requests[0].lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn proxy_receives_the_absolute_url() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let names = Names::new(&[("agent.example", "8.8.8.8")]);
    let http = client(&all(&proxy), &names);
    let answer = exchange(&http, "http://agent.example/a?b", AddressPolicy::Public)
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(first_line(&proxy), "GET http://agent.example/a?b HTTP/1.1");
}

#[tokio::test]
async fn refused_proxy_tunnel_leaves_request_unsent() {
    let rejection = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
    let proxy = RawServer::start(vec![vec![send(rejection)]]).await;
    let names = Names::new(&[("agent.example", "8.8.8.8")]);
    let http = client(&all(&proxy), &names);
    let error = public_error(&http, "https://agent.example/a").await;
    assert_eq!(first_line(&proxy), "CONNECT agent.example:443 HTTP/1.1");
    assert_fault(&error, NetFault::Unreachable, Sent::No);
}

/// As [`all`], with a user name.
fn own_settings(proxy: &RawServer) -> ProxySettings {
    ProxySettings {
        all: Some(format!("http://me:s3cret@{}", proxy.address)),
        ..ProxySettings::default()
    }
}

/// `me:s3cret` as `Basic` shows it.
const ME: &str = "Basic bWU6czNjcmV0";

#[tokio::test]
async fn forwarding_proxy_receives_its_credentials() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let names = Names::new(&[("agent.example", "8.8.8.8")]);
    let http = client(&own_settings(&proxy), &names);
    let url = "http://you:them@agent.example/";
    exchange(&http, url, AddressPolicy::Public).await.unwrap();
    assert_eq!(first_line(&proxy), "GET http://agent.example/ HTTP/1.1");
    let shown = format!("proxy-authorization: {ME}\r\n");
    assert!(proxy.requests()[0].contains(&shown));
}

#[tokio::test]
async fn tunnel_proxy_receives_its_credentials() {
    let proxy = RawServer::start(vec![vec![send("HTTP/1.1 407 No\r\n\r\n")]]).await;
    let names = Names::new(&[("agent.example", "8.8.8.8")]);
    let http = client(&own_settings(&proxy), &names);
    let error = exchange(&http, "https://agent.example/", AddressPolicy::Public).await;
    let head = proxy.requests().remove(0);
    let shown = format!("proxy-authorization: {ME}\r\n");
    assert!(head.contains(&shown) && head.contains("user-agent: openclaw-remote-agent/"));
    assert!(!error.unwrap_err().to_string().contains("s3cret"));
}

#[tokio::test]
async fn proxy_credentials_are_not_sent_without_proxy() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let server = RawServer::start(vec![vec![send(OK)]]).await;
    let http = client(&own_settings(&proxy), &Names::new(&[]));
    for access in [AddressPolicy::AnyAddress, AddressPolicy::Loopback] {
        let url = server.url("/").to_string();
        exchange(&http, &url, access).await.unwrap();
    }
    let sent = server.requests().concat();
    assert!(!sent.contains("proxy-authorization"), "{sent}");
}

/// Returns a proxy that ends the tunnel itself as `agent.example`, and returns the request from the tunnel.
async fn tunnel() -> (ProxySettings, Arc<Trust>, tokio::task::JoinHandle<String>) {
    let (config, ca) = tls_server("agent.example");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = ProxySettings {
        https: Some(listener.local_addr().unwrap().to_string()),
        ..ProxySettings::default()
    };
    let head = tokio::spawn(async move {
        let mut connection = Connection::new(listener.accept().await.unwrap().0);
        connection.next().await.unwrap();
        connection.write("HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let mut secured = Connection::new(acceptor.accept(connection.stream).await.unwrap());
        let head = secured.next().await.unwrap().unwrap();
        secured.write(OK).await.unwrap();
        head.head
    });
    let trust = Trust::read(Some(ca.as_bytes()), None).unwrap();
    (settings, Arc::new(trust), head)
}

#[tokio::test]
async fn tunneled_peer_is_verified_by_tls() {
    let (settings, trust, head) = tunnel().await;
    let http = client(&settings, &Names::new(&[]));
    let request = get(Url::parse("https://agent.example/a?b").unwrap());
    let trusting = Request {
        trust: Some(trust),
        ..request
    };
    assert_eq!(http.exchange(trusting).await.unwrap().status, 200);
    let head = head.await.unwrap();
    assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
}

#[tokio::test]
async fn untrusted_peer_behind_tunnel_is_a_tls_fault() {
    let (settings, _, _head) = tunnel().await;
    let http = client(&settings, &Names::new(&[]));
    let error = exchange(&http, "https://agent.example/", AddressPolicy::Public).await;
    let error = error.unwrap_err();
    assert_fault(&error, NetFault::Tls, Sent::No);
}

/// An `https` proxy would receive the client certificate of the peer and be trusted by the peer's authorities.
#[tokio::test]
async fn https_proxy_is_refused_for_private_tls_settings() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let made = rcgen::generate_simple_self_signed(["agent.example".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let settings = ProxySettings {
        all: Some(format!("https://{}", proxy.address)),
        ..ProxySettings::default()
    };
    let http = client(&settings, &Names::new(&[]));
    let ca = Trust::read(Some(cert.as_bytes()), None).unwrap();
    let own = Trust::read(None, Some((cert.as_bytes(), key.as_bytes()))).unwrap();
    for trust in [Arc::new(ca), Arc::new(own)] {
        for url in ["https://agent.example/", "http://agent.example/"] {
            let request = Request {
                trust: Some(Arc::clone(&trust)),
                ..get(Url::parse(url).unwrap())
            };
            let upgraded = http.upgrade(request.clone()).await.unwrap_err();
            let error = http.exchange(request).await.unwrap_err();
            assert_fault(&error, NetFault::Tls, Sent::No);
            assert_eq!(upgraded, error);
        }
    }
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn private_address_is_refused_before_the_proxy() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let names = Names::new(&[("inside.example", "10.0.0.1")]);
    let http = client(&all(&proxy), &names);
    for url in [
        "http://inside.example/",
        "https://inside.example/",
        "http://169.254.169.254/",
        "https://[fd00::1]/",
    ] {
        let error = public_error(&http, url).await;
        assert_eq!(error.fault(), NetFault::AddressRefused, "{url}: {error}");
    }
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn proxy_resolves_unknown_names() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let http = client(&all(&proxy), &Names::new(&[]));
    let answer = exchange(&http, "http://far.example/", AddressPolicy::Public).await;
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test]
async fn named_proxy_may_have_any_address() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let names = Names::new(&[("proxy.example", "127.0.0.1"), ("agent.example", "8.8.8.8")]);
    let settings = ProxySettings {
        http: Some(format!("proxy.example:{}", proxy.address.port())),
        ..ProxySettings::default()
    };
    let http = client(&settings, &names);
    let answer = exchange(&http, "http://agent.example/", AddressPolicy::Public).await;
    assert_eq!(answer.unwrap().status, 200);
    let error = public_error(
        &http,
        &format!("http://proxy.example:{}/", proxy.address.port()),
    )
    .await;
    assert_eq!(error.fault(), NetFault::AddressRefused, "{error}");
    assert_eq!(proxy.requests().len(), 1);
}

#[tokio::test]
async fn loopback_and_no_proxy_hosts_bypass_the_proxy() {
    let proxy = RawServer::start(vec![vec![send(OK)]]).await;
    let server = RawServer::start(vec![vec![send(OK)]]).await;
    let names = Names::new(&[
        ("near.example", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("localhost.", "127.0.0.1"),
    ]);
    let settings = ProxySettings {
        none: Some("near.example, 10.0.0.0/8".into()),
        ..all(&proxy)
    };
    let http = client(&settings, &names);
    let port = server.address.port();
    let hosts = [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "[::ffff:127.0.0.1]",
        "near.example",
    ];
    for host in hosts {
        let url = format!("http://{host}:{port}/");
        let answer = exchange(&http, &url, AddressPolicy::AnyAddress).await;
        assert_eq!(answer.unwrap().status, 200, "{host}");
    }
    assert_eq!(proxy.connections(), 0);
    assert_eq!(server.requests().len(), hosts.len());
}

#[tokio::test]
async fn no_proxy_settings_connect_directly() {
    let server = RawServer::start(vec![vec![send(OK)]]).await;
    let names = Names::new(&[("near.example", "127.0.0.1")]);
    let http = client(&ProxySettings::default(), &names);
    let url = format!("http://near.example:{}/x", server.address.port());
    exchange(&http, &url, AddressPolicy::AnyAddress)
        .await
        .unwrap();
    assert_eq!(first_line(&server), "GET /x HTTP/1.1");
    assert_eq!(*names.names.lock().unwrap(), ["near.example"]);
}

#[test]
fn lower_case_proxy_variable_precedes_upper_case() {
    let settings = ProxySettings::read(|name| {
        let value = match name {
            "https_proxy" => "http://lower:1",
            "HTTPS_PROXY" => "http://upper:1",
            "http_proxy" => " ",
            "HTTP_PROXY" => "upper:2",
            "NO_PROXY" => "a.example",
            _ => return None,
        };
        Some(value.to_owned())
    });
    assert_eq!(settings.https.as_deref(), Some("http://lower:1"));
    assert_eq!(settings.http.as_deref(), Some("upper:2"));
    assert_eq!(settings.all, None);
    assert_eq!(settings.none.as_deref(), Some("a.example"));
}

#[test]
fn invalid_proxy_is_reported_without_its_value() {
    for value in [
        "socks5://me:s3cret@proxy:1",
        "http://me:s3cret@[",
        "ftp://s3cret",
    ] {
        let settings = ProxySettings {
            all: Some(value.to_owned()),
            ..ProxySettings::default()
        };
        let error = Proxies::new(&settings).unwrap_err();
        assert!(
            error.contains("ALL_PROXY") && !error.contains("s3cret"),
            "{error}"
        );
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}

/// A name server that does not answer, or answers with an error first and with an address on the next query.
struct ChangingLookup(Mutex<Vec<&'static str>>);

impl Lookup for ChangingLookup {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        match self.0.lock().unwrap().pop() {
            None => Box::pin(std::future::pending()),
            Some("") => Box::pin(std::future::ready(Err(io::ErrorKind::NotFound.into()))),
            Some(ip) => Box::pin(std::future::ready(Ok(vec![ip.parse().unwrap()]))),
        }
    }
}

fn client_with_answers(answers: &[&'static str]) -> ReqwestClient {
    let settings = ProxySettings {
        all: Some("http://proxy.example:1".to_owned()),
        none: Some("proxy.example".to_owned()),
        ..ProxySettings::default()
    };
    ReqwestClient::new()
        .unwrap()
        .with_lookup(Arc::new(ChangingLookup(Mutex::new(answers.to_vec()))))
        .with_proxies(Proxies::new(&settings).unwrap())
}

#[tokio::test]
async fn peer_named_like_the_proxy_obeys_the_policy() {
    let http = client_with_answers(&["127.0.0.1", ""]);
    let error = public_error(&http, "http://proxy.example/").await;
    assert_eq!(error.fault(), NetFault::AddressRefused, "{error}");
}

#[tokio::test(start_paused = true)]
async fn lookup_before_the_proxy_times_out() {
    let error = public_error(&client_with_answers(&[]), "http://agent.example/").await;
    assert_fault(&error, NetFault::Unreachable, Sent::No);
}
