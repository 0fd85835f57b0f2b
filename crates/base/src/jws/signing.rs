//! Private keys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::rsa::{KeyPair as RsaKeyPair, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::Algorithm;
use super::keys::PublicKey;
use crate::key_source::KeySource;

/// The DER of an Ed25519 key before its 32 bytes (RFC 8410 §7). OpenSSL does not read the second version, which ring writes.
const ED25519_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const SEED_BYTES: usize = 32;

/// The maximum size of a file with a key, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A private key. `Debug` omits it.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::jws::SigningKey;
///
/// assert!(SigningKey::parse(b"no key").unwrap_err().starts_with("holds no private key"));
/// ```
pub struct SigningKey(KeyPair);

enum KeyPair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads a key from PEM: RSA, ECDSA on P-256, or Ed25519.
    ///
    /// # Errors
    /// It is no such key; the end of a sentence that begins with the file.
    pub fn parse(pem: &[u8]) -> Result<Self, &'static str> {
        let key = PrivateKeyDer::from_pem_slice(crate::text::without_mark(pem)).map_err(
            |_| "holds no private key in PEM form; one that is encrypted cannot be read",
        )?;
        key_pair(&key).map(Self)
            .ok_or("holds a private key of a kind that cannot sign; use RSA, ECDSA on P-256 or Ed25519, as PKCS#8 (`openssl pkcs8 -topk8 -nocrypt`)")
    }

    /// Reads the key of messages: ECDSA on P-256 or Ed25519. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// The key cannot be read, or is no such key, or other users can read its file; a sentence without a full stop.
    pub fn read_for_messages(
        source: &KeySource,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let named = |cause: &str| format!("{source} {cause}");
        let pem = source.read(MAX_FILE_BYTES, variable)?;
        let key = Self::parse(pem.expose_secret().as_bytes()).map_err(named)?;
        match key.0 {
            KeyPair::Rs256(_) => Err(named(
                "holds an RSA key; messages are signed with ECDSA on P-256 or Ed25519",
            )),
            _ => Ok(key),
        }
    }

    /// Creates an Ed25519 key, as PEM (RFC 8410 §7). `None` if the system gives no random numbers.
    #[must_use]
    pub fn generate_pem() -> Option<String> {
        let mut der = [0; ED25519_PREFIX.len() + SEED_BYTES];
        let (prefix, seed) = der.split_at_mut(ED25519_PREFIX.len());
        prefix.copy_from_slice(&ED25519_PREFIX);
        SystemRandom::new().fill(seed).ok()?;
        let text = STANDARD.encode(der);
        Some(format!(
            "-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"
        ))
    }

    /// Returns the name of its algorithm (`alg`).
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self.0 {
            KeyPair::Es256(_) => Algorithm::Es256,
            KeyPair::Rs256(_) => Algorithm::Rs256,
            KeyPair::EdDsa(_) => Algorithm::EdDsa,
        }
        .as_str()
    }

    /// Returns the signature of `message`; `None` if the system gives no random numbers.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        Some(match &self.0 {
            KeyPair::Es256(pair) => pair.sign(&random, message).ok()?.as_ref().to_vec(),
            KeyPair::EdDsa(pair) => pair.sign(message).as_ref().to_vec(),
            KeyPair::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                signature
            }
        })
    }

    /// Returns the signature of a detached `payload` (RFC 7515 §7.2.2 and appendix F) as `{protected, signature}`, with `header`
    /// as the protected header.
    #[must_use]
    pub fn sign_detached(&self, header: &Value, payload: &[u8]) -> Option<Value> {
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let message = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(message.as_bytes())?);
        Some(json!({"protected": protected, "signature": signature}))
    }

    /// Returns the public key as a JSON Web Key, whose `kid` is its thumbprint (RFC 7638).
    #[must_use]
    pub fn public_key(&self) -> Value {
        let public = self.public();
        let mut key: Value = serde_json::from_str(&public.members()).unwrap_or_default();
        key["kid"] = public.thumbprint().into();
        key["alg"] = self.algorithm().into();
        key["use"] = "sig".into();
        key
    }

    fn public(&self) -> PublicKey {
        match &self.0 {
            KeyPair::Es256(pair) => PublicKey::P256(pair.public_key().as_ref().to_vec()),
            KeyPair::EdDsa(pair) => PublicKey::Ed25519(pair.public_key().as_ref().to_vec()),
            KeyPair::Rs256(pair) => {
                let PublicKeyComponents { n, e } = pair.public().into();
                PublicKey::Rsa { n, e }
            }
        }
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

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}
