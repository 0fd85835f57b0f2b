//! A DNS server that changes its answer: the address that was checked is the address that is connected.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, UdpSocket};
use url::Url;

use super::testing::{get, post};
use super::*;
use crate::auth::TokenEndpoint;
use crate::credential::{Credential, OAuth2};
use crate::proxy::{Proxies, ProxySettings};
use crate::resolver::Lookup;
use crate::websocket::{self, Dial};
use testkit::raw_server::{RawServer, send};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A DNS server on this machine that gives these answers in turn, each for one query.
struct Dns {
    address: SocketAddr,
    queries: Arc<AtomicUsize>,
}

impl Dns {
    async fn start(answers: &[&str]) -> Self {
        let answers: Vec<Ipv4Addr> = answers.iter().map(|ip| ip.parse().unwrap()).collect();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let queries = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&queries);
        tokio::spawn(async move {
            let mut query = [0; 512];
            loop {
                let (length, client) = socket.recv_from(&mut query).await.unwrap();
                let turn = count.fetch_add(1, Ordering::SeqCst);
                let ip = answers[turn % answers.len()].octets();
                // The id, a response without error, one question and one answer.
                let mut answer = [&query[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
                answer.extend_from_slice(&query[12..length]);
                // The name of the question, type A, class IN, no time to live, four bytes.
                answer.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend_from_slice(&ip);
                socket.send_to(&answer, client).await.unwrap();
            }
        });
        Self { address, queries }
    }

    fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }

    fn client(&self) -> ReqwestClient {
        let resolver = Arc::new(DnsLookup(self.address));
        ReqwestClient::new().unwrap().with_lookup(resolver)
    }
}

/// Asks a DNS server for the IPv4 address of a name, over UDP.
struct DnsLookup(SocketAddr);

impl Lookup for DnsLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let server = self.0;
        Box::pin(async move {
            let socket = UdpSocket::bind("127.0.0.1:0").await?;
            let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            for label in name.split('.') {
                query.push(u8::try_from(label.len()).unwrap());
                query.extend_from_slice(label.as_bytes());
            }
            query.extend_from_slice(&[0, 0, 1, 0, 1]);
            socket.send_to(&query, server).await?;
            let mut answer = [0; 512];
            let (length, _) = socket.recv_from(&mut answer).await?;
            let ip: [u8; 4] = answer[length - 4..length].try_into().unwrap();
            Ok(vec![IpAddr::from(ip)])
        })
    }
}

/// A server at 127.0.0.1 and a trap at 127.0.0.2 with the same port.
async fn server_and_trap() -> (RawServer, TcpListener) {
    loop {
        let server = RawServer::start(vec![vec![send(OK)]]).await;
        if let Ok(trap) = TcpListener::bind(("127.0.0.2", server.address.port())).await {
            return (server, trap);
        }
    }
}

async fn assert_untouched(trap: &TcpListener) {
    let touched =
        std::future::poll_fn(|cx| std::task::Poll::Ready(trap.poll_accept(cx).is_ready()));
    assert!(!touched.await, "the second answer was connected");
}

/// The ways to a socket, with the names that DNS resolves.
#[derive(Clone, Copy, Debug)]
enum Way {
    Exchange,
    WebSocket,
    TokenEndpoint,
    Proxy,
}

const WAYS: [Way; 4] = [
    Way::Exchange,
    Way::WebSocket,
    Way::TokenEndpoint,
    Way::Proxy,
];

