//! Compiled JSON Schemas, and their violations in the form of Ajv.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::{Number, Value, json};

use crate::text::shortened;

/// The maximum number of listed errors; further ones are counted.
pub const LISTED_ERRORS: usize = 20;

/// Compiles a draft-07 schema. `format` is checked, and regular expressions run in linear time.
///
/// # Errors
/// The schema is invalid.
pub fn compile(schema: &str) -> Result<Validator, String> {
    let schema =
        serde_json::from_str(schema).map_err(|e| format!("the schema is not JSON: {e}"))?;
    compile_value(&schema)
}

/// Compiles a draft-07 schema that is already parsed; see [`compile`].
///
/// # Errors
/// The schema is invalid.
pub fn compile_value(schema: &Value) -> Result<Validator, String> {
    jsonschema::draft7::options()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|e| format!("the schema does not compile: {}", e.masked()))
}

/// The maximum length of an unknown key in a message, in characters.
const MAX_QUOTED_KEY_CHARS: usize = 64;

/// Returns the violation of a rule that no schema has.
pub fn violation(place: &str, keyword: &str, params: Value, message: &str) -> Value {
    let schema_path = format!("#/runtime/{keyword}");
    schema_violation(place, &schema_path, keyword, params, message)
}

/// Returns one violation in the form of Ajv, without the violating value.
pub fn schema_violation(
    place: &str,
    schema_path: &str,
    keyword: &str,
    params: Value,
    message: &str,
) -> Value {
    json!({ "instancePath": place, "schemaPath": schema_path, "keyword": keyword, "params": params, "message": message })
}

/// Returns the violations of `value`, at most [`LISTED_ERRORS`], and the number of further ones.
pub fn violations(validator: &Validator, value: &Value) -> (Vec<Value>, usize) {
    let mut listed = Vec::new();
    let mut more = 0;
    for error in validator.iter_errors(value) {
        if listed.len() >= LISTED_ERRORS {
            more += 1;
        } else {
            push(&error, &mut listed);
        }
    }
    let (listed, rest) = first(listed);
    (listed, more + rest)
}

/// Returns the first [`LISTED_ERRORS`] of `violations`, and the number of further ones.
pub fn first(mut violations: Vec<Value>) -> (Vec<Value>, usize) {
    let more = violations.len().saturating_sub(LISTED_ERRORS);
    violations.truncate(LISTED_ERRORS);
    (violations, more)
}

/// Returns the JSON Pointer of a violation and its message.
pub fn sentence(error: &ValidationError<'_>) -> (String, String) {
    let place = error.instance_path().as_str();
    match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            let name = unexpected.first().map_or("", String::as_str);
            (
                format!("{place}/{}", escape(name)),
                "no such key is known".into(),
            )
        }
        Kind::Required { property } => (
            place.into(),
            format!(
                "the key `{}` is missing",
                property.as_str().unwrap_or_default()
            ),
        ),
        kind => (place.into(), message(kind)),
    }
}

/// Parses a whole number by the rules of JSON Schema: `1.0` is one. A larger number than `u64` holds is the maximum.
///
/// # Errors
/// It is not a number, negative, or has a fraction.
pub fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    whole(&Number::deserialize(deserializer)?)
        .ok_or_else(|| D::Error::custom("expected a whole number that is not negative"))
}

/// Parses an optional number like [`integer`].
///
/// # Errors
/// Those of [`integer`].
pub fn optional_integer<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    integer(deserializer).map(Some)
}

/// Writes each number in `value` that [`integer`] accepts as an integer.
pub fn normalize_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole(number) {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_integers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_integers),
        _ => {}
    }
}

fn whole(number: &Number) -> Option<u64> {
    let float = || number.as_f64().filter(|n| *n >= 0.0 && n.fract() == 0.0);
    // A cast from float to integer saturates.
    number.as_u64().or_else(|| float().map(|n| n as u64))
}

/// Escapes a key for a JSON Pointer (RFC 6901 §3).
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn push(error: &ValidationError<'_>, out: &mut Vec<Value>) {
    match error.kind() {
        Kind::AnyOf { context } => context.iter().flatten().for_each(|inner| push(inner, out)),
        Kind::OneOfNotValid { context } => match missing_in_all(error, context) {
            Some(missing) => push(missing, out),
            None => selected_branches(context)
                .flatten()
                .for_each(|inner| push(inner, out)),
        },
        _ => {}
    }
    let place = error.instance_path().as_str();
    let schema_path = format!("#{}", error.schema_path().as_str());
    let keyword = error.kind().keyword();
    if let Kind::AdditionalProperties { unexpected } = error.kind() {
        for name in unexpected {
            out.push(schema_violation(
                place,
                &schema_path,
                keyword,
                json!({ "additionalProperty": name }),
                &format!(
                    "must NOT have additional properties: {}",
                    json!(shortened(name, MAX_QUOTED_KEY_CHARS))
                ),
            ));
        }
        return;
    }
    let text = message(error.kind());
    out.push(schema_violation(
        place,
        &schema_path,
        keyword,
        params(error.kind()),
        &text,
    ));
}

