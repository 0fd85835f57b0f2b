//! Converts parts between the official types of A2A 1.0, which the server stores, and [`a2a::Part`], which peers take.

use std::borrow::Cow;
use std::collections::HashMap;

use a2a::v1_0::{Part, PartContent};
use a2a::{USAGE_KEY, Usage};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use gateway_bridge::openclaw::neutralize_image_paths;

/// Converts parts of a client for an agent, and [neutralizes the image paths](neutralize_image_paths) in their text.
pub(super) fn to_agent(parts: Vec<Part>) -> Vec<a2a::Part> {
    parts.into_iter().map(part_to_agent).collect()
}

fn part_to_agent(part: Part) -> a2a::Part {
    let plain = |text: String| neutralize_image_paths(&text).into_owned();
    let (name, media_type) = (part.filename.map(plain), part.media_type.map(plain));
    match part.content {
        PartContent::Text(text) => a2a::Part::text(plain(text)),
        PartContent::Raw(bytes) => {
            let bytes = String::from_utf8(bytes).map_or_else(
                |binary| STANDARD.encode(binary.as_bytes()),
                |text| STANDARD.encode(plain(text)),
            );
            a2a::Part::file(None, Some(bytes), name, media_type)
        }
        PartContent::Url(url) => a2a::Part::file(Some(plain(url)), None, name, media_type),
        PartContent::Data(data) => match neutralize_json(data) {
            Value::Object(data) => a2a::Part::data(data),
            other => a2a::Part::text(plain(other.to_string())),
        },
    }
}

/// Neutralizes the image paths in every text of JSON, in the plain text and in the JSON. JSON escapes white space, so that the escaped text
/// around a path could look like a part of it.
fn neutralize_json(value: Value) -> Value {
    match value {
        Value::String(text) => neutralize_text(&text).into(),
        Value::Array(items) => items.into_iter().map(neutralize_json).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (neutralize_text(&key), neutralize_json(value)))
            .collect(),
        other => other,
    }
}

fn neutralize_text(text: &str) -> String {
    let plain = neutralize_image_paths(text);
    let json_text = Value::from(plain.as_ref()).to_string();
    match neutralize_image_paths(&json_text) {
        Cow::Borrowed(_) => plain.into_owned(),
        // JSON escapes contain no dot, so the text is still valid JSON.
        Cow::Owned(json_text) => {
            serde_json::from_str(&json_text).unwrap_or_else(|_| plain.replace('.', "[.]"))
        }
    }
}

/// Converts the parts of an agent's answer. Drops invalid parts.
pub(super) fn from_agent(parts: &[Value]) -> Vec<Part> {
    parts.iter().filter_map(part_from_agent).collect()
}

fn part_from_agent(part: &Value) -> Option<Part> {
    let file = &part["file"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut read = match part["kind"].as_str().unwrap_or("text") {
        "data" => Part::data(part["data"].clone()),
        "file" => match (text(&file["uri"]), file["bytes"].as_str()) {
            (Some(uri), _) => Part::url(uri),
            (None, Some(bytes)) => match STANDARD.decode(bytes) {
                Ok(bytes) => Part::raw(bytes),
                Err(_) => Part::text("[The agent made a file with invalid base64.]"),
            },
            (None, None) => return None,
        },
        _ => Part::text(text(&part["text"])?),
    };
    read.filename = text(&file["name"]);
    read.media_type = text(&file["mimeType"]);
    read.metadata = part["metadata"].as_object().map(to_hash_map);
    Some(read)
}

/// Converts metadata to the type of the server.
pub(super) fn to_hash_map(map: &Map<String, Value>) -> HashMap<String, Value> {
    map.iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Converts the metadata of a task. Adds what it says that the task used in the form that clients know.
pub(super) fn task_metadata(metadata: &Map<String, Value>) -> HashMap<String, Value> {
    let mut all = to_hash_map(metadata);
    let usage = Usage::in_metadata(metadata);
    if !usage.is_empty() {
        all.insert(USAGE_KEY.to_owned(), json!(usage));
    }
    all
}

/// Returns the parts of an agent's message.
pub(super) fn message_parts(message: &Value) -> Vec<Part> {
    let parts = message["parts"].as_array();
    from_agent(parts.map_or(&[][..], Vec::as_slice))
}

/// Returns a text part that the server inserts before the parts of the client.
pub(super) fn text_part(text: &str) -> a2a::Part {
    a2a::Part::text(text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_survive_the_round_trip() {
        let parts = vec![
            Part::text("hello"),
            Part::raw(vec![0, 255])
                .with_filename("a.bin")
                .with_media_type("application/octet-stream"),
            Part::url("https://example.com/a.png").with_media_type("image/png"),
            Part::data(json!({"a": 1})),
        ];
        let sent = to_agent(parts.clone());
        let back: Vec<_> = sent.iter().map(|part| part.json().clone()).collect();
        assert_eq!(from_agent(&back), parts);
    }

    #[test]
    fn data_without_an_object_is_sent_as_json_text() {
        let sent = to_agent(vec![Part::data(json!([1, 2]))]);
        assert_eq!(sent[0].json()["text"], "[1,2]");
    }

    #[test]
    fn image_paths_are_neutralized_in_every_part() {
        let part = |json: Value| serde_json::from_value::<Part>(json).unwrap();
        let parts = vec![
            part(json!({"text": "see ./x.png"})),
            part(json!({"data": {"at": "/etc/logo.PNG", "~/k.jpg": 1}})),
            part(json!({"data": ["../a.gif"]})),
            part(json!({"data": {"h": "~/\tq/../y.png", "./\nq/../x.png": ["`~/\rq/../z.jpg"]}})),
            part(json!({"url": "file:///tmp/x.webp", "filename": "~/x.png"})),
            part(json!({"raw": "KC4vYS5wbmcp", "filename": "a.txt", "mediaType": "text/plain"})),
        ];
        let text = gateway_bridge::openclaw::text(&to_agent(parts));
        assert_eq!(
            text,
            "see ./x[.]png\n\n```json\n{\n  \"at\": \"/etc/logo[.]PNG\",\n  \"~/k[.]jpg\": 1\n}\n```\n\n[\"../a[.]gif\"]\n\n\
             ```json\n{\n  \"./\\nq/../x[.]png\": [\n    \"`~/\\rq/../z[.]jpg\"\n  ],\n  \"h\": \"~/\\tq/../y[.]png\"\n}\n```\n\n\
             [File ~/x[.]png: file:///tmp/x[.]webp]\n\n[File a.txt, text/plain]\n```\n(./a[.]png)\n```"
        );
    }

    #[test]
    fn invalid_parts_are_omitted() {
        assert_eq!(
            from_agent(&[json!({"kind": "file", "file": {}}), json!({"kind": "text"})]),
            []
        );
    }
}
