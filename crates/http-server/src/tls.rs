//! Loads certificates and creates the acceptor of TLS connections.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::text::without_mark;
use serde::Deserialize;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

/// The PEM files for TLS, as a configuration names them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsFiles {
    /// The certificate chain, starting with the certificate of the server.
    pub cert_file: PathBuf,
    /// The private key of the server's certificate.
    pub key_file: PathBuf,
    /// The certificate authorities of clients.
    pub client_ca_file: Option<PathBuf>,
}

/// An error of a TLS file. It contains no content of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the file `{path}` {cause}")]
pub struct TlsError {
    /// The key of the file in the configuration.
    pub key: &'static str,
    path: String,
    cause: String,
}

impl TlsError {
    fn new(key: &'static str, path: &Path, cause: String) -> Self {
        let path = path.display().to_string();
        Self { key, path, cause }
    }
}

/// Whether a client needs a certificate of `client_ca_file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A connection without a certificate is refused.
    Required,
    /// A client may show a certificate.
    Optional,
}

/// Returns an acceptor for TLS 1.2 and 1.3.
///
/// # Errors
/// A file cannot be used. The error contains the file and the cause.
pub fn acceptor(
    files: &TlsFiles,
    certificates_of_clients: ClientCertificates,
) -> Result<TlsAcceptor, TlsError> {
    let of_certificates = |cause| TlsError::new("certFile", &files.cert_file, cause);
    let of_key = |cause| TlsError::new("keyFile", &files.key_file, cause);
    let chain = certificates(&files.cert_file).map_err(of_certificates)?;
    let key = private_key(&files.key_file).map_err(of_key)?;
    // Passed explicitly, because a process-wide default provider would affect all users of rustls in the process.
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| of_certificates(unusable(e)))?;
    let builder = match &files.client_ca_file {
        Some(path) => {
            let of_authorities = |cause| TlsError::new("clientCaFile", path, cause);
            let roots = authorities(path).map_err(of_authorities)?;
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            if certificates_of_clients == ClientCertificates::Optional {
                verifier = verifier.allow_unauthenticated();
            }
            let verifier = verifier.build().map_err(|e| of_authorities(unusable(e)))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| match e {
        Error::InconsistentKeys(_) => of_key("holds a key that is not the certificate's".into()),
        Error::InvalidCertificate(_) => of_certificates(unusable(e)),
        e => of_key(unusable(e)),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(path)?;
    let chain = CertificateDer::pem_slice_iter(without_mark(&pem)).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|e| format!("holds no certificate in PEM form: {e}"))?;
    if chain.is_empty() {
        return Err("holds no certificate in PEM form".into());
    }
    Ok(chain)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(without_mark(&read(path)?))
        .map_err(|e| format!("holds no private key in PEM form: {e}"))
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(unusable)?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("cannot be read: {e}"))
}

fn unusable(cause: impl Display) -> String {
    format!("cannot be used: {cause}")
}

#[cfg(test)]
mod tests;
