//! `remote-agent send`, `watch`, `status` and `cancel`: send a message to an agent, and continue with its task.

use std::{
    fs,
    path::{Path, PathBuf},
};

use a2a::text_part;
use base::json::{self, Limits};
use base::named;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    artifact_files::ArtifactArgs,
    ask::AskArgs,
    exit::{Exit, Failure},
    follow_up::{FollowUpArgs, TimeoutArgs},
    group::{self, GroupArgs},
    instance::Library,
    interactive_call::{Context, InteractiveCall, OutputArgs},
    output::standard_input,
    target::TargetArgs,
    text::shell,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent send --url https://desk.example --bearer-env DESK_TOKEN \\
    Is the shop down?
  remote-agent send --config agents.json --target desk --follow \\
    --save task.json 'Write the report' --attach log.txt
  remote-agent send --config agents.json --continuation task.json \\
    'Yes, publish it'
  remote-agent send --config agents.json --target desk --target lab \\
    --mode first 'Translate this sign' --attach sign.png
  remote-agent send --gateway ws://127.0.0.1:18789 --target triad --follow \\
    'Deploy version 2?'
  remote-agent send --gateway embedded --gateway-agent alpha=approve \\
    --gateway-agent beta=reject --gateway-agent charlie=approve \\
    --target triad --follow 'Deploy version 2?'";

