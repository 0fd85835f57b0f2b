//! What known extensions of A2A add to messages and artifacts, as text for models: parts of A2UI, citations, trajectories and
//! errors.

use serde_json::{Map, Value};

/// The prefix of AgentStack's extensions for user interfaces. Their values are in `metadata`, under their URIs.
const AGENT_STACK_UI: &str = "https://a2a-extensions.agentstack.beeai.dev/ui/";

/// The media types of a data part with A2UI, in `metadata.mimeType`.
const A2UI_TYPES: [&str; 2] = ["application/json+a2ui", "application/a2ui+json"];

/// The members of A2UI's components whose strings a person reads.
const READ_MEMBERS: [&str; 9] = [
    "literalString",
    "text",
    "label",
    "title",
    "description",
    "placeholder",
    "hint",
    "caption",
    "options",
];

/// The messages of A2UI 0.8 and 0.9 with data, whose strings a person reads through bindings.
const DATA_MESSAGES: [&str; 2] = ["dataModelUpdate", "updateDataModel"];

/// Returns the readable text of a part of A2UI, one line each; `None` for other parts.
pub(super) fn interface_text(part: &str) -> Option<String> {
    // Most parts are none, and are not parsed.
    if !part.contains("a2ui") {
        return None;
    }
    let part: Value = serde_json::from_str(part).ok()?;
    let media_type = part.pointer("/metadata/mimeType")?.as_str()?;
    A2UI_TYPES.contains(&media_type).then(|| {
        let mut lines = Vec::new();
        read(&part["data"], false, &mut lines);
        lines.join("\n")
    })
}

/// Collects the strings that a person reads. `shown` says whether those of `value` are.
fn read<'a>(value: &'a Value, shown: bool, lines: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if shown => lines.push(text),
        Value::Array(items) => items.iter().for_each(|item| read(item, shown, lines)),
        Value::Object(members) => {
            for (name, value) in members {
                let is_place = matches!(&**name, "path" | "surfaceId" | "key" | "id");
                let is_read =
                    shown || READ_MEMBERS.contains(&&**name) || DATA_MESSAGES.contains(&&**name);
                read(value, is_read && !is_place, lines);
            }
        }
        _ => {}
    }
}

/// Returns the citations, steps and errors in the metadata of a message or an artifact, one line each; empty without any.
pub(super) fn notes(metadata: &str) -> String {
    if !metadata.contains(AGENT_STACK_UI) {
        return String::new();
    }
    let metadata: Map<String, Value> = serde_json::from_str(metadata).unwrap_or_default();
    let mut lines = Vec::new();
    for (uri, value) in &metadata {
        let Some(name) = uri.strip_prefix(AGENT_STACK_UI) else {
            continue;
        };
        let (label, list, members) = match name.split('/').next() {
            Some("citation") => ("source", "citations", ["title", "url", "description"]),
            Some("trajectory") => ("step", "trajectories", ["title", "content", ""]),
            Some("error") => ("error", "errors", ["title", "message", ""]),
            _ => continue,
        };
        let items = value.get(list).unwrap_or(value);
        for item in items
            .as_array()
            .map_or(std::slice::from_ref(items), Vec::as_slice)
        {
            let item = item.get(label).unwrap_or(item);
            let words: Vec<&str> = members
                .iter()
                .filter_map(|member| item.get(member)?.as_str())
                .filter(|text| !text.is_empty())
                .collect();
            if !words.is_empty() {
                lines.push(format!("{label}: {}", words.join(" — ")));
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn part(media_type: &str, data: Value) -> String {
        json!({"kind": "data", "data": data, "metadata": {"mimeType": media_type}}).to_string()
    }

    #[test]
    fn interface_of_both_versions_is_text() {
        let old = json!({"surfaceUpdate": {"surfaceId": "main", "components": [
            {"id": "title", "component": {"Text": {"text": {"literalString": "Book a table"}}}},
            {"id": "name", "component": {"TextField": {"label": {"literalString": "Name"}, "text": {"path": "/name"}}}},
        ]}});
        let new = json!({"updateComponents": {"surfaceId": "main", "components": [
            {"id": "title", "component": "Text", "text": "Book a table"},
            {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
        ]}});
        for (media_type, data) in [(A2UI_TYPES[0], old), (A2UI_TYPES[1], new)] {
            let text = interface_text(&part(media_type, data));
            assert_eq!(text.as_deref(), Some("Book a table\nName"));
        }
    }

    #[test]
    fn data_of_an_interface_is_text_without_its_places() {
        let data = json!([{"updateDataModel": {"surfaceId": "main", "path": "/table", "value": {"name": "Window", "seats": 2}}}]);
        assert_eq!(
            interface_text(&part(A2UI_TYPES[1], data)).as_deref(),
            Some("Window")
        );
    }

    #[test]
    fn other_parts_are_no_interface() {
        assert_eq!(
            interface_text(&part("application/json", json!({"text": "a2ui"}))),
            None
        );
        assert_eq!(interface_text("a2ui"), None);
    }

    #[test]
    fn citations_and_steps_are_lines() {
        let metadata = json!({
            "https://a2a-extensions.agentstack.beeai.dev/ui/citation/v1": {"citations": [
                {"title": "Tides", "url": "https://harbour.example/tides", "start_index": 0, "end_index": 4},
                {"url": "https://harbour.example/winds"},
            ]},
            "https://a2a-extensions.agentstack.beeai.dev/ui/trajectory/v1": {"title": "Search", "content": "Read the table", "group_id": "1"},
            "https://elsewhere.example/ui/citation/v1": {"title": "Ignored"},
        });
        assert_eq!(
            notes(&metadata.to_string()),
            "source: Tides — https://harbour.example/tides\nsource: https://harbour.example/winds\nstep: Search — Read the table"
        );
    }

    #[test]
    fn metadata_of_another_shape_has_no_notes() {
        let uri = "https://a2a-extensions.agentstack.beeai.dev/ui/citation/v1";
        for value in [
            json!(1),
            json!([]),
            json!([[[]]]),
            json!({"citations": {"title": 1}}),
            json!(null),
        ] {
            assert_eq!(notes(&json!({uri: value}).to_string()), "");
        }
    }
}
