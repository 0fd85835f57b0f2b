//! Connections that are TLS.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use tokio_rustls::TlsAcceptor;

use super::config::TlsConfig;
use common::config::ConfigError;
use egress::credential::{Trust, TrustError};

/// Accepts connections with the certificate in the files, and asks clients for one where there are authorities for them.
///
/// # Errors
/// A file cannot be used, with its place in the configuration and why. What is in it is not shown.
pub fn acceptor(files: &TlsConfig) -> Result<TlsAcceptor, ConfigError> {
    let chain = read(&files.cert_file, "certFile")?;
    let key = read(&files.key_file, "keyFile")?;
    let authorities = files.client_ca_file.as_deref();
    let authorities = authorities
        .map(|path| read(path, "clientCaFile"))
        .transpose()?;
    let trust = Trust::read(authorities.as_deref(), Some((&chain, &key)));
    let trust = trust.map_err(|wrong| unusable(files, wrong))?;
    config(&trust)
        .map(|config| TlsAcceptor::from(Arc::new(config)))
        .map_err(|why| ConfigError::at("/tls", why))
}

fn config(trust: &Trust) -> Result<ServerConfig, String> {
    // Passed along rather than installed: a process-wide default would be everyone's.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let builder = match trust.roots() {
        Some(roots) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| e.to_string())?)
        }
        None => builder.with_no_client_auth(),
    };
    let own = trust.certificate().ok_or("there is no certificate")?;
    let own = SingleCertAndKey::from(Arc::clone(own));
    let mut config = builder.with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read(path: &Path, key: &str) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|e| {
        let message = format!("the file `{}` cannot be read: {e}", path.display());
        ConfigError::at(format!("/tls/{key}"), message)
    })
}

fn unusable(files: &TlsConfig, wrong: TrustError) -> ConfigError {
    let (path, key, why) = match wrong {
        TrustError::Authorities(why) => (files.client_ca_file.as_ref(), "clientCaFile", why),
        TrustError::Chain(why) => (Some(&files.cert_file), "certFile", why),
        TrustError::Key(why) => (Some(&files.key_file), "keyFile", why),
    };
    let path = path.map_or_else(String::new, |path| path.display().to_string());
    ConfigError::at(format!("/tls/{key}"), format!("the file `{path}` {why}"))
}

#[cfg(test)]
mod tests;
