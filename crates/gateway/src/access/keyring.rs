//! The credentials that are known.

use std::time::SystemTime;

use ring::digest::{SHA256, digest};

use super::jwt::TokenVerifier;
use super::permissions::Rules;
use super::{AccessError, Identity, Known, Operation};
use crate::config::ServerConfig;
use collective::ErrorCode;
use common::config::ConfigError;

/// The bytes of a SHA-256.
const DIGEST_BYTES: usize = 32;

/// Who may connect, and what they may do.
pub struct Keyring {
    required: bool,
    keys: Vec<Key>,
    certificates: Vec<Key>,
    tokens: Option<TokenVerifier>,
    rules: Rules,
}

struct Key {
    digest: [u8; DIGEST_BYTES],
    expires: Option<SystemTime>,
    identity: Identity,
}

impl Keyring {
    /// The keyring of a configuration that was checked. Reads the key files it names.
    ///
    /// # Errors
    /// A key file cannot be used, with its place in the configuration.
    pub fn load(config: &ServerConfig) -> Result<Self, ConfigError> {
        let auth = config.auth.clone().unwrap_or_default();
        let key = |name: String, sha256: &str, roles, agent, expires: Option<String>| Key {
            digest: hex(sha256),
            expires: expires.and_then(|time| humantime::parse_rfc3339(&time).ok()),
            identity: Identity { name, roles, agent },
        };
        let keys = auth.keys.into_iter();
        let certificates = auth.certificates.into_iter();
        Ok(Self {
            required: config.auth.is_some(),
            keys: keys
                .map(|one| key(one.name, &one.sha256, one.roles, one.agent, one.expires_at))
                .collect(),
            certificates: certificates
                .map(|one| key(one.name, &one.sha256, one.roles, one.agent, None))
                .collect(),
            tokens: auth.jwt.as_ref().map(TokenVerifier::load).transpose()?,
            rules: Rules::new(config),
        })
    }

    /// Whether whoever connects has to say who they are.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Who somebody is that has shown nothing.
    ///
    /// # Errors
    /// 5001: a credential is needed.
    pub fn anonymous(&self) -> Result<Identity, AccessError> {
        if self.required {
            let message =
                "this gateway wants a credential; send `auth` with an API key or a token first";
            return Err(AccessError::new(ErrorCode::AuthRequired, message));
        }
        Ok(Identity {
            name: "anonymous".into(),
            roles: Vec::new(),
            agent: None,
        })
    }

    /// Whose API key or token this is.
    ///
    /// # Errors
    /// 5002 it is nobody's, 5003 it is no longer good.
    pub fn identify(&self, credential: &str, now: SystemTime) -> Result<Known, AccessError> {
        if let Some(key) = find(&self.keys, credential.as_bytes()) {
            return match key.expires {
                Some(end) if end <= now => {
                    let message = format!("the API key of `{}` has expired", key.identity.name);
                    Err(AccessError::new(ErrorCode::TokenExpired, message))
                }
                until => Ok(Known {
                    identity: key.identity.clone(),
                    until,
                }),
            };
        }
        match &self.tokens {
            Some(tokens) if credential.matches('.').count() == 2 => {
                tokens.identify(credential, now)
            }
            _ => Err(AccessError::new(
                ErrorCode::AuthFailed,
                "this gateway does not know the credential",
            )),
        }
    }

    /// Whose certificate this is, in DER; nobody's where it is not listed.
    pub fn certificate(&self, der: &[u8]) -> Option<Identity> {
        Some(find(&self.certificates, der)?.identity.clone())
    }

    /// Whether `who` may do something, while it speaks as an agent.
    ///
    /// # Errors
    /// 5004: it may not.
    pub fn may(
        &self,
        who: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), AccessError> {
        self.rules.may(who, speaks_as, operation)
    }
}

/// The key with this content. Every key is looked at to its end, so that time tells nothing.
fn find<'a>(keys: &'a [Key], content: &[u8]) -> Option<&'a Key> {
    let shown = digest(&SHA256, content);
    let mut found = None;
    for key in keys {
        let pairs = key.digest.iter().zip(shown.as_ref());
        let different = pairs.fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
        if different == 0 {
            found = Some(key);
        }
    }
    found
}

/// The bytes of a digest, which the schema has looked at.
fn hex(digits: &str) -> [u8; DIGEST_BYTES] {
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    let mut bytes = [0; DIGEST_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().fold(0, |all, digit| (all << 4) | *digit as u8);
    }
    bytes
}
