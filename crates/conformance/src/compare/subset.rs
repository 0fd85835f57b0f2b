//! Checks that an answer contains everything recorded, or fits the matchers of strict fixtures: a value that must be equal,
//! or an object of `$` rules that must all hold.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Compares recordings with answers, over one case.
///
/// Objects may have more fields than the recording, lists no further items. A recorded handle corresponds to one handle
/// of the answers, but two recorded ones may correspond to the same: a task has one valid handle.
#[derive(Debug, Default)]
pub(crate) struct Subset {
    handles: HashMap<String, String>,
}

impl Subset {
    /// Returns the first place where `answer` lacks something of `recorded`, with the reason.
    ///
    /// # Errors
    /// A sentence that starts with the place below `at`.
    pub(crate) fn compare(
        &mut self,
        recorded: &Value,
        answer: Option<&Value>,
        at: &str,
    ) -> Result<(), String> {
        match recorded {
            Value::Array(items) => {
                let Some(Value::Array(answers)) = answer else {
                    return Err(format!(
                        "{at}: a list of {} expected, got {}",
                        items.len(),
                        shown(answer)
                    ));
                };
                if answers.len() != items.len() {
                    return Err(format!(
                        "{at}: {} items expected, got {}",
                        items.len(),
                        answers.len()
                    ));
                }
                items
                    .iter()
                    .zip(answers)
                    .enumerate()
                    .try_for_each(|(index, (item, answer))| {
                        self.compare(item, Some(answer), &format!("{at}/{index}"))
                    })
            }
            Value::Object(fields) => {
                let Some(Value::Object(answers)) = answer else {
                    return Err(format!("{at}: an object expected, got {}", shown(answer)));
                };
                fields.iter().try_for_each(|(key, item)| {
                    self.compare(item, answers.get(key), &format!("{at}/{key}"))
                })
            }
            Value::String(handle)
                if is_handle(handle) && answer.and_then(Value::as_str).is_some_and(is_handle) =>
            {
                self.handle(handle, answer, at)
            }
            scalar if answer.is_some_and(|answer| same(scalar, answer)) => Ok(()),
            scalar => Err(format!("{at}: expected {scalar}, got {}", shown(answer))),
        }
    }

    fn handle(&mut self, recorded: &str, answer: Option<&Value>, at: &str) -> Result<(), String> {
        let answer = answer.and_then(Value::as_str).unwrap_or_default();
        let mapped = self
            .handles
            .entry(recorded.to_owned())
            .or_insert_with(|| answer.to_owned());
        if mapped == answer {
            Ok(())
        } else {
            Err(format!(
                "{at}: the handle of `{recorded}` was `{mapped}` and is now `{answer}`"
            ))
        }
    }
}

/// Returns whether values are equal; `1` and `1.0` are equal.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Returns a value short enough for a line.
pub(super) fn shown(value: Option<&Value>) -> String {
    const MAX_SHOWN_CHARS: usize = 160;
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn is_handle(text: &str) -> bool {
    text.strip_prefix("rah_#").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

const RULES: [&str; 11] = [
    "$exists", "$absent", "$matches", "$lacks", "$count", "$min", "$max", "$not", "$some",
    "$any_of", "$at",
];

/// Checks the value at a JSON Pointer.
///
/// # Errors
/// A sentence with the place and the rule that fails.
pub(crate) fn check_at(root: &Value, pointer: &str, matcher: &Value) -> Result<(), String> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!(
            "`{pointer}` is not a JSON Pointer: it must be empty or start with a slash"
        ));
    }
    check(root.pointer(pointer), matcher).map_err(|reason| format!("{pointer}: {reason}"))
}

/// Checks a value or its absence.
///
/// # Errors
/// A sentence with the rule that fails.
pub(crate) fn check(value: Option<&Value>, matcher: &Value) -> Result<(), String> {
    match matcher {
        Value::Object(rules) if rules.keys().any(|key| key.starts_with('$')) => rules
            .iter()
            .try_for_each(|(name, argument)| rule(value, name, argument)),
        Value::Object(fields) => object(value, fields),
        Value::Array(items) => match value {
            Some(Value::Array(values)) if values.len() == items.len() => items
                .iter()
                .zip(values)
                .enumerate()
                .try_for_each(|(index, (item, value))| {
                    check(Some(value), item).map_err(|reason| format!("[{index}] {reason}"))
                }),
            _ => Err(format!(
                "expected {} items, got {}",
                items.len(),
                shown(value)
            )),
        },
        scalar if value.is_some_and(|value| same(scalar, value)) => Ok(()),
        scalar => Err(format!("expected {scalar}, got {}", shown(value))),
    }
}

