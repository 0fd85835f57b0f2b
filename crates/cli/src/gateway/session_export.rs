//! Exports sessions in the format of the Agent Protocol.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{exit::Failure, text};

/// The form of an exported session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// JSON Lines, for `import`
    #[default]
    Jsonl,
    /// A task of the Agent Protocol with its steps, as one object
    AgentProtocol,
}

/// Converts the lines of a session to a task. Each entry of the user starts a step; the entries up to the next one are the
/// output of the step.
///
/// # Errors
/// Some lines are not JSON. The error has their number and the position of the first one.
pub(super) fn agent_protocol(session: &str, jsonl: &str) -> Result<Value, Failure> {
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(jsonl.lines()) {
        match serde_json::from_str::<Value>(line) {
            // Lines with an `event` record changes of the session itself, not the conversation.
            Ok(entry) if entry["event"].is_null() => entries.push(entry),
            Ok(_) => {}
            Err(_) if line.trim().is_empty() => {}
            Err(error) => unreadable.push((number, error)),
        }
    }
    if let Some((number, error)) = unreadable.first() {
        let count = unreadable.len();
        return Err(Failure::new(format!(
            "cannot export the session `{}` as a task: {count} of its lines are unreadable, the first is line {number}: {error}; export it with `--format jsonl`",
            text::line(session)
        )));
    }
    let mut steps: Vec<Value> = Vec::new();
    for entry in entries {
        let text_of_entry = content_text(&entry["content"]);
        let is_user = entry["role"] == "user";
        if is_user || steps.is_empty() {
            let id = match entry["id"].as_str() {
                Some(id) if !id.is_empty() => id.to_owned(),
                _ => format!("{session}-{}", steps.len() + 1),
            };
            steps.push(json!({
                "task_id": session,
                "step_id": id,
                "name": null,
                "input": is_user.then_some(&text_of_entry),
                "status": "created",
                "output": null,
                "additional_output": {"timestamp": entry["timestamp"]},
                "artifacts": [],
                "is_last": false,
            }));
        }
        if let Some(step) = steps.last_mut().filter(|_| !is_user) {
            let output = match step["output"].as_str() {
                Some(before) => format!("{before}\n\n{text_of_entry}"),
                None => text_of_entry,
            };
            step["output"] = output.into();
            step["status"] = "completed".into();
        }
    }
    if let Some(last) = steps.last_mut() {
        last["is_last"] = true.into();
    }
    let input = steps.first().map(|step| step["input"].clone());
    Ok(json!({
        "task_id": session,
        "input": input,
        "additional_input": null,
        "artifacts": [],
        "steps": steps,
    }))
}

/// Returns the text of an entry: the text parts of its content, or JSON for an object without parts.
fn content_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    match content["parts"].as_array() {
        Some(parts) => {
            let texts: Vec<_> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            texts.join("\n\n")
        }
        None => content.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn entry_of_the_user_begins_a_step() {
        let lines = [
            json!({"timestamp": 1, "role": "user", "content": "Hello", "sessionId": "s", "id": "m-1"}),
            json!({"timestamp": 2, "role": "agent", "content": {"parts": [{"text": "Hi"}]}, "sessionId": "s", "id": "m-2"}),
            json!({"timestamp": 3, "role": "assistant", "content": "there", "sessionId": "s", "id": "m-3"}),
            json!({"event": "committed", "timestamp": 4, "role": "system", "content": null}),
            json!({"timestamp": 5, "role": "user", "content": "Bye", "sessionId": "s", "id": ""}),
        ];
        let jsonl: Vec<_> = lines.iter().map(Value::to_string).collect();
        let task = agent_protocol("s", &jsonl.join("\n")).unwrap();
        assert_eq!(task["input"], "Hello");
        let steps = &task["steps"];
        assert_eq!(steps.as_array().map(Vec::len), Some(2), "{task}");
        assert_eq!(
            (&steps[0]["step_id"], &steps[0]["output"]),
            (&json!("m-1"), &json!("Hi\n\nthere"))
        );
        assert_eq!(
            (&steps[1]["step_id"], &steps[1]["status"]),
            (&json!("s-2"), &json!("created"))
        );
        assert_eq!(steps[1]["is_last"], true);
    }

    #[test]
    fn empty_session_has_no_steps() {
        assert_eq!(agent_protocol("s", "").unwrap()["steps"], json!([]));
    }

    #[test]
    fn unreadable_lines_are_reported_with_their_place() {
        let jsonl = "{\"role\":\"user\",\"content\":\"Hi\"}\n\nnot json\n{\n";
        let failure = agent_protocol("s", jsonl).unwrap_err();
        assert!(
            failure.message.contains("2 of its lines"),
            "{}",
            failure.message
        );
        assert!(failure.message.contains("line 3"), "{}", failure.message);
    }
}
