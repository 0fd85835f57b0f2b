//! Runs one call for an interactive command and prints its progress, then its outcome: the agent's text on standard output; the
//! task state, errors and suggested commands on standard error.

use std::{path::Path, sync::Arc};

use a2a::{TaskState, Usage};
use openclaw_remote_agent::remote_agent::Reason;
use openclaw_remote_agent_interface::{CallOptions, updates_to};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    answer::{self, summary},
    artifact_files,
    ask::{AskArgs, is_typed_by_person},
    config::UnsetVariables,
    exit::{Exit, Failure},
    follow_up::{self, FollowUp},
    group,
    hints::{About, call_error, print_call_error},
    instance::Instance,
    output::{LineWriter, note},
    screen::{AnswerWriter, Screen, is_waiting},
    target::TargetArgs,
    text::{self, shell},
};

/// What stands for the answer in a suggested command.
const ANSWER: &str = " 'YOUR ANSWER'";

/// The options for the output of a call.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print each update and the envelope as a line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A call and its output options.
pub(super) struct InteractiveCall<'a> {
    pub(super) output: OutputArgs,
    pub(super) ask: AskArgs,
    /// The text of the spinner before the first update.
    pub(super) initial_message: &'a str,
    /// The file for the continuation.
    pub(super) save: Option<&'a Path>,
    /// The directory for the files of the result.
    pub(super) save_artifacts: Option<&'a Path>,
    pub(super) context: Context<'a>,
}

impl InteractiveCall<'_> {
    /// Runs the call and shows it.
    ///
    /// # Errors
    /// The continuation cannot be saved. If the command detects that beforehand, it sends nothing. All other failures are
    /// part of the outcome.
    pub(super) async fn run(
        mut self,
        instance: &Instance,
        request: &Value,
    ) -> Result<Exit, Failure> {
        if let Some(file) = self.save {
            follow_up::check_writable(file)?;
        }
        let task = self.status_request(request);
        let follows = request["follow_updates"] == true;
        let request = request.to_string();
        let save_group = save_group(self.save);
        let by_person = !self.output.json && is_typed_by_person();
        let caller = self.context.target.peers.caller(by_person);
        let (text, screen) = if self.output.json {
            let lines = Arc::new(LineWriter::default());
            let updates = Arc::clone(&lines);
            let options = CallOptions {
                caller: caller.clone(),
                updates: Some(updates_to(move |update| {
                    save_group(update);
                    updates.write(update.to_owned());
                })),
                person: self.ask.person(|| {}),
            };
            let text = instance.call(&request, options).await;
            let text = self.context.target.peers.in_failure(text);
            lines.write(text.clone());
            (text, None)
        } else {
            let screen = Arc::new(Mutex::new(Screen::new(self.initial_message)));
            let updates = Arc::clone(&screen);
            let on_update = move |update: &str| {
                save_group(update);
                let Ok(update) = serde_json::from_str::<Value>(update) else {
                    return;
                };
                let (mut screen, group) = (updates.lock(), &update["summary"]["group"]);
                match group.is_object() {
                    false => screen.update(&update),
                    true if follows => {
                        group::show_update(group, &update["raw"], &mut screen, write_rest);
                    }
                    true => {}
                }
            };
            let asked = Arc::clone(&screen);
            let options = CallOptions {
                caller: caller.clone(),
                updates: Some(updates_to(on_update)),
                person: self.ask.person(move || asked.lock().give_way()),
            };
            (instance.call(&request, options).await, Some(screen))
        };
        let envelope: Value = serde_json::from_str(&text).unwrap_or_default();
        let exit = Exit::from_outcome(&envelope);
        if let Some(screen) = &screen {
            let mut screen = screen.lock();
            write_rest(&envelope, &mut screen.answer_writer);
            screen.stop();
        }
        let saved_continuation = self.save_continuation(&envelope);
        let saved = self.save_artifacts.map_or(Ok(()), |directory| {
            let group = &envelope["summary"]["group"];
            let joined = group
                .is_object()
                .then(|| group::joined(group, &envelope["raw"]));
            artifact_files::save(joined.as_ref().unwrap_or(&envelope), directory)
        });
        match &screen {
            Some(screen) => {
                let print = |envelope: &Value| {
                    let shown = &screen.lock().answer_writer;
                    print_outcome(envelope, &self.context, instance.unset_variables(), shown);
                };
                print(&envelope);
                if Reason::in_error(&envelope["error"]) == Some(Reason::RpcError)
                    && let Some(task) = task
                {
                    let options = CallOptions {
                        caller,
                        ..CallOptions::default()
                    };
                    let state = instance.call(&task, options).await;
                    let state: Value = serde_json::from_str(&state).unwrap_or_default();
                    if state["ok"] == true {
                        print(&state);
                    }
                }
            }
            None => instance.unset_variables().warn_if_unresolved(&text),
        }
        saved_continuation.and(saved).map(|()| exit)
    }

    /// Returns the request for the state of a message's task. An agent that refuses a message may have ended the task.
    fn status_request(&self, request: &Value) -> Option<String> {
        let mut task = request.as_object()?.clone();
        if task["action"] != "send" || !self.context.follow_up.has_task() {
            return None;
        }
        task.retain(|name, _| {
            matches!(
                name.as_str(),
                "continuation" | "task_id" | "target_alias" | "timeout_ms"
            )
        });
        task.insert("action".to_owned(), "status".into());
        Some(Value::Object(task).to_string())
    }

    fn save_continuation(&mut self, envelope: &Value) -> Result<(), Failure> {
        let Some(file) = self.save else {
            return Ok(());
        };
        let Some(continuation) = continuation(envelope) else {
            let what = match file.exists() {
                true => "is unchanged",
                false => "was not written",
            };
            let file = file.display();
            note(format_args!(
                "the result has no continuation; `{file}` {what}"
            ));
            return Ok(());
        };
        follow_up::save(file, continuation)?;
        self.context.saved = Some(file);
        Ok(())
    }
}