fn object(value: Option<&Value>, fields: &Map<String, Value>) -> Result<(), String> {
    let Some(Value::Object(values)) = value else {
        return Err(format!("expected an object, got {}", shown(value)));
    };
    if let Some(extra) = values.keys().find(|key| !fields.contains_key(*key)) {
        return Err(format!("`{extra}` is not expected"));
    }
    fields.iter().try_for_each(|(key, matcher)| {
        check(values.get(key), matcher).map_err(|reason| format!(".{key} {reason}"))
    })
}

fn rule(value: Option<&Value>, name: &str, argument: &Value) -> Result<(), String> {
    check_rule_names(argument)?;
    let matches = match name {
        "$exists" => value.is_some(),
        "$absent" => value.is_none(),
        "$matches" => text_has(value, argument),
        "$lacks" => !text_has(value, argument),
        "$count" => {
            return check(size(value).as_ref(), argument)
                .map_err(|reason| format!("the count: {reason}"));
        }
        "$at" => return places(value, argument),
        "$min" => number(value)
            .zip(argument.as_f64())
            .is_some_and(|(value, least)| value >= least),
        "$max" => number(value)
            .zip(argument.as_f64())
            .is_some_and(|(value, most)| value <= most),
        "$not" => check(value, argument).is_err(),
        "$some" => value
            .and_then(Value::as_array)
            .is_some_and(|items| items.iter().any(|item| check(Some(item), argument).is_ok())),
        "$any_of" => argument
            .as_array()
            .is_some_and(|choices| choices.iter().any(|choice| check(value, choice).is_ok())),
        unknown => return Err(format!("`{unknown}` is not a rule")),
    };
    let is_enabled = !matches!(
        (name, argument),
        ("$exists" | "$absent", Value::Bool(false))
    );
    if !is_enabled {
        return Err(format!("`{name}` must be true"));
    }
    if matches {
        Ok(())
    } else {
        Err(format!(
            "{name} {argument} does not hold of {}",
            shown(value)
        ))
    }
}

/// Checks some places of a value, and ignores the rest.
fn places(value: Option<&Value>, argument: &Value) -> Result<(), String> {
    let (Some(value), Value::Object(places)) = (value, argument) else {
        return Err(format!(
            "expected an object or a list, got {}",
            shown(value)
        ));
    };
    places
        .iter()
        .try_for_each(|(pointer, matcher)| check_at(value, pointer, matcher))
}

/// Checks the names of rules. Below `$not`, an unknown rule would count as one that fails.
fn check_rule_names(matcher: &Value) -> Result<(), String> {
    match matcher {
        Value::Object(fields) => {
            fields
                .iter()
                .try_for_each(|(name, argument)| match name.starts_with('$') {
                    true if !RULES.contains(&name.as_str()) => {
                        Err(format!("`{name}` is not a rule"))
                    }
                    _ => check_rule_names(argument),
                })
        }
        Value::Array(items) => items.iter().try_for_each(check_rule_names),
        _ => Ok(()),
    }
}

/// Returns whether a text, or the JSON of another value, contains `part`.
fn text_has(value: Option<&Value>, part: &Value) -> bool {
    let Some(part) = part.as_str() else {
        return false;
    };
    match value {
        Some(Value::String(text)) => text.contains(part),
        Some(other) => other.to_string().contains(part),
        None => false,
    }
}

fn size(value: Option<&Value>) -> Option<Value> {
    match value? {
        Value::Array(items) => Some(items.len().into()),
        Value::Object(fields) => Some(fields.len().into()),
        Value::String(text) => Some(text.chars().count().into()),
        _ => None,
    }
}

