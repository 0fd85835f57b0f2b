//! `remote-agent call`: the tool as a filter. JSON in, JSON out.

use tokio::io::AsyncReadExt;

use super::{
    config::ConfigArgs,
    door::Door,
    exit::{Exit, Failure},
    jsonl,
    output::Lines,
};

/// Call the tool with a JSON request and print its envelope
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The request, or - to read it from standard input
    #[arg(required_unless_present = "jsonl")]
    request: Option<String>,

    /// Read operations as JSON Lines from standard input and answer in JSON Lines
    #[arg(long, conflicts_with_all = ["request", "caller", "config"])]
    jsonl: bool,

    /// On whose behalf: {"agent_id", "session_key", "chain"}
    #[arg(long, value_name = "JSON")]
    caller: Option<String>,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The library, the configuration or standard input cannot be used.
pub async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let door = Door::open(verbose)?;
    if args.jsonl {
        return jsonl::run(&door).await;
    }
    let request = match args.request.as_deref() {
        Some("-") | None => standard_input().await?,
        Some(request) => request.to_owned(),
    };
    let instance = door.instance_for_people(&args.config.read()?)?;
    let envelope = instance
        .call(&request, args.caller.as_deref(), None::<fn(&str)>)
        .await;
    let exit = Exit::of_envelope(&envelope);
    Lines::default().write(envelope);
    Ok(exit)
}

async fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = tokio::io::stdin().read_to_string(&mut text).await;
    read.map_err(|error| {
        Failure::usage(format!(
            "cannot read the request from standard input: {error}"
        ))
    })?;
    Ok(text)
}
