//! `remote-agent gateway agents`: lists the agents of a gateway.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    create,
    gateway_args::{GatewayArgs, failure},
    status::agents_table,
};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
    text,
};
use gateway_bridge::client::ClientErrorKind;
use gateway_server::config::{AgentConfig, ServerConfig};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway agents list
  remote-agent gateway agents status alpha
  remote-agent gateway agents config alpha get
  remote-agent gateway agents create reviewer --role 'Reviewer'
  remote-agent gateway agents restart alpha

`list` and `status` query the gateway at --url; if none runs, they show the agents of the configuration as offline. `status` ends \
with 1 if the agent is offline. `config` reads the gateway's configuration. For an agent that the gateway runs itself, `list`, `status`, `restart` and \
`config` also show the number of its restarts, the time until its next start, and the reason of its last exit. `create` writes the configuration, and informs the \
gateway at --url if it has the same state directory. `restart` makes the gateway close the connection of the agent with the reason `shutdown`: clients of \
a2a-v1 reconnect, and an agent that the gateway runs itself ends its current messages and starts again.";

/// List the agents behind a gateway, show the status or configuration of one, add and reconnect agents
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,

    /// Print the result as a line of JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all agents
    List(GatewayArgs),
    /// Show the status of an agent
    Status {
        /// The name of the agent
        name: String,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
    /// Show an agent's configuration
    Config {
        /// The name of the agent
        name: String,
        /// Print the configuration
        #[arg(value_parser = ["get"])]
        action: String,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
    /// Make the client of an agent reconnect
    Restart {
        /// The name of the agent
        name: String,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
    Create(create::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let as_json = args.json;
    match args.command {
        Command::List(gateway_args) => {
            let agents = agents(&gateway_args).await?;
            let json = json!({ "agents": agents });
            lines.write_as(as_json, &json, || agents_table(&agents));
            Ok(Exit::Ok)
        }
        Command::Status { name, gateway_args } => {
            let agents = agents(&gateway_args).await?;
            let Some(agent) = agents.iter().find(|agent| agent["name"] == name.as_str()) else {
                return Err(unknown_agent(&name));
            };
            let text = || agents_table(std::slice::from_ref(agent));
            lines.write_as(as_json, agent, text);
            match agent["status"].as_str() {
                Some(status @ ("offline" | "error")) => Err(Failure::new(format!(
                    "`{}` is {}",
                    text::line(&name),
                    match status {
                        "offline" => "offline: no connection serves it",
                        _ => "in the state `error`; check the log of the program that serves it",
                    }
                ))),
                Some(_) => Ok(Exit::Ok),
                None => Ok(Exit::Failed),
            }
        }
        Command::Config {
            name, gateway_args, ..
        } => config(&name, &gateway_args, as_json, &lines).await,
        Command::Restart { name, gateway_args } => {
            let mut requester = gateway_args.connect().await?;
            let with = json!({ "agent": name });
            let answer = requester.manage("agents.restart", with).await;
            let answer = answer.map_err(|error| failure(&error))?;
            requester.disconnect().await;
            let next = match answer["run"]["restarts"].as_u64() {
                Some(restarts) => format!(
                    "the gateway starts the agent again ({restarts} restarts before this one)"
                ),
                None => "a client of a2a-v1 connects again".to_owned(),
            };
            let name = text::line(&name);
            let text =
                || format!("{name}: the connection was closed with the reason `shutdown`; {next}");
            lines.write_as(as_json, &answer, text);
            Ok(Exit::Ok)
        }
        Command::Create(args) => create::run(&args, as_json, &lines).await,
    }
}

/// Returns the agents that the gateway lists, or those of the configuration if no gateway is running.
async fn agents(gateway_args: &GatewayArgs) -> Result<Vec<Value>, Failure> {
    match gateway_args.listed().await? {
        Ok(agents) => Ok(agents),
        Err(error) if error.kind == ClientErrorKind::Unreachable => {
            note(format_args!(
                "no gateway answers at {}; these are the agents of the configuration",
                gateway_args.url()?
            ));
            let agents = gateway_args.files.read()?.agents;
            Ok(agents.iter().map(offline_agent).collect())
        }
        Err(error) => Err(failure(&error)),
    }
}

fn offline_agent(agent: &AgentConfig) -> Value {
    let mut listed = json!({"name": agent.name, "role": agent.role, "status": "offline"});
    if let Some(backend) = &agent.backend {
        listed["backend"] = backend.kinds().next().into();
    }
    listed
}

async fn config(
    name: &str,
    gateway_args: &GatewayArgs,
    as_json: bool,
    lines: &LineWriter,
) -> Result<Exit, Failure> {
    let config = gateway_args.files.read()?;
    let Some(agent) = config.agents.iter().find(|agent| agent.name == name) else {
        return Err(unknown_agent(name));
    };
    let mut answer = agent_json(agent, &config);
    if agent.backend.is_some() {
        match gateway_args.listed().await? {
            Ok(agents) => {
                let mut agents = agents.into_iter();
                let listed = agents.find(|agent| agent["name"] == name);
                answer["run"] = listed.unwrap_or_default()["run"].take();
                if let Some(reason) = answer["run"]["lastExit"].as_str() {
                    answer["run"]["lastExit"] = text::line(reason).into();
                }
            }
            Err(error) if error.kind == ClientErrorKind::Unreachable => {}
            Err(error) => note(format_args!("cannot read how the agent runs: {error}")),
        }
    }
    lines.write_as(as_json, &answer, || format!("{answer:#}"));
    Ok(Exit::Ok)
}

fn agent_json(agent: &AgentConfig, config: &ServerConfig) -> Value {
    let permissions = agent.permissions.as_ref().map(|may| {
        json!({
            "send": may.send, "propose": may.propose, "vote": may.vote, "subscribe": may.subscribe,
            "broadcast": may.broadcast, "request": may.request, "workspaces": may.workspaces,
        })
    });
    let workspace = config.state_dir.join("agents").join(&agent.name);
    json!({
        "name": agent.name,
        "role": agent.role,
        "description": agent.description,
        "permissions": permissions,
        "backend": agent.backend,
        "triadMember": config.triad.members.contains(&agent.name),
        "workspace": workspace.display().to_string(),
    })
}

fn unknown_agent(name: &str) -> Failure {
    Failure::usage(format!(
        "unknown agent `{}`; `remote-agent gateway agents list` shows the known ones",
        text::line(name)
    ))
}
