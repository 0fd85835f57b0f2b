//! One message to several agents: its options, its answers on standard output, and what was decided on standard error.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{
    answer,
    exit::Failure,
    output::note,
    screen::{AnswerWriter, Screen, is_waiting},
    text,
};

/// How the answers of several agents become the result.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Several agents")]
pub(super) struct GroupArgs {
    /// With several --target: wait for all, cancel the others once the first task completes, or count votes. With --follow
    /// each answer is printed once it is complete, else at the end [default: all]
    #[arg(long, value_name = "MODE", requires = "target", value_parser = ["all", "first", "vote"])]
    mode: Option<String>,

    /// With --mode vote: an answer that counts; repeat it for each of at least 2
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

    /// Checks the options of a vote, in the words of this command.
    ///
    /// # Errors
    /// One of them is given without a vote, or there is nothing to choose from.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let given = [
            ("--choice", !self.choices.is_empty()),
            ("--choice-pointer", self.choice_pointer.is_some()),
            ("--quorum", self.quorum.is_some()),
        ];
        let is_vote = self.mode.as_deref() == Some("vote");
        if let Some((option, _)) = given.iter().find(|(_, given)| *given && !is_vote) {
            return Err(Failure::usage(format!(
                "`{option}` goes only with `--mode vote`"
            )));
        }
        match self.choices.len() {
            1 => Err(Failure::usage("`--choice` needs at least 2 choices")),
            _ => Ok(()),
        }
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

/// Returns each answer as the result of a single call, in the order of reading. A cancelled agent has none.
fn answers(group: &Value, raw: &Value) -> Vec<(String, Value)> {
    let answered = results(group).into_iter();
    let answered = answered.filter(|(_, result)| result["canceled"].is_null());
    let single = answered.map(|(place, result)| {
        let alias = text::line(result["target_alias"].as_str().unwrap_or_default());
        let envelope = json!({"ok": true, "summary": result["summary"], "raw": raw[place]});
        (alias, envelope)
    });
    single.collect()
}

/// Writes each answer below the name of its agent, as `write_rest` writes that of one.
pub(super) fn write_answers(
    group: &Value,
    raw: &Value,
    writer: &mut AnswerWriter,
    write_rest: impl Fn(&Value, &mut AnswerWriter),
) {
    for (alias, envelope) in answers(group, raw) {
        // A writer of its own: agents may use the same artifact ids.
        let said = Arc::new(Mutex::new(String::new()));
        let output = Arc::clone(&said);
        let mut own = AnswerWriter::to(Box::new(move |text| output.lock().push_str(text)));
        write_rest(&envelope, &mut own);
        let said = said.lock();
        if !said.is_empty() {
            writer.answer(alias, said.trim_end_matches('\n'));
        }
    }
}

/// Shows what an update says of a group: the states that are new, and the answer of an agent that has ended. `raw` is that of the
/// update.
pub(super) fn show_update(
    group: &Value,
    raw: &Value,
    screen: &mut Screen,
    write_rest: impl Fn(&Value, &mut AnswerWriter),
) {
    write_answers(group, raw, &mut screen.answer_writer, write_rest);
    let results = group["results"].as_array().into_iter().flatten();
    let word = |value: &Value| text::line(value.as_str().unwrap_or_default());
    let states = results
        .filter(|result| result["state"] != "pending")
        .map(|result| {
            format!(
                "{}: {}",
                word(&result["target_alias"]),
                word(&result["state"])
            )
        });
    screen.states(states.collect());
}

/// Returns the files of all answers as those of one message.
pub(super) fn joined(group: &Value, raw: &Value) -> Value {
    let mut parts = Vec::new();
    for (_, envelope) in answers(group, raw) {
        let files = answer::files(&envelope).into_iter();
        parts.extend(files.map(|file| json!({ "file": file })));
    }
    json!({"raw": {"kind": "message", "parts": parts}})
}

/// Returns the agents that wait for their caller: the continuation of each, and the summary of its result.
pub(super) fn asking(summary: &Value) -> Vec<(&Value, &Value)> {
    let members = &summary["continuation"]["group"]["members"];
    let waiting = results(&summary["group"]).into_iter();
    let waiting = waiting.filter(|(_, result)| {
        result["canceled"].is_null() && result["state"].as_str().is_some_and(is_waiting)
    });
    let waiting = waiting.map(|(place, result)| (&members[place], &result["summary"]));
    waiting.collect()
}

/// Prints what was decided, the state of each agent, the commands that answer those that ask, and the commands that go on
/// with these options, if a file has the continuation. `describe` returns the error of an agent, and its hint.
pub(super) fn print(
    envelope: &Value,
    to_answer: &[String],
    options: Option<&str>,
    describe: impl Fn(&Value, &str) -> (String, Option<String>),
) {
    let summary = answer::summary(envelope);
    let group = &summary["group"];
    let word = |value: &Value| text::line(value.as_str().unwrap_or_default());
    for (place, result) in results(group) {
        let canceled = match result["canceled"].as_str() {
            None => "",
            // Its state says so.
            Some("canceled") if result["state"] == "canceled" => "",
            Some("canceled") => ", cancelled",
            Some("not_cancelable") => match result["state"].as_str() {
                Some("completed" | "failed" | "rejected") => ", has ended before",
                _ => ", could not be cancelled",
            },
            Some(_) => ", perhaps not cancelled",
        };
        let (alias, state) = (word(&result["target_alias"]), word(&result["state"]));
        let has_error = result["error"].is_object() && result["canceled"].is_null();
        let (error, hint) = match has_error.then(|| describe(&result["error"], &alias)) {
            Some((error, hint)) => (format!(": {error}"), hint),
            None => (String::new(), None),
        };
        // The answer above is the artifacts, if there are any.
        let asks = result["state"].as_str().is_some_and(is_waiting);
        let artifacts = result["summary"]["artifacts"].as_array();
        let has_artifacts = artifacts.is_some_and(|artifacts| !artifacts.is_empty());
        let question = answer::status_text(&result["summary"], &envelope["raw"][place]);
        let question = question.filter(|_| asks && has_artifacts && result["canceled"].is_null());
        let question = question.map(|question| format!(": {}", text::line(&question)));
        let question = question.unwrap_or_default();
        note(format_args!("{alias}: {state}{canceled}{question}{error}"));
        if let Some(hint) = hint {
            note(format_args!("  what to do: {hint}"));
        }
    }
    for count in group["votes"].as_array().into_iter().flatten() {
        note(format_args!(
            "{}: {} {}",
            word(&count["choice"]),
            count["votes"],
            if count["votes"] == 1 { "vote" } else { "votes" }
        ));
    }
    match group["decided_by"].as_str() {
        Some("first") => note(format_args!("first: {}", word(&group["winner"]))),
        Some("quorum") => note(format_args!("decided: {}", word(&group["winner"]))),
        Some("none") => note("nothing is decided"),
        _ => {}
    }
    if !to_answer.is_empty() {
        note("to answer an agent:");
        for command in to_answer {
            note(format_args!("  {command}"));
        }
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
