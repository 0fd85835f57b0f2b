//! Support code of several suites.

pub(crate) mod in_process;
pub(crate) mod otlp;
pub(crate) mod tool_fixture;
use serde_json::Value;
pub(crate) use testkit::support::*;

/// Sets the fields of `overrides` in `value`, at any depth.
pub(crate) fn merge(value: &mut Value, overrides: Value) {
    match (value, overrides) {
        (Value::Object(value), Value::Object(overrides)) => {
            for (key, overrides) in overrides {
                merge(value.entry(key).or_insert(Value::Null), overrides);
            }
        }
        (value, overrides) => *value = overrides,
    }
}

/// Checks that `value` has these fields, at any depth, and perhaps more.
#[track_caller]
pub(crate) fn assert_has(value: &Value, fields: Value) {
    let mut with_fields = value.clone();
    merge(&mut with_fields, fields.clone());
    assert_eq!(*value, with_fields, "not all fields of {fields}");
}
