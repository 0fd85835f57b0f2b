//! Verifies signed agent cards (A2A 1.0 §8.4), over the canonical forms of a card, and says who signed them.
//!
//! The client uses only the fields that the signature covers: anyone may have added others, such as a URL in the form of
//! A2A 0.3.

use a2a::card_fields::CardSigner;
use a2a::{CanonicalCard, Card, canonical_cards};
use base::jws::{KeySet, Signature};
use egress::{HttpClient, Request, body, redirect, status_text};
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use peer::{CardKeys, PeerConfig, PeerError, PeerErrorKind, excerpt};
use serde_json::Value;
use url::Url;

use super::outgoing;
use super::peer_secrets::PeerSecrets;

/// The maximum number of signatures that are verified.
const MAX_SIGNATURES: usize = 8;

/// The maximum number of key sets that are fetched for one card.
const MAX_KEY_SETS: usize = 2;

/// The maximum size of a key set, in bytes.
const MAX_KEY_SET_BYTES: usize = 256 << 10;

/// The usable part of a card, and who signed it.
#[derive(Debug)]
pub(super) struct VerifiedCard {
    pub(super) json: Value,
    pub(super) signers: Vec<CardSigner>,
}

impl VerifiedCard {
    /// Returns a card that needs no signature, with the signers that it claims.
    pub(super) fn unverified(json: Value) -> Self {
        let signatures = json.get("signatures").and_then(Value::as_array);
        let signatures = signatures.into_iter().flatten().take(MAX_SIGNATURES);
        let signers = signatures.map(claimed_signer).collect();
        Self { json, signers }
    }

    /// Reads the card. The peer chose the ids of its keys, so they lose its `secrets` too.
    ///
    /// # Errors
    /// The reason why the card is unusable for calls.
    pub(super) fn read(self, secrets: &PeerSecrets) -> Result<Card, String> {
        let mut card = Card::read(&self.json)?;
        card.fields.signers = self.signers;
        for signer in &mut card.fields.signers {
            signer.kid = secrets.scrub(&*signer.kid).into_owned();
        }
        Ok(card)
    }
}

/// Returns the usable part of `card`: all of it if no signature is required, or else the part that the first valid
/// signature covers. Its signers are those whose signatures cover that part too; without a required signature they are those
/// that the card claims.
///
/// # Errors
/// [`PeerErrorKind::CardSignature`], with the fault of each signature.
pub(super) async fn verify(
    net: &dyn HttpClient,
    config: &PeerConfig,
    card: Value,
) -> Result<VerifiedCard, PeerError> {
    let Some(trusted) = &config.card_keys else {
        return Ok(VerifiedCard::unverified(card));
    };
    let signatures = card.get("signatures").and_then(Value::as_array);
    let Some(signatures) = signatures.filter(|list| !list.is_empty()) else {
        return Err(refused(
            "the agent card is not signed, and the target requires a signature",
        ));
    };
    let mut canonical_forms = canonical_cards(&card).map_err(refused)?;
    let mut keys = Keys {
        net,
        config,
        trusted,
        fetched: Vec::new(),
    };
    let mut failures = Vec::new();
    let mut used = None;
    let mut signers = Vec::new();
    // All of them: a key may be replaced by one that signs the card beside it.
    for (number, signature) in (1..).zip(signatures.iter().take(MAX_SIGNATURES)) {
        match verify_one(signature, &mut keys, &canonical_forms).await {
            Ok((form, signer)) if *used.get_or_insert(form) == form => signers.push(signer),
            Ok(_) => {}
            Err(reason) => failures.push(format!("signature {number}: {reason}")),
        }
    }
    if let Some(form) = used {
        let json = canonical_forms.swap_remove(form).card;
        return Ok(VerifiedCard { json, signers });
    }
    let more = signatures.len().saturating_sub(MAX_SIGNATURES);
    if more > 0 {
        failures.push(format!("{more} more were not verified"));
    }
    Err(refused(format!(
        "no signature of the agent card is valid ({})",
        failures.join("; ")
    )))
}

