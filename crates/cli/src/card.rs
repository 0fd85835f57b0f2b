//! `remote-agent card`: prints the card of an agent.

use serde_json::json;

use super::{
    exit::{Exit, Failure},
    hints::About,
    instance::Library,
    outcome::print_call_error,
    output::LineWriter,
    target::PeerArgs,
    text,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent card --url https://desk.example
  remote-agent card --config agents.json desk";

/// Print the card of an agent as JSON, with the settings of its target
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The alias of the agent [default: the default of the configuration, else the first agent]
    alias: Option<String>,

    #[command(flatten)]
    peers: PeerArgs,

    /// Print one line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The library or the configuration cannot be used, or no agent has the alias.
pub(super) async fn run(mut args: Args, verbose: bool) -> Result<Exit, Failure> {
    let library = Library::open(verbose)?;
    let _gateway = args.peers.embed().await?;
    let instance = library.interactive_instance(&args.peers.config()?)?;
    let caller = args.peers.caller();
    let (_, envelope) = instance.list_targets(caller.as_deref()).await;
    let missing = instance.unset_variables();
    let Some(targets) = envelope["summary"]["targets"].as_array() else {
        print_call_error(&envelope, &args.peers, missing, About::default());
        return Ok(Exit::from_envelope(&envelope));
    };
    let chosen = match &args.alias {
        Some(alias) => targets
            .iter()
            .find(|target| target["target_alias"] == alias.as_str()),
        None => targets
            .iter()
            .find(|target| target["default"] == true)
            .or(targets.first()),
    };
    let Some(target) = chosen else {
        let name = args.alias.as_deref().map(text::line).unwrap_or_default();
        return Err(Failure::usage(format!(
            "no agent is called `{name}`; `remote-agent targets` lists the agents"
        )));
    };
    if let Some(error) = target.get("last_refresh_error") {
        let failed = json!({"ok": false, "action": "list_targets", "error": error});
        print_call_error(&failed, &args.peers, missing, About::default());
        return Ok(Exit::from_error(error));
    }
    let card = match args.json {
        true => target.to_string(),
        false => format!("{target:#}"),
    };
    LineWriter::default().write(text::block(&card).into_owned());
    Ok(Exit::Ok)
}
