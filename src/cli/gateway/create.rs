//! `remote-agent gateway agents create`: an agent more in the gateway's configuration.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::place::FileArgs;
use crate::{
    cli::{
        exit::{Exit, Failure},
        output::Lines,
    },
    gateway_server::config::ServerConfig,
};

/// Add an agent to the gateway's configuration, and make its workspace
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its name
    name: String,

    /// What it is, such as `Reviewer`
    #[arg(long)]
    role: String,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    files: FileArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The name is taken, or the configuration would not do, or cannot be written.
pub(super) fn run(args: &Args, as_json: bool, lines: &Lines) -> Result<Exit, Failure> {
    // What is wrong with it now is told before anything is changed.
    let before = args.files.read()?;
    let file = args.files.config_file();
    let name = file.display();
    let mut config: Value = match fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("`{name}` is not JSON: {error}")))?,
        Err(_) => json!({}),
    };
    if config.get("agents").is_none() {
        // Without a list of its own it has the collective's.
        let listed = before.agents.iter();
        config["agents"] = listed
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
            "nothing was written: with the agent `{name}` is wrong: {error}"
        ))
    })?;
    let workspace = before.state_dir.join("agents").join(&args.name);
    let cannot = |what: &Path, error: std::io::Error| {
        Failure::new(format!("cannot write `{}`: {error}", what.display()))
    };
    fs::create_dir_all(&workspace).map_err(|error| cannot(&workspace, error))?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    }
    // Whole or not at all: a gateway may be started while this is written.
    let draft = file.with_extension("json.new");
    fs::write(&draft, text)
        .and_then(|()| fs::rename(&draft, &file))
        .map_err(|error| cannot(&file, error))?;
    lines.write(match as_json {
        true => agent.to_string(),
        false => format!(
            "{} is in `{name}`, with its workspace in `{}`; a gateway that runs has to be started anew to know it, unless an agent connects under that name",
            args.name,
            workspace.display()
        ),
    });
    Ok(Exit::Ok)
}
