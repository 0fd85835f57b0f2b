//! `remote-agent serve`: an A2A server in front of a local OpenClaw, and the commands that manage it.

mod clients;
mod flags;
mod tasks;

use std::{io::ErrorKind, sync::Arc};

use a2a_server::service::Closed;
use base::log::Log;
use clap::Subcommand;
use openclaw_server::{
    assembly::{Server, StartError},
    tracing_log::TracingLog,
};
use serde_json::json;

use self::flags::ServeArgs;
use super::{
    exit::{self, Exit, Failure, Shutdown},
    output::{self, LineWriter, LogArgs, note},
    traces::Traces,
};

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
`/healthz`, `/readyz` and `/metrics`. Ctrl-C stops it after running tasks had time to end; the next server on the same task store continues the others. \
OTEL_EXPORTER_OTLP_ENDPOINT exports spans over OTLP/HTTP. The repository has systemd units \
and a container file in `deploy/` (docs/how-to/deploy.md).

Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 cannot listen or store tasks, 2 wrong usage or configuration.";

/// Let A2A clients use the agents of this machine's OpenClaw
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: RunArgs,
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
        None => run_server(args.run, verbose).await,
        Some(Command::Clients(args)) => clients::run(&args).await,
        Some(Command::Tasks(args)) => tasks::run(args).await,
    }
}

/// The options of `serve`.
#[derive(Debug, clap::Args)]
struct RunArgs {
    #[command(flatten)]
    serve: ServeArgs,

    /// Print the address of the server as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    log: LogArgs,
}

/// Runs the server until Ctrl-C, or until the system stops it.
///
/// # Errors
/// The configuration is invalid, the port is taken, or the task store is unusable.
async fn run_server(args: RunArgs, verbose: bool) -> Result<Exit, Failure> {
    let log: Arc<dyn Log> = Arc::new(TracingLog);
    let (traces, batches) = Traces::start("remote-agent-serve", &log, |spans| {
        output::install_log(args.log.log, verbose, spans)
    })?;
    let config = args.serve.read()?;
    let ignored_flags = args.serve.ignored_flags(config.executor);
    if !ignored_flags.is_empty() {
        note(format_args!(
            "this executor ignores {}",
            ignored_flags.join(", ")
        ));
    }
    let Shutdown { stop, force } = exit::on_signals()?;
    let server = Server::bind(config).await.map_err(|error| match error {
        StartError::Config(error) => args.serve.unusable(&error),
        error => start_failure(error, "`--port`, or let `--port 0` select a free one"),
    })?;
    let lines = LineWriter::default();
    print_started(&server, args.json, &lines);
    if let Err(reason) = server.ready().await {
        tracing::warn!("the server listens, but its executor is not ready: {reason}");
    }
    let closed = server.run(stop, force.clone()).await;
    force.run_until_cancelled(traces.end()).await;
    drop(batches);
    if !args.json {
        note(stopped_text(closed));
    }
    Ok(Exit::Ok)
}

/// Returns a sentence about the tasks that had not ended.
fn stopped_text(closed: Closed) -> String {
    let mut text = "server stopped".to_owned();
    if closed.left > 0 {
        text += &format!(
            "; unfinished tasks: {}, which the next server on this task store continues",
            closed.left
        );
    }
    if closed.failed > 0 {
        text += &format!(
            "; failed as `interrupted`, because no server can continue them: {}",
            closed.failed
        );
    }
    text
}

fn print_started(server: &Server, as_json: bool, lines: &LineWriter) {
    let url = server.url();
    let card = format!("{url}/.well-known/agent-card.json");
    let address = server.address();
    if as_json {
        let line = json!({
            "url": url,
            "address": address.to_string(),
            "port": address.port(),
            "card": card,
            "jsonrpc": format!("{url}/a2a"),
            "rest": format!("{url}/rest"),
            "authentication": server.requires_token(),
        });
        lines.write(line.to_string());
        return;
    }
    let token = match server.requires_token() {
        true => " --bearer-env TOKEN",
        false => "",
    };
    lines.write(format!("{url}: {}; Ctrl-C ends it", server.description()));
    lines.write(format!("  card  {card}"));
    lines.write(format!("  page  {}", server.page()));
    lines.write(format!(
        "  try   remote-agent send --url {url}{token} 'What can you do?'"
    ));
}

/// Converts the error of a server that cannot start. `flag` is how the command selects another port.
pub(crate) fn start_failure(error: StartError, flag: &str) -> Failure {
    let exit = match &error {
        StartError::Config(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    let next = match &error {
        StartError::Listen { error, .. } if error.kind() == ErrorKind::AddrInUse => {
            &format!("; another program uses the port: choose another with {flag}")
        }
        StartError::Listen { .. } => {
            "; choose an address of this machine and a port that this user may use"
        }
        _ => "",
    };
    Failure {
        exit,
        message: format!("cannot start the server: {error}{next}"),
    }
}
