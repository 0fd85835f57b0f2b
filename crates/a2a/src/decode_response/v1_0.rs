//! Converts responses of A2A 1.0 (§4.1) to the shape of the model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Reader, drop_empty, kind, rename};
use crate::TaskState;

/// The reader of 1.0. Its streams do not mark the last event: they close at a terminal or interrupted state.
pub(super) const READER: Reader = Reader {
    part: read_part,
    ends: TaskState::is_terminal_or_interrupted,
};

/// Converts a part, which has its content in `text`, `raw`, `url` or `data` (A2A 1.0 §4.1.6).
fn read_part(mut part: Map<String, Value>) -> Value {
    if part.get("kind").is_some_and(Value::is_string) {
        return Value::Object(part);
    }
    rename(&mut part, "media_type", "mediaType");
    drop_empty(&mut part, "filename");
    drop_empty(&mut part, "mediaType");
    let content = content(&part);
    for member in MEMBERS {
        let unset = part.get(member).is_some_and(|value| !is_set(value));
        if unset && content != Some(member) {
            part.remove(member);
        }
    }
    match content {
        Some("text") => kind(part, "text"),
        Some("data") => {
            let data = part.remove("data").unwrap_or_default();
            // In 0.3, data is always an object (A2A 0.3 §6.5.3).
            let data = match data {
                Value::Object(_) => data,
                other => json!({ "value": other }),
            };
            part.insert("data".into(), data);
            kind(part, "data")
        }
        Some(content) => {
            let mut file = Map::new();
            for (name, canonical) in [
                (content, if content == "raw" { "bytes" } else { "uri" }),
                ("filename", "name"),
                ("mediaType", "mimeType"),
            ] {
                if let Some(value) = part.remove(name).filter(|value| !value.is_null()) {
                    file.insert(canonical.into(), value);
                }
            }
            if let Some(Value::String(bytes)) = file.get_mut("bytes") {
                normalize_base64(bytes);
            }
            part.insert("file".into(), Value::Object(file));
            kind(part, "file")
        }
        None => Value::Object(part),
    }
}

/// The members that can hold a part's content.
const MEMBERS: [&str; 4] = ["text", "raw", "url", "data"];

/// Returns the member with a part's content. Some peers write every member, all empty except one.
fn content(part: &Map<String, Value>) -> Option<&'static str> {
    let first = |predicate: fn(&Value) -> bool| {
        MEMBERS
            .into_iter()
            .find(|member| part.get(*member).is_some_and(predicate))
    };
    first(is_set).or_else(|| first(|value| !value.is_null()))
}

fn is_set(value: &Value) -> bool {
    !value.is_null() && value != ""
}

