//! The messages and artifacts of a task, bounded for the operator's page.

use a2a::v1_0::{Artifact, Message, Part, PartContent, Role};
use base::text::shortened;
use serde_json::{Value, json};

use crate::task_record::TaskRecord;

/// The maximum length of one text, in characters.
const MAX_TEXT_CHARS: usize = 20_000;

/// The maximum number of messages and of artifacts, the newest.
const MAX_ITEMS: usize = 100;

/// Adds the messages and artifacts to the JSON of a task. Files are named with their sizes, without their contents.
pub(super) fn json(mut task: Value, record: &TaskRecord) -> Value {
    let status = &record.task.status;
    let history = record.task.history.iter().flatten();
    // The history lacks the message of the current status.
    let messages: Vec<Value> = history
        .chain(status.message.as_ref())
        .map(message_json)
        .collect();
    let artifacts = record.task.artifacts.iter().flatten();
    let artifacts: Vec<Value> = artifacts.map(artifact_json).collect();
    task["messages"] = newest(messages);
    task["artifacts"] = newest(artifacts);
    task["statusMs"] = status.timestamp.map(|time| time.timestamp_millis()).into();
    task
}

fn newest(mut items: Vec<Value>) -> Value {
    let excess = items.len().saturating_sub(MAX_ITEMS);
    items.drain(..excess).for_each(drop);
    items.into()
}

fn message_json(message: &Message) -> Value {
    let from = match message.role {
        Role::User => "client",
        _ => "agent",
    };
    json!({"from": from, "parts": parts_json(&message.parts)})
}

fn artifact_json(artifact: &Artifact) -> Value {
    let name = artifact.name.as_deref().unwrap_or(&artifact.artifact_id);
    json!({"name": name, "parts": parts_json(&artifact.parts)})
}

/// Returns the parts. Joins texts, because a streamed text arrives in many parts.
fn parts_json(parts: &[Part]) -> Value {
    let mut all: Vec<Value> = Vec::new();
    let mut text = String::new();
    for part in parts {
        if let PartContent::Text(more) = &part.content {
            text += more;
            continue;
        }
        flush(&mut all, &mut text);
        all.push(match &part.content {
            PartContent::Raw(bytes) => {
                json!({"file": part.filename, "type": part.media_type, "bytes": bytes.len()})
            }
            PartContent::Url(url) => {
                json!({"file": part.filename, "type": part.media_type, "url": url})
            }
            PartContent::Data(data) => {
                json!({"data": shortened(&data.to_string(), MAX_TEXT_CHARS)})
            }
            PartContent::Text(_) => continue,
        });
    }
    flush(&mut all, &mut text);
    newest(all)
}

fn flush(all: &mut Vec<Value>, text: &mut String) {
    if !text.is_empty() {
        all.push(json!({"text": shortened(&std::mem::take(text), MAX_TEXT_CHARS)}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_cut_and_files_have_sizes() {
        let mut file = Part::raw(vec![0; 7]);
        file.filename = Some("a.png".to_owned());
        let parts = [
            Part::text("one "),
            Part::text("two"),
            file,
            Part::text("x".repeat(MAX_TEXT_CHARS + 1)),
        ];
        let json = parts_json(&parts);
        assert_eq!(json[0]["text"], "one two");
        assert_eq!(json[1], json!({"file": "a.png", "type": null, "bytes": 7}));
        let cut = json[2]["text"].as_str().map(|text| text.chars().count());
        assert_eq!(cut, Some(MAX_TEXT_CHARS + 1));
    }
}
