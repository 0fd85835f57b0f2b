//! Replaces `{{name}}` in strings by a lookup. Unknown names stay unchanged.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Replaces every known `{{name}}` in `text`.
pub(crate) fn fill<'a>(text: &'a str, lookup: &dyn Fn(&str) -> Option<String>) -> Cow<'a, str> {
    if !text.contains("{{") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let after = &rest[open + 2..];
        let Some(close) = after.find("}}") else { break };
        let name = &after[..close];
        match lookup(name) {
            Some(value) => {
                out.push_str(&rest[..open]);
                out.push_str(&value);
                rest = &after[close + 2..];
            }
            None => {
                out.push_str(&rest[..open + 2]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Replaces names in every string of a JSON value, but not in keys.
pub(crate) fn fill_value(value: &Value, lookup: &dyn Fn(&str) -> Option<String>) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, lookup).into_owned()),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| fill_value(item, lookup)).collect())
        }
        Value::Object(fields) => {
            let filled: Map<_, _> = fields
                .iter()
                .map(|(key, item)| (key.clone(), fill_value(item, lookup)))
                .collect();
            Value::Object(filled)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "origin").then(|| "http://x".to_owned())
    }

    #[test]
    fn known_names_are_replaced_everywhere() {
        let value = json!({"a": ["{{origin}}/b", 1], "{{origin}}": {"c": "{{origin}}{{origin}}"}});
        let expected = json!({"a": ["http://x/b", 1], "{{origin}}": {"c": "http://xhttp://x"}});
        assert_eq!(fill_value(&value, &lookup), expected);
    }

    #[test]
    fn unknown_and_unfinished_names_stay() {
        assert_eq!(
            fill("{{other}} {{origin}} {{orig", &lookup),
            "{{other}} http://x {{orig"
        );
    }
}