/// Converts base64 to the standard alphabet with padding. ProtoJSON allows the URL alphabet and missing padding.
fn normalize_base64(bytes: &mut String) {
    if memchr::memchr2(b'-', b'_', bytes.as_bytes()).is_some() {
        *bytes = bytes.replace('-', "+").replace('_', "/");
    }
    let missing = match bytes.len() % 4 {
        2 => "==",
        3 => "=",
        _ => return,
    };
    // Only base64 without padding gets padding. Other text stays unchanged.
    let tail = &bytes.as_bytes()[bytes.len() / 4 * 4..];
    if STANDARD.decode([tail, missing.as_bytes()].concat()).is_ok() {
        bytes.push_str(missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(part: Value) -> Value {
        match part {
            Value::Object(part) => read_part(part),
            other => other,
        }
    }

    #[test]
    fn task_has_the_names_of_0_3() {
        let task = json!({
            "id": "t", "contextId": "c", "weather": "fine",
            "status": {
                "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-01-01T00:00:00Z",
                "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "which?", "mood": "kind"}]}
            },
            "artifacts": [{"artifactId": "a", "name": "", "parts": [{"raw": "aGk=", "mediaType": "x/y", "filename": "f"}]}],
            "history": [{"messageId": "q", "role": "ROLE_USER", "parts": [{"text": "hi", "filename": "", "mediaType": ""}], "taskId": ""}],
            "metadata": {"k": 1}
        });
        assert_eq!(
            READER.task(task),
            json!({
                "kind": "task", "id": "t", "contextId": "c", "weather": "fine",
                "status": {
                    "state": "input-required", "timestamp": "2026-01-01T00:00:00Z",
                    "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "which?", "mood": "kind"}]}
                },
                "artifacts": [{"artifactId": "a", "parts": [{"kind": "file", "file": {"bytes": "aGk=", "mimeType": "x/y", "name": "f"}}]}],
                "history": [{"kind": "message", "messageId": "q", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}],
                "metadata": {"k": 1}
            })
        );
    }

    #[test]
    fn every_state_is_translated() {
        for (name, expected) in [
            ("TASK_STATE_UNSPECIFIED", "unknown"),
            ("", "unknown"),
            ("TASK_STATE_SUBMITTED", "submitted"),
            ("TASK_STATE_WORKING", "working"),
            ("TASK_STATE_COMPLETED", "completed"),
            ("TASK_STATE_FAILED", "failed"),
            ("TASK_STATE_CANCELED", "canceled"),
            ("TASK_STATE_INPUT_REQUIRED", "input-required"),
            ("TASK_STATE_REJECTED", "rejected"),
            ("TASK_STATE_AUTH_REQUIRED", "auth-required"),
            ("TASK_STATE_PAUSED", "paused"),
        ] {
            let task = READER.task(json!({"id": "t", "status": {"state": name}}));
            assert_eq!(task["status"]["state"], expected, "{name}");
        }
        for status in [json!({}), json!({"state": null})] {
            let task = READER.task(json!({"id": "t", "status": status}));
            assert_eq!(task["status"]["state"], "unknown");
        }
    }

    #[test]
    fn update_that_ends_a_stream_is_final() {
        for (name, last) in [
            ("TASK_STATE_WORKING", false),
            ("TASK_STATE_UNSPECIFIED", false),
            ("TASK_STATE_COMPLETED", true),
            ("TASK_STATE_INPUT_REQUIRED", true),
        ] {
            let update = json!({"statusUpdate": {"taskId": "t", "contextId": "", "status": {"state": name}}});
            let read = READER.reply(update).unwrap_or_default();
            assert_eq!(read["final"], last, "{name}");
            assert_eq!(read["kind"], "status-update");
            assert!(read.get("contextId").is_none());
        }
    }

    #[test]
    fn artifact_update_has_last_chunk() {
        let update = json!({"artifactUpdate": {"taskId": "t", "append": true, "artifact": {"artifactId": "a", "parts": null}}});
        assert_eq!(
            READER.reply(update),
            Ok(json!({
                "kind": "artifact-update", "taskId": "t", "append": true, "lastChunk": false,
                "artifact": {"artifactId": "a", "parts": []}
            }))
        );
    }

    #[test]
    fn answer_without_wrapper_follows_from_its_fields() {
        let kind = |bare: Value| READER.reply(bare).unwrap_or_default()["kind"].clone();
        assert_eq!(kind(json!({"id": "t", "status": {}})), "task");
        assert_eq!(kind(json!({"taskId": "t", "status": {}})), "status-update");
        assert_eq!(
            kind(json!({"taskId": "t", "artifact": {}})),
            "artifact-update"
        );
        assert_eq!(kind(json!({"messageId": "m", "parts": []})), "message");
        assert_eq!(
            READER.reply(json!({"weather": 1})),
            Err(json!({"weather": 1}))
        );
        assert_eq!(READER.reply(json!([])), Err(json!([])));
    }

    #[test]
    fn data_that_is_no_object_is_wrapped_in_one() {
        let object = part(json!({"data": {"a": 1}, "mediaType": "application/json"}));
        assert_eq!(
            object,
            json!({"kind": "data", "data": {"a": 1}, "mediaType": "application/json"})
        );
        for data in [json!([1, 2]), json!("x"), json!(7), json!(false)] {
            let read = part(json!({ "data": data }));
            assert_eq!(read, json!({"kind": "data", "data": {"value": data}}));
        }
    }

    #[test]
    fn part_type_follows_its_only_member() {
        let all = json!({"text": "", "raw": "", "url": "https://f/x", "filename": "", "mediaType": "", "data": null});
        assert_eq!(
            part(all),
            json!({"kind": "file", "file": {"uri": "https://f/x"}})
        );
        assert_eq!(
            part(json!({"text": ""})),
            json!({"kind": "text", "text": ""})
        );
        assert_eq!(part(json!({"odd": 1})), json!({"odd": 1}));
    }

    #[test]
    fn bytes_become_standard_base64() {
        for (sent, expected) in [
            ("-_-_", "+/+/"),
            ("aGk", "aGk="),
            ("aA", "aA=="),
            ("aGk=", "aGk="),
            ("no?", "no?"),
        ] {
            let read = part(json!({ "raw": sent }));
            assert_eq!(read["file"]["bytes"], expected, "{sent}");
        }
    }
}
