//! `remote-agent mcp --print-config`: prints the configuration for an MCP host.

use std::env;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::{exit::Failure, target::PeerArgs};

/// The name of the server in a host's configuration. Hosts use it as a prefix of tool names.
const SERVER: &str = "a2a";

/// The environment variable with the token for the server over HTTP.
const TOKEN_VARIABLE: &str = "REMOTE_AGENT_TOKEN";

/// A host of MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Host {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Vscode,
    Codex,
    Openclaw,
}

impl Host {
    /// Returns the path of the host's configuration, and what is left to do there.
    ///
    /// # Errors
    /// See [`PeerArgs::variables`].
    pub(super) fn place(self, peers: &PeerArgs) -> Result<String, Failure> {
        let place = match self {
            Self::ClaudeDesktop => {
                "merge this into claude_desktop_config.json, then restart Claude Desktop"
            }
            Self::ClaudeCode => "merge this into .mcp.json of the project",
            Self::Cursor => "merge this into ~/.cursor/mcp.json",
            Self::Vscode => "merge this into .vscode/mcp.json of the workspace",
            Self::Codex => "append this to ~/.codex/config.toml",
            Self::Openclaw => "save this in a file and run `openclaw config patch --file FILE`",
        };
        let variables = match self {
            Self::ClaudeDesktop => peers.variables()?,
            _ => Vec::new(),
        };
        let values = variables
            .iter()
            .map(|name| format!("\"{name}\": \"VALUE\""));
        let values: Vec<String> = values.collect();
        Ok(match values.is_empty() {
            true => place.to_owned(),
            false => format!(
                "{place}. It replaces no variables: put each value in place of VALUE into `\"env\": {{{}}}`, after `args`",
                values.join(", ")
            ),
        })
    }

    /// Returns the host configuration that starts this command with the agents of `peers`, or connects to the server at
    /// `url`.
    ///
    /// # Errors
    /// The path of this command or of the configuration is unknown.
    pub(super) fn snippet(self, peers: &PeerArgs, url: Option<&str>) -> Result<String, Failure> {
        let entry = match url {
            Some(_) if self == Self::ClaudeDesktop => {
                return Err(Failure::usage(
                    "claude_desktop_config.json names no servers by URL; print the configuration without `--listen`, and Claude Desktop starts the command itself",
                ));
            }
            Some(url) => self.remote(url),
            None => self.local(peers)?,
        };
        if self == Self::Codex {
            return Ok(toml(&entry));
        }
        let servers = json!({ SERVER: entry });
        let config = match self {
            Self::Vscode => json!({ "servers": servers }),
            Self::Openclaw => json!({ "mcp": { "servers": servers } }),
            _ => json!({ "mcpServers": servers }),
        };
        serde_json::to_string_pretty(&config).map_err(|error| Failure::new(error.to_string()))
    }

    fn local(self, peers: &PeerArgs) -> Result<Map<String, Value>, Failure> {
        let command = env::current_exe().map_err(|error| {
            Failure::new(format!("cannot find this command's own file: {error}"))
        })?;
        let mut entry = Map::new();
        if matches!(self, Self::ClaudeCode | Self::Vscode) {
            entry.insert("type".into(), "stdio".into());
        }
        entry.insert("command".into(), text(&command).into());
        entry.insert("args".into(), json!(peers.arguments_of_mcp()?));
        let variables = peers.variables()?;
        // Claude Desktop replaces no references: an entry of `env` would be the value itself.
        if !variables.is_empty() && self != Self::ClaudeDesktop {
            let reference = |name: &str| match self {
                Self::Vscode | Self::Cursor => format!("${{env:{name}}}"),
                _ => format!("${{{name}}}"),
            };
            let variables: Map<String, Value> = variables
                .iter()
                .map(|name| (name.clone(), reference(name).into()))
                .collect();
            // Codex starts servers with few environment variables and does not expand references.
            if self == Self::Codex {
                let names: Vec<&String> = variables.keys().collect();
                entry.insert("env_vars".into(), json!(names));
            } else {
                entry.insert("env".into(), variables.into());
            }
        }
        match self {
            // Parallel delegations need this setting.
            Self::Openclaw => drop(entry.insert("supportsParallelToolCalls".into(), true.into())),
            // A call returns after at most 25 seconds by default, and `timeout_ms` may extend that.
            Self::Codex => drop(entry.insert("tool_timeout_sec".into(), 120.into())),
            _ => {}
        }
        Ok(entry)
    }

    fn remote(self, url: &str) -> Map<String, Value> {
        let mut entry = Map::new();
        entry.insert("url".into(), url.into());
        let token = match self {
            Self::Vscode | Self::Cursor => format!("Bearer ${{env:{TOKEN_VARIABLE}}}"),
            _ => format!("Bearer ${{{TOKEN_VARIABLE}}}"),
        };
        match self {
            Self::Codex => drop(entry.insert("bearer_token_env_var".into(), TOKEN_VARIABLE.into())),
            _ => drop(entry.insert("headers".into(), json!({ "Authorization": token }))),
        }
        match self {
            Self::ClaudeCode | Self::Vscode => drop(entry.insert("type".into(), "http".into())),
            Self::Openclaw => {
                entry.insert("transport".into(), "streamable-http".into());
                entry.insert("supportsParallelToolCalls".into(), true.into());
            }
            _ => {}
        }
        entry
    }
}

/// Formats an entry as TOML. Its strings have the escapes of JSON.
fn toml(entry: &Map<String, Value>) -> String {
    let lines = entry
        .iter()
        .map(|(name, value)| format!("{name} = {value}"));
    let lines: Vec<String> = lines.collect();
    format!("[mcp_servers.{SERVER}]\n{}", lines.join("\n"))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
