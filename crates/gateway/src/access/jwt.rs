//! JSON Web Tokens (RFC 7519), signed (RFC 7515 §7.1).

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Map, Value, json};

use super::{AccessError, Authenticated, Identity};
use crate::config::{JwtAlgorithm, JwtConfig};
use crate::names;
use base::config::ConfigError;
use base::json;
use base::jws::{KeySet, Signature};
use collective::{ErrorCode, FRAME_LIMITS};

/// The minimum length of a shared key (RFC 7518 §3.2).
const MIN_KEY_BYTES: usize = 32;

/// Verifies tokens.
pub(super) struct TokenVerifier {
    key: Key,
    algorithm: JwtAlgorithm,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
}

enum Key {
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
                Key::Shared(hmac::Key::new(hmac::HMAC_SHA256, key))
            }
            (None, Some(path)) => {
                let place = "/auth/jwt/jwksFile";
                let invalid_key = |problem: String| {
                    let message = format!("invalid key set `{}`: {problem}", path.display());
                    ConfigError::at(place, message)
                };
                let file = fs::read(path).map_err(|e| invalid_key(e.to_string()))?;
                Key::Public(KeySet::parse(&file).map_err(invalid_key)?)
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
        let claims = self.verify(token).map_err(failed)?;
        let time = |claim: &str| match claims.get(claim) {
            None => Ok(None),
            Some(value) => match value.as_f64().map(Duration::try_from_secs_f64) {
                Some(Ok(since)) => Ok(UNIX_EPOCH.checked_add(since)),
                _ => Err(failed(format!("has a `{claim}` that is not a time"))),
            },
        };
        let expiry = time("exp")?.ok_or_else(|| failed("has no expiry (`exp`)".into()))?;
        let expires_at = expiry.checked_add(self.leeway).filter(|end| *end > now);
        if expires_at.is_none() {
            return Err(AccessError::new(
                ErrorCode::TokenExpired,
                "the token has expired; get a new one",
            ));
        }
        if let Some(begin) = time("nbf")?
            && begin > now.checked_add(self.leeway).unwrap_or(now)
        {
            return Err(failed("is not valid yet (`nbf`)".into()));
        }
        let identity = self.identity(&claims).map_err(failed)?;
        Ok(Authenticated {
            identity,
            expires_at,
        })
    }

    /// Verifies the signature, and returns the claims.
    fn verify(&self, token: &str) -> Result<Map<String, Value>, VerifyError> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("does not have three parts".into());
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "is not base64url");
        let header_claims: Map<String, Value> = json::from_slice(&decode(header)?, FRAME_LIMITS)
            .map_err(|_| "has a header that is not a JSON object")?;
        let named = header_claims.get("alg").and_then(Value::as_str);
        if named != Some(self.algorithm.as_str()) {
            return Err(format!("is not signed with {}", self.algorithm.as_str()));
        }
        // A recipient must support every extension that `crit` lists (RFC 7515 §4.1.11). This one supports none.
        if header_claims.contains_key("crit") {
            return Err("has unsupported critical extensions (`crit`)".into());
        }
        let content = decode(payload)?;
        match &self.key {
            Key::Shared(key) => {
                let (signed, _) = token.rsplit_once('.').unwrap_or_default();
                hmac::verify(key, signed.as_bytes(), &decode(signature)?)
                    .map_err(|_| "has an invalid signature")?;
            }
            Key::Public(keys) => {
                Signature::read(&json!({ "protected": header, "signature": signature }))
                    .and_then(|read| read.verify(keys, &content))
                    .map_err(|problem| format!("has an invalid signature: {problem}"))?;
            }
        }
        json::from_slice(&content, FRAME_LIMITS)
            .map_err(|_| "has claims that are not a JSON object".into())
    }

    fn identity(&self, claims: &Map<String, Value>) -> Result<Identity, VerifyError> {
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        if self.issuer.is_some() && text("iss") != self.issuer.as_deref() {
            return Err("has another issuer (`iss`)".into());
        }
        if let Some(audience) = &self.audience {
            let matches = match claims.get("aud") {
                Some(Value::String(one)) => one == audience,
                Some(Value::Array(all)) => all.iter().any(|one| one == audience),
                _ => false,
            };
            if !matches {
                return Err("has another audience (`aud`)".into());
            }
        }
        if let Some(agent) = text("agent") {
            names::validate_agent_name(agent)
                .map_err(|(_, message)| format!("has an invalid `agent`: {message}"))?;
        }
        let name = text("sub").filter(|name| !name.is_empty());
        let split_names =
            |split_names: &str| split_names.split_whitespace().map(str::to_owned).collect();
        Ok(Identity {
            name: name.ok_or("has no subject (`sub`)")?.to_owned(),
            roles: match claims.get("roles") {
                Some(Value::String(text)) => split_names(text),
                Some(Value::Array(all)) => {
                    let texts = all.iter().filter_map(Value::as_str);
                    texts.map(str::to_owned).collect()
                }
                _ => Vec::new(),
            },
            agent: text("agent").map(str::to_owned),
            is_local: false,
        })
    }
}

fn failed(problem: VerifyError) -> AccessError {
    AccessError::new(ErrorCode::AuthFailed, format!("the token {problem}"))
}
