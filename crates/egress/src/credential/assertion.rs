//! Assertions with which a client authenticates (RFC 7523 §2.2): JSON Web Tokens, signed with its private key.

use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::jws::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use secrecy::SecretString;
use serde_json::json;

/// How long an assertion is valid.
const LIFETIME: Duration = Duration::from_secs(60);

/// The private key of a client, with the id of its public key.
pub struct AssertionKey {
    key: SigningKey,
    id: Option<String>,
    /// The hash of the file, for the identity of a target.
    hash: Vec<u8>,
}

impl AssertionKey {
    /// Reads a key from PEM: RSA, ECDSA on P-256, or Ed25519.
    ///
    /// # Errors
    /// It is no such key; the end of a sentence that begins with the file.
    pub fn parse(pem: &[u8], id: Option<String>) -> Result<Self, &'static str> {
        Ok(Self {
            key: SigningKey::parse(pem)?,
            id,
            hash: digest(&SHA256, pem).as_ref().to_vec(),
        })
    }

    /// Returns an assertion of `client_id` for `audience`; `None` if the system gives no random numbers.
    pub(crate) fn sign(
        &self,
        client_id: &str,
        audience: &str,
        now: SystemTime,
    ) -> Option<SecretString> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut header = json!({"alg": self.key.algorithm(), "typ": "JWT"});
        if let Some(id) = &self.id {
            header["kid"] = json!(id);
        }
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": audience, "jti": random_text()?,
            "iat": now.as_secs(), "exp": (now + LIFETIME).as_secs(),
        });
        let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = parts.join(".");
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(text.as_bytes())?);
        Some(format!("{text}.{signature}").into())
    }
}

/// Returns a random text of 256 bits; `None` if the system gives no random numbers.
pub(crate) fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

impl Hash for AssertionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.id, &self.hash).hash(state);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    #[test]
    fn assertion_is_signed_by_the_key_and_named_by_its_id() {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let key = AssertionKey::parse(pem.as_bytes(), Some("k1".into())).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let assertion = key.sign("desk", "https://as.example", now).unwrap();
        let assertion = secrecy::ExposeSecret::expose_secret(&assertion).to_owned();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let parts: Vec<serde_json::Value> = signed
            .split('.')
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0], json!({"alg": "ES256", "kid": "k1", "typ": "JWT"}));
        let claims = &parts[1];
        assert_eq!(
            (&claims["iss"], &claims["sub"]),
            (&json!("desk"), &json!("desk"))
        );
        assert_eq!(
            (&claims["iat"], &claims["exp"]),
            (&json!(1000), &json!(1060))
        );
        assert_eq!(claims["aud"], "https://as.example");
        let public = key.key.public_key();
        let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(public[name].as_str().unwrap());
        let point = [vec![4], coordinate("x").unwrap(), coordinate("y").unwrap()].concat();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        public.verify(signed.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn each_assertion_has_an_id_of_its_own() {
        let ids: std::collections::HashSet<_> = (0..100).map(|_| random_text().unwrap()).collect();
        assert_eq!(ids.len(), 100);
    }

    #[test]
    fn other_file_is_no_key() {
        let error = AssertionKey::parse(b"s3cret", None).err().unwrap();
        assert!(error.contains("no private key") && !error.contains("s3cret"));
    }
}
