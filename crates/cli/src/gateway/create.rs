//! `remote-agent gateway agents create`: adds an agent to the gateway's configuration and to the running gateway.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
};
use base::files::{create_private_dir, replace};
use base::json::Limits;
use collective::ErrorCode;
use gateway_bridge::client::{ClientError, ClientErrorKind, Connector, Endpoint};
use gateway_server::config::ServerConfig;

/// Add an agent to the gateway's configuration, create its workspace, and inform the running gateway
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of the agent
    name: String,

    /// The role of the agent, such as `Reviewer`
    #[arg(long)]
    role: String,

    /// The purpose of the agent
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The name is in use, the new configuration would be invalid, its file cannot be written, or the running gateway refuses
/// the agent.
pub(super) async fn run(args: &Args, as_json: bool, lines: &LineWriter) -> Result<Exit, Failure> {
    // Report existing faults before changing anything.
    let current = args.gateway_args.files.read()?;
    if current.agents.iter().any(|agent| agent.name == args.name) {
        return Err(Failure::usage(format!(
            "cannot create the agent `{}`: it already exists; `remote-agent gateway agents list` lists the agents",
            args.name
        )));
    }
    let (url, endpoint) = (args.gateway_args.url()?, args.gateway_args.endpoint()?);
    let file = args.gateway_args.files.config_file();
    let name = file.display();
    let mut config: Value = match fs::read(&file) {
        Ok(text) => base::json::from_slice(&text, Limits::NONE)
            .map_err(|error| Failure::usage(format!("`{name}` is not JSON: {error}")))?,
        Err(_) => json!({}),
    };
    if config.get("agents").is_none() {
        // A configuration without `agents` has the agents of the collective.
        let agents = current.agents.iter();
        config["agents"] = agents
            .map(|agent| json!({"name": agent.name, "role": agent.role}))
            .collect();
    }
    let mut agent = json!({"name": args.name, "role": args.role});
    if let Some(description) = &args.description {
        agent["description"] = description.as_str().into();
    }
    if let Some(agents) = config["agents"].as_array_mut() {
        agents.push(agent.clone());
    }
    let text = format!("{config:#}\n");
    ServerConfig::parse(&text).map_err(|error| {
        Failure::usage(format!(
            "cannot add the agent to `{name}`: {error}; nothing was written"
        ))
    })?;
    let workspace = current.state_dir.join("agents").join(&args.name);
    let write_error = |path: &Path, error: std::io::Error| {
        Failure::new(format!("cannot write `{}`: {error}", path.display()))
    };
    create_private_dir(&workspace).map_err(|error| write_error(&workspace, error))?;
    if let Some(folder) = file.parent() {
        create_private_dir(folder).map_err(|error| write_error(folder, error))?;
    }
    replace(&file, &text).map_err(|error| write_error(&file, error))?;
    let (own, workspace) = (&args.name, workspace.display());
    let text = || format!("{own} is in `{name}`, with its workspace in `{workspace}`");
    lines.write_as(as_json, &agent, text);
    match args.register_agent(endpoint, &current.state_dir).await {
        Ok(()) => note(format_args!("the gateway at {url} knows it")),
        Err(error) => match error.kind {
            ClientErrorKind::Unreachable => note(format_args!(
                "no gateway answers at {url}; one that starts with this configuration knows the agent"
            )),
            // Another program listens at the address, or the gateway already has the agent.
            ClientErrorKind::WrongServer(_)
            | ClientErrorKind::Refused(ErrorCode::InvalidContent) => {
                note(format_args!("{url} was not informed: {error}"));
            }
            ClientErrorKind::Timeout | ClientErrorKind::Refused(_) => {
                let failure = failure(&error);
                let message = format!(
                    "cannot inform the gateway at {url} of the new agent, which it has after its next start: {}",
                    failure.message
                );
                return Err(Failure { message, ..failure });
            }
        },
    }
    Ok(Exit::Ok)
}

impl Args {
    /// Registers the agent at the running gateway, if that gateway uses this state directory.
    async fn register_agent(
        &self,
        endpoint: Endpoint,
        state_dir: &Path,
    ) -> Result<(), ClientError> {
        let connector = Connector::new()?;
        let mut requester = connector.connect(endpoint).await?;
        let with = json!({
            "agent": self.name,
            "role": self.role,
            "description": self.description,
            "stateDir": state_dir.display().to_string(),
        });
        requester.manage("agents.create", with).await?;
        requester.disconnect().await;
        Ok(())
    }
}
