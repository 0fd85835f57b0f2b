//! How a call ended, for people: the agent's words on standard output; what became of the task, what went wrong and how to go on on standard error.

use std::path::Path;

use serde_json::Value;

use super::{
    output::{complain, note},
    target::TargetArgs,
    text::{self, shell},
    words::{Words, render_message},
};

/// What the command line said that matters for the next one.
pub(super) struct Context<'a> {
    /// Which agents are known.
    pub(super) target: &'a TargetArgs,
    /// The file that holds the result's continuation, where one does.
    pub(super) file: Option<&'a Path>,
}

/// The continuation of a result, or of what was heard before an error.
pub(super) fn continuation(envelope: &Value) -> Option<&Value> {
    let continuation = &summary(envelope)["continuation"];
    continuation.is_object().then_some(continuation)
}

fn summary(envelope: &Value) -> &Value {
    if envelope["ok"] == true {
        &envelope["summary"]
    } else {
        &envelope["error"]["details"]["latest_event_summary"]
    }
}

/// Shows the words of a result that were not shown while they came.
pub(super) fn words(envelope: &Value, words: &mut Words) {
    let summary = summary(envelope);
    for artifact in summary["artifacts"].as_array().into_iter().flatten() {
        words.artifact(artifact);
    }
    let message = (envelope["raw"]["kind"] == "message")
        .then(|| render_message(&envelope["raw"]))
        .flatten();
    let message = message.as_deref().or(summary["message_text"].as_str());
    // What a failed call has in its details is part of the answer, too.
    let message = message.or(envelope["error"]["details"]["message_text"].as_str());
    if let Some(message) = message.filter(|_| !words.has_artifacts()) {
        words.message(message);
    }
    words.finish();
}

/// Tells what became of the call.
pub(super) fn tell(envelope: &Value, context: &Context<'_>) {
    if envelope["ok"] != true {
        tell_error(envelope);
    }
    if let Some(continuation) = continuation(envelope) {
        go_on(continuation, context);
    }
}

/// An error: what failed and why, and what to do next.
pub(super) fn tell_error(envelope: &Value) {
    let error = &envelope["error"];
    complain(&text::line(error["message"].as_str().unwrap_or(
        "the library's answer is not one of its results; this is a bug of the plugin",
    )));
    let details = &error["details"];
    let places = details["errors"].as_array().map_or(&[][..], Vec::as_slice);
    if places.len() > 1 {
        for place in places {
            let [path, message] = ["instancePath", "message"].map(|field| place[field].as_str());
            note(text::line(&format!(
                "  {} {}",
                path.unwrap_or_default(),
                message.unwrap_or_default()
            )));
        }
    }
    // The library's hint speaks of a request, which nobody wrote here.
    let hint = if error["reason"] == "invalid_request" {
        let action = envelope["action"].as_str().unwrap_or_default();
        let action = action.replace("list_targets", "targets");
        Some(format!(
            "See `remote-agent help {action}`, and `remote-agent targets` for the agents that can be named."
        ))
    } else {
        details["hint"].as_str().map(text::line)
    };
    if let Some(hint) = hint {
        note(format_args!("what to do: {hint}"));
    }
}

fn go_on(continuation: &Value, context: &Context<'_>) {
    let alias = continuation["target"]["target_alias"].as_str();
    let whose = alias.map_or_else(String::new, |alias| format!(" of {}", text::line(alias)));
    let to_target = context.target.options_for(alias);
    let task = &continuation["task"];
    let can = |what: &str| task[what] == true;
    let command = |verb: &str, options: &str, rest: &str| {
        note(format_args!("  remote-agent {verb}{options}{rest}"));
    };
    if let Some(id) = task["task_id"].as_str() {
        let state = task["status"].as_str().unwrap_or("in no known state");
        note(format_args!(
            "task {}{whose}: {}",
            text::line(id),
            text::line(state)
        ));
        if can("can_cancel") {
            let options = match context.file {
                Some(file) => {
                    let file = shell(&file.display().to_string());
                    format!("{} --continuation {file}", context.target.peer_options())
                }
                None => format!("{to_target} --task {}", shell(id)),
            };
            let waits = matches!(state, "input-required" | "auth-required");
            note(if waits {
                "it waits for you; answer, or give it up:"
            } else {
                "it goes on; follow it, look at it, or stop it:"
            });
            if waits {
                command("send", &options, " 'YOUR ANSWER'");
            } else {
                if can("can_watch") {
                    command("watch", &options, "");
                }
                command("status", &options, "");
            }
            command("cancel", &options, "");
            return;
        }
    }
    if let Some(id) = continuation["conversation"]["context_id"].as_str() {
        let options = format!("{to_target} --context {}", shell(id));
        note("to go on with the conversation:");
        command("send", &options, " 'TEXT'");
    }
}
