//! Credentials, and the TLS trust and client certificate of connections.
//!
//! `auth.rs` adds a credential to a request, `tls.rs` secures a connection.

mod assertion;
mod aws;
mod command;
mod oauth2;
mod token_file;
mod tokens;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use assertion::AssertionKey;
pub(crate) use assertion::random_text;
pub use aws::{AwsKeySource, AwsKeys, AwsSigV4};
use base::text::without_mark;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub use command::CommandCredential;
use http::{HeaderName, HeaderValue};
pub use oauth2::{ClientAuth, Endpoints, Grant, Metadata, OAuth2, SignInFlow, Users};
pub use oauth2::{DeviceCode, Prompt, Refusal, RunningSignIn, SignInError, SignInTurn};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
pub(crate) use token_file::{LOCK_TIMEOUT, MAX_FILE_BYTES};
pub use token_file::{StoredToken, TokenFile};
pub use tokens::Tokens;
pub(crate) use tokens::{Issued, Token, other_token_type, seconds};

use crate::{NetError, NetFault, Sent};

/// A credential for a peer. A certificate belongs to the connection instead ([`Trust`]). `Debug` shows only the kind.
pub enum Credential {
    /// `Authorization: Bearer` (RFC 6750).
    Bearer(SecretString),
    /// `Authorization: Basic` (RFC 7617).
    Basic {
        /// The user's name.
        username: String,
        /// The user's password.
        password: SecretString,
    },
    /// An API key.
    ApiKey {
        /// The place of the key in a request.
        place: CredentialPlace,
        /// The key.
        key: SecretString,
    },
    /// A bearer token from an authorization server (RFC 6749).
    OAuth2(Arc<OAuth2>),
    /// A bearer token that a program prints.
    Command(Arc<CommandCredential>),
    /// A signature of each request.
    AwsSigV4(Box<AwsSigV4>),
}

/// The place of an API key in a request.
#[derive(Clone, Hash)]
pub enum CredentialPlace {
    /// The header of this name.
    Header(HeaderName),
    /// The query parameter of this name.
    Query(String),
    /// The cookie of this name.
    Cookie(String),
}

impl Credential {
    /// Returns the header that carries it. Requests may not set this header.
    pub fn header(&self) -> Option<HeaderName> {
        match self {
            Self::ApiKey { place, .. } => match place {
                CredentialPlace::Header(name) => Some(name.clone()),
                CredentialPlace::Cookie(_) => Some(http::header::COOKIE),
                CredentialPlace::Query(_) => None,
            },
            Self::Bearer(_)
            | Self::Basic { .. }
            | Self::OAuth2(_)
            | Self::Command(_)
            | Self::AwsSigV4(_) => Some(http::header::AUTHORIZATION),
        }
    }

