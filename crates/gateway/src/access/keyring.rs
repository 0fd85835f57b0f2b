//! The accepted credentials.

use std::time::SystemTime;

use ring::digest::{SHA256, digest};

use super::jwt::TokenVerifier;
use super::permissions::Rules;
use super::{AccessError, Authenticated, Identity, Operation};
use crate::config::ServerConfig;
use base::config::ConfigError;
use collective::ErrorCode;

const DIGEST_BYTES: usize = 32;

/// The accepted credentials and the permissions of their identities.
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
    /// Loads the keyring of a valid configuration, with its key files.
    ///
    /// # Errors
    /// The first unusable key file, with its JSON Pointer in the configuration.
    pub fn load(config: &ServerConfig) -> Result<Self, ConfigError> {
        let auth = config.auth.clone().unwrap_or_default();
        let key = |name: String, sha256: &str, roles, agent, expires: Option<String>| Key {
            digest: hex(sha256),
            expires: expires.and_then(|time| humantime::parse_rfc3339(&time).ok()),
            identity: Identity {
                name,
                roles,
                agent,
                is_local: false,
            },
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

    /// Returns whether clients must authenticate.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Returns the identity of clients without a credential.
    ///
    /// # Errors
    /// 5001 if clients must authenticate.
    pub fn anonymous(&self) -> Result<Identity, AccessError> {
        if self.required {
            let message = "authentication required; send `auth` with an API key or a token first";
            return Err(AccessError::new(ErrorCode::AuthRequired, message));
        }
        Ok(Identity {
            name: "anonymous".into(),
            roles: Vec::new(),
            agent: None,
            is_local: false,
        })
    }

    /// Returns the identity of an API key or token.
    ///
    /// # Errors
    /// 5002 for an unknown or invalid credential, 5003 for an expired one.
    pub fn authenticate(
        &self,
        credential: &str,
        now: SystemTime,
    ) -> Result<Authenticated, AccessError> {
        if let Some(key) = find(&self.keys, credential.as_bytes()) {
            return match key.expires {
                Some(end) if end <= now => {
                    let message = format!("the API key of `{}` has expired", key.identity.name);
                    Err(AccessError::new(ErrorCode::TokenExpired, message))
                }
                expires_at => Ok(Authenticated {
                    identity: key.identity.clone(),
                    expires_at,
                }),
            };
        }
        match &self.tokens {
            Some(tokens) if credential.matches('.').count() == 2 => {
                tokens.authenticate(credential, now)
            }
            _ => Err(AccessError::new(
                ErrorCode::AuthFailed,
                "unknown credential; check the API key or token",
            )),
        }
    }

    /// Returns the identity of a certificate in DER, or `None` if it is not listed.
    pub fn certificate(&self, der: &[u8]) -> Option<Identity> {
        Some(find(&self.certificates, der)?.identity.clone())
    }

    /// Checks that `identity` may perform an operation while the client acts as an agent.
    ///
    /// # Errors
    /// 5004 without permission.
    pub fn authorize(
        &self,
        identity: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), AccessError> {
        self.rules.authorize(identity, speaks_as, operation)
    }
}

/// Finds a key by its content. Compares all bytes of all keys, so that the duration does not depend on the content.
fn find<'a>(keys: &'a [Key], content: &[u8]) -> Option<&'a Key> {
    let actual = digest(&SHA256, content);
    let mut found = None;
    for key in keys {
        let pairs = key.digest.iter().zip(actual.as_ref());
        let different = pairs.fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
        if different == 0 {
            found = Some(key);
        }
    }
    found
}

/// Decodes a hexadecimal digest. The schema has validated its format.
fn hex(digits: &str) -> [u8; DIGEST_BYTES] {
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    let mut bytes = [0; DIGEST_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().fold(0, |all, digit| (all << 4) | *digit as u8);
    }
    bytes
}
