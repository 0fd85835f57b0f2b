//! Reads JSON of peers.

use std::fmt;

use serde_json::{Map, Value};

/// JSON of the wrong shape, with its place and without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    /// JSON Pointer (RFC 6901) to the place; empty for the whole.
    pub pointer: String,
    /// The expected type.
    pub expected: &'static str,
    /// The actual type.
    pub found: &'static str,
}

impl ShapeError {
    /// Returns the error for a value of the wrong type.
    pub fn here(expected: &'static str, found: Option<&Value>) -> Self {
        Self {
            pointer: String::new(),
            expected,
            found: kind_of(found),
        }
    }

    /// Returns the error with `key` in front of its path.
    #[must_use]
    pub fn under(mut self, key: impl fmt::Display) -> Self {
        self.pointer = format!("/{key}{}", self.pointer);
        self
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() {
            "the answer"
        } else {
            &self.pointer
        };
        write!(
            f,
            "{place} should be {}, but is {}",
            self.expected, self.found
        )
    }
}

fn kind_of(value: Option<&Value>) -> &'static str {
    match value {
        None => "missing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(text)) if text.is_empty() => "an empty string",
        Some(Value::String(_)) => "a string",
        Some(Value::Array(_)) => "an array",
        Some(Value::Object(_)) => "an object",
    }
}

pub(super) fn object(value: &Value) -> Result<&Map<String, Value>, ShapeError> {
    value
        .as_object()
        .ok_or_else(|| ShapeError::here("an object", Some(value)))
}

/// The maximum length of an id, in bytes. Peers choose ids, and the client stores them.
const MAX_ID_BYTES: usize = 1024;

/// Reads a required string that is not empty.
pub(super) fn name<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a str, ShapeError> {
    match map.get(key) {
        Some(Value::String(text)) if text.len() > MAX_ID_BYTES => Err(too_long(key)),
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        other => Err(ShapeError::here("a string that is not empty", other).under(key)),
    }
}

fn too_long(key: &str) -> ShapeError {
    ShapeError {
        pointer: format!("/{key}"),
        expected: "an id of at most 1024 bytes",
        found: "a longer string",
    }
}

/// Reads an id; `None` if it is missing or null.
pub(super) fn optional_id<'a>(
    map: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a str>, ShapeError> {
    match optional_string(map, key)? {
        Some(id) if id.len() > MAX_ID_BYTES => Err(too_long(key)),
        id => Ok(id),
    }
}

/// Returns the id at `key`, in camelCase, of a value that was not checked; `None` if there is none that
/// [`optional_id`] accepts.
pub(super) fn unchecked_id<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    let id = field(value.as_object()?, key)?.as_str()?;
    (!id.is_empty() && id.len() <= MAX_ID_BYTES).then_some(id)
}

/// Reads a string; `None` if it is missing or null.
pub(super) fn optional_string<'a>(
    map: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a str>, ShapeError> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        other => Err(ShapeError::here("a string", other).under(key)),
    }
}

/// Reads an array of objects; missing and null count as empty.
pub(super) fn objects(map: &Map<String, Value>, key: &str) -> Result<(), ShapeError> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                object(item).map_err(|e| e.under(i).under(key))?;
            }
            Ok(())
        }
        other => Err(ShapeError::here("an array", other).under(key)),
    }
}

/// Reads an array of parts of a message or artifact; missing and null count as empty. A text member must be a string.
pub(super) fn parts(map: &Map<String, Value>) -> Result<(), ShapeError> {
    let parts = match map.get("parts") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        other => return Err(ShapeError::here("an array", other).under("parts")),
    };
    for (i, part) in parts.iter().enumerate() {
        let check = || {
            let part = object(part)?;
            match part.get("kind").and_then(Value::as_str) {
                None | Some("text") => optional_string(part, "text").map(|_| ()),
                Some(_) => Ok(()),
            }
        };
        check().map_err(|e| e.under(i).under("parts"))?;
    }
    Ok(())
}

/// Returns the string at `key` of an object, if there is one.
pub(super) fn str_at<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the id at `key` of an object; an empty one counts as missing.
pub(super) fn id_at<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    str_at(value, key).filter(|id| !id.is_empty())
}

/// Returns the items at `key` of an object; none if the value is not an array.
pub(super) fn items_at<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns a member by its name in camelCase, or in snake_case, which ProtoJSON permits too.
pub(super) fn field<'a>(object: &'a Map<String, Value>, camel: &str) -> Option<&'a Value> {
    object.get(camel).or_else(|| {
        let mut snake = String::with_capacity(camel.len() + 4);
        for letter in camel.chars() {
            if letter.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        object.get(&snake)
    })
}

/// Returns the items of a list; none of anything else.
pub(super) fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Trims a text; `None` if it is then empty.
pub(super) fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