    /// Returns every form of the credential that must be redacted. Issued tokens are in [`issued`](Self::issued).
    pub fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Bearer(token) => vec![token.clone()],
            Self::Basic { username, password } => {
                vec![password.clone(), basic(username, password.expose_secret())]
            }
            Self::ApiKey { key, .. } => vec![key.clone()],
            Self::OAuth2(client) => client.secrets(),
            Self::Command(_) => Vec::new(),
            Self::AwsSigV4(aws) => match &aws.keys {
                AwsKeySource::Settings(keys) => keys.secrets(),
                AwsKeySource::Command(_) => Vec::new(),
            },
        }
    }

    /// Returns the credential of `user`, if each person has one of their own.
    pub fn for_user(&self, user: Option<&str>) -> Option<Arc<Self>> {
        match self {
            Self::OAuth2(client) => client.for_user(user),
            _ => None,
        }
    }

    /// Returns the user whose credential it is, if each person has one of their own: empty if the host names none.
    pub fn user(&self) -> Option<&str> {
        let Self::OAuth2(client) = self else {
            return None;
        };
        match &client.grant {
            Grant::Person { file, .. } if file.is_per_user() => {
                Some(file.user.as_deref().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Returns the access tokens or keys that were issued for it, the newest last.
    pub fn issued(&self) -> Option<Arc<[SecretString]>> {
        match self {
            Self::OAuth2(client) => Some(client.tokens.issued()),
            Self::Command(command) => Some(command.tokens.issued()),
            Self::AwsSigV4(aws) => match &aws.keys {
                AwsKeySource::Settings(_) => None,
                AwsKeySource::Command(command) => Some(command.tokens.issued()),
            },
            _ => None,
        }
    }
}

/// Encodes user name and password for `Authorization: Basic` (RFC 7617 §2).
pub(crate) fn basic(username: &str, password: &str) -> SecretString {
    STANDARD.encode(format!("{username}:{password}")).into()
}

/// Encodes `text` as `application/x-www-form-urlencoded`.
pub(crate) fn form_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Returns a header value that `Debug` does not print.
pub(crate) fn sensitive(text: impl AsRef<str>) -> Result<HeaderValue, NetError> {
    let mut value = HeaderValue::from_str(text.as_ref()).map_err(|_| {
        let message = "the credential has characters that an HTTP header cannot contain";
        NetError::new(NetFault::Protocol, Sent::No, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Hash for Credential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Bearer(token) => token.expose_secret().hash(state),
            Self::Basic { username, password } => {
                (username, password.expose_secret()).hash(state);
            }
            Self::ApiKey { place, key } => (place, key.expose_secret()).hash(state),
            Self::OAuth2(client) => client.hash(state),
            Self::Command(command) => command.hash(state),
            Self::AwsSigV4(aws) => aws.hash(state),
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer",
            Self::Basic { .. } => "Basic",
            Self::ApiKey { .. } => "ApiKey",
            Self::OAuth2(_) => "OAuth2",
            Self::Command(_) => "Command",
            Self::AwsSigV4(_) => "AwsSigV4",
        })
    }
}

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
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(without_mark(pem)).collect();
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
    let key = PrivateKeyDer::from_pem_slice(without_mark(key)).map_err(|_| {
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

base::debug_fields!(self: Trust {
    own_authorities = self.authorities.is_some(), certificate = self.certificate.is_some(),
});

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn texts(credential: &Credential) -> Vec<String> {
        let secrets = credential.secrets();
        secrets
            .iter()
            .map(|secret| secret.expose_secret().to_owned())
            .collect()
    }

    #[test]
    fn password_is_redacted_with_and_without_user() {
        let basic = Credential::Basic {
            username: "desk".into(),
            password: "open sesame".to_owned().into(),
        };
        assert_eq!(texts(&basic), ["open sesame", "ZGVzazpvcGVuIHNlc2FtZQ=="]);
    }

    #[test]
    fn credential_debug_shows_only_its_kind() {
        let secret = || SecretString::from("s3cret".to_owned());
        let all = [
            Credential::Bearer(secret()),
            Credential::Basic {
                username: "s3cret".into(),
                password: secret(),
            },
            Credential::ApiKey {
                place: CredentialPlace::Query("s3cret".into()),
                key: secret(),
            },
            Credential::OAuth2(Arc::new(OAuth2::new(
                url::Url::parse("https://s3cret.example/").unwrap(),
                "s3cret".into(),
                secret(),
                vec!["s3cret".into()],
            ))),
            Credential::Command(Arc::new(CommandCredential::new(
                vec!["s3cret".into()],
                vec!["s3cret".into()],
                std::time::Duration::from_secs(1),
            ))),
            Credential::AwsSigV4(Box::new(AwsSigV4 {
                region: "s3cret".into(),
                service: "s3cret".into(),
                keys: AwsKeySource::Settings(AwsKeys {
                    access_key_id: secret(),
                    secret_access_key: secret(),
                    session_token: Some(secret()),
                }),
                clock: Arc::new(base::environment::SystemEnvironment),
            })),
        ];
        let kinds = "[Bearer, Basic, ApiKey, OAuth2, Command, AwsSigV4]";
        assert_eq!(format!("{all:?}"), kinds);
    }
}

#[cfg(test)]
mod trust_tests {
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
