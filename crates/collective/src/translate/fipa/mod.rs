//! FIPA ACL, as the JSON of Heretek A2A §12.4: `{performative, sender, receiver, content, language, ontology}`, with the other parameters of FIPA
//! SC00061 by their names.
//!
//! | ACL | envelope |
//! |---|---|
//! | `sender`, `receiver` | `from`, `agent` |
//! | `reply-with`, `in-reply-to` | `id`, `metadata.parentId` |
//! | `conversation-id` | `metadata.correlationId`: what proposal, votes and decision share |
//! | `content` | `content`; a bare text becomes an object |
//! | `X-heretek` | the fields of an envelope without a parameter |
//! | any other | `metadata.fipa` |
//!
//! `language` is `json` and `ontology` `heretek-v1` (Heretek A2A §12.4), unless the original ACL message had other values.
//!
//! # Where Heretek A2A §12 contradicts itself
//! - §12.3 makes `agree` and `refuse` a `response (vote: …)`, but a vote is of the type `vote` (§10.4) and a `response` is what a service
//!   answers (§9.2). Here `agree` and `refuse` are a `vote` where they name a proposal (`conversation-id`, `in-reply-to` or
//!   `content.proposalId`), and else the `response` of the table, with `vote` beside its `result`. Both are written as `agree` or `refuse`.
//! - The code of §12.4 writes every decision as `accept-proposal`. The table of §12.3 has `reject-proposal` too, and a rejection must not
//!   read as an acceptance: the decision's `result` determines the performative.
//! - The code of §12.4 lacks votes and reads `agree` as a `message`. The table has precedence.
//! - An abstention is undefined. `refuse` would count it as a rejection, so it is an `inform` with its type in `X-heretek`.
//! - The code of §12.4 writes everything else as `inform`, which asserts its content. An error is therefore `failure`, or `not-understood`
//!   if a message was unusable.

mod read;

use serde_json::{Map, Value};

use crate::translate::without_credential;
use crate::{Decision, Envelope, EnvelopeError, Kind, Vote};

pub use read::from_fipa;

/// The parameter for fields without a place in ACL. FIPA reserves names with `X-` for users.
const EXTENSION_FIELD: &str = "X-heretek";

/// The member of `metadata` with the parameters of ACL that envelopes lack.
const METADATA_FIELD: &str = "fipa";

/// In `metadata.fipa`: the field of the envelope's content with the whole content of the ACL message.
const BARE_CONTENT_FIELD: &str = "bare";

/// In `metadata.fipa`: the fields of the envelope's content that the ACL message lacked.
const ADDED_FIELDS: &str = "added";

const LANGUAGE: &str = "json";
const ONTOLOGY: &str = "heretek-v1";

/// Returns the performative of an envelope (Heretek A2A §12.3).
fn performative(envelope: &Envelope) -> &'static str {
    match envelope.kind() {
        Kind::Request => "request",
        Kind::Proposal => "propose",
        Kind::Vote | Kind::Response => match envelope.content_str("vote").and_then(Vote::read) {
            Some(Vote::Approve) => "agree",
            Some(Vote::Reject) => "refuse",
            Some(Vote::Abstain) | None => "inform",
        },
        Kind::Decision => match envelope
            .content_str("result")
            .and_then(Decision::read_result)
        {
            Some("approved") => "accept-proposal",
            _ => "reject-proposal",
        },
        Kind::Error if concerns_the_message(envelope) => "not-understood",
        Kind::Error => "failure",
        _ => "inform",
    }
}

/// Returns whether the error has a number of the range 2xxx.
fn concerns_the_message(error: &Envelope) -> bool {
    let code = error.error_code();
    code.is_some_and(|code| (2000..3000).contains(&code.number()))
}

/// Converts the envelope to an ACL message.
///
/// # Errors
/// The envelope is not valid, or holds a credential.
pub fn to_fipa(envelope: &Envelope) -> Result<Value, EnvelopeError> {
    without_credential(envelope)?;
    let mut acl = Map::new();
    let mut rest = match envelope.clone().into_json() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let stored = take_stored(&mut rest);
    // An envelope from an ACL message gets back its original content, which may be bare.
    if stored.is_some() {
        rest.remove("type");
    }
    let mut stored = stored.unwrap_or_default();
    let bare = stored.remove(BARE_CONTENT_FIELD);
    let added = stored.remove(ADDED_FIELDS);

    let original = stored.remove("performative");
    let original = original.filter(|original| matches_envelope(original, envelope));
    acl.insert(
        "performative".into(),
        original.unwrap_or_else(|| performative(envelope).into()),
    );
    for (parameter, field) in [("sender", "from"), ("receiver", "agent")] {
        let name = rest.remove(field);
        let whole = stored.remove(parameter);
        let whole = whole.filter(|whole| name.is_none() || whole.get("name") == name.as_ref());
        if let Some(value) = whole.or(name) {
            acl.insert(parameter.into(), value);
        }
    }
    if let Some(content) = rest.remove("content") {
        let content = original_content(content, bare.as_ref(), added.as_ref());
        content.and_then(|content| acl.insert("content".into(), content));
    }
    for (parameter, own) in [("language", LANGUAGE), ("ontology", ONTOLOGY)] {
        let value = stored.remove(parameter).unwrap_or_else(|| own.into());
        acl.insert(parameter.into(), value);
    }
    move_field(&mut rest, "id", &mut acl, "reply-with");
    if let Some(Value::Object(metadata)) = rest.get_mut("metadata") {
        move_field(metadata, "correlationId", &mut acl, "conversation-id");
        move_field(metadata, "parentId", &mut acl, "in-reply-to");
    }
    acl.insert(EXTENSION_FIELD.into(), rest.into());
    for (parameter, value) in stored {
        acl.entry(parameter).or_insert(value);
    }
    Ok(acl.into())
}

/// Removes the data of the original ACL message from the metadata.
fn take_stored(rest: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let metadata = rest.get_mut("metadata")?.as_object_mut()?;
    metadata.get(METADATA_FIELD)?.as_object()?;
    match metadata.remove(METADATA_FIELD) {
        Some(Value::Object(stored)) => Some(stored),
        _ => None,
    }
}

/// Returns whether the envelope came from this performative and still has its type.
fn matches_envelope(original: &Value, envelope: &Envelope) -> bool {
    let Some(original) = original.as_str() else {
        return false;
    };
    let same = original.eq_ignore_ascii_case(performative(envelope));
    same || (envelope.kind() == Kind::Message && read::is_unmapped(original))
}

/// Returns the original content, without the members that the translation added.
fn original_content(content: Value, bare: Option<&Value>, added: Option<&Value>) -> Option<Value> {
    let Value::Object(mut fields) = content else {
        return Some(content);
    };
    if let Some(name) = bare.and_then(Value::as_str) {
        return fields.remove(name);
    }
    let names = added.and_then(Value::as_array);
    for name in names.into_iter().flatten().filter_map(Value::as_str) {
        fields.remove(name);
    }
    Some(fields.into())
}

/// Moves a text from one map to another.
fn move_field(
    from: &mut Map<String, Value>,
    field: &str,
    to: &mut Map<String, Value>,
    parameter: &str,
) {
    if from.get(field).is_some_and(Value::is_string)
        && let Some(value) = from.remove(field)
    {
        to.insert(parameter.into(), value);
    }
}

#[cfg(test)]
mod tests;
