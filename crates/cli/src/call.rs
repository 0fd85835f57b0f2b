//! `remote-agent call`: reads a tool request as JSON and prints the result as JSON.

use std::path::Path;

use super::{
    caller,
    config::ConfigArgs,
    exit::{Exit, Failure},
    gateway::{
        embedded::{Embedded, with_gateway},
        scripted::scripted,
    },
    instance::Library,
    jsonl,
    local::EMBEDDED,
    output::{LineWriter, standard_input},
    text,
};
use gateway_bridge::client::Script;

const EXAMPLES: &str = "\
Examples:
  remote-agent call --config agents.json '{\"action\": \"list_targets\"}'
  remote-agent call --jsonl < operations.jsonl
  remote-agent call --gateway embedded --gateway-agent alpha=approve \\
    '{\"action\": \"list_targets\"}'

Operations of --jsonl, one a line:
  {\"id\": 1, \"op\": \"init\", \"config\": {...}}
  {\"id\": 2, \"op\": \"tool_definition\"}
  {\"id\": 3, \"op\": \"execute\", \"request\": {...}, \"caller\": {...},
   \"abort_after_ms\": 1000}
  {\"id\": 4, \"op\": \"parse_config\", \"config\": {...}}
  {\"id\": 5, \"op\": \"abort\", \"call\": 3}
With \"content\": true, the answer to an `execute` also has \"content\": the text for a model.
The command answers an `abort` at once; a running call with that id is cancelled and has a result.
Each `init` closes the previous instance, ends its calls, and creates a new instance; after a failed `init` there is none.

Answers, one a line; they carry the id of their operation and may interleave:
  {\"id\": 1, \"ok\": true}
  {\"id\": 2, \"tool_definition\": {...}}
  {\"id\": 3, \"update\": {...}}
      any number of them, then {\"id\": 3, \"result\": {...}}
  {\"id\": 4, \"parsed\": {...}}
  {\"id\": 1, \"init_error\": {\"code\", \"message\", \"path\"}}
      to `init` and `parse_config`, if the configuration is invalid
  {\"id\": 5, \"ok\": true}
  {\"id\": 6, \"error\": {\"code\", \"message\"}}
      the line is not an operation; the command reads the next line

The exit code is that of the envelope, and ignores the state of its task; with --jsonl it is 0.";

/// Call the tool with a JSON request and print its envelope
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The request, or - to read it from standard input
    #[arg(required_unless_present = "jsonl")]
    request: Option<String>,

    /// Read operations as JSON Lines from standard input and answer in JSON Lines
    #[arg(long, conflicts_with_all = ["request", "caller", "config", "openclaw"])]
    jsonl: bool,

    /// The caller: {"agent_id", "session_key", "chain": {"hop", "chain"}, "state_dir", "traceparent"}
    #[arg(long, value_name = "JSON")]
    caller: Option<String>,

    /// Run a gateway of a2a-v1 in this process until the command ends, for each configuration without a gateway; standard error shows its address
    #[arg(long, value_name = "WHICH", value_parser = [EMBEDDED])]
    gateway: Option<String>,

    /// Add a scripted agent to `--gateway embedded` (alpha=approve, beta=reject, charlie=abstain, delta=silent, 'coder=reply:I read
    /// {text}'); may be given several times
    #[arg(long, value_name = "NAME=HOW", requires = "gateway", value_parser = scripted)]
    gateway_agent: Vec<Script>,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The library, the configuration or standard input cannot be used.
pub async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let library = Library::open(verbose)?;
    let gateway = match args.gateway {
        Some(_) => Some(Embedded::with(&args.gateway_agent).await?),
        None => None,
    };
    let gateway = gateway.as_ref().map(Embedded::url);
    if args.jsonl {
        return jsonl::run(&library, gateway).await;
    }
    if let Some(caller) = &args.caller {
        caller::check(caller).map_err(Failure::usage)?;
    }
    let request = match args.request.as_deref() {
        Some("-") | None => standard_input("the request").await?,
        Some(file) if !file.contains('{') && Path::new(file).is_file() => {
            let file = text::shell(file);
            return Err(Failure::usage(format!(
                "the request is JSON and not a file name; send the file with `remote-agent call - < {file}`"
            )));
        }
        Some(request) => request.to_owned(),
    };
    let config = args.config.read()?;
    let config = gateway.map_or_else(|| config.clone(), |url| with_gateway(&config, url));
    let instance = library.interactive_instance(&config)?;
    let envelope = instance
        .call(&request, args.caller.as_deref(), None::<fn(&str)>)
        .await;
    instance.unset_variables().warn_if_unresolved(&envelope);
    let exit = Exit::from_envelope(&serde_json::from_str(&envelope).unwrap_or_default());
    LineWriter::default().write(envelope);
    Ok(exit)
}