/// Returns what writes the continuation of a group to this file when an update has a new one: the command may be killed. The end of the
/// call reports a file that cannot be written.
fn save_group(file: Option<&Path>) -> impl Fn(&str) + Send + Sync + 'static {
    let (file, saved) = (file.map(Path::to_owned), Mutex::new(Value::Null));
    move |update| {
        let Some(file) = &file else {
            return;
        };
        let mut update = serde_json::from_str::<Value>(update).unwrap_or_default();
        let continuation = update["summary"]["continuation"].take();
        let mut saved = saved.lock();
        if continuation["group"].is_object() && *saved != continuation {
            let _ = follow_up::save(file, &continuation);
            *saved = continuation;
        }
    }
}

/// The command-line options that the suggested commands repeat.
pub(super) struct Context<'a> {
    /// The options that select the agent.
    pub(super) target: &'a TargetArgs,
    /// The task or conversation that the call continued.
    pub(super) follow_up: &'a FollowUp<'a>,
    /// The file with the saved continuation, if any.
    pub(super) saved: Option<&'a Path>,
}

impl Context<'_> {
    fn about<'a>(&'a self, task_options: Option<&'a str>) -> About<'a> {
        let continuation = self.follow_up.continuation.as_ref();
        About {
            alias: self.target.named(),
            group: self.target.all_named(),
            continued_url: continuation
                .and_then(|continuation| continuation["target"]["target_url"].as_str()),
            task_options,
        }
    }

    /// Returns the options of this command for its task.
    fn follow_up_options(&self) -> Option<String> {
        let follow_up = self.follow_up;
        let mut options = self.target.peers.options();
        if let Some(alias) = self.target.named() {
            options += &format!(" --target {}", shell(alias));
        }
        match (follow_up.file, follow_up.task) {
            (Some(file), _) => {
                let file = shell(&file.display().to_string());
                Some(format!("{options} --continuation {file}"))
            }
            (None, Some(task)) => Some(format!("{options} --task {}", shell(task))),
            (None, None) => None,
        }
    }

    /// Returns the options that name the task of a continuation without a file.
    fn task_options(&self, continuation: &Value) -> Option<String> {
        let id = continuation["task"]["task_id"].as_str()?;
        let to_target = self.target.options_for(&continuation["target"]);
        Some(format!("{to_target} --task {}", shell(id)))
    }

    /// Returns the command that answers an agent of a group, if a later command can.
    fn answer_command(&self, member: &Value) -> Option<String> {
        let can = member["task"]["can_cancel"] == true && !self.target.peers.local.uses_embedded();
        let options = self.task_options(member).filter(|_| can)?;
        Some(format!("remote-agent send{options}{ANSWER}"))
    }

    /// Returns the file whose continuation has the same task as `continuation`, or the same conversation if there is no
    /// task.
    fn file(&self, continuation: &Value) -> Option<&Path> {
        let previous = self.follow_up.continuation.as_ref();
        let same = |previous: &&Value| {
            let group = |of: &Value| of["group"]["id"].as_str().map(str::to_owned);
            if group(previous).is_some() {
                return group(previous) == group(continuation);
            }
            let id = |of: &Value| match of["task"]["task_id"].as_str() {
                Some(task) => (true, task.to_owned()),
                None => {
                    let context = of["conversation"]["context_id"].as_str();
                    (false, context.unwrap_or_default().to_owned())
                }
            };
            id(previous) == id(continuation)
        };
        let previous = previous.filter(same).and(self.follow_up.file);
        self.saved.or(previous)
    }
}

