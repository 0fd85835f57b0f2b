//! What an agent says in a result, as text: its messages, the message in the status of its task, and its artifacts; and the files in
//! all of them.

use std::collections::HashSet;

use serde_json::Value;

use super::text;

/// Returns the summary of a result, or that of the last update before an error.
pub(super) fn summary(envelope: &Value) -> &Value {
    if envelope["ok"] == true {
        &envelope["summary"]
    } else {
        &envelope["error"]["details"]["latest_event_summary"]
    }
}

/// Returns whether an answer to a message is complete, and without any text of its own.
pub(super) fn lacks_content(envelope: &Value) -> bool {
    let summary = &envelope["summary"];
    let state = &summary["continuation"]["task"]["status"];
    envelope["ok"] == true
        && matches!(envelope["action"].as_str(), Some("send" | "watch"))
        && (summary["response_kind"] == "message" || state == "completed")
        && summary["message_text"].is_null()
        && summary["status_message"].is_null()
        && !summary["group"].is_object()
}

/// Returns the answers that `raw` of a result has: the events of a stream, or the one answer.
fn answers(raw: &Value) -> &[Value] {
    let events = raw["events"].as_array().map(Vec::as_slice);
    events.unwrap_or(std::slice::from_ref(raw))
}

/// Returns the text of the message in the status of the task, with its data and files. `raw` is that of the result or the event of an
/// update; without it, the text has neither.
pub(super) fn status_text(summary: &Value, raw: &Value) -> Option<String> {
    let newest = answers(raw).iter().rfind(|one| one["status"].is_object());
    let shown = newest.and_then(|newest| render_message(&newest["status"]["message"]));
    let plain = || summary["status_message"].as_str().map(str::to_owned);
    shown.filter(|text| !text.is_empty()).or_else(plain)
}

/// Returns the texts of an answer without artifacts, in the order of reading.
pub(super) fn texts(envelope: &Value) -> Vec<String> {
    let (summary, raw) = (summary(envelope), &envelope["raw"]);
    if raw["kind"] == "message" || summary["response_kind"] == "message" {
        let messages = answers(raw).iter().filter(|one| one["kind"] == "message");
        let messages: Vec<_> = messages.filter_map(render_message).collect();
        if !messages.is_empty() {
            return messages;
        }
    }
    let message = summary["message_text"].as_str();
    // The details of a failed call may contain a message of the agent.
    let message = message.or(envelope["error"]["details"]["message_text"].as_str());
    let state = summary["continuation"]["task"]["status"].as_str();
    let has_text = summary["status_message"].is_string();
    // The progress of a task is no answer.
    let is_progress = matches!(state, Some("submitted" | "working"));
    let status = status_text(summary, raw).filter(|_| has_text || !is_progress);
    // With text in the status, the summary's text is that of the status.
    let message = message.filter(|_| status.is_none() || !has_text);
    let both = message.map(str::to_owned).into_iter().chain(status);
    both.collect()
}

/// Returns the files of a result that have their content: those of its artifacts, messages and status messages. Events of a stream
/// repeat a message, and an artifact may have the file of one; `openclaw/files.js` has the same rule.
pub(super) fn files(envelope: &Value) -> Vec<&Value> {
    let artifacts = envelope["summary"]["artifacts"].as_array();
    let artifacts = artifacts.into_iter().flatten().map(|a| &a["parts"]);
    let messages = answers(&envelope["raw"]).iter();
    let messages = messages.map(|one| match one["kind"] == "message" {
        true => &one["parts"],
        false => &one["status"]["message"]["parts"],
    });
    let (mut files, mut known) = (Vec::new(), HashSet::new());
    for parts in artifacts.chain(messages).filter_map(Value::as_array) {
        let added = files.len();
        let own = parts.iter().map(|part| &part["file"]);
        let own = own.filter(|file| file["bytes"].is_string());
        files.extend(own.filter(|file| !known.contains(&identity(file))));
        known.extend(files[added..].iter().copied().map(identity));
    }
    files
}

/// Returns the name and the content of a file.
fn identity(file: &Value) -> (Option<&str>, Option<&str>) {
    (file["name"].as_str(), file["bytes"].as_str())
}

/// Returns the parts as text. The text of an artifact equals the concatenated texts of its chunks.
pub(super) fn render(artifact: &Value) -> String {
    let parts = artifact["parts"].as_array().into_iter().flatten();
    parts.map(part).collect()
}

/// Returns the parts of a message as text, each on separate lines.
pub(super) fn render_message(message: &Value) -> Option<String> {
    let parts: Vec<_> = message["parts"].as_array()?.iter().map(part).collect();
    let text = parts.iter().map(|part| part.trim_matches('\n'));
    Some(text.collect::<Vec<_>>().join("\n"))
}

/// Returns a part as text. Many agents omit `kind` or call it `type`, so the content decides.
fn part(part: &Value) -> String {
    let kind = part["kind"].as_str();
    match (part["text"].as_str(), &part["file"], &part["data"]) {
        (Some(text), ..) => text.to_owned(),
        (_, object @ Value::Object(_), _) => format!("\n[{}]\n", file(object)),
        (_, _, data) if !data.is_null() || kind == Some("data") => format!("\n{data:#}\n"),
        _ if kind == Some("text") => String::new(),
        _ => format!("\n{part}\n"),
    }
}

