//! Compares the places of two validation errors, but not their texts.

use std::collections::BTreeSet;

use serde_json::Value;

/// Compares `error.details.errors` of a recording with that of an answer.
///
/// Places inside the request agree if one is within the other, because validators describe different branches. For
/// errors of the request as a whole, the comparison is of missing and additional fields.
///
/// # Errors
/// A missing or an unexpected place.
pub(crate) fn compare_error_locations(recorded: &Value, answer: &Value) -> Result<(), String> {
    const ERRORS_POINTER: &str = "/error/details/errors";
    let Some(Value::Array(recorded)) = recorded.pointer(ERRORS_POINTER) else {
        return Ok(());
    };
    let answers = match answer.pointer(ERRORS_POINTER) {
        Some(Value::Array(answers)) if !answers.is_empty() => answers,
        _ => {
            return Err(format!(
                "{ERRORS_POINTER}: a list of validation errors expected"
            ));
        }
    };
    let (places, blamed) = (places(recorded), places(answers));
    if let Some(place) = places.iter().find(|place| !near(place, &blamed)) {
        return Err(format!("{ERRORS_POINTER}: nothing blames `{place}`"));
    }
    if places.is_empty() {
        let named = subjects(answers);
        if let Some(missing) = subjects(recorded)
            .iter()
            .find(|subject| !named.contains(*subject))
        {
            return Err(format!(
                "{ERRORS_POINTER}: nothing at the root about {missing}"
            ));
        }
    } else if let Some(place) = blamed.iter().find(|place| !near(place, &places)) {
        return Err(format!(
            "{ERRORS_POINTER}: `{place}` is blamed, expected {places:?}"
        ));
    }
    let whole = |error: &Value| {
        ["keyword", "instancePath", "message"]
            .iter()
            .all(|name| error[*name].is_string())
    };
    if answers.iter().all(whole) {
        Ok(())
    } else {
        Err(format!(
            "{ERRORS_POINTER}: each needs `keyword`, `instancePath` and `message`"
        ))
    }
}

/// Returns the places of the errors, without those of the request as a whole.
fn places(errors: &[Value]) -> Vec<&str> {
    errors
        .iter()
        .map(path)
        .filter(|path| !path.is_empty())
        .collect()
}

fn path(error: &Value) -> &str {
    error["instancePath"].as_str().unwrap_or_default()
}

fn near(place: &str, others: &[&str]) -> bool {
    others
        .iter()
        .any(|other| place.starts_with(other) || other.starts_with(place))
}

/// Returns the subjects of errors at the root: a named field, or else the rule.
fn subjects(errors: &[Value]) -> BTreeSet<String> {
    let subject = |error: &Value| {
        let params = &error["params"];
        let named = ["additionalProperty", "property", "missingProperty"]
            .into_iter()
            .map(|name| &params[name])
            .find(|name| !name.is_null());
        named.unwrap_or(&error["keyword"]).to_string()
    };
    errors
        .iter()
        .filter(|error| path(error).is_empty())
        .map(subject)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn at(path: &str, params: Value) -> Value {
        json!({"keyword": "k", "message": "m", "instancePath": path, "params": params})
    }

    fn envelope(errors: &[Value]) -> Value {
        json!({"error": {"details": {"errors": errors}}})
    }

    #[test]
    fn place_above_or_below_is_the_same_location() {
        let recorded = envelope(&[at("/parts/0/text", json!({}))]);
        assert_eq!(
            compare_error_locations(&recorded, &envelope(&[at("/parts/0", json!({}))])),
            Ok(())
        );
        assert_eq!(
            compare_error_locations(&envelope(&[at("/parts", json!({}))]), &recorded),
            Ok(())
        );
    }

    #[test]
    fn missing_place_is_reported() {
        let problem = compare_error_locations(
            &envelope(&[at("/a", json!({}))]),
            &envelope(&[at("/b", json!({}))]),
        )
        .unwrap_err();
        assert!(problem.ends_with("nothing blames `/a`"), "{problem}");
    }

    #[test]
    fn unexpected_place_is_reported() {
        let answer = envelope(&[at("/a", json!({})), at("/b", json!({}))]);
        assert!(
            compare_error_locations(&envelope(&[at("/a", json!({}))]), &answer)
                .unwrap_err()
                .contains("`/b` is blamed")
        );
    }

    #[test]
    fn at_the_root_the_named_fields_agree() {
        let recorded = envelope(&[at("", json!({"property": "task_id", "action": "send"}))]);
        assert_eq!(
            compare_error_locations(
                &recorded,
                &envelope(&[at("", json!({"additionalProperty": "task_id"}))])
            ),
            Ok(())
        );
        assert!(
            compare_error_locations(
                &recorded,
                &envelope(&[at("", json!({"property": "other"}))])
            )
            .is_err()
        );
    }

    #[test]
    fn error_without_a_place_is_reported() {
        let answer = envelope(&[json!({"keyword": "k", "message": "m"})]);
        assert!(compare_error_locations(&envelope(&[json!({"keyword": "k"})]), &answer).is_err());
    }

    #[test]
    fn answer_without_errors_is_reported() {
        assert!(
            compare_error_locations(&envelope(&[at("/a", json!({}))]), &json!({"error": {}}))
                .is_err()
        );
        assert_eq!(
            compare_error_locations(&json!({"error": {}}), &json!({})),
            Ok(())
        );
    }
}