/// Connects to `a.example` at this port.
async fn connect(
    way: Way,
    client: ReqwestClient,
    port: u16,
    access: AddressPolicy,
) -> Result<(), NetError> {
    let url = |scheme: &str| Url::parse(&format!("{scheme}://a.example:{port}/")).unwrap();
    match way {
        Way::Exchange => {
            let request = get(url("http"));
            client
                .exchange(Request { access, ..request })
                .await
                .map(drop)
        }
        Way::WebSocket => {
            let dial = Dial {
                url: url("ws"),
                protocols: Vec::new(),
                headers: HeaderMap::new(),
                access,
                trust: None,
                frame_bytes: 1000,
            };
            match websocket::connect(&client, dial).await {
                Err(websocket::WsError::Net(error)) => Err(error),
                _ => Ok(()),
            }
        }
        Way::TokenEndpoint => {
            let oauth2 = OAuth2::new(
                url("http"),
                "id".into(),
                "secret".to_owned().into(),
                Vec::new(),
            );
            let authorization = Authorization {
                credential: Arc::new(Credential::OAuth2(Arc::new(oauth2))),
                endpoint: TokenEndpoint {
                    allow_private: access == AddressPolicy::AnyAddress,
                    trust: None,
                },
            };
            let request = Request {
                authorization: Some(authorization),
                ..post(Url::parse("http://127.0.0.1:1/").unwrap())
            };
            // The answer has no token.
            client.exchange(request).await.map(drop)
        }
        Way::Proxy => {
            let settings = ProxySettings {
                all: Some(url("http").to_string()),
                ..ProxySettings::default()
            };
            let client = client.with_proxies(Proxies::new(&settings).unwrap());
            let request = get(Url::parse("http://10.0.0.1/").unwrap());
            let request = Request {
                access: AddressPolicy::AnyAddress,
                ..request
            };
            client.exchange(request).await.map(drop)
        }
    }
}

#[tokio::test]
async fn answer_that_changes_after_the_check_is_not_connected() {
    for way in WAYS {
        let (server, trap) = server_and_trap().await;
        let dns = Dns::start(&["127.0.0.1", "127.0.0.2"]).await;
        let port = server.address.port();
        let _ = connect(way, dns.client(), port, AddressPolicy::AnyAddress).await;
        assert_eq!((server.connections(), dns.queries()), (1, 1), "{way:?}");
        assert_untouched(&trap).await;
    }
}

#[tokio::test]
async fn each_connection_checks_its_own_answer() {
    for way in [Way::Exchange, Way::WebSocket, Way::TokenEndpoint] {
        let (server, trap) = server_and_trap().await;
        let dns = Dns::start(&["127.0.0.1", "10.0.0.1", "169.254.169.254"]).await;
        for query in 1..=6 {
            let port = server.address.port();
            let error = connect(way, dns.client(), port, AddressPolicy::Public).await;
            let error = error.expect_err("no public address");
            assert_eq!(error.fault(), NetFault::AddressRefused, "{way:?}: {error}");
            assert_eq!(dns.queries(), query, "{way:?}");
        }
        assert_eq!(server.connections(), 0, "{way:?}");
        assert_untouched(&trap).await;
    }
}

/// The check before a proxy resolves the name, and the connection to the proxy, are for different names.
#[tokio::test]
async fn name_behind_a_proxy_is_checked_and_not_connected() {
    let (proxy, trap) = server_and_trap().await;
    let dns = Dns::start(&["8.8.8.8", "127.0.0.2"]).await;
    let settings = ProxySettings {
        all: Some(format!("http://127.0.0.1:{}", proxy.address.port())),
        ..ProxySettings::default()
    };
    let client = dns.client().with_proxies(Proxies::new(&settings).unwrap());
    let url = Url::parse(&format!("http://a.example:{}/", proxy.address.port())).unwrap();
    let request = || Request {
        access: AddressPolicy::Public,
        ..get(url.clone())
    };
    client.exchange(request()).await.unwrap();
    let error = client.exchange(request()).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::AddressRefused, "{error}");
    assert_eq!((proxy.connections(), dns.queries()), (1, 2));
    assert_untouched(&trap).await;
}

/// A redirect within the origin resolves the name again, and the policy applies again.
#[tokio::test]
async fn redirect_is_resolved_and_checked_again() {
    let redirect =
        "HTTP/1.1 307 Go\r\nlocation: /b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let server = RawServer::start(vec![vec![send(redirect)]]).await;
    let dns = Dns::start(&["127.0.0.1", "8.8.8.8"]).await;
    let url = Url::parse(&format!("http://a.example:{}/", server.address.port())).unwrap();
    let request = Request {
        access: AddressPolicy::Loopback,
        ..post(url)
    };
    let error = redirect::follow(&dns.client(), request).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::AddressRefused, "{error}");
    assert_eq!((server.connections(), dns.queries()), (1, 2));
}
