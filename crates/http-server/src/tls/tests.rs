#![allow(clippy::unwrap_used)]

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::serve::{ConnectionConfig, serve};

struct Files {
    folder: tempfile::TempDir,
    certificate: Vec<u8>,
}

impl Files {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(
            folder.path().join("key.pem"),
            made.signing_key.serialize_pem(),
        )
        .unwrap();
        Self {
            folder,
            certificate: made.cert.der().to_vec(),
        }
    }

    fn acceptor(&self, certificates: &str, key: &str) -> Result<TlsAcceptor, TlsError> {
        let folder = self.folder.path();
        let files = TlsFiles {
            cert_file: folder.join(certificates),
            key_file: folder.join(key),
            client_ca_file: None,
        };
        acceptor(&files, ClientCertificates::Required)
    }
}

#[tokio::test]
async fn silent_client_delays_no_tls_handshake() {
    let files = Files::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", get(|| async { "secret" }));
    let stop = CancellationToken::new();
    let _end = stop.clone().drop_guard();
    let connections = ConnectionConfig {
        handshake_timeout: Duration::from_millis(300),
        ..ConnectionConfig::default()
    };
    let tls = files.acceptor("cert.pem", "key.pem").unwrap();
    tokio::spawn(serve(listener, Some(tls), app, connections, stop, |_| {}));

    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(files.certificate.clone().into()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(String::from_utf8_lossy(&answer).ends_with("secret"));
    // The handshake timeout closes the connection.
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0);
}

#[test]
fn error_names_the_file_without_content() {
    let files = Files::new();
    std::fs::write(files.folder.path().join("empty.pem"), "").unwrap();
    std::fs::write(files.folder.path().join("text.pem"), "my secret text").unwrap();
    let other = Files::new();
    let other = std::fs::read(other.folder.path().join("key.pem")).unwrap();
    std::fs::write(files.folder.path().join("other.pem"), other).unwrap();
    for (certificates, key, named) in [
        ("none.pem", "key.pem", "none.pem"),
        ("empty.pem", "key.pem", "empty.pem"),
        ("cert.pem", "none.pem", "none.pem"),
        ("cert.pem", "text.pem", "text.pem"),
        ("cert.pem", "other.pem", "other.pem"),
    ] {
        let error = files.acceptor(certificates, key).err().unwrap().to_string();
        assert!(error.contains(named), "{error}");
        assert!(!error.contains("secret text"), "{error}");
    }
}
