#![allow(clippy::unwrap_used)]
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::*;
use testkit::authority::Authority;

/// Returns the TLS configuration with the certificate `name`.
fn files(authority: &Authority, name: &str, clients: bool) -> TlsFiles {
    TlsFiles {
        cert_file: authority.file(&format!("{name}.pem")),
        key_file: authority.file(&format!("{name}.key")),
        client_ca_file: clients.then(|| authority.file("ca.pem")),
    }
}

/// Sends four bytes over TLS. Returns the client certificate that the gateway received, or the errors of the gateway and of
/// the client.
async fn handshake(
    acceptor: TlsAcceptor,
    connector: TlsConnector,
) -> Result<Option<Vec<u8>>, String> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let client = tokio::spawn(async move {
        let name = ServerName::try_from("gateway.example").unwrap();
        let mut stream = connector.connect(name, near).await?;
        stream.write_all(b"word").await?;
        // Wait until the gateway closes.
        stream.read(&mut [0]).await.map(drop)
    });
    let received = async {
        let mut stream = acceptor.accept(far).await?;
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.map(|chain| chain[0].to_vec());
        stream.shutdown().await?;
        Ok::<_, std::io::Error>(shown)
    };
    let received = received.await;
    let client_result = client.await.unwrap();
    received.map_err(|error| format!("{error}; the client: {client_result:?}"))
}

#[tokio::test]
async fn connections_use_the_configured_certificate() {
    let authority = Authority::new();
    authority.signed("gateway.example");
    let acceptor = tls_acceptor(&files(&authority, "gateway.example", false)).unwrap();
    let received = handshake(acceptor, authority.client(None)).await;
    assert_eq!(received, Ok(None));
}

#[tokio::test]
async fn client_certificate_of_the_authority_is_accepted() {
    let authority = Authority::new();
    authority.signed("gateway.example");
    let files = files(&authority, "gateway.example", true);
    let own = authority.signed("beta");
    let shown = own.0.to_vec();
    let known = handshake(tls_acceptor(&files).unwrap(), authority.client(Some(own))).await;
    assert_eq!(known, Ok(Some(shown)));
}

#[tokio::test]
async fn refuses_missing_or_foreign_client_certificate() {
    let authority = Authority::new();
    authority.signed("gateway.example");
    let files = files(&authority, "gateway.example", true);
    let none = handshake(tls_acceptor(&files).unwrap(), authority.client(None)).await;
    let error = none.unwrap_err();
    assert!(error.contains("peer sent no certificates"), "{error}");
    let stranger = Authority::new().signed("beta");
    let other = handshake(
        tls_acceptor(&files).unwrap(),
        authority.client(Some(stranger)),
    )
    .await;
    let error = other.unwrap_err();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[test]
fn unusable_files_are_named_without_content() {
    let authority = Authority::new();
    authority.signed("a");
    authority.signed("b");
    let good = files(&authority, "a", true);
    tls_acceptor(&good).map(drop).unwrap();
    let other = files(&authority, "b", false);
    let cert = |file: &Path| TlsFiles {
        cert_file: file.to_owned(),
        ..good.clone()
    };
    let key = |file: &Path| TlsFiles {
        key_file: file.to_owned(),
        ..good.clone()
    };
    let ca = TlsFiles {
        client_ca_file: Some(good.key_file.clone()),
        ..good.clone()
    };
    let missing = Path::new("/nowhere.pem");
    for (files, place, expected) in [
        (cert(missing), "/tls/certFile", "cannot be read"),
        (cert(&good.key_file), "/tls/certFile", "no certificate"),
        (key(&good.cert_file), "/tls/keyFile", "no private key"),
        (
            key(&other.key_file),
            "/tls/keyFile",
            "not the certificate's",
        ),
        (ca, "/tls/clientCaFile", "no certificate"),
    ] {
        let error = tls_acceptor(&files).map(drop).unwrap_err();
        assert_eq!(error.path, place, "{error}");
        assert!(error.message.contains(expected), "{error}");
        assert!(!error.message.contains("BEGIN"), "{error}");
    }
}
