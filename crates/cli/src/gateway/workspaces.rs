//! `remote-agent gateway workspaces`: lists the workspaces of a gateway and their sessions (Heretek A2A §6.3).

use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::LineWriter,
    table::Table,
    text,
};
use collective::Kind;

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway workspaces
  remote-agent gateway workspaces alpha

Each agent has a workspace. With the name of an agent, the command lists the sessions there; `remote-agent gateway sessions get` shows one. \
A gateway lists only the workspaces that the client may read.

Exit codes: 0 listed, 1 there is no such agent, 3 no gateway answers, 4 credential or permission, 5 no answer in time.";

/// List the workspaces at a gateway, or the sessions of one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Show the workspace of this agent
    agent: Option<String>,

    /// Print the result as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The gateway is unreachable, or refuses the request.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let content = match &args.agent {
        None => json!({"action": "list"}),
        Some(agent) => json!({"action": "get", "agent": agent}),
    };
    let mut requester = args.gateway_args.connect().await?;
    let answer = requester.request(Kind::Workspace, content).await;
    let answer = answer.map_err(|error| failure(&error))?;
    requester.disconnect().await;
    let lines = LineWriter::default();
    if args.json {
        lines.write(json!({"workspaces": answer.content()["workspaces"]}).to_string());
        return Ok(Exit::Ok);
    }
    let workspaces = answer.content()["workspaces"].as_array();
    let workspaces = workspaces.map_or(&[][..], Vec::as_slice);
    let mut table = Table::new(["AGENT", "SESSIONS", "PATH"]);
    for workspace in workspaces {
        table.add_row(["agent", "sessions", "path"].map(|name| cell(&workspace[name])));
    }
    lines.write(table.render());
    if args.agent.is_some() {
        let sessions = workspaces
            .iter()
            .filter_map(|one| one["sessionList"].as_array());
        let mut table = Table::new(["SESSION", "STATE", "ENTRIES"]);
        for session in sessions.flatten() {
            table.add_row(["sessionId", "state", "entries"].map(|name| cell(&session[name])));
        }
        lines.write(table.render());
    }
    Ok(Exit::Ok)
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text::line(text),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
