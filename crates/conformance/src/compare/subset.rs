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

    /// Reads a row of values in JSON.
    fn row<const N: usize>(row: &str) -> [Value; N] {
        let columns = row
            .split(" | ")
            .map(|column| serde_json::from_str(column).unwrap());
        columns.collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn difference_is_reported_with_its_place_and_more_fields_are_fine() {
        for [recorded, answer, fault] in [
            r#"{"a": {"b": 1}} | {"a": {"b": 1.0, "c": 2}, "d": 3} | null"#,
            r#"{"a": [{"b": 1}]} | {"a": [{"b": 2}]} | "/a/0/b: expected 1, got 2""#,
            r#"{"a": null} | {} | "/a: expected null, got nothing""#,
            r#"{"a": {}} | {"a": []} | "/a: an object expected, got []""#,
            r#"[1] | [1, 2] | ": 1 items expected, got 2""#,
            r#"["rah_#1", "rah_#2", "rah_#1"] | ["rah_#4", "rah_#4", "rah_#4"] | null"#,
            r#"["rah_#1", "rah_#1"] | ["rah_#1", "rah_#2"] | "/1: the handle of `rah_#1`""#,
            r#""rah_#1" | "other" | "" "#,
        ]
        .map(row)
        {
            let compared = Subset::default().compare(&recorded, Some(&answer), "");
            match fault.as_str() {
                Some(fault) => assert!(compared.unwrap_err().starts_with(fault), "{answer}"),
                None => assert_eq!(compared, Ok(())),
            }
        }
    }

    #[test]
    fn value_fits_its_matcher() {
        for [value, matcher] in [
            r#"{"a": [1, {"b": null}]} | {"a": [1.0, {"b": null}]}"#,
            r#"null | {"$exists": true}"#,
            r#""a b c" | {"$matches": "b", "$lacks": "d", "$count": 5}"#,
            r#"[1, 2] | {"$count": {"$min": 2, "$max": 2}}"#,
            r#"{"a": "secret"} | {"$matches": "secret"}"#,
            r#"[{"k": 1}, {"k": 2}] | {"$some": {"k": {"$min": 2}}}"#,
            r#""x" | {"$any_of": ["y", "x"], "$not": "y"}"#,
            r#"[{"a": 1, "b": {"c": 2}}] | {"$some": {"$at": {"/b/c": 2, "/d": {"$absent": true}}}}"#,
        ]
        .map(row)
        {
            assert_eq!(check(Some(&value), &matcher), Ok(()));
        }
        assert_eq!(check(None, &json!({"$absent": true})), Ok(()));
    }

    #[test]
    fn value_does_not_fit_another_matcher_or_an_unknown_one() {
        for [value, matcher] in [
            r#"{"a": 1, "b": 2} | {"a": 1}"#,
            r#"{"a": 1} | {"a": 1, "b": 2}"#,
            r#"[1, 2] | [1]"#,
            r#"null | {"$absent": true}"#,
            r#"1 | {"$absent": false}"#,
            r#""a b c" | {"$matches": "b", "$lacks": "c"}"#,
            r#"[1, 2] | {"$count": 3}"#,
            r#""3" | {"$min": 1}"#,
            r#"[{"k": 1}] | {"$some": {"k": 2}}"#,
            r#""x" | {"$not": {"$matches": "x"}}"#,
            r#"{"a": 1} | {"$at": {"/a": 2}}"#,
            r#"{"a": 1} | {"$not": {"$at": {"a": {"$nope": 1}}}}"#,
            r#"1 | {"$exist": true}"#,
            r#"1 | {"$not": {"$mathces": "x"}}"#,
        ]
        .map(row)
        {
            assert!(check(Some(&value), &matcher).is_err(), "{value} {matcher}");
        }
        assert!(check(None, &json!({"$exists": true})).is_err());
    }

    #[test]
    fn pointer_starts_with_a_slash() {
        assert!(check_at(&json!({"a": 1}), "a", &json!(1)).is_err());
        let nested = json!({"a": {"b/c": 1}});
        assert_eq!(check_at(&nested, "/a/b~1c", &json!(1)), Ok(()));
        assert_eq!(check_at(&json!([]), "", &json!([])), Ok(()));
    }
}
