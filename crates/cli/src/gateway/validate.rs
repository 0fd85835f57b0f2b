//! `remote-agent gateway validate`: validates a configuration or envelopes.

use base::text::counted;
use std::{fs, path::PathBuf};

use serde_json::json;

use super::gateway_args::{GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::LineWriter,
};
use collective::{self, Envelope};
use gateway_server::{self, config::ServerConfig};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway validate gateway.json
  remote-agent gateway validate --config gateway.json \\
    --url ws://127.0.0.1:18789
  remote-agent gateway validate --envelopes messages.jsonl

With --url, the command also checks that the running gateway has the agents of the configuration.

Exit codes: 0 valid, 1 the running gateway lacks an agent, 2 invalid; the error names the place.";

/// Check a gateway's configuration with every file it names, or envelopes of a2a-v1
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The configuration, like --config [default: gateway.json in the state directory]
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,

    /// Check the envelopes in the file, one a line
    #[arg(long, requires = "file")]
    envelopes: bool,

    /// Print the result as a line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The input is invalid. The error has a JSON Pointer.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let file = args
        .file
        .clone()
        .unwrap_or_else(|| args.gateway_args.files.config_file());
    let name = file.display();
    if args.envelopes {
        let text = fs::read_to_string(&file)
            .map_err(|error| Failure::usage(format!("cannot read `{name}`: {error}")))?;
        return envelopes(&text, args.json, &lines);
    }
    // A gateway without a file starts with the defaults.
    let defaults = args.file.is_none() && !args.gateway_args.files.names_config() && !file.exists();
    let checked = match defaults {
        true => Ok(args.gateway_args.files.read()?),
        false => gateway_server::validate(&file),
    };
    match checked {
        Ok(config) => {
            let unknown_agents = match args.gateway_args.has_url() {
                true => unknown_agents(&args.gateway_args, &config).await?,
                false => Vec::new(),
            };
            lines.write(match args.json {
                true => json!({"ok": unknown_agents.is_empty(), "agents": config.agents.len(), "services": config.services.len(), "unknownAgents": unknown_agents}).to_string(),
                false => {
                    let what = match defaults {
                        true => format!("no `{name}`; a gateway starts with the defaults"),
                        false => format!("`{name}` is valid"),
                    };
                    let known = match args.gateway_args.has_url() && unknown_agents.is_empty() {
                        true => "; the gateway knows all agents",
                        false => "",
                    };
                    let agents = counted(config.agents.len(), "agent", "agents");
                    let services = counted(config.services.len(), "service", "services");
                    format!("{what}: {agents}, {services}{known}")
                }
            });
            if unknown_agents.is_empty() {
                return Ok(Exit::Ok);
            }
            Err(Failure::new(format!(
                "the gateway at {} does not know `{}` of the configuration; start it with this configuration, or add agents with `remote-agent gateway agents create`",
                args.gateway_args.url()?,
                unknown_agents.join("`, `")
            )))
        }
        Err(error) if args.json => {
            lines.write(
                json!({"ok": false, "message": error.message, "path": error.path}).to_string(),
            );
            Ok(Exit::Usage)
        }
        Err(error) => Err(Failure::usage(format!("`{name}` is invalid: {error}"))),
    }
}

/// Returns the agents of the configuration that the running gateway does not know.
async fn unknown_agents(
    gateway_args: &GatewayArgs,
    config: &ServerConfig,
) -> Result<Vec<String>, Failure> {
    let listed = gateway_args.listed().await?;
    let listed = listed.map_err(|error| failure(&error))?;
    let names = config.agents.iter().map(|agent| &agent.name);
    let knows = |name: &&String| listed.iter().any(|agent| agent["name"] == ***name);
    Ok(names.filter(|name| !knows(name)).cloned().collect())
}

fn envelopes(text: &str, as_json: bool, lines: &LineWriter) -> Result<Exit, Failure> {
    let (mut valid, mut invalid) = (0_u64, 0_u64);
    let all = text.lines().zip(1_u64..);
    for (line, number) in all.filter(|(line, _)| !line.trim().is_empty()) {
        let checked = Envelope::parse(line).and_then(|envelope| {
            collective::validate(&envelope)?;
            Ok(envelope.kind())
        });
        match checked {
            Ok(_) => valid += 1,
            Err(error) => {
                invalid += 1;
                lines.write(match as_json {
                    true => json!({"line": number, "error": error.code.name(), "code": error.code.number(), "message": error.message}).to_string(),
                    false => format!("line {number}: {}: {}", error.code, error.message),
                });
            }
        }
    }
    if as_json {
        lines.write(json!({"ok": invalid == 0, "good": valid, "bad": invalid}).to_string());
    } else {
        let valid = counted(valid, "valid envelope", "valid envelopes");
        lines.write(format!("{valid}, {invalid} invalid"));
    }
    Ok(if invalid == 0 { Exit::Ok } else { Exit::Usage })
}
