//! TLS configurations: the system's, and those of peers with their own [`Trust`].

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use crate::credential::Trust;

/// A TLS configuration, and the reason if it trusts no certificate.
pub(super) struct Tls {
    pub(super) config: ClientConfig,
    /// Why the system's certificates could not be loaded: `https` then fails, `http` works.
    pub(super) without_roots: Option<Arc<str>>,
}

/// Trusts the authorities of `trust`, or else those of the operating system. The crypto provider is an argument rather
/// than a process-wide default, because one process may load several copies of this library.
pub(super) fn client_config(trust: Option<&Trust>) -> Result<Tls, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (whom, without_roots) = match trust.and_then(Trust::roots) {
        Some(roots) => (ServerVerifier::Roots(Arc::clone(roots)), None),
        None => match Verifier::new(provider.clone()) {
            Ok(verifier) => (ServerVerifier::System(Arc::new(verifier)), None),
            Err(error) => {
                let no_roots = ServerVerifier::Roots(Arc::new(RootCertStore::empty()));
                (no_roots, Some(error.to_string().into()))
            }
        },
    };
    let own = trust.and_then(Trust::certificate);
    let own = own.map(|own| Arc::new(SingleCertAndKey::from(Arc::clone(own))) as Arc<_>);
    Ok(Tls {
        config: build(provider, whom, own)?,
        without_roots,
    })
}

/// The verifier of server certificates.
enum ServerVerifier {
    System(Arc<dyn ServerCertVerifier>),
    Roots(Arc<RootCertStore>),
}

fn build(
    provider: Arc<CryptoProvider>,
    whom: ServerVerifier,
    own: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<ClientConfig, rustls::Error> {
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match whom {
        ServerVerifier::System(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(verifier),
        ServerVerifier::Roots(roots) => builder.with_root_certificates(roots),
    };
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(own),
        None => builder.with_no_client_auth(),
    };
    // A custom TLS configuration needs its ALPN protocol set here.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