/// Returns the continuation in a result, or in the last update before an error.
pub(super) fn continuation(envelope: &Value) -> Option<&Value> {
    let continuation = &summary(envelope)["continuation"];
    continuation.is_object().then_some(continuation)
}

/// Prints the text of a result that the updates did not contain.
pub(super) fn write_rest(envelope: &Value, answer_writer: &mut AnswerWriter) {
    let summary = summary(envelope);
    if summary["group"].is_object() {
        group::write_answers(
            &summary["group"],
            &envelope["raw"],
            answer_writer,
            write_rest,
        );
        return answer_writer.finish();
    }
    for artifact in summary["artifacts"].as_array().into_iter().flatten() {
        answer_writer.artifact(artifact);
    }
    let mut texts = answer::texts(envelope);
    texts.retain(|text| answer_writer.status_text.as_ref() != Some(text));
    if !answer_writer.has_artifacts() {
        answer_writer.messages(&texts);
    }
    answer_writer.finish();
}

/// Prints how the call ended. `shown` is the agent's text on standard output.
fn print_outcome(
    envelope: &Value,
    context: &Context<'_>,
    missing: &UnsetVariables,
    shown: &AnswerWriter,
) {
    let reason = Reason::in_error(&envelope["error"]);
    if reason == Some(Reason::Aborted) {
        print_stopped(envelope, context);
    } else if envelope["ok"] != true {
        let task_options = context.follow_up_options();
        let about = context.about(task_options.as_deref());
        print_call_error(envelope, &context.target.peers, missing, about);
    }
    if answer::lacks_content(envelope) && !shown.has_text() {
        note("the agent's answer has nothing that can be shown; `--json` prints it as it came");
    }
    if let Some(message) = summary(envelope)["card_warning"]["message"].as_str() {
        note(context.target.peers.with_source(&text::line(message)));
    }
    if let Some(warning) = summary(envelope).get("budget_warning") {
        note(budget_note(warning));
    }
    let Some(continuation) = continuation(envelope) else {
        return;
    };
    if summary(envelope)["group"].is_object() {
        let file = context.file(continuation).map(|file| {
            let file = shell(&file.display().to_string());
            format!("{} --continuation {file}", context.target.peers.options())
        });
        let to_answer = group::asking(summary(envelope)).into_iter();
        let to_answer = to_answer.filter(|(_, summary)| keeps_tasks(summary));
        let to_answer: Vec<_> = to_answer
            .filter_map(|(member, _)| context.answer_command(member))
            .collect();
        let describe = |error: &Value, alias: &str| {
            let member = json!({"action": envelope["action"], "error": error});
            let about = About {
                alias: Some(alias),
                ..About::default()
            };
            call_error(&member, &context.target.peers, missing, about)
        };
        return group::print(envelope, &to_answer, file.as_deref(), describe);
    }
    if reason == Some(Reason::AuthRequired) && continuation["task"]["can_cancel"] == true {
        // The agent may have canceled the tasks of a client that it no longer accepts.
        note("the task may have ended: the agent accepts this token no longer");
        return;
    }
    let summary = summary(envelope);
    let state = continuation["task"]["status"].as_str();
    let unknown = state.filter(|state| TaskState::from_name(state).is_foreign());
    let cause = match text::field(summary, "query_error") {
        cause if cause.is_empty() => cause,
        cause => format!(": {cause}"),
    };
    match (&summary["incomplete"], &summary["wait_expired"], unknown) {
        (Value::Bool(true), Value::Bool(true), _) => {
            note(format!(
                "the latest state of the task is not certain; it may go on{cause}"
            ));
        }
        (Value::Bool(true), _, Some(state)) => note(format!(
            "the agent reports the state `{state}`, which A2A does not define"
        )),
        (Value::Bool(true), _, None) => note(format!(
            "the agent reports no more; part of the result may be missing{cause}"
        )),
        _ => {}
    }
    if summary["wait_expired"] == true {
        note("the wait ended before the task; `--timeout 10m` waits longer");
    }
    match summary["message_state"].as_str() {
        Some("queued") => {
            note("the message has its turn when the running turn of the task has ended")
        }
        Some("dropped") => note("the task ended before the message had its turn"),
        _ => {}
    }
    let asked = summary["person"]["outcome"].as_str();
    match asked {
        Some("timeout") => note("no answer came in time, and nothing was sent"),
        Some("invalid") => note("the answer did not fit the question twice, and nothing was sent"),
        Some("limit") => note(
            "no person was asked: the agent asked too often for one command, or a budget has no room for the answer (`remote-agent budget` shows them)",
        ),
        Some("unsent") => note(match summary["person"]["delivered"].as_str() {
            None => "the agent did not wait for the answer any longer, so it was not sent",
            Some("no") => "the answer was not sent",
            Some(_) => "sending the answer failed, and the agent may have it",
        }),
        _ => {}
    }
    let usage = Usage::read_own(&summary["usage"]);
    if !usage.is_empty() {
        note(format_args!("used: {}", text::usage(&usage)));
    }
    let status_text = answer::status_text(summary, &envelope["raw"]);
    let status_text = status_text.filter(|status_text| !shown.has_shown(status_text));
    let keeps_tasks = keeps_tasks(summary);
    print_next_steps(continuation, status_text.as_deref(), keeps_tasks, context);
}

