//! Checks that an answer contains everything recorded.

use std::collections::HashMap;

use serde_json::Value;

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
