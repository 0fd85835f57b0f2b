//! The schema of requests: the strict one that the tool enforces, and the flat one for models.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::targets::{Catalog, Local, NAME_PATTERN, local_alias};
use base::validation;

/// The shipped schema of requests; an instance adds its aliases.
pub const SCHEMA: &str = include_str!("../../schema/request.schema.json");

/// The strict schema of one instance, compiled once.
pub(super) struct RequestSchema {
    validator: Validator,
    strict: Value,
}

impl RequestSchema {
    /// Compiles the schema for an instance with these targets.
    ///
    /// # Errors
    /// The shipped schema is invalid.
    pub(super) fn new(catalog: &Catalog) -> Result<Self, String> {
        let mut strict: Value = serde_json::from_str(SCHEMA).map_err(|e| e.to_string())?;
        let aliases = catalog.aliases();
        match (catalog.local(), &mut strict["properties"]["target_alias"]) {
            (Some(local), property) => with_local(property, &aliases, local),
            (None, property) if !aliases.is_empty() => property["enum"] = json!(aliases),
            (None, _) => {}
        }
        Ok(Self {
            validator: validation::compile_value(&strict)?,
            strict,
        })
    }

    /// Returns the violations of a request, at most [`validation::LISTED_ERRORS`], and how many more there are.
    pub(super) fn violations(&self, request: &Value) -> (Vec<Value>, usize) {
        if self.validator.is_valid(request) {
            return (Vec::new(), 0);
        }
        validation::violations(&self.validator, request)
    }

    /// Returns the schema for models, without keywords that combine schemas, which model providers refuse.
    pub(super) fn flat(&self) -> Value {
        let mut flat = flatten(&self.strict);
        if let Some(flat) = flat.as_object_mut() {
            flat.remove("$schema");
            flat.remove("title");
        }
        flat
    }
}

/// Accepts the configured aliases and those of the local gateway's agents. Only the gateway knows all agents, so the
/// description names those that the operator listed.
fn with_local(property: &mut Value, aliases: &[&str], local: &Local) {
    let pattern = json!({ "pattern": format!("^{}$", local_alias(NAME_PATTERN)) });
    if aliases.is_empty() {
        property["pattern"] = pattern["pattern"].clone();
    } else {
        property["anyOf"] = json!([{ "enum": aliases }, pattern]);
    }
    let named = local.named().map(local_alias);
    let named: Vec<String> = aliases
        .iter()
        .map(ToString::to_string)
        .chain(named)
        .collect();
    let others = if local.is_closed() {
        ""
    } else {
        " list_targets shows the other agents of the local gateway (gateway:NAME)."
    };
    let subject = property["description"].as_str().unwrap_or_default();
    property["description"] = format!("{subject} Known: {}.{others}", named.join(", ")).into();
}

/// Removes `oneOf`, `anyOf`, `const` and string formats. Alternatives become one object with the properties of all,
/// which requires what all require.
fn flatten(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else {
        return schema.clone();
    };
    let mut flat = Map::new();
    for (key, value) in schema {
        match key.as_str() {
            "oneOf" => {
                for (key, value) in merged(value) {
                    flat.insert(key, value);
                }
            }
            // `anyOf` only states which properties are required; the strict schema checks that.
            "anyOf" | "format" | "pattern" => {}
            "const" => {
                if !value.is_boolean() {
                    flat.insert("enum".into(), json!([value]));
                }
            }
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties: Map<String, Value> = properties
                    .map(|(name, property)| (name.clone(), flatten(property)))
                    .collect();
                flat.insert(key.clone(), Value::Object(properties));
            }
            "items" => {
                flat.insert(key.clone(), flatten(value));
            }
            _ => {
                flat.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(flat)
}

fn merged(alternatives: &Value) -> Map<String, Value> {
    let alternatives: Vec<Value> = alternatives
        .as_array()
        .into_iter()
        .flatten()
        .map(flatten)
        .collect();
    let mut properties: Map<String, Value> = Map::new();
    let mut required: Option<Vec<Value>> = None;
    for alternative in &alternatives {
        for (name, property) in alternative["properties"].as_object().into_iter().flatten() {
            match properties.get_mut(name) {
                None => {
                    properties.insert(name.clone(), property.clone());
                }
                Some(existing) => {
                    let more = property["enum"].as_array().into_iter().flatten().cloned();
                    if let Some(values) = existing.get_mut("enum").and_then(Value::as_array_mut) {
                        values.extend(more);
                    }
                }
            }
        }
        let these = alternative["required"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        required = Some(match required {
            None => these,
            Some(all) => all
                .into_iter()
                .filter(|name| these.contains(name))
                .collect(),
        });
    }
    Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("additionalProperties".to_owned(), json!(false)),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), json!(required.unwrap_or_default())),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    fn schema(config: &Value) -> RequestSchema {
        let catalog = Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap();
        RequestSchema::new(&catalog).unwrap()
    }

    fn walk(schema: &Value, visit: &mut impl FnMut(&Map<String, Value>)) {
        match schema {
            Value::Object(map) => {
                visit(map);
                map.values().for_each(|value| walk(value, visit));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, visit)),
            _ => {}
        }
    }

    #[test]
    fn flat_schema_has_no_combining_keywords() {
        let flat =
            schema(&json!({"targets": [{"alias": "a", "baseUrl": "https://a.example"}]})).flat();
        walk(&flat, &mut |map| {
            for keyword in ["oneOf", "anyOf", "allOf", "not", "$ref", "$schema", "const"] {
                assert!(!map.contains_key(keyword), "{keyword}");
            }
            assert!(!map.get("type").is_some_and(Value::is_array));
        });
    }

    #[test]
    fn flat_schema_describes_every_property() {
        let flat = schema(&json!({})).flat();
        walk(&flat, &mut |map| {
            for (name, property) in map
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                assert!(
                    property.get("description").is_some_and(Value::is_string),
                    "{name}"
                );
            }
        });
    }

    #[test]
    fn flat_schema_part_covers_all_kinds() {
        let flat = schema(&json!({})).flat();
        let part = &flat["properties"]["parts"]["items"];
        assert_eq!(
            part["properties"]["kind"]["enum"],
            json!(["text", "file", "data"])
        );
        assert_eq!(part["required"], json!(["kind"]));
        assert!(part["properties"]["bytes"].is_object() && part["properties"]["data"].is_object());
    }

    #[test]
    fn flat_schema_accepts_all_valid_requests() {
        let schema = schema(&json!({"targets": [{"alias": "a", "baseUrl": "https://a.example"}]}));
        let flat = validation::compile_value(&schema.flat()).unwrap();
        for request in [
            json!({"action": "list_targets"}),
            json!({"action": "send", "target_alias": "a", "parts": [{"kind": "text", "text": "x"}, {"kind": "file", "uri": "u"}, {"kind": "data", "data": {"k": [1]}}]}),
            json!({"action": "status", "continuation": {"target": {"target_url": "https://x/", "card_path": "/c", "preferred_transports": ["JSONRPC"]}, "task": {"task_id": "t"}, "conversation": {"context_id": "c", "can_send": true}}}),
        ] {
            assert!(schema.violations(&request).0.is_empty(), "{request}");
            assert!(flat.is_valid(&request), "{request}");
        }
    }
}
