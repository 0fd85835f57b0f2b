//! TLS trust and the client certificate of connections.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};

/// The TLS trust of connections to a peer, if it differs from that of the system. `Debug` shows no key.
pub struct Trust {
    authorities: Option<(Vec<CertificateDer<'static>>, Arc<RootCertStore>)>,
    certificate: Option<Arc<CertifiedKey>>,
}

/// Why a file is unusable: the end of a sentence that begins with the file. Never shows its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustError {
    /// The authorities.
    Authorities(&'static str),
    /// The certificate's chain.
    Chain(&'static str),
    /// The certificate's private key.
    Key(&'static str),
}

impl Trust {
    /// Creates a trust from PEM files (RFC 7468). `ca` replaces the system's authorities. `own` is the chain and the
    /// private key of the client certificate.
    ///
    /// # Errors
    /// The first unusable file.
    pub fn read(ca: Option<&[u8]>, own: Option<(&[u8], &[u8])>) -> Result<Self, TrustError> {
        Ok(Self {
            authorities: ca.map(authorities).transpose()?,
            certificate: own
                .map(|(chain, key)| certificate(chain, key))
                .transpose()?,
        })
    }

    /// Returns the trust without the client certificate, for other hosts. Returns `None` if that equals the system's
    /// trust.
    pub fn anonymous(&self) -> Option<Self> {
        let authorities = Some(self.authorities.clone()?);
        Some(Self {
            authorities,
            certificate: None,
        })
    }

    /// Returns the trusted authorities; `None` means those of the system.
    pub fn roots(&self) -> Option<&Arc<RootCertStore>> {
        self.authorities.as_ref().map(|(_, roots)| roots)
    }

    /// Returns the trusted certificates and authorities; `None` means those of the system.
    pub(crate) fn authorities(&self) -> Option<(&[CertificateDer<'static>], &Arc<RootCertStore>)> {
        let (certificates, roots) = self.authorities.as_ref()?;
        Some((certificates, roots))
    }

    /// Returns the client certificate, if there is one.
    pub fn certificate(&self) -> Option<&Arc<CertifiedKey>> {
        self.certificate.as_ref()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err("holds no certificate in PEM form"),
    }
}

fn authorities(
    pem: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, Arc<RootCertStore>), TrustError> {
    let certificates = certificates(pem).map_err(TrustError::Authorities)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|_| {
            TrustError::Authorities("holds a certificate that cannot be an authority's")
        })?;
    }
    Ok((certificates, Arc::new(roots)))
}

fn certificate(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, TrustError> {
    let chain = certificates(chain).map_err(TrustError::Chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        TrustError::Key("holds no private key in PEM form; one that is encrypted cannot be read")
    })?;
    let provider = rustls::crypto::ring::default_provider();
    match CertifiedKey::from_der(chain, key, &provider) {
        Ok(certified) => Ok(Arc::new(certified)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TrustError::Key("holds a key that is not the certificate's"))
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::Other(error)))
            if matches!(
                error.0.downcast_ref(),
                Some(webpki::Error::UnsupportedCertVersion)
            ) =>
        {
            Err(TrustError::Chain(
                "holds a certificate of X.509 version 1; create one of version 3, for example with `openssl x509 -req -extfile`",
            ))
        }
        Err(rustls::Error::InvalidCertificate(_)) => Err(TrustError::Chain(
            "holds a certificate that cannot be read; create another one",
        )),
        Err(_) => Err(TrustError::Key(
            "holds a private key of a kind that cannot be used; use RSA, ECDSA or Ed25519",
        )),
    }
}

/// Hashes the trusted authorities and the client certificate.
impl Hash for Trust {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let authorities = self.authorities.as_ref();
        authorities
            .map(|(certificates, _)| certificates)
            .hash(state);
        self.certificate.as_ref().map(|own| &own.cert).hash(state);
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("own_authorities", &self.authorities.is_some())
            .field("certificate", &self.certificate.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};

    use super::*;

    fn key_pair() -> (String, String) {
        let Made { cert, signing_key } = generate_simple_self_signed(["a.example".into()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn certificate_and_its_key_are_read() {
        let (cert, key) = key_pair();
        let own = Some((cert.as_bytes(), key.as_bytes()));
        let trust = Trust::read(Some(cert.as_bytes()), own).unwrap();
        assert!(trust.roots().is_some() && trust.certificate().is_some());
        let elsewhere = trust.anonymous().unwrap();
        assert!(elsewhere.roots().is_some() && elsewhere.certificate().is_none());
        assert!(Trust::read(None, own).unwrap().anonymous().is_none());
    }

    /// A certificate of version 1, as `openssl x509 -req` creates it without extensions.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBFjCBvQIUNPmOurjzY1UpoWKNmgXOYAYXhjowCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCdjEwIBcNMjYxMTI1MTQwNzAzWhgPMjEyNjExMDExNDA3MDNaMA0xCzAJ
BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEttqWDW+2Pc3TDVsD
9b0CBk4gsLhgN5q/zQfk6xG3YAWzVJkFwROQvMgjD3AuYpq8TgA9uxf4n8jyG1bJ
YQwNbDAKBggqhkjOPQQDAgNIADBFAiBOqr1luj+XhZ6MrfFTCWVP2TCHORrYVSWe
+u9ukGwYlQIhAL4YNB1BQAOJQesNIgF1/M2Q1QFf0e4T14jMVptuBlJd
-----END CERTIFICATE-----";

    #[test]
    fn unusable_certificate_is_not_blamed_on_its_key() {
        let (_, key) = key_pair();
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
        for (chain, expected) in [(VERSION_1, "version 1"), (garbage, "cannot be read")] {
            let own = Some((chain.as_bytes(), key.as_bytes()));
            let error = Trust::read(None, own).unwrap_err();
            assert!(
                matches!(error, TrustError::Chain(reason) if reason.contains(expected)),
                "{error:?}"
            );
        }
    }

    #[test]
    fn error_omits_the_content_of_the_file() {
        let (cert, key) = key_pair();
        let (_, other) = key_pair();
        let own = |chain: &str, key: &str| {
            Trust::read(None, Some((chain.as_bytes(), key.as_bytes()))).unwrap_err()
        };
        assert!(matches!(own(&key, &key), TrustError::Chain(_)));
        assert!(matches!(own(&cert, &cert), TrustError::Key(_)));
        let mismatched = own(&cert, &other);
        let expected = "holds a key that is not the certificate's";
        assert_eq!(mismatched, TrustError::Key(expected));
        let none = Trust::read(Some(b"no PEM"), None).unwrap_err();
        assert!(matches!(none, TrustError::Authorities(_)));
    }
}
