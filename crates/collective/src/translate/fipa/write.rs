//! Converts envelopes to ACL.

use serde_json::{Map, Value};

use super::{
    ADDED_FIELDS, BARE_CONTENT_FIELD, EXTENSION_FIELD, LANGUAGE, METADATA_FIELD, ONTOLOGY,
    performative,
};
use crate::{Envelope, EnvelopeError, Kind, translate::without_credential};

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
    same || (envelope.kind() == Kind::Message && super::read::is_unmapped(original))
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
