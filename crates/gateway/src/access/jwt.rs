//! JSON Web TokenVerifier (RFC 7519), signed (RFC 7515 §7.1).

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Map, Value, json};

use super::{AccessError, Identity, Known};
use crate::config::{JwtAlgorithm, JwtConfig};
use crate::names;
use collective::ErrorCode;
use common::config::ConfigError;
use common::jws::{KeySet, Signature};

/// A shared key that is shorter could be guessed (RFC 7518 §3.2).
const SHORTEST_KEY: usize = 32;

/// What tokens are checked with.
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

/// Problem a token does not count: the end of a sentence that begins with the token.
type Problem = String;

impl TokenVerifier {
    /// Reads the key file.
    pub(super) fn load(config: &JwtConfig) -> Result<Self, ConfigError> {
        let key = match (&config.key_file, &config.jwks_file) {
            (Some(path), _) => {
                let place = "/auth/jwt/keyFile";
                let file = fs::read(path).map_err(|e| {
                    let message = format!("the file `{}` cannot be read: {e}", path.display());
                    ConfigError::at(place, message)
                })?;
                let key = file.trim_ascii_end();
                if key.len() < SHORTEST_KEY {
                    let message = format!(
                        "the key in `{}` has fewer than {SHORTEST_KEY} bytes and could be guessed; make one: `openssl rand -base64 48`",
                        path.display()
                    );
                    return Err(ConfigError::at(place, message));
                }
                Key::Shared(hmac::Key::new(hmac::HMAC_SHA256, key))
            }
            (None, Some(path)) => {
                let place = "/auth/jwt/jwksFile";
                let wrong = |why: String| {
                    let message = format!("the file `{}` cannot be used: {why}", path.display());
                    ConfigError::at(place, message)
                };
                let file = fs::read(path).map_err(|e| wrong(e.to_string()))?;
                Key::Public(KeySet::parse(&file).map_err(wrong)?)
            }
            (None, None) => {
                return Err(ConfigError::at("/auth/jwt", "it names no key file"));
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

    /// Whose token this is.
    pub(super) fn identify(&self, token: &str, now: SystemTime) -> Result<Known, AccessError> {
        let claims = self.verify(token).map_err(failed)?;
        let time = |claim: &str| match claims.get(claim) {
            None => Ok(None),
            Some(value) => match value.as_f64().map(Duration::try_from_secs_f64) {
                Some(Ok(since)) => Ok(UNIX_EPOCH.checked_add(since)),
                _ => Err(failed(format!("has a `{claim}` that is no time"))),
            },
        };
        let end = time("exp")?.ok_or_else(|| failed("says no end (`exp`)".into()))?;
        let until = end.checked_add(self.leeway).filter(|until| *until > now);
        if until.is_none() {
            return Err(AccessError::new(
                ErrorCode::TokenExpired,
                "the token has expired; get a new one",
            ));
        }
        if let Some(begin) = time("nbf")?
            && begin > now.checked_add(self.leeway).unwrap_or(now)
        {
            return Err(failed("is not good yet (`nbf`)".into()));
        }
        let identity = self.identity(&claims).map_err(failed)?;
        Ok(Known { identity, until })
    }

    /// What the token claims, where its signature holds.
    fn verify(&self, token: &str) -> Result<Map<String, Value>, Problem> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("has not three parts".into());
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "is not base64url");
        let about: Map<String, Value> = serde_json::from_slice(&decode(header)?)
            .map_err(|_| "has a header that is no JSON object")?;
        let named = about.get("alg").and_then(Value::as_str);
        if named != Some(self.algorithm.as_str()) {
            return Err(format!("is not signed with {}", self.algorithm.as_str()));
        }
        // What it names must be understood, and nothing is (RFC 7515 §4.1.11).
        if about.contains_key("crit") {
            return Err("has critical extensions, and none are understood".into());
        }
        let content = decode(payload)?;
        match &self.key {
            Key::Shared(key) => {
                let (signed, _) = token.rsplit_once('.').unwrap_or_default();
                hmac::verify(key, signed.as_bytes(), &decode(signature)?)
                    .map_err(|_| "has a signature that does not hold")?;
            }
            Key::Public(keys) => {
                Signature::read(&json!({ "protected": header, "signature": signature }))
                    .and_then(|read| read.verify(keys, &content))
                    .map_err(|why| format!("has a signature that does not count: {why}"))?;
            }
        }
        serde_json::from_slice(&content).map_err(|_| "claims nothing that is a JSON object".into())
    }

    fn identity(&self, claims: &Map<String, Value>) -> Result<Identity, Problem> {
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        if self.issuer.is_some() && text("iss") != self.issuer.as_deref() {
            return Err("was issued by somebody else (`iss`)".into());
        }
        if let Some(wanted) = &self.audience {
            let meant = match claims.get("aud") {
                Some(Value::String(one)) => one == wanted,
                Some(Value::Array(all)) => all.iter().any(|one| one == wanted),
                _ => false,
            };
            if !meant {
                return Err("is for somebody else (`aud`)".into());
            }
        }
        if let Some(agent) = text("agent") {
            names::agent(agent)
                .map_err(|(_, why)| format!("has an `agent` that is none: {why}"))?;
        }
        let name = text("sub").filter(|name| !name.is_empty());
        let words = |words: &str| words.split_whitespace().map(str::to_owned).collect();
        Ok(Identity {
            name: name.ok_or("names nobody (`sub`)")?.to_owned(),
            roles: match claims.get("roles") {
                Some(Value::String(text)) => words(text),
                Some(Value::Array(all)) => {
                    let texts = all.iter().filter_map(Value::as_str);
                    texts.map(str::to_owned).collect()
                }
                _ => Vec::new(),
            },
            agent: text("agent").map(str::to_owned),
        })
    }
}

fn failed(problem: Problem) -> AccessError {
    AccessError::new(ErrorCode::AuthFailed, format!("the token {problem}"))
}
