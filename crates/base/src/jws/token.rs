//! JSON Web Tokens (RFC 7519) in the compact form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::{KeySet, Signature};
use crate::json::{self, Limits};

/// A token. Its claims prove nothing until [`verify`](Self::verify) has checked the signature.
#[derive(Debug, Clone)]
pub struct Token<'a> {
    protected: &'a str,
    /// The header and the claims, as signed.
    signed: &'a str,
    signature: &'a str,
    header: Map<String, Value>,
    claims: Map<String, Value>,
    payload: Vec<u8>,
}

/// Why a token is not valid now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeError {
    /// The claim is not a time.
    NotATime(&'static str),
    /// There is no `exp`.
    NoExpiry,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYet,
}

impl<'a> Token<'a> {
    /// Parses a token.
    ///
    /// # Errors
    /// Why it is none, as the end of a sentence that starts with "the token".
    pub fn parse(text: &'a str, limits: Limits) -> Result<Self, String> {
        let mut parts = text.split('.');
        let (Some(protected), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("does not have three parts".into());
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "is not base64url");
        let header: Map<String, Value> = json::from_slice(&decode(protected)?, limits)
            .map_err(|_| "has a header that is not a JSON object")?;
        // A recipient must support every extension that `crit` lists (RFC 7515 §4.1.11). This one supports none.
        if header.contains_key("crit") {
            return Err("has unsupported critical extensions (`crit`)".into());
        }
        let payload = decode(payload)?;
        let claims = json::from_slice(&payload, limits)
            .map_err(|_| "has claims that are not a JSON object")?;
        Ok(Self {
            protected,
            signed: text.rsplit_once('.').map_or(text, |(signed, _)| signed),
            signature,
            header,
            claims,
            payload,
        })
    }

    /// Returns a text of the header, such as `alg`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header.get(name).and_then(Value::as_str)
    }

    /// Returns the claims.
    #[must_use]
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Returns a claim that is a text.
    #[must_use]
    pub fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim).and_then(Value::as_str)
    }

    /// Returns what is signed, and the signature in base64url.
    #[must_use]
    pub fn signed(&self) -> (&str, &str) {
        (self.signed, self.signature)
    }

    /// Verifies the signature with one of `keys`.
    ///
    /// # Errors
    /// Why it is invalid, as the end of a sentence that starts with "the token".
    pub fn verify(&self, keys: &KeySet) -> Result<(), String> {
        Signature::read(&json!({"protected": self.protected, "signature": self.signature}))
            .and_then(|signature| signature.verify(keys, &self.payload).map(drop))
            .map_err(|problem| format!("has an invalid signature: {problem}"))
    }

    /// Checks `exp` and `nbf`, and returns the end of the token's time with `leeway`.
    ///
    /// # Errors
    /// It is not valid at `now`.
    pub fn check_time(&self, now: SystemTime, leeway: Duration) -> Result<SystemTime, TimeError> {
        let time = |claim: &'static str| match self.claims.get(claim) {
            None => Ok(None),
            Some(value) => match value.as_f64().map(Duration::try_from_secs_f64) {
                Some(Ok(since)) => Ok(UNIX_EPOCH.checked_add(since)),
                _ => Err(TimeError::NotATime(claim)),
            },
        };
        let expiry = time("exp")?.ok_or(TimeError::NoExpiry)?;
        let end = expiry.checked_add(leeway).filter(|end| *end > now);
        let end = end.ok_or(TimeError::Expired)?;
        match time("nbf")? {
            Some(begin) if begin > now.checked_add(leeway).unwrap_or(now) => Err(TimeError::NotYet),
            _ => Ok(end),
        }
    }

    /// Returns whether `aud` names `audience`.
    #[must_use]
    pub fn is_for(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|one| one == audience),
            _ => false,
        }
    }
}
