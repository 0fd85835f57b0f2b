//! Who connects: TLS and certificates over real sockets, and credentials that end.

use super::*;

use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// An authority, and what it signs in a folder.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let name = format!("authority-{}", uuid::Uuid::new_v4());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("ca.pem"), root.pem()).unwrap();
        let root = root.der().clone();
        let issuer = Issuer::new(params, key);
        Self {
            folder,
            issuer,
            root,
        }
    }

    fn signed(&self, name: &str) -> (CertificateDer<'static>, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), key)
    }

    /// A gateway that has a certificate, and knows the client's `own` as beta's.
    async fn gateway(&self, own: &CertificateDer<'_>) -> Gateway {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (chain, secret) = (
            self.folder.join("gateway.pem"),
            self.folder.join("gateway.key"),
        );
        std::fs::write(&chain, certificate.pem()).unwrap();
        std::fs::write(&secret, key.serialize_pem()).unwrap();
        Gateway::start(json!({
            "tls": {"certFile": chain, "keyFile": secret, "clientCaFile": self.folder.join("ca.pem")},
            "auth": {"certificates": [{"name": "beta", "sha256": hex(own), "roles": [], "agent": "beta"}]},
        }))
        .await
    }

    /// What becomes of a client that shows this certificate and says who it serves.
    async fn shown(
        &self,
        gateway: &Gateway,
        own: Option<(CertificateDer<'static>, KeyPair)>,
        serves: &str,
    ) -> std::io::Result<Value> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        let stream = TcpStream::connect(gateway.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(std::sync::Arc::new(config));
        let mut stream = connector.connect(name, stream).await?;
        upgrade(&mut stream, gateway.address).await?;
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        let capabilities = json!({"supportedMessageTypes": ["message"], "supportedAgents": [serves], "version": "1.0.0"});
        let advertised = json!({"type": "handshake", "content": {"action": "advertise", "capabilities": capabilities}});
        let text = Message::Text(advertised.to_string().into());
        socket.send(text).await.map_err(std::io::Error::other)?;
        let frame = timeout(LONG, socket.next()).await.expect("a frame");
        let frame = frame.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let frame = frame.map_err(std::io::Error::other)?;
        Ok(serde_json::from_str(frame.to_text().unwrap()).unwrap())
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn hex(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn a_certificate_over_tls_says_who_a_client_is() {
    let authority = Authority::new();
    let (beta, key) = authority.signed("beta");
    let gateway = authority.gateway(&beta).await;
    let own = || {
        let key = KeyPair::try_from(key.serialize_der()).unwrap();
        Some((beta.clone(), key))
    };
    let known = authority.shown(&gateway, own(), "beta").await.unwrap();
    assert_eq!(known["content"]["action"], "acknowledge", "{known}");
    let other = authority.shown(&gateway, own(), "alpha").await.unwrap();
    assert_eq!(other["content"]["code"], 5004, "{other}");
}

#[tokio::test]
async fn a_certificate_that_is_not_listed_is_nobodys() {
    let authority = Authority::new();
    let gateway = authority.gateway(&authority.signed("beta").0).await;
    let other = Some(authority.signed("gamma"));
    let told = authority.shown(&gateway, other, "beta").await.unwrap();
    assert_eq!(told["content"]["code"], 5001, "{told}");
}

#[tokio::test]
async fn who_shows_no_certificate_of_the_authority_has_no_connection() {
    let authority = Authority::new();
    let gateway = authority.gateway(&authority.signed("beta").0).await;
    let none = authority.shown(&gateway, None, "beta").await;
    assert!(none.is_err(), "{none:?}");
    let stranger = Some(Authority::new().signed("beta"));
    let told = authority.shown(&gateway, stranger, "beta").await;
    assert!(told.is_err(), "{told:?}");
}

/// A gateway whose key ends so long after now.
fn ending(after: Duration) -> Value {
    let end = humantime::format_rfc3339_millis(SystemTime::now() + after).to_string();
    let key =
        json!({"name": "steward", "sha256": digest("KEY"), "expiresAt": end, "agent": "steward"});
    json!({"auth": {"keys": [key]}})
}

#[tokio::test]
async fn a_connection_ends_with_its_credential() {
    let gateway = Gateway::start(ending(Duration::from_millis(1500))).await;
    let mut client = gateway.known_client().await;
    assert_eq!(client.ask(json!({"type": "ping"})).await["type"], "pong");
    // Nothing is said meanwhile: the gateway looks by itself.
    assert_eq!(client.refused().await, 5003);
    assert_eq!(client.closed().await, 1008);
    let mut late = gateway.client().await;
    let refused = late
        .ask(json!({"type": "auth", "content": {"token": "KEY"}}))
        .await;
    assert_eq!(refused["content"]["code"], 5003, "{refused}");
}
