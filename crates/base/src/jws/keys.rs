//! Public keys for signatures.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use super::Algorithm;
use crate::json::{self, Limits};

/// The length of a coordinate on P-256, and of an Ed25519 key, in bytes.
const COORDINATE: usize = 32;

/// The maximum number of keys in a set, and of keys with one id.
const MAX_KEYS: usize = 64;
const MAX_KEYS_OF_ID: usize = 4;

/// The members of a JSON Web Key that only its owner may know (RFC 7518 §6.2.2, §6.3.2, §6.4.1).
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// A set of public keys.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct KeySet(Vec<Key>);

/// A public key of a set.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    id: String,
    public: PublicKey,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum PublicKey {
    /// The uncompressed point (SEC 1 §2.3.3).
    P256(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Ed25519(Vec<u8>),
}

/// A serialized key (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2).
#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

impl KeySet {
    /// Parses a JSON Web Key Set (RFC 7517 §5). Skips keys without `kid`, for another purpose or of an unsupported kind, as
    /// the RFC requires, and those beyond 64, or beyond four of one id.
    ///
    /// # Errors
    /// The JSON is not a key set, or has no usable key.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let set: Value = json::from_slice(bytes, Limits::NONE)
            .map_err(|error| format!("the key set cannot be read: {error}"))?;
        let Some(written) = set.get("keys").and_then(Value::as_array) else {
            return Err("the key set has no list `keys`".into());
        };
        let mut keys: Vec<Key> = Vec::new();
        for key in written.iter().filter_map(Key::read) {
            // A signature is tried with each key of its id.
            let same = keys.iter().filter(|known| known.id == key.id).count();
            if same < MAX_KEYS_OF_ID && keys.len() < MAX_KEYS {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Err(
                "the key set has no key for ES256, RS256 or EdDSA (Ed25519) that has a `kid`"
                    .into(),
            );
        }
        Ok(Self(keys))
    }

    /// Returns the keys of messages: public keys for ES256 or EdDSA, whose ids are their thumbprints.
    ///
    /// # Errors
    /// The index of the first unusable key and the fault, as the end of a sentence that begins with the key. Never has a member of
    /// the key.
    pub fn of_messages(keys: &[Value]) -> Result<Self, (usize, &'static str)> {
        let read = |(index, key)| Key::of_messages(key).map_err(|fault| (index, fault));
        keys.iter()
            .enumerate()
            .map(read)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns whether each key of `other` is one of its keys.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.0.iter().all(|key| self.0.contains(key))
    }

    /// Returns the keys as JSON Web Keys, with their required members alone.
    #[must_use]
    pub fn public_keys(&self) -> Vec<Value> {
        let members = self.0.iter().map(|key| key.public.members());
        members
            .filter_map(|text| serde_json::from_str(&text).ok())
            .collect()
    }

    /// Returns whether it has a key of this id.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// Returns the keys.
    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// Verifies `signature` over `message` with the key of this id, and returns the key.
    ///
    /// # Errors
    /// Why the signature is invalid, as the end of a sentence.
    pub(super) fn verify(
        &self,
        id: &str,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<&Key, String> {
        let mut named = self.0.iter().filter(|key| key.id == id).peekable();
        if named.peek().is_none() {
            return Err("its key is not in the key set".into());
        }
        let mut fitting = named
            .filter(|key| key.public.algorithm() == algorithm)
            .peekable();
        if fitting.peek().is_none() {
            return Err(format!("its key is not one for {algorithm}"));
        }
        fitting
            .find(|key| key.public.verifies(message, signature))
            .ok_or_else(|| "it does not belong to this content".into())
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl Key {
    /// Returns the thumbprint of the key (RFC 7638), which identifies it whatever its id.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        self.public.thumbprint()
    }

    fn of_messages(json: &Value) -> Result<Self, &'static str> {
        if PRIVATE_MEMBERS
            .iter()
            .any(|member| json.get(member).is_some())
        {
            return Err(
                "has private members; give only the public ones, and replace the key, which others may have read",
            );
        }
        let unusable = "is not a key for ES256 or EdDSA (Ed25519) as a JSON Web Key";
        let written = RawKey::deserialize(json).map_err(|_| unusable)?;
        let public = PublicKey::read(&written).ok_or(unusable)?;
        let algorithm = public.algorithm();
        let alg = written.alg.as_deref();
        if algorithm == Algorithm::Rs256
            || alg.is_some_and(|alg| Algorithm::from_name(alg) != Some(algorithm))
            || written.purpose.is_some_and(|purpose| purpose != "sig")
        {
            return Err(unusable);
        }
        let id = public.thumbprint();
        match written.kid.is_none_or(|kid| kid == id) {
            true => Ok(Self { id, public }),
            false => Err("has a `kid` that is not its thumbprint (RFC 7638)"),
        }
    }

    fn read(json: &Value) -> Option<Self> {
        let written = RawKey::deserialize(json).ok()?;
        let public = PublicKey::read(&written)?;
        let for_it = written
            .alg
            .as_deref()
            .is_none_or(|alg| Algorithm::from_name(alg) == Some(public.algorithm()));
        let to_sign = written.purpose.as_deref().is_none_or(|use_| use_ == "sig");
        let id = written.kid?;
        (for_it && to_sign).then_some(Self { id, public })
    }
}

impl PublicKey {
    /// Returns its required members as JSON, in the order of their names and without spaces (RFC 7638 §3.2).
    pub(super) fn members(&self) -> String {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::P256(point) => {
                let (x, y) = point[1..].split_at(COORDINATE);
                let (x, y) = (text(x), text(y));
                format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)
            }
            Self::Rsa { n, e } => {
                format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, text(e), text(n))
            }
            Self::Ed25519(x) => {
                format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, text(x))
            }
        }
    }

    pub(super) fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.members().as_bytes()))
    }

    fn read(key: &RawKey) -> Option<Self> {
        let bytes = |field: &Option<String>| URL_SAFE_NO_PAD.decode(field.as_deref()?).ok();
        match (key.kty.as_str(), key.crv.as_deref()) {
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&key.x)?, bytes(&key.y)?);
                let whole = x.len() == COORDINATE && y.len() == COORDINATE;
                whole.then(|| Self::P256([&[4], x.as_slice(), y.as_slice()].concat()))
            }
            ("OKP", Some("Ed25519")) => {
                let x = bytes(&key.x)?;
                (x.len() == COORDINATE).then_some(Self::Ed25519(x))
            }
            ("RSA", _) => Some(Self::Rsa {
                n: bytes(&key.n)?,
                e: bytes(&key.e)?,
            }),
            _ => None,
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::P256(_) => Algorithm::Es256,
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}
