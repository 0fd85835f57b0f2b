//! `remote-agent serve`: runs a server until Ctrl-C.

use std::io::ErrorKind;

use a2a_server::service::Closed;
use openclaw_server::assembly::{Server, StartError};
use serde_json::json;

use super::flags::ServeArgs;
use crate::{
    exit::{self, Exit, Failure, Shutdown},
    output::{self, LineWriter, LogArgs, note},
};

/// The options of `serve`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
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
pub(super) async fn run(args: RunArgs, verbose: bool) -> Result<Exit, Failure> {
    output::install_log(args.log.log, verbose);
    let config = args.serve.read()?;
    let ignored_flags = args.serve.ignored_flags(config.executor);
    if !ignored_flags.is_empty() {
        note(format_args!(
            "this executor ignores {}",
            ignored_flags.join(", ")
        ));
    }
    let Shutdown { stop, force } = exit::on_signals()?;
    let server = Server::bind(config).await.map_err(failure)?;
    let lines = LineWriter::default();
    print_started(&server, args.json, &lines);
    if let Err(reason) = server.ready().await {
        tracing::warn!("the server listens, but its executor is not ready: {reason}");
    }
    let closed = server.run(stop, force).await;
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

/// Converts the error of a server that cannot start.
pub(crate) fn failure(error: StartError) -> Failure {
    let exit = match &error {
        StartError::Config(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    let next = match &error {
        StartError::Listen { error, .. } if error.kind() == ErrorKind::AddrInUse => {
            "; another program uses the port: choose another with `--port`, or let `--port 0` select a free one"
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
