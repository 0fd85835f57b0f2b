//! The accepted credentials: keys, certificates, and JSON Web Tokens (RFC 7519), signed (RFC 7515 §7.1).

use std::fs;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::hmac;
use serde_json::Value;

use crate::agent;
use crate::config::{JwtAlgorithm, JwtConfig, ServerConfig};
use base::config::ConfigError;
use base::jws::{KeySet, TimeError, Token};
use base::text;
use collective::{ErrorCode, FRAME_LIMITS};

use super::{AccessError, Authenticated, Identity, IdentityKind, Operation, Rules};

const DIGEST_BYTES: usize = 32;

/// The minimum length of a shared key (RFC 7518 §3.2).
const MIN_KEY_BYTES: usize = 32;

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
        let key = |kind, name: String, sha256: &str, roles, agent, expires: Option<String>| Key {
            digest: hex(sha256),
            expires: expires.and_then(|time| humantime::parse_rfc3339(&time).ok()),
            identity: Identity {
                name,
                roles,
                agent,
                kind,
            },
        };
        let keys = auth.keys.into_iter();
        let certificates = auth.certificates.into_iter();
        Ok(Self {
            required: config.auth.is_some(),
            keys: keys
                .map(|one| {
                    let kind = IdentityKind::Key;
                    key(
                        kind,
                        one.name,
                        &one.sha256,
                        one.roles,
                        one.agent,
                        one.expires_at,
                    )
                })
                .collect(),
            certificates: certificates
                .map(|one| {
                    let kind = IdentityKind::Certificate;
                    key(kind, one.name, &one.sha256, one.roles, one.agent, None)
                })
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
            return Err(Self::auth_required(None));
        }
        Ok(Identity {
            name: "anonymous".into(),
            roles: Vec::new(),
            agent: None,
            kind: IdentityKind::Anonymous,
        })
    }

    /// Returns the error of a client without an accepted credential: 5001. `certificate` is its unknown certificate in DER.
    pub fn auth_required(certificate: Option<&[u8]>) -> AccessError {
        let send = "send `auth` with an API key or a token first";
        let message = match certificate {
            None => format!("authentication required; {send}"),
            Some(der) => format!(
                "authentication required: the gateway does not list the client certificate with the SHA-256 `{}`; its operator can add it to `auth.certificates`, and for a link name it in `links[].certificate`. Without a certificate, {send}",
                text::hex(digest(&SHA256, der).as_ref())
            ),
        };
        AccessError::new(ErrorCode::AuthRequired, message)
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

/// Verifies tokens.
struct TokenVerifier {
    key: TokenKey,
    algorithm: JwtAlgorithm,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
}

enum TokenKey {
    Shared(hmac::Key),
    Public(KeySet),
}

/// Why a token is invalid, as the end of a sentence that starts with "the token".
type VerifyError = String;

impl TokenVerifier {
    /// Reads the key file.
    pub(super) fn load(config: &JwtConfig) -> Result<Self, ConfigError> {
        let key = match (&config.key_file, &config.jwks_file) {
            (Some(path), _) => {
                let place = "/auth/jwt/keyFile";
                let file = fs::read(path).map_err(|e| {
                    let message = format!("cannot read `{}`: {e}", path.display());
                    ConfigError::at(place, message)
                })?;
                let key = file.trim_ascii_end();
                if key.len() < MIN_KEY_BYTES {
                    let message = format!(
                        "the key in `{}` has fewer than {MIN_KEY_BYTES} bytes; create one with `openssl rand -base64 48`",
                        path.display()
                    );
                    return Err(ConfigError::at(place, message));
                }
                TokenKey::Shared(hmac::Key::new(hmac::HMAC_SHA256, key))
            }
            (None, Some(path)) => {
                let place = "/auth/jwt/jwksFile";
                let invalid_key = |problem: String| {
                    let message = format!("invalid key set `{}`: {problem}", path.display());
                    ConfigError::at(place, message)
                };
                let file = fs::read(path).map_err(|e| invalid_key(e.to_string()))?;
                TokenKey::Public(KeySet::parse(&file).map_err(invalid_key)?)
            }
            (None, None) => {
                return Err(ConfigError::at(
                    "/auth/jwt",
                    "no key file; set `keyFile` or `jwksFile`",
                ));
            }
        };
        Ok(Self {
            key,
            algorithm: config.alg,
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            leeway: Duration::from_millis(config.leeway_ms),
        })
    }

    /// Returns the identity of a valid token.
    pub(super) fn authenticate(
        &self,
        token: &str,
        now: SystemTime,
    ) -> Result<Authenticated, AccessError> {
        let token = self.verify(token).map_err(failed)?;
        let expires_at = token
            .check_time(now, self.leeway)
            .map_err(|error| match error {
                TimeError::NotATime(claim) => failed(format!("has a `{claim}` that is not a time")),
                TimeError::NoExpiry => failed("has no expiry (`exp`)".into()),
                TimeError::NotYet => failed("is not valid yet (`nbf`)".into()),
                TimeError::Expired => AccessError::new(
                    ErrorCode::TokenExpired,
                    "the token has expired; get a new one",
                ),
            })?;
        let identity = self.identity(&token).map_err(failed)?;
        Ok(Authenticated {
            identity,
            expires_at: Some(expires_at),
        })
    }

    /// Parses a token and verifies its signature.
    fn verify<'a>(&self, token: &'a str) -> Result<Token<'a>, VerifyError> {
        let token = Token::parse(token, FRAME_LIMITS)?;
        if token.header("alg") != Some(self.algorithm.as_str()) {
            return Err(format!("is not signed with {}", self.algorithm.as_str()));
        }
        match &self.key {
            TokenKey::Shared(key) => {
                let (signed, signature) = token.signed();
                let signature = URL_SAFE_NO_PAD.decode(signature);
                let signature = signature.map_err(|_| "is not base64url")?;
                hmac::verify(key, signed.as_bytes(), &signature)
                    .map_err(|_| "has an invalid signature")?;
            }
            TokenKey::Public(keys) => token.verify(keys)?,
        }
        Ok(token)
    }

    fn identity(&self, token: &Token<'_>) -> Result<Identity, VerifyError> {
        let text = |claim: &str| token.text(claim);
        if self.issuer.is_some() && text("iss") != self.issuer.as_deref() {
            return Err("has another issuer (`iss`)".into());
        }
        let audience = self.audience.as_deref();
        if audience.is_some_and(|audience| !token.is_for(audience)) {
            return Err("has another audience (`aud`)".into());
        }
        if let Some(agent) = text("agent") {
            agent::validate_agent_name(agent)
                .map_err(|(_, message)| format!("has an invalid `agent`: {message}"))?;
        }
        let name = text("sub").filter(|name| !name.is_empty());
        let split_names =
            |split_names: &str| split_names.split_whitespace().map(str::to_owned).collect();
        Ok(Identity {
            name: name.ok_or("has no subject (`sub`)")?.to_owned(),
            roles: match token.claims().get("roles") {
                Some(Value::String(text)) => split_names(text),
                Some(Value::Array(all)) => {
                    let texts = all.iter().filter_map(Value::as_str);
                    texts.map(str::to_owned).collect()
                }
                _ => Vec::new(),
            },
            agent: text("agent").map(str::to_owned),
            kind: IdentityKind::Token,
        })
    }
}

fn failed(problem: VerifyError) -> AccessError {
    AccessError::new(ErrorCode::AuthFailed, format!("the token {problem}"))
}
