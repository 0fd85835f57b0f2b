//! `remote-agent gateway sessions`: manages the session files of a gateway (Heretek A2A §7.3).

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use clap::Subcommand;
use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, failure};
use super::session_export::{self, ExportFormat};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note, standard_input},
    table::{self, Table},
    text,
};
use base::environment::SystemEnvironment;
use base::log::Silent;
use gateway_server::{
    manage::{ManageError, Operation, manage},
    sessions::{SessionError, Sessions},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway sessions list
  remote-agent gateway sessions create alpha --session sess-1
  remote-agent gateway sessions get alpha sess-1
  remote-agent gateway sessions archive alpha --older-than 7d
  remote-agent gateway sessions export alpha sess-1 > sess-1.jsonl
  remote-agent gateway sessions export alpha sess-1 --format agent-protocol
  remote-agent gateway sessions import beta sess-1.jsonl

Sessions are files in the state directory of the gateway. `list`, `get` and `export` read them, even while a gateway runs. The other commands change them only if no gateway \
runs; otherwise they send a request to the gateway at --url, which must have the same directory.";

/// Create, list, get, commit, archive, delete, export and import sessions
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
    /// Create a session
    Create {
        /// The agent with the workspace of the session
        agent: String,
        /// The id of the session [default: a new id]
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
    /// List the sessions that are not archived
    List {
        /// Only sessions of this agent
        agent: Option<String>,
        /// List archived sessions too, after the others
        #[arg(long)]
        archived: bool,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
    /// Show the entries of a session
    Get(SessionArgs),
    /// Sync a session to disk and add a commit entry
    Commit(SessionArgs),
    /// Archive old sessions; they accept no more messages
    Archive {
        /// The agent with the workspace of the sessions
        agent: String,
        /// Only sessions without an entry for this time, such as 7d or 12h
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        older_than: Duration,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
    /// Delete a session, also from the archive
    Delete(SessionArgs),
    /// Write a session to standard output as JSON Lines, or as a task of the Agent Protocol
    Export {
        #[command(flatten)]
        one: SessionArgs,
        /// The output format
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
        format: ExportFormat,
    },
    /// Import a session from JSON Lines
    Import {
        /// The agent with the workspace of the new session
        agent: String,
        /// Read this file [default: standard input]
        file: Option<PathBuf>,
        /// The id of the new session [default: the id in the file]
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        #[command(flatten)]
        gateway_args: GatewayArgs,
    },
}

#[derive(Debug, clap::Args)]
struct SessionArgs {
    /// The agent with the workspace of the session
    agent: String,
    /// The id of the session
    session: String,
    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let session_ids = |one: &SessionArgs| json!({"agent": one.agent, "sessionId": one.session});
    let mut format = ExportFormat::Jsonl;
    let (gateway_args, operation, with) = match args.command {
        Command::Create {
            agent,
            session,
            gateway_args,
        } => {
            let with = json!({"agent": agent, "sessionId": session});
            (gateway_args, Operation::Create, with)
        }
        Command::List {
            agent,
            archived,
            gateway_args,
        } => {
            let with = json!({"agent": agent, "archived": archived});
            (gateway_args, Operation::List, with)
        }
        Command::Get(one) => {
            let with = session_ids(&one);
            (one.gateway_args, Operation::Get, with)
        }
        Command::Commit(one) => {
            let with = session_ids(&one);
            (one.gateway_args, Operation::Commit, with)
        }
        Command::Delete(one) => {
            let with = session_ids(&one);
            (one.gateway_args, Operation::Delete, with)
        }
        Command::Export { one, format: form } => {
            let with = session_ids(&one);
            format = form;
            (one.gateway_args, Operation::Export, with)
        }
        Command::Archive {
            agent,
            older_than,
            gateway_args,
        } => {
            let millis = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
            let with = json!({"agent": agent, "olderThanMs": millis});
            (gateway_args, Operation::Archive, with)
        }
        Command::Import {
            agent,
            file,
            session,
            gateway_args,
        } => {
            let jsonl = match file {
                None => standard_input("the session").await?,
                Some(file) => fs::read_to_string(&file).map_err(|error| {
                    Failure::usage(format!("cannot read `{}`: {error}", file.display()))
                })?,
            };
            let with = json!({"agent": agent, "sessionId": session, "jsonl": jsonl});
            (gateway_args, Operation::Import, with)
        }
    };
    let mut answer = gateway_args.manage_sessions(operation, with).await?;
    if format == ExportFormat::AgentProtocol {
        let jsonl = answer["jsonl"].as_str().unwrap_or_default();
        let task = session_export::agent_protocol(&field(&answer, "sessionId"), jsonl)?;
        answer["jsonl"] = task.to_string().into();
    }
    if operation == Operation::List && answer["sessions"].as_array().is_some_and(Vec::is_empty) {
        note(
            "no sessions; the first message to an agent creates one, and `--archived` adds those of the archive",
        );
        if !args.json {
            return Ok(Exit::Ok);
        }
    }
    if operation == Operation::Create {
        let agent = answer["agent"].as_str().unwrap_or_default();
        let config = gateway_args.files.read()?;
        if !config.agents.iter().any(|known| known.name == agent) {
            note(format_args!(
                "the configuration has no agent `{}`; add it with `remote-agent gateway agents create`, or connect an agent of that name",
                text::line(agent)
            ));
        }
    }
    show(operation, &answer, args.json, &LineWriter::default());
    Ok(Exit::Ok)
}

impl GatewayArgs {
    async fn manage_sessions(&self, operation: Operation, with: Value) -> Result<Value, Failure> {
        let config = self.files.read()?;
        let folder = config.state_dir.display().to_string();
        let (env, log) = (Arc::new(SystemEnvironment), Arc::new(Silent));
        let sessions = match operation.is_read_only() {
            true => Ok(Sessions::read_only(&config, env, log)),
            false => Sessions::open(&config, env, log),
        };
        let sessions = match sessions {
            Ok(sessions) => sessions,
            // The lock holder is probably the running gateway.
            Err(SessionError::Locked(..)) => {
                return self.ask_for(operation, with, &folder).await;
            }
            Err(error) => return Err(manage_failure(&error.into())),
        };
        let managed = manage(&sessions, operation, &with, usize::MAX).await;
        let closed = sessions.close();
        let managed = managed.map_err(|error| manage_failure(&error))?;
        closed.map_err(|error| manage_failure(&error.into()))?;
        Ok(managed)
    }

    /// Sends the operation to the running gateway, which holds the lock of the sessions.
    async fn ask_for(
        &self,
        operation: Operation,
        mut with: Value,
        folder: &str,
    ) -> Result<Value, Failure> {
        with["stateDir"] = folder.into();
        let locked = |failure: Failure| Failure {
            message: format!(
                "cannot open the sessions in `{folder}`: another process uses them, most likely the gateway; name its address with `--url`, or stop it. {}",
                failure.message
            ),
            ..failure
        };
        let mut requester = self.connect().await.map_err(locked)?;
        let response = requester.manage(operation.as_str(), with).await;
        let answer = response.map_err(|error| failure(&error))?;
        requester.disconnect().await;
        Ok(answer)
    }
}

fn manage_failure(error: &ManageError) -> Failure {
    let next = match error {
        ManageError::Sessions(SessionError::NotFound(key)) => {
            format!(
                " with `remote-agent gateway sessions list {}`",
                text::shell(&key.agent)
            )
        }
        _ => String::new(),
    };
    Failure::new(format!("{error}{next}"))
}

fn field(value: &Value, name: &str) -> String {
    value[name].as_str().map(text::line).unwrap_or_default()
}

fn show(operation: Operation, answer: &Value, as_json: bool, lines: &LineWriter) {
    if operation == Operation::Export && !as_json {
        let all = answer["jsonl"].as_str().unwrap_or_default();
        return lines.write(all.trim_end_matches('\n').to_owned());
    }
    if as_json {
        return lines.write(answer.to_string());
    }
    let (agent, session) = (field(answer, "agent"), field(answer, "sessionId"));
    let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    lines.write(match operation {
        Operation::List => {
            let mut rendered = Table::new(["AGENT", "SESSION", "STATE", "ENTRIES", "AGE"]);
            for one in list("sessions") {
                let updated = humantime::parse_rfc3339(&field(&one, "updated")).ok();
                let updated = updated.map(|at| at.elapsed().unwrap_or_default());
                rendered.add_row([
                    field(&one, "agent"),
                    field(&one, "sessionId"),
                    field(&one, "state"),
                    one["entries"].to_string(),
                    updated.map(table::age).unwrap_or_default(),
                ]);
            }
            rendered.render()
        }
        Operation::Get => {
            let format_entry = |entry: &Value| {
                let text = match &entry["content"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                format!("{}: {}", field(entry, "role"), text::block(&text))
            };
            let all: Vec<String> = list("entries").iter().map(format_entry).collect();
            all.join("\n")
        }
        Operation::Create => session,
        Operation::Archive => {
            let archived = list("archived");
            let names: Vec<String> = archived
                .iter()
                .filter_map(Value::as_str)
                .map(text::line)
                .collect();
            match names.as_slice() {
                [] => format!("no session of {agent} is that old"),
                _ => format!(
                    "archived {} sessions of {agent}: {}",
                    names.len(),
                    names.join(", ")
                ),
            }
        }
        Operation::Commit => format!("committed {session} of {agent} to disk"),
        Operation::Delete => format!("deleted {session} of {agent}"),
        Operation::Import | Operation::Export => {
            let entries = answer["entries"].as_u64().unwrap_or_default();
            let entries = base::text::counted(entries, "entry", "entries");
            format!("{session} of {agent}: {entries}")
        }
    });
}