/// Returns whether a later command can continue the task of a result: some gateways keep none.
fn keeps_tasks(summary: &Value) -> bool {
    summary["transport"] != "GATEWAY"
        || summary["protocol_version"]
            .as_str()
            .is_some_and(|dialect| dialect.starts_with("openclaw"))
}

/// Returns a sentence about a budget that is nearly used up.
fn budget_note(warning: &Value) -> String {
    let field = |name: &str| match &warning[name] {
        Value::String(text) => text::line(text),
        value => value.to_string(),
    };
    let resets = match warning["resets"].is_string() {
        true => format!("; it starts anew at {}", field("resets")),
        false => String::new(),
    };
    let uncounted = match warning["unknown_currency"].is_string() {
        true => "; the agent reports a cost in another currency, which no budget counts",
        false => "",
    };
    format!(
        "budget ({}): {} of {} {} are used{resets}{uncounted}",
        field("scope"),
        field("used"),
        field("limit"),
        field("unit")
    )
}

/// Prints that Ctrl-C ended the call, and what became of its message or task.
fn print_stopped(envelope: &Value, context: &Context<'_>) {
    let details = &envelope["error"]["details"];
    let has_continuation = continuation(envelope).is_some();
    let state = continuation(envelope).and_then(|known| known["task"]["status"].as_str());
    if state.is_some_and(is_waiting) {
        // The next lines say for what, and have the commands.
        note("stopped");
    } else if envelope["action"] != "send" {
        note("stopped waiting; the task goes on");
        if !has_continuation && let Some(options) = context.follow_up_options() {
            note(format_args!("  remote-agent watch{options}"));
        }
    } else if details["delivered"] == "no" {
        note("stopped; nothing was sent");
    } else if has_continuation {
        note("stopped waiting; the task goes on");
    } else {
        note(
            "stopped waiting; the agent may have the message and be working on it: check before you send it again. With `--follow` or `--task-required` there is a task to come back to",
        );
    }
}

