//! Signatures of messages. Heretek A2A §13.3 names them without a format; docs/reference/a2a-v1.md, "Signatures", defines it.
//!
//! `metadata.signature` is a detached JWS (RFC 7515 appendix F) over the canonical JSON (RFC 8785) of the message, reduced to the
//! members that its protected header lists in `signed`. What a gateway adds on the way is not in the list, so the signature
//! stays valid.

use base::jws::{KeySet, Signature, SigningKey};
use base::named;
use serde_json::{Map, Value, json};

use super::{Envelope, Kind};

/// The metadata member with the signature.
pub const SIGNATURE: &str = "signature";

/// The metadata member with the [`SignatureStatus`], which only a gateway sets.
pub const SIGNATURE_STATUS: &str = "signatureStatus";

/// The maximum length of `metadata.signature`, in bytes.
pub const MAX_SIGNATURE_BYTES: usize = 4096;

/// The members of the protected header.
const HEADER: [&str; 3] = ["alg", "kid", "signed"];

/// The members that every signature covers.
const REQUIRED: [&str; 5] = ["content", "from", "id", "timestamp", "type"];

/// The prefix of metadata members in the list.
const METADATA: &str = "metadata.";

/// The metadata members that no signature covers: a gateway replaces a correlation id that another request uses.
const UNSIGNED_METADATA: [&str; 3] = ["correlationId", SIGNATURE, SIGNATURE_STATUS];

/// The largest whole number up to which doubles express every one (RFC 7493 §2.2), and the smallest that canonical JSON writes
/// with an exponent.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
const MIN_EXPONENT: f64 = 1e21;

named! {
    /// What a gateway says about the signature of a message that it delivers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum SignatureStatus {
        /// A key of the sender signed the message as it is, not long ago.
        Verified = "verified",
        /// The message has no signature.
        Unsigned = "unsigned",
        /// The message has a signature that does not hold.
        Invalid = "invalid",
        /// The gateway does not know the key as one of the sender.
        UnknownKey = "unknown-key",
    }
}

impl Envelope {
    /// Returns what the gateway says about its signature. Only a gateway that verifies signatures is trustworthy.
    pub fn signature_status(&self) -> Option<SignatureStatus> {
        SignatureStatus::from_name(self.metadata(SIGNATURE_STATUS)?.as_str()?)
    }
}

/// Why a signature does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureError {
    /// The status; never [`SignatureStatus::Verified`].
    pub status: SignatureStatus,
    /// The reason, as a clause about the signature or the message.
    pub reason: String,
}

impl SignatureError {
    /// Returns the error of a signature that does not hold.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self {
            status: SignatureStatus::Invalid,
            reason: reason.into(),
        }
    }
}

/// Signs a message as it is. It needs `id`, `from` and `timestamp`, because the signature covers them; `agent` too, if a
/// gateway would set it.
///
/// # Errors
/// The message has no canonical form, or no such member; a clause about the message.
pub fn sign(envelope: Envelope, key: &SigningKey) -> Result<Envelope, String> {
    let envelope = envelope
        .with_metadata(SIGNATURE, Value::Null)
        .with_metadata(SIGNATURE_STATUS, Value::Null);
    let present = |name: &&str| envelope.field(name).is_some();
    let optional = match envelope.kind() {
        Kind::Proposal | Kind::Vote => &["sessionId"][..],
        _ => &["agent", "sessionId"],
    };
    let optional = optional.iter().copied().filter(present);
    let mut signed: Vec<String> = REQUIRED
        .into_iter()
        .chain(optional)
        .map(str::to_owned)
        .collect();
    let metadata = envelope.field("metadata").and_then(Value::as_object);
    let names = metadata.into_iter().flat_map(Map::keys);
    let names = names.filter(|name| !UNSIGNED_METADATA.contains(&name.as_str()));
    signed.extend(names.map(|name| format!("{METADATA}{name}")));
    let payload = payload(&envelope, &signed)?;
    let header = json!({"alg": key.algorithm(), "kid": key.public_key()["kid"], "signed": signed});
    let signature = key
        .sign_detached(&header, &payload)
        .ok_or("the system gives no random numbers")?;
    let part = |name: &str| signature[name].as_str().unwrap_or_default();
    let text = format!("{}..{}", part("protected"), part("signature"));
    if text.len() > MAX_SIGNATURE_BYTES {
        return Err("it has too many or too long metadata members".into());
    }
    Ok(envelope.with_metadata(SIGNATURE, text))
}

