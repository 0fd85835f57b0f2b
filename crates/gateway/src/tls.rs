//! Connections that are TLS.

use http_server::tls::{self, TlsFile, TlsFiles};
use tokio_rustls::TlsAcceptor;

use super::config::TlsConfig;
use common::config::ConfigError;

/// Accepts connections with the certificate in the files, and asks clients for one where there are authorities for them.
///
/// # Errors
/// A file cannot be used, with its place in the configuration and why. What is in it is not shown.
pub fn acceptor(files: &TlsConfig) -> Result<TlsAcceptor, ConfigError> {
    let files = TlsFiles {
        certificates: &files.cert_file,
        key: &files.key_file,
        client_authorities: files.client_ca_file.as_deref(),
    };
    tls::acceptor(&files).map_err(|error| {
        let key = match error.file {
            TlsFile::Certificates => "certFile",
            TlsFile::Key => "keyFile",
            TlsFile::ClientAuthorities => "clientCaFile",
        };
        ConfigError::at(format!("/tls/{key}"), error.to_string())
    })
}

#[cfg(test)]
mod tests;
