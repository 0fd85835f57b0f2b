//! `remote-agent gateway`: runs the reference gateway, runs agents, and inspects and manages a gateway.

mod agent;
mod agents;
mod backend;
mod create;
pub(super) mod embedded;
mod gateway_args;
mod messages;
mod run;
mod sessions;
mod status;
mod validate;

use clap::Subcommand;

use super::exit::{Exit, Failure};
pub(crate) use gateway_args::trust;
pub use validate::tally_table;

const EXAMPLES: &str = "\
Examples, each in a separate terminal:
  remote-agent gateway
  remote-agent gateway agent --name alpha --vote approve
  remote-agent gateway agent --name beta --vote approve --delay-ms 500
  remote-agent gateway agent --name charlie --vote reject \\
    --reason 'Not on a Friday'
  remote-agent gateway status
  remote-agent send --gateway ws://127.0.0.1:18789 --target triad --follow \\
    'Ship it today'

The gateway answers `/healthz` and `/readyz` over HTTP. The repository has a systemd unit and a container file for it in `deploy/` \
(docs/how-to/deploy.md).";

/// Run and manage a gateway of a2a-v1 and its agents
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<agent::Args>),
    Agents(agents::Args),
    Sessions(sessions::Args),
    Status(status::Args),
    Watch(messages::WatchArgs),
    Send(messages::SendArgs),
    Request(messages::RequestArgs),
    Broadcast(messages::BroadcastArgs),
    Vote(messages::VoteArgs),
    Workspaces(sessions::WorkspacesArgs),
    Doctor(status::DoctorArgs),
    Validate(validate::Args),
    Tally(validate::TallyArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    match args.command {
        None => run::run(args.run, verbose).await,
        Some(Command::Agent(args)) => agent::run(*args).await,
        Some(Command::Agents(args)) => agents::run(args).await,
        Some(Command::Sessions(args)) => sessions::run(args).await,
        Some(Command::Status(args)) => status::run(args).await,
        Some(Command::Watch(args)) => messages::watch(args).await,
        Some(Command::Send(args)) => messages::send(args).await,
        Some(Command::Request(args)) => messages::request(args).await,
        Some(Command::Broadcast(args)) => messages::broadcast(args).await,
        Some(Command::Vote(args)) => messages::vote(args).await,
        Some(Command::Workspaces(args)) => sessions::workspaces(args).await,
        Some(Command::Doctor(args)) => status::doctor(args).await,
        Some(Command::Validate(args)) => validate::run(&args).await,
        Some(Command::Tally(args)) => Ok(validate::tally(&args)),
    }
}
