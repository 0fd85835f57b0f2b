#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use url::Url;

use crate::credential::Trust;
use crate::resolver::Lookup;
use crate::testing::{assert_fault, post};
use crate::websocket::{self, Dial};
use crate::{
    AddressPolicy, BoxFuture, HttpClient as _, NetError, NetFault, Request, ReqwestClient,
    Response, Sent,
};
use testkit::http::Connection;

/// A certificate and its key.
struct Made(rcgen::Certificate, KeyPair);

fn params(name: &str, is_ca: bool) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.into()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params
}

fn self_signed(params: &CertificateParams) -> Made {
    let key = KeyPair::generate().unwrap();
    Made(params.self_signed(&key).unwrap(), key)
}

fn issued(params: &CertificateParams) -> Made {
    let issuer = Issuer::new(self::params("issuer", true), KeyPair::generate().unwrap());
    let key = KeyPair::generate().unwrap();
    Made(params.signed_by(&key, &issuer).unwrap(), key)
}

/// Starts a server that answers one request over TLS, with these protocols.
async fn server(own: &Made, protocols: &[&[u8]]) -> u16 {
    let key = PrivateKeyDer::Pkcs8(own.1.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.0.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            if let Ok(secured) = acceptor.accept(socket).await {
                let mut connection = Connection::new(secured);
                let _ = connection.next().await;
                let _ = connection.write("HTTP/1.1 204 OK\r\n\r\n").await;
            }
        }
    });
    port
}

/// Resolves every name to this machine.
struct Here;

impl Lookup for Here {
    fn lookup(&self, _: String) -> BoxFuture<'static, std::io::Result<Vec<std::net::IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec!["127.0.0.1".parse().unwrap()])))
    }
}

fn client() -> ReqwestClient {
    ReqwestClient::new().unwrap().with_lookup(Arc::new(Here))
}

fn trusting(ca: &Made) -> Arc<Trust> {
    // Editors of Windows write a byte order mark.
    let pem = format!("\u{feff}{}", ca.0.pem());
    Arc::new(Trust::read(Some(pem.as_bytes()), None).unwrap())
}

async fn call(host: &str, port: u16, ca_file: Option<&Made>) -> Result<Response, NetError> {
    let trust = ca_file.map(trusting);
    let url = Url::parse(&format!("https://{host}:{port}/")).unwrap();
    client().exchange(Request { trust, ..post(url) }).await
}

#[tokio::test]
async fn certificate_in_the_ca_file_is_trusted_as_the_servers_own() {
    for own in [
        self_signed(&params("a.example", true)),
        self_signed(&params("a.example", false)),
        issued(&params("a.example", false)),
        issued(&params("a.example", true)),
    ] {
        let port = server(&own, &[]).await;
        assert_eq!(
            call("a.example", port, Some(&own)).await.unwrap().status,
            204
        );
    }
}

#[tokio::test]
async fn only_an_authority_in_the_ca_file_vouches_for_others() {
    for is_ca in [true, false] {
        let trusted = self_signed(&params("other.example", is_ca));
        let key = KeyPair::try_from(trusted.1.serialize_der()).unwrap();
        let issuer = Issuer::new(params("other.example", is_ca), key);
        let key = KeyPair::generate().unwrap();
        let own = params("a.example", false).signed_by(&key, &issuer);
        let port = server(&Made(own.unwrap(), key), &[]).await;
        let answer = call("a.example", port, Some(&trusted)).await;
        assert_eq!(answer.is_ok(), is_ca, "{answer:?}");
    }
}

#[tokio::test]
async fn certificate_in_the_ca_file_must_fit_otherwise() {
    let mut expired = params("a.example", true);
    expired.not_before = date_time_ymd(2019, 1, 1);
    expired.not_after = date_time_ymd(2020, 1, 1);
    let mut early = params("a.example", true);
    early.not_before = date_time_ymd(4000, 1, 1);
    early.not_after = date_time_ymd(4001, 1, 1);
    let current = params("a.example", true);
    for (params, host, expected) in [
        (&expired, "a.example", "expired on Wed, 01 Jan 2020"),
        (&early, "a.example", "not valid before Sat, 01 Jan 4000"),
        (
            &current,
            "b.example",
            "not for `b.example` but for `a.example`;",
        ),
    ] {
        let own = self_signed(params);
        let port = server(&own, &[]).await;
        let error = call(host, port, Some(&own)).await.unwrap_err();
        assert_fault(&error, NetFault::Tls, Sent::No);
        assert!(error.to_string().contains(expected), "{error}");
    }
    // The same names and dates, and another key.
    let (own, other) = (self_signed(&current), self_signed(&current));
    let port = server(&own, &[]).await;
    let error = call("a.example", port, Some(&other)).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::Tls, "{error}");
}

#[tokio::test]
async fn handshake_must_be_signed_by_the_certificate_in_the_ca_file() {
    let own = self_signed(&params("a.example", true));
    let imitation = Made(own.0.clone(), KeyPair::generate().unwrap());
    // rustls refuses a key that is not the certificate's, so the resolver passes it by.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(imitation.1.serialize_der().into());
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let certified = rustls::sign::CertifiedKey::new(vec![own.0.der().clone()], key);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let _ = acceptor.accept(socket).await;
    });
    let error = call("a.example", port, Some(&own)).await.unwrap_err();
    assert!(error.to_string().contains("signature"), "{error}");
}

#[tokio::test]
async fn tls_error_is_in_words_with_its_repair() {
    let ca = self_signed(&params("authority", true));
    let own = |is_ca| self_signed(&params("a.example", is_ca));
    let issued = issued(&params("a.example", false));
    for (own, trusted, expected) in [
        (own(false), None, "no trusted authority"),
        (own(true), None, "CA:TRUE"),
        (own(true), Some(&ca), "tls.caFile"),
        (issued, Some(&ca), "set `tls.caFile`"),
    ] {
        let port = server(&own, &[]).await;
        let error = call("a.example", port, trusted).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(
            !text.contains("Other") && !text.contains("invalid peer"),
            "{text}"
        );
        let url = Url::parse(&format!("wss://a.example:{port}/")).unwrap();
        let dial = Dial {
            url,
            protocols: Vec::new(),
            headers: http::HeaderMap::new(),
            access: AddressPolicy::Loopback,
            trust: trusted.map(trusting),
            frame_bytes: 1000,
        };
        let over_websocket = websocket::connect(&client(), dial).await.unwrap_err();
        assert!(
            over_websocket.to_string().contains(expected),
            "{over_websocket}"
        );
    }
}

#[tokio::test]
async fn peer_that_speaks_only_http_2_is_named() {
    let own = self_signed(&params("a.example", true));
    let port = server(&own, &[b"h2"]).await;
    let error = call("a.example", port, Some(&own)).await.unwrap_err();
    assert_fault(&error, NetFault::Tls, Sent::No);
    assert!(
        error.to_string().contains("no HTTP/1.1 over TLS"),
        "{error}"
    );
}
