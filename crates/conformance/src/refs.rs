//! Requests that refer to earlier results, `{"$ref": "0.summary.continuation"}` and `{"$merge": [a, b]}`, or are long,
//! `{"$repeat": {"count": n, "each": value}}`. Replaces `{{name}}` in strings by a lookup; unknown names stay unchanged.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Inserts values of `results`. A `$ref` without a value is an absent field.
pub(super) fn resolve(request: &Value, results: &[Value]) -> Value {
    resolved(request, results).unwrap_or(Value::Null)
}

fn resolved(value: &Value, results: &[Value]) -> Option<Value> {
    match value {
        Value::Array(items) => {
            // A missing item of a list keeps its place.
            Some(
                items
                    .iter()
                    .map(|item| resolved(item, results).unwrap_or(Value::Null))
                    .collect(),
            )
        }
        Value::Object(fields) => {
            if let Some(Value::String(path)) = fields.get("$ref") {
                return lookup(path, results);
            }
            if let Some(Value::Array(layers)) = fields.get("$merge") {
                return Some(merge(layers, results));
            }
            if let Some(repeat) = fields.get("$repeat") {
                return repeated(repeat, results);
            }
            let fields = fields
                .iter()
                .filter_map(|(key, item)| Some((key.clone(), resolved(item, results)?)));
            Some(Value::Object(fields.collect()))
        }
        other => Some(other.clone()),
    }
}

/// Looks up a path: the first step is the number of a request, the others are fields and indexes.
fn lookup(path: &str, results: &[Value]) -> Option<Value> {
    let mut steps = path.split('.');
    let mut value = results.get(steps.next()?.parse::<usize>().ok()?)?;
    for step in steps {
        value = match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            other => other.get(step)?,
        };
    }
    Some(value.clone())
}

fn repeated(repeat: &Value, results: &[Value]) -> Option<Value> {
    let count = usize::try_from(repeat.get("count")?.as_u64()?).ok()?;
    let each = resolved(repeat.get("each")?, results)?;
    Some(vec![each; count].into())
}

/// Merges layers by their top-level fields. Later layers have precedence; `null` removes a field.
fn merge(layers: &[Value], results: &[Value]) -> Value {
    let mut merged = Map::new();
    for layer in layers {
        if let Some(Value::Object(fields)) = resolved(layer, results) {
            merged.extend(fields);
        }
    }
    merged.retain(|_, value| !value.is_null());
    Value::Object(merged)
}

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

    fn results() -> Vec<Value> {
        vec![json!({"summary": {"task": {"id": "t", "handle": "h"}, "list": [1, 2]}})]
    }

    #[test]
    fn ref_takes_a_value_from_an_earlier_result() {
        let request =
            json!({"a": {"$ref": "0.summary.task.id"}, "b": [{"$ref": "0.summary.list.1"}]});
        assert_eq!(resolve(&request, &results()), json!({"a": "t", "b": [2]}));
    }

    #[test]
    fn unresolved_reference_omits_the_field() {
        let request = json!({"a": {"$ref": "0.summary.missing"}, "b": {"$ref": "7.x"}, "c": 1});
        assert_eq!(resolve(&request, &results()), json!({"c": 1}));
    }

    #[test]
    fn merge_is_shallow_and_null_deletes() {
        let request =
            json!({"$merge": [{"$ref": "0.summary"}, {"task": {"id": "u"}, "list": null}]});
        assert_eq!(resolve(&request, &results()), json!({"task": {"id": "u"}}));
    }

    #[test]
    fn repeat_makes_a_list() {
        let request =
            json!({"$repeat": {"count": 3, "each": {"id": {"$ref": "0.summary.task.id"}}}});
        assert_eq!(
            resolve(&request, &results()),
            json!([{"id": "t"}, {"id": "t"}, {"id": "t"}])
        );
    }

    #[test]
    fn merges_nest() {
        let inner = json!({"$merge": [{"$ref": "0.summary.task"}, {"handle": null}]});
        let request =
            json!({"x": {"$merge": [{"$ref": "0.summary"}, {"task": inner, "list": null}]}});
        assert_eq!(
            resolve(&request, &results()),
            json!({"x": {"task": {"id": "t"}}})
        );
    }
}

#[cfg(test)]
mod template_tests {
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
