//! TLS configurations: the system's, and those of peers with their own [`Trust`].

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
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
pub(super) fn client_config(trust: Option<&Trust>) -> Result<Tls, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (whom, without_roots) = match trust.and_then(Trust::authorities) {
        Some((certificates, roots)) => {
            let chains = |roots: Arc<RootCertStore>| {
                let chains = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
                chains.build().map_err(|e| Error::General(e.to_string()))
            };
            let mut authorities = RootCertStore::empty();
            let issuers = certificates.iter().filter(|one| may_issue(one));
            authorities.add_parsable_certificates(issuers.cloned());
            let verifier = CaFileVerifier {
                certificates: certificates.to_vec(),
                chains: chains(Arc::clone(roots))?,
                authorities: match authorities.is_empty() {
                    true => None,
                    false => Some(chains(Arc::new(authorities))?),
                },
            };
            (ServerVerifier::Custom(Arc::new(verifier)), None)
        }
        None => match Verifier::new(provider.clone()) {
            Ok(verifier) => (ServerVerifier::Custom(Arc::new(verifier)), None),
            Err(error) => {
                let no_roots = ServerVerifier::None;
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
    Custom(Arc<dyn ServerCertVerifier>),
    /// Trusts no certificate.
    None,
}

fn build(
    provider: Arc<CryptoProvider>,
    whom: ServerVerifier,
    own: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<ClientConfig, Error> {
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match whom {
        ServerVerifier::Custom(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(verifier),
        ServerVerifier::None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(own),
        None => builder.with_no_client_auth(),
    };
    // A custom TLS configuration needs its ALPN protocol set here.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Trusts the certificates of a `tls.caFile`, as authorities and as the server's own.
///
/// `openssl req -x509` creates a certificate of an authority, which cannot be a server's. Operators
/// nevertheless give it to a server and to its clients. It is trusted for exactly this server: its dates, its name and the
/// signature of the handshake are checked.
struct CaFileVerifier {
    certificates: Vec<CertificateDer<'static>>,
    /// Trusts all of them.
    chains: Arc<WebPkiServerVerifier>,
    /// Trusts those that may issue others: a server's own certificate vouches for no other one.
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for CaFileVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.chains
                .verify_server_cert(end_entity, intermediates, server_name, ocsp, now);
        let is_own = self.certificates.contains(end_entity);
        match verified {
            Ok(_) if !is_own => match &self.authorities {
                Some(issuers) => {
                    issuers.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
                }
                None => Err(CertificateError::UnknownIssuer.into()),
            },
            // webpki checks the dates before it reports these errors.
            Err(Error::InvalidCertificate(error)) if is_without_chain(&error) && is_own => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Returns whether a certificate may issue others: its basic constraints say so (RFC 5280 §4.2.1.9), or it is of a version
/// before 3, which has none.
fn may_issue(certificate: &[u8]) -> bool {
    /// Version 3, at the start of a certificate.
    const V3: [u8; 5] = [0xa0, 3, 2, 1, 2];
    /// The id of the extension.
    const BASIC_CONSTRAINTS: [u8; 5] = [6, 3, 0x55, 0x1d, 0x13];
    const TRUE: [u8; 3] = [1, 1, 0xff];
    let start = &certificate[..certificate.len().min(16)];
    if !start.windows(V3.len()).any(|bytes| bytes == V3) {
        return true;
    }
    let mut places = certificate.windows(BASIC_CONSTRAINTS.len());
    let Some(at) = places.position(|bytes| bytes == BASIC_CONSTRAINTS) else {
        return false;
    };
    let value = &certificate[at + BASIC_CONSTRAINTS.len()..];
    let value = value.strip_prefix(&TRUE).unwrap_or(value);
    // An octet string with a sequence, whose first member is `cA`.
    matches!(value, [4, _, 0x30, _, ca @ ..] if ca.starts_with(&TRUE))
}

/// Returns whether a certificate is valid alone but no authority has issued it.
fn is_without_chain(error: &CertificateError) -> bool {
    match error {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(other) => matches!(
            other.0.downcast_ref(),
            Some(webpki::Error::CaUsedAsEndEntity)
        ),
        _ => false,
    }
}

base::debug_fields!(self: CaFileVerifier {});

#[cfg(test)]
mod tests;