/// Prints the task state, the agent's status text and the suggested commands.
fn print_next_steps(
    continuation: &Value,
    status_text: Option<&str>,
    keeps_tasks: bool,
    context: &Context<'_>,
) {
    let alias = continuation["target"]["target_alias"].as_str();
    let target_hint = alias.map_or_else(String::new, |alias| format!(" of {}", text::line(alias)));
    let to_target = context.target.options_for(&continuation["target"]);
    let from_file = context.file(continuation).map(|file| {
        let file = shell(&file.display().to_string());
        format!("{} --continuation {file}", context.target.peers.options())
    });
    let task = &continuation["task"];
    let allows = |what: &str| task[what] == true;
    // An embedded gateway stops with this command, so its tasks cannot be continued.
    let ends_with_command = context.target.peers.local.uses_embedded();
    let command = |verb: &str, options: &str, rest: &str| {
        note(format_args!("  remote-agent {verb}{options}{rest}"));
    };
    if let Some(id) = task["task_id"].as_str() {
        let state = task["status"].as_str().unwrap_or("in no known state");
        // The updates already showed the status text of a task in progress.
        let status_text = status_text.filter(|_| !matches!(state, "submitted" | "working"));
        let status_text = status_text.map(|status_text| format!(": {}", text::line(status_text)));
        note(format_args!(
            "task {}{target_hint}: {}{}",
            text::line(id),
            text::line(state),
            status_text.unwrap_or_default()
        ));
        if allows("can_cancel") && !ends_with_command && !keeps_tasks {
            note(
                "the task continues, but this gateway stores no tasks: a later command cannot follow it. Send with `--follow` and a larger `--timeout` to wait for the answer",
            );
            return;
        }
        if allows("can_cancel") && !ends_with_command {
            let options = from_file.or_else(|| context.task_options(continuation));
            let options = options.unwrap_or_default();
            let waits = is_waiting(state);
            note(if waits {
                "the task waits for you; answer or cancel it:"
            } else {
                "the task continues; follow it, show it, or cancel it:"
            });
            if waits {
                command("send", &options, ANSWER);
                command("watch", &options, " --ask");
            } else {
                if allows("can_watch") {
                    command("watch", &options, "");
                }
                command("status", &options, "");
            }
            command("cancel", &options, "");
            return;
        }
    }
    if ends_with_command {
        if allows("can_cancel") {
            note(
                "its gateway ends with this command, and the task and its vote with it; add the missing agents with `--gateway-agent NAME=approve` (a triad needs alpha, beta and charlie), and send again",
            );
        }
        return;
    }
    if let Some(id) = continuation["conversation"]["context_id"].as_str() {
        // A file that also has a task would address the task, which has ended.
        let from_file = from_file
            .filter(|_| continuation["task"].is_null() && context.target.peers.names_nothing());
        let options = from_file.unwrap_or_else(|| format!("{to_target} --context {}", shell(id)));
        note("to continue the conversation:");
        command("send", &options, " 'TEXT'");
    }
}
