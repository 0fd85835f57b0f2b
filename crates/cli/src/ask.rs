//! Lets the person at the terminal answer the questions of an agent (`--ask`).
//!
//! Answers come from standard input, a line each: typed, or piped by a script.

use std::{
    io::{self, BufRead, IsTerminal},
    sync::Arc,
    thread,
};

use openclaw_remote_agent_interface::{AskerBox, ask_with};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc};

use super::{
    exit::Failure,
    output::note,
    text::{block, line},
};

/// Whether the person at the terminal answers.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct AskArgs {
    /// Ask on the terminal what the agent wants to know, and send it the answer; an empty line declines
    #[arg(long)]
    pub(super) ask: bool,
}

/// The lines of standard input, read by a thread of their own: it may wait for a line when the process ends.
type Lines = Arc<Mutex<mpsc::Receiver<String>>>;

impl AskArgs {
    /// Checks that standard input can have answers; `reads_stdin` says that it is the message.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn check(self, reads_stdin: bool) -> Result<(), Failure> {
        let problem = match self.ask {
            true if reads_stdin => {
                "standard input is the text of the message; give the text as an argument"
            }
            true if !has_input() => {
                "standard input is neither a terminal nor a pipe, so no person could answer; run it in a terminal, pipe the answers, or leave `--ask` out and answer later with `send`"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(format!("cannot use `--ask`: {problem}")))
    }

    /// Returns the configuration in which the person answers.
    pub(super) fn config(self, config: String) -> String {
        match self.ask {
            true => with_answers(config, "person"),
            false => config,
        }
    }

    /// Returns what asks the person; `before` runs first each time, to clear the terminal.
    pub(super) fn person(self, before: impl Fn() + Send + Sync + 'static) -> Option<AskerBox> {
        if !self.ask {
            return None;
        }
        let (sender, lines) = mpsc::channel(1);
        thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        let lines: Lines = Arc::new(Mutex::new(lines));
        Some(ask_with(move |question: String| {
            before();
            let lines = Arc::clone(&lines);
            async move {
                let question: Value = serde_json::from_str(&question).unwrap_or_default();
                answer(&question, &lines).await.to_string()
            }
        }))
    }
}

/// Sets `answers` of every target that leaves questions to the model.
pub(super) fn with_answers(config: String, answers: &str) -> String {
    let Ok(mut parsed) = serde_json::from_str::<Value>(&config) else {
        return config;
    };
    for target in parsed["targets"].as_array_mut().into_iter().flatten() {
        if target["answers"].is_null() || target["answers"] == "model" {
            target["answers"] = answers.into();
        }
    }
    parsed.to_string()
}

/// Returns whether standard input is a terminal, a pipe or a file, and not closed or `/dev/null`.
fn has_input() -> bool {
    if io::stdin().is_terminal() {
        return true;
    }
    #[cfg(unix)]
    {
        use std::{fs::File, os::fd::AsFd as _, os::unix::fs::FileTypeExt as _};
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let kind = file.and_then(|file| file.metadata());
        kind.is_ok_and(|kind| !kind.file_type().is_char_device())
    }
    #[cfg(not(unix))]
    true
}

/// Asks the question and returns the answer, both as JSON.
async fn answer(question: &Value, lines: &Lines) -> Value {
    let mut lines = lines.lock().await;
    if io::stdin().is_terminal() {
        // What was typed before the question is no answer to it.
        while lines.try_recv().is_ok() {}
    }
    show(question);
    let fields = question["fields"].as_array().cloned().unwrap_or_default();
    let mut content = Map::new();
    for field in &fields {
        note(prompt(field, fields.len() == 1));
        let Some(typed) = lines.recv().await else {
            note("standard input has ended; nothing is sent");
            return json!({"action": "unreachable"});
        };
        match typed.trim() {
            "" if field["required"] == true => {
                note("declined; nothing is sent");
                return json!({"action": "decline", "by": "terminal"});
            }
            "" => {}
            typed => {
                let name = field["name"].as_str().unwrap_or_default();
                content.insert(name.to_owned(), value(field, typed));
            }
        }
    }
    json!({"action": "answer", "content": content, "by": "terminal"})
}