fn file(file: &Value) -> String {
    let field = |name: &str| file[name].as_str().map(text::line);
    let size = file["bytes"].as_str().map(|bytes| {
        let padding = bytes.bytes().rev().take_while(|byte| *byte == b'=').count();
        format!("{} bytes", (bytes.len() * 3 / 4).saturating_sub(padding))
    });
    let known = [field("name"), field("mimeType"), size, field("uri")];
    let known: Vec<_> = known.into_iter().flatten().collect();
    format!("file: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn completed_task_without_text_lacks_content_also_with_artifacts() {
        let part = json!({"kind": "text", "value": "hidden"});
        for (summary, lacks) in [
            (
                json!({"artifacts": [{"artifactId": "a", "parts": [part]}]}),
                true,
            ),
            (json!({"artifacts": []}), true),
            (json!({"message_text": "shown"}), false),
        ] {
            let mut envelope = json!({"ok": true, "action": "send", "summary": summary});
            envelope["summary"]["continuation"] = json!({"task": {"status": "completed"}});
            assert_eq!(lacks_content(&envelope), lacks, "{envelope}");
        }
    }

    #[test]
    fn pieces_of_text_are_one_text() {
        let artifact =
            json!({"parts": [{"kind": "text", "text": "a "}, {"kind": "text", "text": "b"}]});
        assert_eq!(render(&artifact), "a b");
    }

    #[test]
    fn content_of_a_part_decides_without_its_kind() {
        for (part, expected) in [
            (json!({"text": "a"}), "a"),
            (json!({"type": "text", "text": "a"}), "a"),
            (json!({"kind": "text"}), ""),
            (json!({"type": "data", "data": [1]}), "\n[\n  1\n]\n"),
            (json!({"file": {"name": "a.txt"}}), "\n[file: a.txt]\n"),
            (json!({"odd": 1}), "\n{\"odd\":1}\n"),
        ] {
            assert_eq!(super::part(&part), expected, "{part}");
        }
    }

    #[test]
    fn files_are_named_and_not_shown() {
        let file = json!({"name": "a.pdf", "mimeType": "application/pdf", "bytes": "aGVsbG8="});
        let message =
            json!({"parts": [{"kind": "text", "text": "see"}, {"kind": "file", "file": file}]});
        assert_eq!(
            render_message(&message).as_deref(),
            Some("see\n[file: a.pdf, application/pdf, 5 bytes]")
        );
    }

    fn result(state: &str, raw: Value) -> Value {
        let mut summary = json!({"continuation": {"task": {"status": state}}});
        let message = raw["status"]["message"]["parts"][0]["text"].as_str();
        if let Some(text) = message {
            summary["status_message"] = text.into();
            summary["message_text"] = text.into();
        }
        json!({"ok": true, "summary": summary, "raw": raw})
    }

    #[test]
    fn status_message_has_its_data_and_files() {
        let data = json!({"data": {"k": 1}});
        let file = json!({"file": {"name": "a.txt", "bytes": "aGVsbG8="}});
        for (parts, expected) in [
            (json!([data]), "{\n  \"k\": 1\n}"),
            (json!([{"text": "see"}, data]), "see\n{\n  \"k\": 1\n}"),
            (
                json!([{"text": "see"}, file]),
                "see\n[file: a.txt, 5 bytes]",
            ),
            (json!([file]), "[file: a.txt, 5 bytes]"),
        ] {
            let task = json!({"status": {"message": {"parts": parts}}});
            for raw in [
                task.clone(),
                json!({"events": [task, {"kind": "artifact-update"}]}),
            ] {
                let mut envelope = result("failed", task.clone());
                envelope["raw"] = raw;
                assert_eq!(texts(&envelope), [expected], "{envelope}");
                assert_eq!(
                    status_text(&envelope["summary"], &envelope["raw"]).as_deref(),
                    Some(expected)
                );
            }
        }
        let working = result("working", json!({"status": {"message": {"parts": [data]}}}));
        assert!(texts(&working).is_empty());
    }

    #[test]
    fn every_message_of_a_stream_is_a_text() {
        let message = |text: &str| json!({"kind": "message", "parts": [{"text": text}]});
        let raw =
            json!({"events": [message("one"), message("two\n")], "finalEvent": message("two\n")});
        let summary = json!({"response_kind": "message", "message_text": "one\n\ntwo\n"});
        let envelope = json!({"ok": true, "summary": summary, "raw": raw});
        assert_eq!(texts(&envelope), ["one", "two"]);
    }

    #[test]
    fn files_of_messages_and_status_messages_count_once() {
        let parts = |name: &str| json!([{"file": {"name": name, "bytes": "eA=="}}, {"file": {"uri": "https://a.example"}}]);
        let status = |name: &str| json!({"status": {"message": {"parts": parts(name)}}});
        let events = json!([status("a"), status("a"), {"kind": "message", "parts": parts("b")}]);
        let raw = json!({"events": events, "finalEvent": events[2]});
        let envelope = json!({"summary": {"artifacts": [{"parts": parts("c")}]}, "raw": raw});
        let names: Vec<_> = files(&envelope)
            .iter()
            .map(|file| file["name"].clone())
            .collect();
        assert_eq!(names, ["c", "a", "b"]);
        let single = json!({"summary": {}, "raw": status("a")});
        assert_eq!(files(&single).len(), 1);
    }
}
