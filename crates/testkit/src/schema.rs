//! The settings that a JSON Schema describes, to compare with the type that reads them.

use serde_json::{Value, json};

/// Returns the defaults of a schema as a configuration, without groups that require a setting.
pub fn defaults(schema: &Value) -> Option<Value> {
    if let Some(default) = schema.get("default") {
        return Some(default.clone());
    }
    if schema.get("required").is_some() {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?.iter();
    let known = properties.filter_map(|(key, property)| Some((key.clone(), defaults(property)?)));
    Some(known.collect())
}

/// Returns each setting outside of lists and maps with a configuration that has a value of a wrong type there. A type
/// that does not read the setting accepts the value.
pub fn with_wrong_types(schema: &Value) -> Vec<(String, Value)> {
    let Some(properties) = schema["properties"].as_object() else {
        return vec![(String::new(), json!([[[]]]))];
    };
    let settings = properties.iter().filter(|(name, _)| *name != "$schema");
    settings
        .flat_map(|(name, property)| {
            let inner = with_wrong_types(property).into_iter();
            inner.map(move |(place, value)| (format!("/{name}{place}"), json!({ name: value })))
        })
        .collect()
}
