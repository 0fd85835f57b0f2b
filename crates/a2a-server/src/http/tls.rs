//! Connections that are TLS.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A file that cannot be used. What is in it is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The file with the certificates.
    #[error("{0}")]
    Certificates(String),
    /// The file with the private key.
    #[error("{0}")]
    Key(String),
}

/// Takes connections of TLS 1.2 and 1.3 with the certificate chain and the private key in these files, both PEM.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let of_chain = |why: String| {
        TlsError::Certificates(format!(
            "the file `{}` holds no certificate chain in PEM form: {why}",
            certificates.display()
        ))
    };
    let of_key = |why: String| {
        TlsError::Key(format!(
            "the file `{}` holds no private key in PEM form that fits the certificate: {why}",
            key.display()
        ))
    };
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| of_chain(e.to_string()))?;
    if chain.is_empty() {
        return Err(of_chain("there is no `BEGIN CERTIFICATE` in it".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| of_key(e.to_string()))?;
    // Passed along rather than installed: a process-wide default would be everyone's.
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| of_chain(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| of_key(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests;
