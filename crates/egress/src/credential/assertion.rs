//! Assertions with which a client authenticates (RFC 7523 §2.2): JSON Web Tokens, signed with its private key.

use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::SecretString;
use serde_json::json;

/// How long an assertion is valid.
const LIFETIME: Duration = Duration::from_secs(60);

/// The private key of a client, with the id of its public key.
pub struct AssertionKey {
    pair: KeyPair,
    id: Option<String>,
    /// The hash of the file, for the identity of a target.
    hash: Vec<u8>,
}

enum KeyPair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl AssertionKey {
    /// Reads a key from PEM: RSA, ECDSA on P-256, or Ed25519.
    ///
    /// # Errors
    /// It is no such key; the end of a sentence that begins with the file.
    pub fn parse(pem: &[u8], id: Option<String>) -> Result<Self, &'static str> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(
            |_| "holds no private key in PEM form; one that is encrypted cannot be read",
        )?;
        Ok(Self {
            pair: key_pair(&key)
                .ok_or("holds a private key of a kind that cannot sign; use RSA, ECDSA on P-256 or Ed25519, as PKCS#8 (`openssl pkcs8 -topk8 -nocrypt`)")?,
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
        let random = SystemRandom::new();
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let alg = match self.pair {
            KeyPair::Es256(_) => "ES256",
            KeyPair::Rs256(_) => "RS256",
            KeyPair::EdDsa(_) => "EdDSA",
        };
        let mut header = json!({"alg": alg, "typ": "JWT"});
        if let Some(id) = &self.id {
            header["kid"] = json!(id);
        }
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": audience, "jti": random_text()?,
            "iat": now.as_secs(), "exp": (now + LIFETIME).as_secs(),
        });
        let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = parts.join(".");
        let signature = match &self.pair {
            KeyPair::Es256(pair) => pair.sign(&random, text.as_bytes()).ok()?.as_ref().to_vec(),
            KeyPair::EdDsa(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
            KeyPair::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
                    .ok()?;
                signature
            }
        };
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Some(format!("{text}.{signature}").into())
    }
}

fn key_pair(key: &PrivateKeyDer<'_>) -> Option<KeyPair> {
    let der = key.secret_der();
    if let PrivateKeyDer::Pkcs1(_) = key {
        return RsaKeyPair::from_der(der).ok().map(KeyPair::Rs256);
    }
    let random = SystemRandom::new();
    let ecdsa = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
    let rsa = || RsaKeyPair::from_pkcs8(der).ok().map(KeyPair::Rs256);
    let ed25519 = || {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
        pair.ok().map(KeyPair::EdDsa)
    };
    ecdsa.ok().map(KeyPair::Es256).or_else(rsa).or_else(ed25519)
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
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

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
        let KeyPair::Es256(pair) = &key.pair else {
            panic!("a key of ECDSA");
        };
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key());
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
