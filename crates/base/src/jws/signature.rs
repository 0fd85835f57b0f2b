//! One signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::{Algorithm, Key, KeySet};
use crate::json::{Limits, from_slice};

/// A signature with detached content, in the flattened form (RFC 7515 §7.2.2 and appendix F).
#[derive(Debug, Clone)]
pub struct Signature {
    protected: String,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: String,
    header: Map<String, Value>,
}

impl Signature {
    /// Parses `{protected, signature}`. Ignores the unprotected header.
    ///
    /// # Errors
    /// Why it cannot be verified, as the end of a sentence.
    pub fn read(json: &Value) -> Result<Self, String> {
        let text = |key: &str| {
            let text = json.get(key).and_then(Value::as_str);
            text.ok_or_else(|| format!("it has no text `{key}`"))
        };
        let (protected, signature) = (text("protected")?, text("signature")?);
        let decode = |name: &str, text: &str| {
            URL_SAFE_NO_PAD
                .decode(text.trim_end_matches('='))
                .map_err(|_| format!("`{name}` is not base64url"))
        };
        let header: Map<String, Value> = from_slice(&decode("protected", protected)?, Limits::NONE)
            .map_err(|_| "its protected header is not a JSON object".to_owned())?;
        let field = |key: &str| header.get(key).and_then(Value::as_str);
        // A verifier must support every extension that the header names (RFC 7515 §4.1.11).
        if header.contains_key("crit") {
            return Err("its header has critical extensions, which are not supported".into());
        }
        let algorithm = field("alg")
            .and_then(Algorithm::from_name)
            .ok_or("its algorithm is none of ES256, RS256 and EdDSA")?;
        Ok(Self {
            signature: decode("signature", signature)?,
            protected: protected.to_owned(),
            algorithm,
            key_id: field("kid").ok_or("it names no key (`kid`)")?.to_owned(),
            header,
        })
    }

    /// Parses the compact form of a detached signature, `header..signature` (RFC 7515 appendix F).
    ///
    /// # Errors
    /// Why it cannot be verified, as the end of a sentence.
    pub fn parse_compact(text: &str) -> Result<Self, String> {
        let (protected, signature) = text
            .split_once("..")
            .ok_or("it is not a detached JWS (`header..signature`)")?;
        Self::read(&json!({"protected": protected, "signature": signature}))
    }

    /// Returns its protected header.
    #[must_use]
    pub fn header(&self) -> &Map<String, Value> {
        &self.header
    }

    /// Returns the name of its algorithm (`alg`).
    #[must_use]
    pub fn algorithm(&self) -> String {
        self.algorithm.to_string()
    }

    /// Returns the id of its key (`kid`).
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Returns the URL of its key set (`jku`). The signer chose it, so it is not trustworthy.
    #[must_use]
    pub fn keys_url(&self) -> Option<&str> {
        self.header.get("jku").and_then(Value::as_str)
    }

    /// Verifies that it is the signature of `payload` by one of `keys`, and returns that key.
    ///
    /// # Errors
    /// Why it is invalid, as the end of a sentence.
    pub fn verify<'k>(&self, keys: &'k KeySet, payload: &[u8]) -> Result<&'k Key, String> {
        let mut message = String::with_capacity(self.protected.len() + payload.len() * 4 / 3 + 8);
        message.push_str(&self.protected);
        message.push('.');
        URL_SAFE_NO_PAD.encode_string(payload, &mut message);
        keys.verify(
            &self.key_id,
            self.algorithm,
            message.as_bytes(),
            &self.signature,
        )
    }
}