/// Returns the signer that an unverified signature names.
fn claimed_signer(signature: &Value) -> CardSigner {
    let (alg, kid) = match Signature::read(signature) {
        Ok(read) => (read.algorithm(), excerpt(read.key_id())),
        Err(_) => Default::default(),
    };
    CardSigner {
        alg,
        kid,
        thumbprint: None,
        configured: false,
    }
}

/// Returns the index of the form that the signature covers, and the signer.
async fn verify_one(
    signature: &Value,
    keys: &mut Keys<'_>,
    canonical_forms: &[CanonicalCard],
) -> Result<(usize, CardSigner), String> {
    let signature = Signature::read(signature)?;
    let id = excerpt(signature.key_id());
    let key_error = |reason| format!("key `{id}`: {reason}");
    let configured = matches!(keys.trusted, CardKeys::Configured(_));
    let keys = keys.candidates(&signature).await.map_err(key_error)?;
    let mut reason = String::new();
    for (number, form) in canonical_forms.iter().enumerate() {
        match signature.verify(keys, &form.bytes) {
            Ok(key) => {
                let signer = CardSigner {
                    alg: signature.algorithm(),
                    thumbprint: Some(key.thumbprint()),
                    kid: id,
                    configured,
                };
                return Ok((number, signer));
            }
            Err(error) => reason = error,
        }
    }
    Err(key_error(reason))
}

/// The keys for the verification.
struct Keys<'a> {
    net: &'a dyn HttpClient,
    config: &'a PeerConfig,
    trusted: &'a CardKeys,
    fetched: Vec<(Url, Result<KeySet, String>)>,
}

impl Keys<'_> {
    /// Returns the candidate keys of a signature: those of the operator, or those that it refers to on the origin of the peer.
    async fn candidates(&mut self, signature: &Signature) -> Result<&KeySet, String> {
        let url = match self.trusted {
            CardKeys::Configured(keys) => return Ok(keys),
            CardKeys::OfOwnOrigin => signature
                .keys_url()
                .ok_or("it has no `jku`, and no jwksFile is configured")?,
        };
        let url = Url::parse(url).map_err(|_| "its `jku` is not a URL")?;
        if url.scheme() != "https" || !self.config.is_own_origin(&url) {
            return Err(format!(
                "its `jku` is on `{}`; keys must be on the origin of the target, over https",
                excerpt(&url.origin().ascii_serialization())
            ));
        }
        let known = self.fetched.iter().position(|(known, _)| *known == url);
        let at = match known {
            Some(at) => at,
            None if self.fetched.len() == MAX_KEY_SETS => {
                return Err(format!("at most {MAX_KEY_SETS} key sets are fetched"));
            }
            None => {
                let keys = self.fetch(&url).await;
                self.fetched.push((url, keys));
                self.fetched.len() - 1
            }
        };
        self.fetched[at].1.as_ref().map_err(Clone::clone)
    }

    /// Fetches a key set. Keys are public, so the request has no credential.
    async fn fetch(&self, url: &Url) -> Result<KeySet, String> {
        let failed = |reason: &dyn std::fmt::Display| format!("its `jku` cannot be read: {reason}");
        let access = outgoing::access_to(self.config, url).map_err(|e| failed(&e))?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = Request {
            headers,
            trust: self.config.trust_for(url).cloned(),
            ..Request::get(url.clone(), access)
        };
        let followed = redirect::follow(self.net, request).await;
        let mut response = followed.map_err(|e| failed(&e))?.response;
        if !response.status.is_success() {
            return Err(failed(&status_text(response.status)));
        }
        let bytes = body::read_response(&mut response, MAX_KEY_SET_BYTES)
            .await
            .map_err(|e| failed(&e))?;
        KeySet::parse(&bytes).map_err(|e| failed(&e))
    }
}

fn refused(reason: impl Into<String>) -> PeerError {
    PeerError::new(PeerErrorKind::CardSignature, reason).undelivered()
}

#[cfg(test)]
mod tests;
