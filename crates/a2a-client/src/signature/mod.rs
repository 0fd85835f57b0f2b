//! Agent cards that count only when they are signed (A2A 1.0 §8.4).
//!
//! Of a signed card nothing counts but what its signature covers: whatever else stands in it, a newer field or an address
//! in the manner of A2A 0.3, may have been added by anyone.

mod fields;
mod form;
#[cfg(test)]
mod tests;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use url::Url;

use common::jws::{KeySet, Signature};
use egress::{Net, Request, body};
use peer::{CardKeys, PeerConfig, PeerError, PeerErrorKind, excerpt};

use super::line;
use form::Form;

/// So many signatures of a card are looked at.
const LOOKED_AT: usize = 8;

/// So many key sets are fetched for one card.
const FETCHED: usize = 2;

/// The largest key set that is read, in bytes.
const LARGEST_KEY_SET: usize = 256 << 10;

/// The part of `card` that may be used: all of it where the peer's card need not be signed, else what the first signature
/// that holds covers.
///
/// # Errors
/// [`PeerErrorKind::CardSignature`], with what is wrong with each signature.
pub(super) async fn verified(
    net: &dyn Net,
    reach: &PeerConfig,
    card: Value,
) -> Result<Value, PeerError> {
    let Some(trusted) = &reach.card_keys else {
        return Ok(card);
    };
    let signatures = card.get("signatures").and_then(Value::as_array);
    let Some(signatures) = signatures.filter(|list| !list.is_empty()) else {
        return Err(refused("the agent card must be signed, and it is not"));
    };
    let forms = form::forms(&card).map_err(refused)?;
    let mut keys = Keys {
        net,
        reach,
        trusted,
        fetched: Vec::new(),
    };
    let mut wrong = Vec::new();
    for (number, signature) in (1..).zip(signatures.iter().take(LOOKED_AT)) {
        match holds(signature, &mut keys, &forms).await {
            Ok(form) => return Ok(forms.into_iter().nth(form).map_or(card, |form| form.card)),
            Err(why) => wrong.push(format!("signature {number}: {why}")),
        }
    }
    let more = signatures.len().saturating_sub(LOOKED_AT);
    if more > 0 {
        wrong.push(format!("{more} more were not looked at"));
    }
    Err(refused(format!(
        "the agent card must be signed, and no signature of it holds ({})",
        wrong.join("; ")
    )))
}

/// Which of the forms the signature is one of.
async fn holds(signature: &Value, keys: &mut Keys<'_>, forms: &[Form]) -> Result<usize, String> {
    let signature = Signature::read(signature)?;
    let id = excerpt(signature.key_id());
    let of_key = |why| format!("key `{id}`: {why}");
    let keys = keys.of(&signature).await.map_err(of_key)?;
    let mut why = String::new();
    for (number, form) in forms.iter().enumerate() {
        match signature.verify(keys, &form.bytes) {
            Ok(()) => return Ok(number),
            Err(wrong) => why = wrong,
        }
    }
    Err(of_key(why))
}

/// The keys that signatures are checked with.
struct Keys<'a> {
    net: &'a dyn Net,
    reach: &'a PeerConfig,
    trusted: &'a CardKeys,
    fetched: Vec<(Url, Result<KeySet, String>)>,
}

impl Keys<'_> {
    /// The keys that `signature` may have been made with: the operator's, or those it points to on the peer's own origin.
    async fn of(&mut self, signature: &Signature) -> Result<&KeySet, String> {
        let url = match self.trusted {
            CardKeys::Given(keys) => return Ok(keys),
            CardKeys::OfOwnOrigin => signature
                .keys_url()
                .ok_or("it does not say where its key is (`jku`), and no jwksFile is configured")?,
        };
        let url = Url::parse(url).map_err(|_| "its `jku` is not a URL")?;
        if url.scheme() != "https" || !self.reach.is_own_origin(&url) {
            return Err(format!(
                "its `jku` leads to `{}`, and keys are taken from the target's own origin over https only",
                excerpt(&url.origin().ascii_serialization())
            ));
        }
        let known = self.fetched.iter().position(|(known, _)| *known == url);
        let at = match known {
            Some(at) => at,
            None if self.fetched.len() == FETCHED => {
                return Err(format!("no more than {FETCHED} key sets are fetched"));
            }
            None => {
                let keys = self.fetch(&url).await;
                self.fetched.push((url, keys));
                self.fetched.len() - 1
            }
        };
        self.fetched[at].1.as_ref().map_err(Clone::clone)
    }

    /// Keys are no secret, so no credential goes along.
    async fn fetch(&self, url: &Url) -> Result<KeySet, String> {
        let failed = |why: &dyn std::fmt::Display| format!("its `jku` cannot be read: {why}");
        let access = line::access_to(self.reach, url).map_err(|e| failed(&e))?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = Request {
            method: Method::GET,
            url: url.clone(),
            headers,
            body: None,
            access,
            trust: self.reach.trust_for(url).cloned(),
            repeatable: true,
            authorization: None,
        };
        let mut response = self.net.exchange(request).await.map_err(|e| failed(&e))?;
        if !response.status.is_success() {
            return Err(failed(&response.status));
        }
        let bytes = body::read_response(&mut response, LARGEST_KEY_SET)
            .await
            .map_err(|e| failed(&e))?;
        KeySet::parse(&bytes).map_err(|e| failed(&e))
    }
}

fn refused(why: impl Into<String>) -> PeerError {
    PeerError::new(PeerErrorKind::CardSignature, why).undelivered()
}