/// Send a message to an agent and print its answer
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    parts: PartArgs,

    /// Print the text of the agent while it works
    #[arg(long)]
    follow: bool,

    /// Fail unless the agent creates a task
    #[arg(long)]
    task_required: bool,

    /// Continue the conversation with this id
    #[arg(long, value_name = "ID", conflicts_with = "continuation")]
    context: Option<String>,

    #[command(flatten)]
    timeout: TimeoutArgs,

    #[command(flatten)]
    ask: AskArgs,

    /// Write the continuation to this file, for --continuation
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    follow_up: FollowUpArgs,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    group: GroupArgs,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    artifacts: ArtifactArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The library, the configuration, a file or standard input cannot be used.
pub(super) async fn run(mut args: Args, verbose: bool) -> Result<Exit, Failure> {
    let follow_up = args.follow_up.read()?;
    args.ask.check(args.parts.reads_stdin())?;
    args.group.check()?;
    let input = if args.parts.reads_stdin() {
        Some(standard_input("the text").await?)
    } else {
        None
    };
    let mut request = Map::new();
    request.insert("action".to_owned(), json!("send"));
    request.insert("parts".to_owned(), args.parts.parts(input)?.into());
    follow_up.add_to(&mut request);
    let aliases = args.target.group(args.group.is_set());
    let alias = args.target.alias(follow_up.continuation.as_ref());
    let alias = alias.filter(|_| aliases.is_none());
    let optional: [(&str, Option<Value>); 5] = [
        ("target_alias", alias.map(Value::from)),
        ("context_id", args.context.map(Value::from)),
        ("timeout_ms", args.timeout.milliseconds().map(Value::from)),
        ("follow_updates", args.follow.then_some(Value::Bool(true))),
        (
            "task_requirement",
            args.task_required.then(|| "required".into()),
        ),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            request.insert(name.to_owned(), value);
        }
    }
    if let Some(aliases) = aliases {
        args.group.add_to(aliases, &mut request);
    }
    let library = Library::open(verbose)?.with_source(args.target.peers.source());
    // A new embedded gateway cannot have the task that the message continues. Without the gateway, the option check reports
    // this.
    let _gateway = match follow_up.has_task() {
        true => None,
        false => args.target.peers.local.embed().await?,
    };
    let config = args.target.config(follow_up.continuation.as_ref())?;
    let file = args.target.peers.config_file();
    let instance = library.interactive_instance(&args.ask.config(config), file.as_deref())?;
    let interactive_call = InteractiveCall {
        output: args.output,
        ask: args.ask,
        initial_message: "sent, waiting for the agent",
        save: args.save.as_deref(),
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

/// The parts of the message.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Message")]
struct PartArgs {
    /// The text, words joined by spaces; - reads it from standard input
    #[arg(value_name = "TEXT", required_unless_present_any = ["attach", "data"])]
    text: Vec<String>,

    /// Attach a file: the content of a path, or an http(s) URL
    #[arg(long, value_name = "PATH|URL")]
    attach: Vec<String>,

    /// Add a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    data: Vec<Map<String, Value>>,
}

impl PartArgs {
    /// Returns whether the text comes from standard input.
    fn reads_stdin(&self) -> bool {
        self.text == ["-"]
    }

    /// Returns the parts, the text first. `input` is the text from standard input, if requested.
    ///
    /// # Errors
    /// A file cannot be read.
    fn parts(&self, input: Option<String>) -> Result<Vec<Value>, Failure> {
        let text = input.unwrap_or_else(|| self.text.join(" "));
        let text = (!text.is_empty()).then(|| text_part(text));
        let mut parts: Vec<Value> = text.into_iter().collect();
        for file in &self.attach {
            parts.push(file_part(file)?);
        }
        let data = self.data.iter();
        parts.extend(data.map(|data| json!({"kind": "data", "data": data})));
        Ok(parts)
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    json::from_str(text, Limits::NONE).map_err(|error| format!("it is not a JSON object: {error}"))
}

fn file_part(file: &str) -> Result<Value, Failure> {
    let is_url = ["http://", "https://"].iter().any(|scheme| {
        let start = file.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let mut part = json!({"kind": "file"});
    let name = if is_url {
        part["uri"] = json!(file);
        let path = file.split(['?', '#']).next().unwrap_or(file);
        path.splitn(4, '/')
            .nth(3)
            .and_then(|path| path.rsplit('/').next())
    } else {
        let bytes = fs::read(file)
            .map_err(|error| Failure::usage(format!("cannot read the file `{file}`: {error}")))?;
        if bytes.is_empty() {
            return Err(Failure::usage(format!(
                "cannot attach the file `{file}`: it is empty; leave it out"
            )));
        }
        part["bytes"] = json!(STANDARD.encode(bytes));
        Path::new(file).file_name().and_then(|name| name.to_str())
    };
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        part["name"] = json!(name);
        if let Some(guess) = mime_guess::from_path(name).first_raw() {
            part["mime_type"] = json!(guess);
        }
    }
    Ok(part)
}

named! {
    /// An operation on a task.
    #[derive(Clone, Copy, Debug)]
    pub(super) enum Action {
        /// Follow the task.
        Watch = "watch",
        /// Get its state.
        Status = "status",
        /// Cancel it.
        Cancel = "cancel",
    }
}

/// The task to follow.
#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) task: TaskArgs,

    #[command(flatten)]
    pub(super) ask: AskArgs,
}

/// The task, and how to call its agent.
#[derive(Debug, clap::Args)]
pub(super) struct TaskArgs {
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
pub(super) async fn run_task(
    action: Action,
    args: TaskArgs,
    ask: AskArgs,
    verbose: bool,
) -> Result<Exit, Failure> {
    ask.check(false)?;
    if let Some(argument) = &args.argument {
        let option = match Path::new(argument).is_file() {
            true => "--continuation",
            false => "--task",
        };
        return Err(Failure::usage(format!(
            "`{argument}` needs an option; write `remote-agent {} {option} {}`",
            action.as_str(),
            shell(argument)
        )));
    }
    if args.target.group(false).is_some() {
        return Err(group::one_only(action.as_str()));
    }
    let follow_up = args.follow_up.read()?;
    if !follow_up.has_task() {
        return Err(Failure::usage(format!(
            "{} needs a task; name it with `--continuation FILE` or `--task ID`",
            action.as_str()
        )));
    }
    let mut request = Map::new();
    request.insert("action".to_owned(), json!(action.as_str()));
    follow_up.add_to(&mut request);
    if let Some(alias) = args.target.alias(follow_up.continuation.as_ref()) {
        request.insert("target_alias".to_owned(), json!(alias));
    }
    if let Some(timeout) = args.timeout.milliseconds() {
        request.insert("timeout_ms".to_owned(), json!(timeout));
    }
    let library = Library::open(verbose)?.with_source(args.target.peers.source());
    let config = args.target.config(follow_up.continuation.as_ref())?;
    let file = args.target.peers.config_file();
    let instance = library.interactive_instance(&ask.config(config), file.as_deref())?;
    let interactive_call = InteractiveCall {
        output: args.output,
        ask,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn words_are_joined_to_one_text() {
        let args = PartArgs {
            text: vec!["Good".to_owned(), "morning".to_owned()],
            ..PartArgs::default()
        };
        assert_eq!(
            args.parts(None).unwrap(),
            [json!({"kind": "text", "text": "Good morning"})]
        );
    }

    #[test]
    fn url_attachment_is_named_after_its_path() {
        assert_eq!(
            file_part("https://files.example/a/report.pdf?x=/y.txt").unwrap(),
            json!({"kind": "file", "uri": "https://files.example/a/report.pdf?x=/y.txt", "name": "report.pdf", "mime_type": "application/pdf"})
        );
        assert_eq!(
            file_part("HTTPS://files.example").unwrap(),
            json!({"kind": "file", "uri": "HTTPS://files.example"})
        );
    }

    #[test]
    fn missing_attachment_is_a_usage_error() {
        let failure = file_part("/nowhere/a.txt").unwrap_err();
        assert_eq!(failure.exit, super::super::exit::Exit::Usage);
        assert!(
            failure.message.contains("/nowhere/a.txt"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn data_is_an_object() {
        assert!(object("[1]").is_err());
        assert_eq!(object(r#"{"a":1}"#).unwrap()["a"], 1);
    }
}
