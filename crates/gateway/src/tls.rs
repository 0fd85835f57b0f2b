//! TLS of the listener.

use http_server::tls::{self, TlsFiles};
use tokio_rustls::TlsAcceptor;

use base::config::ConfigError;

/// Creates the TLS acceptor. Requests client certificates if `files` names client authorities.
///
/// # Errors
/// The first unusable file, with its JSON Pointer in the configuration. The error never contains the content of a file.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ConfigError> {
    tls::acceptor(files)
        .map_err(|error| ConfigError::at(format!("/tls/{}", error.key), error.to_string()))
}

#[cfg(test)]
mod tests;
