//! Sessions in the form of the Agent Protocol.

use clap::ValueEnum;
use serde_json::{Value, json};

/// The form of an exported session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// JSON Lines, as `import` reads them
    #[default]
    Jsonl,
    /// A task of the Agent Protocol with its steps, as one object
    AgentProtocol,
}

/// Converts the lines of a session to a task: each entry of the user begins a step, and the entries until the next one are its
/// output.
pub(super) fn agent_protocol(session: &str, jsonl: &str) -> Value {
    let entries = jsonl
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        // Skip lines that record changes of the session itself.
        .filter(|entry| entry["event"].is_null());
    let mut steps: Vec<Value> = Vec::new();
    for entry in entries {
        let said = text(&entry["content"]);
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
                "input": is_user.then_some(&said),
                "status": "created",
                "output": null,
                "additional_output": {"timestamp": entry["timestamp"]},
                "artifacts": [],
                "is_last": false,
            }));
        }
        if let Some(step) = steps.last_mut().filter(|_| !is_user) {
            let output = match step["output"].as_str() {
                Some(before) => format!("{before}\n\n{said}"),
                None => said,
            };
            step["output"] = output.into();
            step["status"] = "completed".into();
        }
    }
    if let Some(last) = steps.last_mut() {
        last["is_last"] = true.into();
    }
    let input = steps.first().map(|step| step["input"].clone());
    json!({
        "task_id": session,
        "input": input,
        "additional_input": null,
        "artifacts": [],
        "steps": steps,
    })
}

/// Returns the text of an entry: the text parts of content with parts, and JSON for other objects.
fn text(content: &Value) -> String {
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
        let task = agent_protocol("s", &jsonl.join("\n"));
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
        assert_eq!(agent_protocol("s", "")["steps"], json!([]));
    }
}