fn number(value: Option<&Value>) -> Option<f64> {
    value.and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn compare(recorded: Value, answer: Value) -> Result<(), String> {
        Subset::default().compare(&recorded, Some(&answer), "")
    }

    #[test]
    fn more_fields_are_fine() {
        assert_eq!(
            compare(
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1.0, "c": 2}, "d": 3})
            ),
            Ok(())
        );
    }

    #[test]
    fn difference_is_reported_with_its_place() {
        assert_eq!(
            compare(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 2}]})).unwrap_err(),
            "/a/0/b: expected 1, got 2"
        );
        assert_eq!(
            compare(json!({"a": null}), json!({})).unwrap_err(),
            "/a: expected null, got nothing"
        );
        assert_eq!(
            compare(json!({"a": {}}), json!({"a": []})).unwrap_err(),
            "/a: an object expected, got []"
        );
    }

    #[test]
    fn lists_have_the_same_length() {
        assert_eq!(
            compare(json!([1]), json!([1, 2])).unwrap_err(),
            ": 1 items expected, got 2"
        );
    }

    #[test]
    fn recorded_handle_is_one_handle() {
        assert!(
            compare(
                json!(["rah_#1", "rah_#2", "rah_#1"]),
                json!(["rah_#4", "rah_#4", "rah_#4"])
            )
            .is_ok()
        );
        let changed =
            compare(json!(["rah_#1", "rah_#1"]), json!(["rah_#1", "rah_#2"])).unwrap_err();
        assert!(
            changed.starts_with("/1: the handle of `rah_#1`"),
            "{changed}"
        );
        assert!(compare(json!("rah_#1"), json!("other")).is_err());
    }
}

#[cfg(test)]
mod matcher_tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn assert_matches(value: Value, matcher: Value) {
        assert_eq!(check(Some(&value), &matcher), Ok(()));
    }

    #[track_caller]
    fn assert_fails(value: Value, matcher: Value) {
        assert!(check(Some(&value), &matcher).is_err());
    }

    #[test]
    fn values_are_equal_as_a_whole() {
        assert_matches(
            json!({"a": [1, {"b": null}]}),
            json!({"a": [1.0, {"b": null}]}),
        );
        assert_fails(json!({"a": 1, "b": 2}), json!({"a": 1}));
        assert_fails(json!({"a": 1}), json!({"a": 1, "b": 2}));
        assert_fails(json!([1, 2]), json!([1]));
    }

    #[test]
    fn presence_is_a_rule() {
        assert_matches(json!(null), json!({"$exists": true}));
        assert!(check(None, &json!({"$exists": true})).is_err());
        assert!(check(None, &json!({"$absent": true})).is_ok());
        assert_fails(json!(null), json!({"$absent": true}));
        assert_fails(json!(1), json!({"$absent": false}));
    }

    #[test]
    fn texts_lists_and_numbers_have_rules() {
        assert_matches(
            json!("a b c"),
            json!({"$matches": "b", "$lacks": "d", "$count": 5}),
        );
        assert_fails(json!("a b c"), json!({"$matches": "b", "$lacks": "c"}));
        assert_matches(json!([1, 2]), json!({"$count": {"$min": 2, "$max": 2}}));
        assert_fails(json!([1, 2]), json!({"$count": 3}));
        assert_matches(json!({"a": "secret"}), json!({"$matches": "secret"}));
        assert_fails(json!("3"), json!({"$min": 1}));
    }

    #[test]
    fn matchers_nest() {
        assert_matches(
            json!([{"k": 1}, {"k": 2}]),
            json!({"$some": {"k": {"$min": 2}}}),
        );
        assert_fails(json!([{"k": 1}]), json!({"$some": {"k": 2}}));
        assert_matches(json!("x"), json!({"$any_of": ["y", "x"], "$not": "y"}));
        assert_fails(json!("x"), json!({"$not": {"$matches": "x"}}));
    }

    #[test]
    fn other_places_of_a_value_are_free() {
        assert_matches(
            json!([{"a": 1, "b": {"c": 2}}]),
            json!({"$some": {"$at": {"/b/c": 2, "/d": {"$absent": true}}}}),
        );
        assert_fails(json!({"a": 1}), json!({"$at": {"/a": 2}}));
        assert_fails(
            json!({"a": 1}),
            json!({"$not": {"$at": {"a": {"$nope": 1}}}}),
        );
    }

    #[test]
    fn unknown_rule_never_matches() {
        assert_fails(json!(1), json!({"$exist": true}));
        assert_fails(json!(1), json!({"$not": {"$mathces": "x"}}));
    }

    #[test]
    fn pointer_starts_with_a_slash() {
        assert!(check_at(&json!({"a": 1}), "a", &json!(1)).is_err());
        assert_eq!(
            check_at(&json!({"a": {"b/c": 1}}), "/a/b~1c", &json!(1)),
            Ok(())
        );
        assert_eq!(check_at(&json!([]), "", &json!([])), Ok(()));
    }
}