/// Returns the violation that every branch of a `oneOf` has: the discriminating key is missing. Without it, the other
/// violations of a branch mean little.
fn missing_in_all<'a>(
    one_of: &ValidationError<'_>,
    branches: &'a [Vec<ValidationError<'static>>],
) -> Option<&'a ValidationError<'static>> {
    let missed = |error: &'a ValidationError<'static>| match error.kind() {
        Kind::Required { property } if error.instance_path() == one_of.instance_path() => {
            Some(property)
        }
        _ => None,
    };
    let (first, others) = branches.split_first()?;
    first.iter().find(|error| {
        missed(error).is_some_and(|key| {
            let misses_it = |error: &'a _| missed(error) == Some(key);
            others.iter().all(|branch| branch.iter().any(misses_it))
        })
    })
}

/// Returns the relevant branches of a `oneOf`: those whose discriminator (an `enum` or `const`) the value satisfies. If it
/// satisfies none or all, returns every branch.
fn selected_branches<'a>(
    branches: &'a [Vec<ValidationError<'static>>],
) -> impl Iterator<Item = &'a Vec<ValidationError<'static>>> {
    let misses = |branch: &[ValidationError<'static>]| {
        branch
            .iter()
            .any(|e| matches!(e.kind(), Kind::Enum { .. } | Kind::Constant { .. }))
    };
    let some_meets = branches.iter().any(|branch| !misses(branch));
    branches
        .iter()
        .filter(move |branch| !some_meets || !misses(branch))
}

fn params(kind: &Kind) -> Value {
    match kind {
        Kind::Required { property } => json!({ "missingProperty": property }),
        Kind::Type {
            kind: TypeKind::Single(one),
        } => json!({ "type": one.to_string() }),
        Kind::Type {
            kind: TypeKind::Multiple(many),
        } => {
            json!({ "type": many.iter().map(|one| one.to_string()).collect::<Vec<_>>() })
        }
        Kind::Enum { options } => json!({ "allowedValues": **options }),
        Kind::Constant { expected_value } => json!({ "allowedValue": **expected_value }),
        Kind::MinLength { limit }
        | Kind::MaxLength { limit }
        | Kind::MinItems { limit }
        | Kind::MaxItems { limit }
        | Kind::MinProperties { limit }
        | Kind::MaxProperties { limit } => json!({ "limit": limit }),
        Kind::Minimum { limit } => json!({ "comparison": ">=", "limit": limit }),
        Kind::Maximum { limit } => json!({ "comparison": "<=", "limit": limit }),
        Kind::Pattern { pattern } => json!({ "pattern": pattern }),
        Kind::Format { format } => json!({ "format": format }),
        Kind::OneOfNotValid { .. } => json!({ "passingSchemas": null }),
        Kind::OneOfMultipleValid { context } => {
            let passing: Vec<usize> = context
                .iter()
                .enumerate()
                .filter(|(_, branch)| branch.is_empty())
                .map(|(i, _)| i)
                .take(2)
                .collect();
            json!({ "passingSchemas": passing })
        }
        _ => json!({}),
    }
}

fn message(kind: &Kind) -> String {
    match kind {
        Kind::Required { property } => format!(
            "must have required property '{}'",
            property.as_str().unwrap_or_default()
        ),
        Kind::Type {
            kind: TypeKind::Single(one),
        } => format!("must be {one}"),
        Kind::Enum { options } => format!("must be equal to one of the allowed values: {options}"),
        Kind::Constant { expected_value } => format!("must be equal to {expected_value}"),
        Kind::MinLength { limit } => format!("must NOT have fewer than {limit} characters"),
        Kind::MinItems { limit } => format!("must NOT have fewer than {limit} items"),
        Kind::Minimum { limit } => format!("must be >= {limit}"),
        Kind::Maximum { limit } => format!("must be <= {limit}"),
        Kind::Pattern { pattern } => format!("must match pattern \"{pattern}\""),
        Kind::Format { format } => format!("must match format \"{format}\""),
        Kind::AnyOf { .. } => "must match a schema in anyOf".into(),
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "must match exactly one schema in oneOf".into()
        }
        other => format!("fails the keyword {}", other.keyword()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn errors(schema: Value, value: &Value) -> Vec<(String, String)> {
        let (violations, _) = violations(&compile_value(&schema).unwrap(), value);
        let field = |violation: &Value, name: &str| violation[name].as_str().unwrap().to_owned();
        violations
            .iter()
            .map(|violation| (field(violation, "keyword"), field(violation, "message")))
            .collect()
    }

    #[test]
    fn unknown_key_is_named() {
        let schema = json!({"properties": {"a": {}}, "additionalProperties": false});
        let messages = errors(schema, &json!({"te\"xt": 1}));
        assert_eq!(
            messages[0].1,
            r#"must NOT have additional properties: "te\"xt""#
        );
    }

    #[test]
    fn missing_discriminator_is_the_only_error() {
        let branch = |kind: &str| {
            json!({"type": "object", "additionalProperties": false, "required": ["kind", kind],
                "properties": {"kind": {"enum": [kind]}, kind: {"type": "string"}}})
        };
        let schema = json!({"oneOf": [branch("text"), branch("data")]});
        let messages = errors(schema, &json!({"type": "text", "more": 1}));
        assert_eq!(
            messages,
            [
                (
                    "required".to_owned(),
                    "must have required property 'kind'".to_owned()
                ),
                (
                    "oneOf".to_owned(),
                    "must match exactly one schema in oneOf".to_owned()
                ),
            ]
        );
    }
}
