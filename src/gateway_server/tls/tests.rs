#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use uuid::Uuid;

use super::*;

/// An authority, and a folder for what it signs.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
        fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        fs::write(folder.join("ca.pem"), root.pem()).unwrap();
        let root = root.der().clone();
        Self {
            folder,
            issuer: Issuer::new(params, key),
            root,
        }
    }

    fn signed(&self, name: &str) -> (CertificateDer<'static>, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        (certificate.der().clone(), key)
    }

    fn files(&self, name: &str, clients: bool) -> TlsConfig {
        TlsConfig {
            cert_file: self.folder.join(format!("{name}.pem")),
            key_file: self.folder.join(format!("{name}.key")),
            client_ca_file: clients.then(|| self.folder.join("ca.pem")),
        }
    }

    /// A client that trusts the authority, and shows a certificate where it has one.
    fn client(&self, own: Option<(CertificateDer<'static>, KeyPair)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Says a word over TLS; gives the client's certificate as the gateway sees it, or why it does not hear the word, with what
/// the client has to say of it.
async fn shaken(acceptor: TlsAcceptor, connector: TlsConnector) -> Result<Option<Vec<u8>>, String> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let client = tokio::spawn(async move {
        let name = ServerName::try_from("gateway.example").unwrap();
        let mut stream = connector.connect(name, near).await?;
        stream.write_all(b"word").await?;
        // It ends with the gateway's side.
        stream.read(&mut [0]).await.map(drop)
    });
    let heard = async {
        let mut stream = acceptor.accept(far).await?;
        let mut word = [0; 4];
        stream.read_exact(&mut word).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.map(|chain| chain[0].to_vec());
        stream.shutdown().await?;
        Ok::<_, std::io::Error>(shown)
    };
    let heard = heard.await;
    let said = client.await.unwrap();
    heard.map_err(|error| format!("{error}; the client: {said:?}"))
}

#[tokio::test]
async fn connections_are_tls_with_the_certificate_in_the_files() {
    let authority = Authority::new();
    authority.signed("gateway.example");
    let acceptor = acceptor(&authority.files("gateway.example", false)).unwrap();
    let heard = shaken(acceptor, authority.client(None)).await;
    assert_eq!(heard, Ok(None));
}

#[tokio::test]
async fn clients_show_a_certificate_of_the_authority() {
    let authority = Authority::new();
    authority.signed("gateway.example");
    let files = authority.files("gateway.example", true);
    let own = authority.signed("beta");
    let shown = own.0.to_vec();
    let known = shaken(acceptor(&files).unwrap(), authority.client(Some(own))).await;
    assert_eq!(known, Ok(Some(shown)));
}

#[tokio::test]
async fn who_shows_no_certificate_or_a_strangers_is_not_let_in() {
    let authority = Authority::new();
    authority.signed("gateway.example");
    let files = authority.files("gateway.example", true);
    let none = shaken(acceptor(&files).unwrap(), authority.client(None)).await;
    let why = none.unwrap_err();
    assert!(why.contains("peer sent no certificates"), "{why}");
    let stranger = Authority::new().signed("beta");
    let other = shaken(acceptor(&files).unwrap(), authority.client(Some(stranger))).await;
    let why = other.unwrap_err();
    assert!(why.contains("invalid peer certificate"), "{why}");
}

#[test]
fn files_that_cannot_be_used_are_named_and_not_shown() {
    let authority = Authority::new();
    authority.signed("a");
    authority.signed("b");
    let good = authority.files("a", true);
    acceptor(&good).map(drop).unwrap();
    let with = |change: &dyn Fn(&mut TlsConfig)| {
        let mut files = good.clone();
        change(&mut files);
        let error = acceptor(&files).map(drop).unwrap_err();
        assert!(!error.message.contains("BEGIN"), "{error}");
        (error.path, error.message)
    };
    let other = authority.files("b", false);
    for (change, place, told) in [
        (
            &(|files: &mut TlsConfig| files.cert_file = "/nowhere.pem".into())
                as &dyn Fn(&mut TlsConfig),
            "/tls/certFile",
            "cannot be read",
        ),
        (
            &|files| files.cert_file.clone_from(&good.key_file),
            "/tls/certFile",
            "no certificate",
        ),
        (
            &|files| files.key_file.clone_from(&good.cert_file),
            "/tls/keyFile",
            "no private key",
        ),
        (
            &|files| files.key_file.clone_from(&other.key_file),
            "/tls/keyFile",
            "not the certificate's",
        ),
        (
            &|files| files.client_ca_file = Some(good.key_file.clone()),
            "/tls/clientCaFile",
            "no certificate",
        ),
    ] {
        let (at, message) = with(change);
        assert_eq!(at, place, "{message}");
        assert!(message.contains(told), "{message}");
    }
}
