//! Signs agent cards (A2A 1.0 §8.4), and serves the public keys.

use std::num::NonZeroUsize;
use std::sync::Arc;

use a2a::canonical_cards;
use axum::body::Body;
use axum::response::Response;
use base::jws::SigningKey;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use lru::LruCache;
use parking_lot::Mutex;
use ring::digest::{Digest, SHA256, digest};
use serde_json::{Value, json};
use url::Url;

/// The path of the public keys below the URL of the server.
pub(crate) const KEYS_PATH: &str = "/.well-known/jwks.json";

/// The forms that a key signs: the first of [`canonical_cards`], those of the official SDKs. With two keys these are as many
/// signatures as the plugin verifies.
const FORMS: usize = 4;

/// The maximum number of cards whose signatures are kept: those of a few agents in both versions and under a few host names.
const MAX_CARDS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The keys that sign the cards of a server: the present one, and the previous one while clients still pin it.
#[derive(Debug)]
pub struct CardSigner {
    keys: Vec<SigningKey>,
    /// The port of the server, where its URL comes from the request: a program on another port of the machine gets no signed card.
    port: Option<u16>,
    /// The signatures of a card by the digest of the card. ES256 is randomized, so each signature is made once.
    signed: Mutex<LruCache<[u8; 32], Arc<Value>>>,
}

impl CardSigner {
    /// Creates a signer; clients read the signatures of the first key first. Without a public URL, only cards whose URL has the
    /// `port` of the server are signed.
    #[must_use]
    pub fn new(keys: Vec<SigningKey>, port: Option<u16>) -> Self {
        Self {
            keys,
            port,
            signed: Mutex::new(LruCache::new(MAX_CARDS)),
        }
    }

    /// Adds `signatures` to a card of the server at `base`: one for each key and canonical form, because the official SDKs
    /// disagree about the form.
    pub(crate) fn sign(&self, card: &mut Value, base: &str) {
        let is_own =
            |port: u16| Url::parse(base).is_ok_and(|url| url.port_or_known_default() == Some(port));
        if !self.port.is_none_or(is_own) {
            return;
        }
        let key = digest_bytes(digest(&SHA256, card.to_string().as_bytes()));
        let known = self.signed.lock().get(&key).cloned();
        let signatures = known.unwrap_or_else(|| {
            let signatures = Arc::new(self.signatures(card, base));
            self.signed.lock().put(key, Arc::clone(&signatures));
            signatures
        });
        card["signatures"] = Value::clone(&signatures);
    }

    fn signatures(&self, card: &Value, base: &str) -> Value {
        // The server's own cards have a canonical form, because they have no number with a fraction.
        let forms = canonical_cards(card).unwrap_or_default();
        let signatures = self.keys.iter().flat_map(|key| {
            let header = json!({
                "alg": key.algorithm(),
                "kid": key.public_key()["kid"],
                "jku": format!("{base}{KEYS_PATH}"),
                "typ": "JOSE",
            });
            let forms = forms.iter().take(FORMS);
            forms.filter_map(move |form| key.sign_detached(&header, &form.bytes))
        });
        signatures.collect()
    }

    /// Returns the response with the public keys (RFC 7517 §5).
    pub(crate) fn keys(&self) -> Response {
        let keys: Vec<Value> = self.keys.iter().map(SigningKey::public_key).collect();
        let mut response = Response::new(Body::from(json!({ "keys": keys }).to_string()));
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/jwk-set+json"),
        );
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=300"),
        );
        response
    }
}

fn digest_bytes(digest: Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use a2a::canonical_cards;
    use base::jws::{KeySet, Signature};

    use super::*;

    fn key() -> SigningKey {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        SigningKey::parse(pair.serialize_pem().as_bytes()).unwrap()
    }

    /// Returns how many of the signatures verify over each canonical form.
    fn verified(card: &Value, keys: &KeySet) -> Vec<usize> {
        let signatures = card["signatures"].as_array().unwrap();
        let signatures: Vec<_> = signatures
            .iter()
            .map(|one| Signature::read(one).unwrap())
            .collect();
        let forms = canonical_cards(card).unwrap();
        let count = |bytes: &[u8]| {
            signatures
                .iter()
                .filter(|one| one.verify(keys, bytes).is_ok())
                .count()
        };
        forms.iter().map(|form| count(&form.bytes)).collect()
    }

    #[test]
    fn each_key_signs_each_form() {
        let card = json!({
            "name": "Desk", "description": "", "version": "1.0.0", "capabilities": {"streaming": false},
            "supportedInterfaces": [], "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
            "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            "url": "https://desk.example/a2a",
        });
        let (first, second) = (key(), key());
        let public = json!({"keys": [first.public_key(), second.public_key()]});
        let signer = CardSigner::new(vec![first, second], None);
        let mut signed = card.clone();
        signer.sign(&mut signed, "https://desk.example");
        let keys = KeySet::parse(public.to_string().as_bytes()).unwrap();
        assert_eq!(verified(&signed, &keys), [2, 2, 2, 2, 0]);

        let mut again = card.clone();
        signer.sign(&mut again, "https://desk.example");
        assert_eq!(again, signed);
    }

    #[test]
    fn card_of_another_port_is_not_signed() {
        let signer = CardSigner::new(vec![key()], Some(9000));
        for (base, is_signed) in [
            ("http://localhost:9000", true),
            ("http://localhost:31337", false),
            ("http://localhost", false),
        ] {
            let mut card = json!({"name": "Desk"});
            signer.sign(&mut card, base);
            assert_eq!(card["signatures"].is_array(), is_signed, "{base}");
        }
    }

    #[test]
    fn changed_card_is_signed_anew() {
        let signer = CardSigner::new(vec![key()], None);
        let signatures = |name: &str| {
            let mut card = json!({"name": name});
            signer.sign(&mut card, "https://desk.example");
            card["signatures"].clone()
        };
        assert_ne!(signatures("Desk"), signatures("Door"));
    }
}
