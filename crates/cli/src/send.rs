//! `remote-agent send`: sends a message to an agent.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{
    artifact_files::ArtifactArgs,
    exit::{Exit, Failure},
    follow_up::FollowUpArgs,
    instance::Library,
    interactive_call::{InteractiveCall, OutputArgs},
    outcome::Context,
    output::standard_input,
    parts::PartArgs,
    target::TargetArgs,
    timeout::TimeoutArgs,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent send --url https://desk.example --bearer-env DESK_TOKEN \\
    Is the shop down?
  remote-agent send --config agents.json --target desk --follow \\
    --save task.json 'Write the report' --attach log.txt
  remote-agent send --config agents.json --continuation task.json \\
    'Yes, publish it'
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

    /// Write the continuation to this file, for --continuation
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    follow_up: FollowUpArgs,

    #[command(flatten)]
    target: TargetArgs,

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
    let input = if args.parts.reads_stdin() {
        Some(standard_input("the text").await?)
    } else {
        None
    };
    let mut request = Map::new();
    request.insert("action".to_owned(), json!("send"));
    request.insert("parts".to_owned(), args.parts.parts(input)?.into());
    follow_up.add_to(&mut request);
    let alias = args.target.alias(follow_up.continuation.as_ref());
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
    let library = Library::open(verbose)?;
    // A new embedded gateway cannot have the task that the message continues. Without the gateway, the option check reports
    // this.
    let _gateway = match follow_up.has_task() {
        true => None,
        false => args.target.embed().await?,
    };
    let config = args.target.config(follow_up.continuation.as_ref())?;
    let instance = library.interactive_instance(&config)?;
    let interactive_call = InteractiveCall {
        output: args.output,
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
