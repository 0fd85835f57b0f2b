//! The compact schema of requests, which costs a model few tokens. It names what a model needs; the strict schema still
//! accepts every field.

use serde_json::{Map, Value, json};

/// The fields in it, with the description that a model reads.
const FIELDS: [(&str, &str); 11] = [
    ("action", ""),
    ("target_alias", ""),
    ("target_url", "Where there is no alias."),
    (
        "parts",
        "For send: the message. The agent sees nothing else, so say all it needs.",
    ),
    ("task_handle", "The task, as an earlier result names it."),
    (
        "task_id",
        "Instead of a task_handle, together with target_alias.",
    ),
    (
        "context_id",
        "For send: the conversation to continue, together with target_alias.",
    ),
    ("follow_updates", "For send: wait while the agent works."),
    (
        "notify",
        "For send: be woken when a long task ends or asks.",
    ),
    ("artifact_id", "For status: the artifact to read on in."),
    ("offset", "For status: the character to read from."),
];

/// The fields of a part.
const PART_FIELDS: [(&str, &str); 6] = [
    ("kind", ""),
    ("text", ""),
    ("uri", "Of a file; or bytes."),
    ("bytes", "In base64."),
    ("mime_type", ""),
    ("data", "A JSON object."),
];

/// Builds the compact schema of `flat`, the schema with all fields. `urls` says whether a request may name a target by URL.
pub(super) fn compact(flat: &Value, urls: bool) -> Value {
    let fields = FIELDS
        .iter()
        .filter(|(name, _)| urls || *name != "target_url");
    let mut properties = select_properties(&flat["properties"], fields);
    let alias = &flat["properties"]["target_alias"];
    if alias.get("enum").is_none() {
        // The description says which aliases there are.
        properties.insert("target_alias".to_owned(), alias.clone());
    }
    let part = &flat["properties"]["parts"]["items"];
    let part = select_properties(&part["properties"], PART_FIELDS.iter());
    if let Some(parts) = properties.get_mut("parts") {
        parts["items"] = json!({"type": "object", "properties": part, "required": ["kind"]});
    }
    json!({"type": "object", "properties": properties, "required": flat["required"]})
}

/// Returns the type and the allowed values of the named properties, with these descriptions.
fn select_properties<'a>(
    properties: &Value,
    names: impl Iterator<Item = &'a (&'a str, &'a str)>,
) -> Map<String, Value> {
    names
        .map(|(name, description)| {
            let mut selected_fields = Map::new();
            for key in ["type", "enum"] {
                if let Some(value) = properties[*name].get(key) {
                    selected_fields.insert(key.to_owned(), value.clone());
                }
            }
            if !description.is_empty() {
                selected_fields.insert("description".to_owned(), (*description).into());
            }
            ((*name).to_owned(), Value::Object(selected_fields))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::remote_agent::schema::RequestSchema;
    use crate::targets::Catalog;

    fn flat() -> Value {
        let config = json!({"targets": [{"alias": "desk", "baseUrl": "https://a.example"}]});
        let catalog = Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap();
        RequestSchema::new(&catalog).unwrap().flat()
    }

    #[test]
    fn every_field_is_one_of_the_full_schema() {
        let (flat, compact) = (flat(), compact(&flat(), true));
        for (name, property) in compact["properties"].as_object().unwrap() {
            assert_eq!(property["type"], flat["properties"][name]["type"], "{name}");
        }
        let full = &flat["properties"]["parts"]["items"]["properties"];
        let part = &compact["properties"]["parts"]["items"]["properties"];
        for (name, property) in part.as_object().unwrap() {
            assert_eq!(property["type"], full[name]["type"], "{name}");
        }
        assert_eq!(
            compact["properties"]["target_alias"]["enum"],
            json!(["desk"])
        );
    }

    #[test]
    fn offers_a_url_only_where_one_is_allowed() {
        let offered = |urls| {
            compact(&flat(), urls)["properties"]
                .get("target_url")
                .is_some()
        };
        assert_eq!((offered(true), offered(false)), (true, false));
    }
}