/// Verifies the signature of a message with the keys of its sender; `None` means that no key is known.
///
/// # Errors
/// The message is not signed, or its signature does not hold.
pub fn verify(envelope: &Envelope, keys: Option<&KeySet>) -> Result<(), SignatureError> {
    let invalid = |reason: String| SignatureError::invalid(reason);
    let text = match envelope.metadata(SIGNATURE) {
        None | Some(Value::Null) => {
            return Err(SignatureError {
                status: SignatureStatus::Unsigned,
                reason: "it has no signature".into(),
            });
        }
        Some(Value::String(text)) if text.len() <= MAX_SIGNATURE_BYTES => text,
        Some(_) => {
            return Err(invalid(format!(
                "`metadata.signature` is not a text of at most {MAX_SIGNATURE_BYTES} bytes"
            )));
        }
    };
    let signature = Signature::parse_compact(text).map_err(invalid)?;
    let header = signature.header();
    if let Some(other) = header.keys().find(|name| !HEADER.contains(&name.as_str())) {
        let other = base::text::excerpt(other);
        return Err(invalid(format!(
            "its header has `{other}`, which is not supported"
        )));
    }
    let signed: Option<Vec<String>> = header
        .get("signed")
        .and_then(|list| serde_json::from_value(list.clone()).ok());
    let signed = signed.ok_or_else(|| invalid("its header has no list `signed`".into()))?;
    check_coverage(envelope, &signed).map_err(invalid)?;
    let Some(keys) = keys.filter(|keys| keys.has(signature.key_id())) else {
        return Err(SignatureError {
            status: SignatureStatus::UnknownKey,
            reason: "its key is not a known key of the sender".into(),
        });
    };
    let payload = payload(envelope, &signed).map_err(invalid)?;
    signature.verify(keys, &payload).map(drop).map_err(invalid)
}

/// Checks that a list covers what a message means, and nothing that a gateway changes.
fn check_coverage(envelope: &Envelope, signed: &[String]) -> Result<(), String> {
    let covers = |name: &str| signed.iter().any(|listed| listed == name);
    let has_agent =
        envelope.agent().is_some() && !matches!(envelope.kind(), Kind::Proposal | Kind::Vote);
    let agent = has_agent.then_some("agent");
    if let Some(missing) = REQUIRED.into_iter().chain(agent).find(|name| !covers(name)) {
        return Err(format!("it does not cover `{missing}`"));
    }
    if let Some(name) = UNSIGNED_METADATA
        .into_iter()
        .find(|name| covers(&format!("{METADATA}{name}")))
    {
        return Err(format!(
            "it covers `{METADATA}{name}`, which a gateway changes"
        ));
    }
    Ok(())
}

/// Returns the canonical JSON of the listed members of a message.
fn payload(envelope: &Envelope, signed: &[String]) -> Result<Vec<u8>, String> {
    let (mut fields, mut metadata) = (Map::new(), Map::new());
    for name in signed {
        let member = name.strip_prefix(METADATA);
        let value = match member {
            Some(member) => envelope.metadata(member),
            None => envelope.field(name),
        };
        let shown = base::text::excerpt(name);
        let value =
            value.ok_or_else(|| format!("the message has no `{shown}`, which it covers"))?;
        let is_new = match member {
            Some(member) => metadata.insert(member.to_owned(), value.clone()).is_none(),
            None if name == "metadata" => false,
            None => fields.insert(name.clone(), value.clone()).is_none(),
        };
        if !is_new {
            return Err(format!(
                "its list `signed` has `{shown}` twice or as a whole"
            ));
        }
    }
    if !metadata.is_empty() {
        fields.insert("metadata".into(), metadata.into());
    }
    let fields = Value::Object(fields);
    check_numbers(&fields)?;
    serde_jcs::to_vec(&fields)
        .map_err(|error| format!("the message has no canonical form: {error}"))
}

/// Refuses whole numbers that a double cannot express: two of them would have the same canonical form.
fn check_numbers(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let size = number.as_f64().unwrap_or(f64::INFINITY).abs();
            match size.fract() != 0.0 || size <= MAX_SAFE_INTEGER || size >= MIN_EXPONENT {
                true => Ok(()),
                false => Err(
                    "the message has a whole number beyond 2^53 - 1, which JSON does not express exactly; write it as a text"
                        .into(),
                ),
            }
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(fields) => fields.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
