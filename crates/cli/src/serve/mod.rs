//! `remote-agent serve`: an A2A server in front of a local OpenClaw, and the commands that manage it.

mod clients;
mod flags;
mod run;
mod tasks;

use clap::Subcommand;

use super::exit::{Exit, Failure};

pub(crate) use flags::values;
pub(crate) use run::failure as start_failure;

const EXAMPLES: &str = "\
Examples:
  remote-agent serve
      the agents behind the gateway of this machine's OpenClaw
  remote-agent serve --gateway ws://127.0.0.1:18790
      the members and the triad behind `remote-agent gateway`
  remote-agent serve --executor command
      the command `openclaw agent`, with or without a gateway
  remote-agent serve --executor scripted --task-store memory
      scripted answers without OpenClaw, to try a client
  remote-agent serve --config serve.json
      everything in a file

For other machines, with a token for each client:
  remote-agent serve clients add ada
  remote-agent serve --listen 0.0.0.0:9000 --tls-cert cert.pem \\
    --tls-key key.pem --public-url https://agents.example
  remote-agent serve --behind-proxy --public-url https://agents.example
      a proxy on this machine secures connections

A flag overrides the file. The server offers A2A 1.0 and 0.3 over JSON-RPC and HTTP+JSON, a page for the operator at `/`, and \
`/healthz`, `/readyz` and `/metrics`. Ctrl-C stops it after running tasks had time to end; the next server on the same task store continues the others. The repository has systemd units \
and a container file in `deploy/` (docs/how-to/deploy.md).

Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 cannot listen or store tasks, 2 wrong usage or configuration.";

/// Let A2A clients use the agents of this machine's OpenClaw
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
    Clients(clients::Args),
    Tasks(tasks::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    match args.command {
        None => run::run(args.run, verbose).await,
        Some(Command::Clients(args)) => clients::run(&args).await,
        Some(Command::Tasks(args)) => tasks::run(args).await,
    }
}