/// Shows who asks, what for, and the agent's words behind a bar that no line of them can leave.
fn show(question: &Value) {
    let text = |name: &str| question[name].as_str().map(line);
    let origin = text("origin").unwrap_or_default();
    let target = text("target").unwrap_or_else(|| origin.clone());
    let agent = text("agent").map_or_else(String::new, |agent| format!("\"{agent}\", "));
    let what = match question["kind"].as_str() {
        Some("auth") => "wants you to sign in",
        Some("permission") => "asks for a permission",
        _ => "asks",
    };
    note(format!("{target} ({agent}{origin}) {what}"));
    if let Some(task) = text("task") {
        note(format!("  about: {task}"));
    }
    if let Some(error) = text("error") {
        note(format!("  not sent: {error}"));
    }
    for warning in question["warnings"].as_array().into_iter().flatten() {
        note(match warning.as_str() {
            Some("asks_for_secret") => {
                "  warning: it may ask for a password, a token, a key or a code; what you answer goes to this agent"
            }
            _ => "  warning: it offers a form that cannot be shown here; answer in your own words",
        });
    }
    let words = question["text"].as_str().unwrap_or_default();
    for words in block(words).lines() {
        note(format!("  | {words}"));
    }
    if let Some(url) = text("url") {
        note(format!("  | link: {url}"));
    }
}

fn prompt(field: &Value, is_only: bool) -> String {
    let form = match field["type"].as_str() {
        Some("integer") => ", a whole number",
        Some("number") => ", a number",
        Some("boolean") => ", yes or no",
        Some("choice") => ", a number or a name of these",
        _ => "",
    };
    let empty = match field["required"] == true {
        true => "empty declines",
        false => "empty leaves it out",
    };
    let title = line(field["title"].as_str().unwrap_or_default());
    let title = if is_only {
        "your answer".to_owned()
    } else {
        title
    };
    let mut prompt = format!("{title}{form} ({empty}):");
    if let Some(description) = field["description"].as_str() {
        prompt = format!("  | {}\n{prompt}", line(description));
    }
    for (i, choice) in field["choices"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let title = line(choice["title"].as_str().unwrap_or_default());
        prompt += &format!("\n  {}) {title}", i + 1);
    }
    prompt
}

/// Returns the value of a choice by its number, else what was typed, which the library reads.
fn value(field: &Value, typed: &str) -> Value {
    let choices = field["choices"].as_array();
    let nth = typed.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let chosen = nth.and_then(|nth| choices?.get(nth));
    chosen.map_or_else(|| typed.into(), |choice| choice["value"].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_is_taken_by_number_or_name() {
        let field = json!({"type": "choice", "choices": [{"value": "r", "title": "Red"}, {"value": 7, "title": "Seven"}]});
        assert_eq!(value(&field, "2"), 7);
        assert_eq!(value(&field, "Red"), "Red");
        assert_eq!(value(&field, "3"), "3");
        assert_eq!(value(&json!({"type": "text"}), "1"), "1");
    }

    #[test]
    fn option_makes_a_person_answer_for_every_target() {
        let config =
            r#"{"targets": [{"alias": "a"}, {"alias": "b", "answers": "person-then-model"}]}"#;
        let asks = AskArgs { ask: true };
        let answers: Value =
            serde_json::from_str(&asks.config(config.to_owned())).unwrap_or_default();
        assert_eq!(answers["targets"][0]["answers"], "person");
        assert_eq!(answers["targets"][1]["answers"], "person-then-model");
        assert_eq!(AskArgs::default().config(config.to_owned()), config);
    }
}
