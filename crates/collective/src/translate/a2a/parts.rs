//! Content of messages: a text, parts or an object in envelopes, always parts in A2A.

use serde_json::{Value, json};

/// The shape name of a value that parts alone do not preserve.
const OBJECT: &str = "object";
const VALUE: &str = "value";
const PARTS: &str = "parts";

/// Returns a value as parts, and the marker that restores it if reading the parts would not.
pub(super) fn write(value: &Value) -> (Vec<Value>, Option<&'static str>) {
    match value {
        Value::String(text) => (vec![text_part(text)], None),
        Value::Object(fields) => match parts_of(value) {
            Some(parts) if read(parts) == *value => (parts.to_vec(), None),
            Some(parts) => (parts.to_vec(), Some(PARTS)),
            None => (vec![data_part(fields.clone().into())], Some(OBJECT)),
        },
        value => (vec![data_part(json!({ "value": value }))], Some(VALUE)),
    }
}

/// Reads parts that [`write`] created with this shape.
pub(super) fn read_as(parts: &[Value], shape: Option<&str>) -> Value {
    let data = parts.first().map_or(&Value::Null, |part| &part["data"]);
    match shape {
        Some(OBJECT) => data.clone(),
        Some(VALUE) => data["value"].clone(),
        Some(PARTS) => json!({ "parts": parts }),
        _ => read(parts),
    }
}

/// Returns one plain text part as a text, anything else as parts.
pub(super) fn read(parts: &[Value]) -> Value {
    match parts {
        [part] => match plain_text(part) {
            Some(text) => text.into(),
            None => json!({ "parts": parts }),
        },
        parts => json!({ "parts": parts }),
    }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"kind": "text", "text": text})
}

pub(super) fn data_part(data: Value) -> Value {
    json!({"kind": "data", "data": data})
}

/// Returns the text of a part without other members.
fn plain_text(part: &Value) -> Option<&str> {
    let fields = part.as_object()?;
    let plain = fields.len() == 2 && fields.get("kind")? == "text";
    plain.then(|| fields.get("text")?.as_str()).flatten()
}

/// Returns the parts of exactly `{"parts": […]}`, if each is a valid part.
fn parts_of(value: &Value) -> Option<&[Value]> {
    let fields = value.as_object()?;
    let parts = fields.get("parts")?.as_array()?;
    let all = parts
        .iter()
        .all(|part| matches!(part["kind"].as_str(), Some("text" | "file" | "data")));
    (fields.len() == 1 && all).then_some(parts)
}

/// Joins the texts of parts with line feeds.
pub(super) fn text(parts: &[Value]) -> Option<String> {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
