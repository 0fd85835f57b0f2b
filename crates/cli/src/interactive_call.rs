//! Runs one call for an interactive command: prints its progress, then its outcome.

use std::{path::Path, sync::Arc};

use openclaw_remote_agent::remote_agent::Reason;
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    artifact_files,
    exit::{Exit, Failure},
    follow_up,
    instance::Instance,
    outcome::{self, Context},
    output::{LineWriter, note},
    screen::Screen,
};

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
        let request = request.to_string();
        let caller = self.context.target.peers().caller();
        let (text, screen) = if self.output.json {
            let lines = Arc::new(LineWriter::default());
            let updates = Arc::clone(&lines);
            let text = instance
                .call(
                    &request,
                    caller.as_deref(),
                    Some(move |update: &str| updates.write(update.to_owned())),
                )
                .await;
            lines.write(text.clone());
            (text, None)
        } else {
            let screen = Arc::new(Mutex::new(Screen::new(self.initial_message)));
            let updates = Arc::clone(&screen);
            let on_update = move |update: &str| {
                if let Ok(update) = serde_json::from_str(update) {
                    updates.lock().update(&update);
                }
            };
            (
                instance
                    .call(&request, caller.as_deref(), Some(on_update))
                    .await,
                Some(screen),
            )
        };
        let envelope: Value = serde_json::from_str(&text).unwrap_or_default();
        let exit = Exit::from_outcome(&envelope);
        if let Some(screen) = &screen {
            let mut screen = screen.lock();
            outcome::write_rest(&envelope, &mut screen.answer_writer);
            screen.stop();
        }
        let saved_continuation = self.save_continuation(&envelope);
        let saved = self.save_artifacts.map_or(Ok(()), |directory| {
            artifact_files::save(&envelope, directory)
        });
        match &screen {
            Some(screen) => {
                let print = |envelope: &Value| {
                    let shown = &screen.lock().answer_writer;
                    outcome::print_outcome(
                        envelope,
                        &self.context,
                        instance.unset_variables(),
                        shown,
                    );
                };
                print(&envelope);
                if Reason::in_error(&envelope["error"]) == Some(Reason::RpcError)
                    && let Some(task) = task
                {
                    let state = instance
                        .call(&task, caller.as_deref(), None::<fn(&str)>)
                        .await;
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
        let Some(continuation) = outcome::continuation(envelope) else {
            note(format_args!(
                "the result has no continuation; `{}` is unchanged",
                file.display()
            ));
            return Ok(());
        };
        follow_up::save(file, continuation)?;
        self.context.saved = Some(file);
        Ok(())
    }
}
