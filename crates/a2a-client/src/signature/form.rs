//! The canonical forms of a card.

use serde_json::{Map, Value};

use super::fields;

/// A form of a card that may be signed.
pub(super) struct Form {
    /// The fields that the signature covers.
    pub(super) card: Value,
    /// The canonical bytes (RFC 8785).
    pub(super) bytes: Vec<u8>,
}

/// Returns the forms that signers use: that of A2A 1.0 §8.4.1; the same without empty values, as the official Python SDK
/// writes it; that without the security schemes, which the official JavaScript SDK (1.3.0) omits from the signature; and
/// the unchanged card, for cards of A2A 0.3.
///
/// # Errors
/// The card has no canonical form.
pub(super) fn canonical_forms(card: &Value) -> Result<Vec<Form>, String> {
    let specified = fields::covered(card);
    let cleaned = clean(&specified).unwrap_or_else(|| Value::Object(Map::new()));
    let without_schemes = without(&cleaned, "securitySchemes");
    let whole = without(card, "signatures");
    let mut canonical_forms: Vec<Form> = Vec::with_capacity(4);
    for card in [specified, cleaned, without_schemes, whole] {
        let bytes = serde_jcs::to_vec(&card)
            .map_err(|e| format!("the agent card has no canonical form: {e}"))?;
        if canonical_forms.iter().all(|form| form.bytes != bytes) {
            canonical_forms.push(Form { card, bytes });
        }
    }
    Ok(canonical_forms)
}

fn without(card: &Value, field: &str) -> Value {
    let mut card = card.clone();
    if let Some(fields) = card.as_object_mut() {
        fields.remove(field);
    }
    card
}

/// Removes texts, lists and objects that are empty, or become so.
fn clean(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        Value::Array(list) => {
            let cleaned: Vec<Value> = list.iter().filter_map(clean).collect();
            (!cleaned.is_empty()).then_some(Value::Array(cleaned))
        }
        Value::Object(map) => {
            let cleaned: Map<String, Value> = map
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), clean(value)?)))
                .collect();
            (!cleaned.is_empty()).then_some(Value::Object(cleaned))
        }
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
    }
}
