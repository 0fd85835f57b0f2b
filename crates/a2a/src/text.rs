//! The text of parts.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::json;

/// Returns a text as a part.
pub fn text_part(text: impl Into<String>) -> Value {
    json!({ "kind": "text", "text": text.into() })
}

/// Returns the text parts among `parts`.
pub(super) fn texts(parts: &[Value]) -> impl Iterator<Item = &str> {
    parts
        .iter()
        .filter(|part| json::str_at(part, "kind").is_none_or(|kind| kind == "text"))
        .filter_map(|part| json::str_at(part, "text"))
}

/// Returns the texts of all parts in a value, in reading order.
pub fn texts_mut(value: &mut Value) -> Vec<&mut String> {
    fn collect<'a>(value: &'a mut Value, is_item: bool, all: &mut Vec<&'a mut String>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| collect(item, true, all)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match value {
                        Value::String(text) => {
                            all.extend((is_item && key == "text").then_some(text))
                        }
                        value => collect(value, false, all),
                    }
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    collect(value, false, &mut all);
    all
}

/// Returns the value at `path`, the names of members. `Value::pointer` copies each name.
pub fn member_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Returns the text of the parts at `path`, the names of members, separated by blank lines; `None` without a text part.
pub fn text_at(value: &Value, path: &[&str]) -> Option<String> {
    let parts = member_at(value, path)?.as_array()?;
    joined(texts(parts), "\n\n").map(Cow::into_owned)
}

/// Joins texts with the separator `between`; `None` without a text.
pub(super) fn joined<'a>(
    mut texts: impl Iterator<Item = &'a str>,
    between: &str,
) -> Option<Cow<'a, str>> {
    let first = texts.next()?;
    let mut all = Cow::Borrowed(first);
    for text in texts {
        let all = all.to_mut();
        all.push_str(between);
        all.push_str(text);
    }
    Some(all)
}

/// Returns a name without separators and in lower case, so that `INPUT_REQUIRED`, `input-required` and `inputRequired` are
/// one.
pub fn spell(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | ' ' | '.'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}
