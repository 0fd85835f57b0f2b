//! One message to several agents: its options, its answers on standard output, and what was decided on standard error.

use serde_json::{Map, Value, json};

use super::{
    exit::Failure,
    output::note,
    screen::{AnswerWriter, render_message},
    text,
};

/// How the answers of several agents become the result.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Several agents")]
pub(super) struct GroupArgs {
    /// With several --target: wait for all, cancel the others once the first task completes, or count votes [default: all]
    #[arg(long, value_name = "MODE", requires = "target", value_parser = ["all", "first", "vote"])]
    mode: Option<String>,

    /// With --mode vote: an answer that counts; repeat it for each
    #[arg(long = "choice", value_name = "ANSWER", requires = "mode")]
    choices: Vec<String>,

    /// With --mode vote: a JSON Pointer to the answer in a data part, in place of the whole text
    #[arg(long, value_name = "POINTER", requires = "mode")]
    choice_pointer: Option<String>,

    /// With --mode vote: how many equal answers decide [default: more than half]
    #[arg(long, value_name = "N", requires = "mode")]
    quorum: Option<u64>,
}

impl GroupArgs {
    /// Returns whether the options ask for a group of one agent.
    pub(super) fn is_set(&self) -> bool {
        self.mode.is_some()
    }

    /// Adds the options to a request to agents with these aliases.
    pub(super) fn add_to(self, aliases: Vec<String>, request: &mut Map<String, Value>) {
        request.insert("target_aliases".to_owned(), json!(aliases));
        let choices = (!self.choices.is_empty()).then(|| json!(self.choices));
        for (name, value) in [
            ("mode", self.mode.map(Value::from)),
            ("choices", choices),
            ("choice_pointer", self.choice_pointer.map(Value::from)),
            ("quorum", self.quorum.map(Value::from)),
        ] {
            if let Some(value) = value {
                request.insert(name.to_owned(), value);
            }
        }
    }
}

/// Returns the failure of a command that takes one agent and got several.
pub(super) fn one_only(action: &str) -> Failure {
    Failure::usage(format!(
        "{action} takes one `--target`; `remote-agent send` takes several"
    ))
}

/// Returns the results in the order of reading: the winner first.
fn results(group: &Value) -> Vec<(usize, &Value)> {
    let results = group["results"].as_array().into_iter().flatten();
    let mut results: Vec<_> = results.enumerate().collect();
    let winner = &group["winner"];
    let wins = |result: &Value| match group["mode"] == "first" {
        true => result["target_alias"] == *winner,
        false => result["vote"] == *winner,
    };
    results.sort_by_key(|(_, result)| !(winner.is_string() && wins(result)));
    results
}

/// Writes the text of each answer below the name of its agent.
pub(super) fn write_answers(group: &Value, raw: &Value, writer: &mut AnswerWriter) {
    for (place, result) in results(group) {
        let message = &raw[place];
        let message = (message["kind"] == "message").then(|| render_message(message));
        let message = message.flatten();
        let summary = &result["summary"];
        let said = message.as_deref().or(summary["message_text"].as_str());
        if let Some(said) = said.filter(|_| result["canceled"].is_null()) {
            let alias = text::line(result["target_alias"].as_str().unwrap_or_default());
            writer.message(&format!("{alias}:\n{said}"));
        }
    }
}

/// Prints what was decided, the state of each agent, and the commands that go on with these options, if a file has the
/// continuation.
pub(super) fn print(summary: &Value, options: Option<&str>) {
    let group = &summary["group"];
    let word = |value: &Value| text::line(value.as_str().unwrap_or_default());
    for (_, result) in results(group) {
        let canceled = match result["canceled"].as_str() {
            None => "",
            Some("canceled") => ", cancelled",
            Some("not_cancelable") => ", could not be cancelled",
            Some(_) => ", perhaps not cancelled",
        };
        let error = result["error"]["message"].as_str().map(text::line);
        let error = error.filter(|_| canceled.is_empty());
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        let (alias, state) = (word(&result["target_alias"]), word(&result["state"]));
        note(format_args!("{alias}: {state}{canceled}{error}"));
    }
    for count in group["votes"].as_array().into_iter().flatten() {
        note(format_args!(
            "{}: {} votes",
            word(&count["choice"]),
            count["votes"]
        ));
    }
    match group["decided_by"].as_str() {
        Some("first") => note(format_args!("first: {}", word(&group["winner"]))),
        Some("quorum") => note(format_args!("decided: {}", word(&group["winner"]))),
        Some("none") => note("nothing is decided"),
        _ => {}
    }
    if summary["next_step"].is_null() {
        return;
    }
    if let Some(options) = options {
        note("to wait for more, to look, or to cancel what goes on:");
        for action in ["watch", "status", "cancel"] {
            note(format_args!("  remote-agent {action}{options}"));
        }
    } else {
        note("with `--save FILE`, a later `remote-agent watch --continuation FILE` waits for more");
    }
}
