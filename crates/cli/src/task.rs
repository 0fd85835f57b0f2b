//! `remote-agent watch`, `status` and `cancel`: operations on a task.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{
    artifact_files::ArtifactArgs,
    exit::{Exit, Failure},
    follow_up::FollowUpArgs,
    instance::Library,
    interactive_call::{InteractiveCall, OutputArgs},
    outcome::Context,
    target::TargetArgs,
    text::shell,
    timeout::TimeoutArgs,
};

/// An operation on a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Follow the task.
    Watch,
    /// Get its state.
    Status,
    /// Cancel it.
    Cancel,
}

/// The task, and how to call its agent.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What people write in place of an option.
    #[arg(hide = true)]
    argument: Option<String>,

    #[command(flatten)]
    follow_up: FollowUpArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    artifacts: ArtifactArgs,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Status => "status",
            Self::Cancel => "cancel",
        }
    }

    fn initial_message(self) -> &'static str {
        match self {
            Self::Watch => "watching the task",
            Self::Status => "reading the state of the task",
            Self::Cancel => "canceling the task",
        }
    }

    /// Returns the examples in the help text.
    pub(super) const fn examples(self) -> &'static str {
        match self {
            Self::Watch => {
                "Examples:\n  remote-agent watch --continuation task.json\n  remote-agent watch --config agents.json --target desk --task task-456 --json"
            }
            Self::Status => {
                "Examples:\n  remote-agent status --continuation task.json\n  remote-agent status --url https://desk.example --task task-456"
            }
            Self::Cancel => {
                "Examples:\n  remote-agent cancel --continuation task.json\n  remote-agent cancel --config agents.json --target desk --task task-456"
            }
        }
    }
}

/// Runs one of the subcommands.
///
/// # Errors
/// The library, the configuration or the file cannot be used.
pub(super) async fn run(action: Action, args: Args, verbose: bool) -> Result<Exit, Failure> {
    if let Some(argument) = &args.argument {
        let option = match Path::new(argument).is_file() {
            true => "--continuation",
            false => "--task",
        };
        return Err(Failure::usage(format!(
            "`{argument}` needs an option; write `remote-agent {} {option} {}`",
            action.name(),
            shell(argument)
        )));
    }
    let follow_up = args.follow_up.read()?;
    if !follow_up.has_task() {
        return Err(Failure::usage(format!(
            "{} needs a task; name it with `--continuation FILE` or `--task ID`",
            action.name()
        )));
    }
    let mut request = Map::new();
    request.insert("action".to_owned(), json!(action.name()));
    follow_up.add_to(&mut request);
    if let Some(alias) = args.target.alias(follow_up.continuation.as_ref()) {
        request.insert("target_alias".to_owned(), json!(alias));
    }
    if let Some(timeout) = args.timeout.milliseconds() {
        request.insert("timeout_ms".to_owned(), json!(timeout));
    }
    let library = Library::open(verbose)?;
    let config = args.target.config(follow_up.continuation.as_ref())?;
    let instance = library.interactive_instance(&config)?;
    let interactive_call = InteractiveCall {
        output: args.output,
        initial_message: action.initial_message(),
        save: None,
        save_artifacts: args.artifacts.save_artifacts.as_deref(),
        context: Context {
            target: &args.target,
            follow_up: &follow_up,
            saved: None,
        },
    };
    interactive_call
        .run(&instance, &Value::Object(request))
        .await
}
