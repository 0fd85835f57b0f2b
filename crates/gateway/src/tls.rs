//! TLS of the listener.

use http_server::tls::{self, TlsFile, TlsFiles};
use tokio_rustls::TlsAcceptor;

use super::config::TlsConfig;
use common::config::ConfigError;

/// Creates the TLS acceptor. Requests client certificates if `files` names client authorities.
///
/// # Errors
/// The first unusable file, with its JSON Pointer in the configuration. The error never contains the content of a file.
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
