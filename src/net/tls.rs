//! The one TLS configuration of all sockets.

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// A TLS configuration, and why it trusts nobody if that is so.
pub(super) struct Tls {
    pub(super) config: ClientConfig,
    /// Set when the system's certificates could not be loaded: `https` then fails, `http` works.
    pub(super) without_roots: Option<String>,
}

/// Trusts whom the operating system trusts. The crypto provider is passed along rather than installed: one process may
/// hold several copies of this library, and a process-wide default would be everyone's.
pub(super) fn client_config() -> Result<Tls, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    match Verifier::new(provider.clone()) {
        Ok(verifier) => Ok(Tls {
            config: build(provider, Some(Arc::new(verifier)))?,
            without_roots: None,
        }),
        Err(error) => Ok(Tls {
            config: build(provider, None)?,
            without_roots: Some(error.to_string()),
        }),
    }
}

fn build(
    provider: Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ServerCertVerifier>>,
) -> Result<ClientConfig, rustls::Error> {
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match verifier {
        Some(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(verifier),
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = builder.with_no_client_auth();
    // A configuration made by hand is taken as it is, so the protocols are offered here.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
