//! `remote-agent gateway sessions` and `workspaces`: manage the session files of a gateway (Heretek A2A §7.3), export them in the
//! format of the Agent Protocol, and list the workspaces with their sessions (Heretek A2A §6.3).

mod rekey;

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use base::{environment::SystemEnvironment, log::Silent};
use clap::{Subcommand, ValueEnum};
use collective::Kind;
use gateway_server::{
    manage::{ManageError, Operation, manage},
    sessions::{SessionError, Sessions},
};
use serde_json::{Value, json};

use super::gateway_args::{FileArgs, GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note, standard_input},
    text::{self, Table, field},
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
  remote-agent gateway sessions rekey

Sessions are files in the state directory of the gateway. `list`, `get` and `export` read them, even while a gateway runs. The other commands change them only if no gateway \
runs; otherwise they send a request to the gateway at --url, which must have the same directory. `rekey` requires that no gateway runs.";

/// Create, list, get, commit, archive, delete, export, import and encrypt sessions
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
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Command {
    #[command(flatten)]
    Managed(Managed),
    /// Encrypt all sessions, also in the archive, with the first key of `sessions.encryption`
    Rekey {
        /// Decrypt the sessions instead, before `sessions.encryption` is removed
        #[arg(long)]
        plain: bool,
        #[command(flatten)]
        files: FileArgs,
    },
}

/// What a running gateway does itself.
#[derive(Debug, Subcommand)]
enum Managed {
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

impl Managed {
    /// Returns what to do, and its parameters.
    async fn operation(&self) -> Result<(Operation, Value), Failure> {
        let ids = |one: &SessionArgs| json!({"agent": one.agent, "sessionId": one.session});
        Ok(match self {
            Self::Create { agent, session, .. } => (
                Operation::Create,
                json!({"agent": agent, "sessionId": session}),
            ),
            Self::List {
                agent, archived, ..
            } => (
                Operation::List,
                json!({"agent": agent, "archived": archived}),
            ),
            Self::Get(one) => (Operation::Get, ids(one)),
            Self::Commit(one) => (Operation::Commit, ids(one)),
            Self::Delete(one) => (Operation::Delete, ids(one)),
            Self::Export { one, .. } => (Operation::Export, ids(one)),
            Self::Archive {
                agent, older_than, ..
            } => {
                let millis = base::environment::millis(*older_than);
                (
                    Operation::Archive,
                    json!({"agent": agent, "olderThanMs": millis}),
                )
            }
            Self::Import {
                agent,
                file,
                session,
                ..
            } => {
                let jsonl = match file {
                    None => standard_input("the session").await?,
                    Some(file) => fs::read_to_string(file).map_err(|error| {
                        Failure::usage(format!("cannot read `{}`: {error}", file.display()))
                    })?,
                };
                let with = json!({"agent": agent, "sessionId": session, "jsonl": jsonl});
                (Operation::Import, with)
            }
        })
    }

    fn gateway_args(&self) -> &GatewayArgs {
        match self {
            Self::Create { gateway_args, .. }
            | Self::List { gateway_args, .. }
            | Self::Archive { gateway_args, .. }
            | Self::Import { gateway_args, .. } => gateway_args,
            Self::Get(one) | Self::Commit(one) | Self::Delete(one) | Self::Export { one, .. } => {
                &one.gateway_args
            }
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let command = match args.command {
        Command::Managed(command) => command,
        Command::Rekey { plain, files } => return rekey::run(plain, &files, args.json),
    };
    let (operation, with) = command.operation().await?;
    let gateway_args = command.gateway_args();
    let mut answer = gateway_args.manage_sessions(operation, with).await?;
    if let Managed::Export {
        format: ExportFormat::AgentProtocol,
        ..
    } = command
    {
        let jsonl = answer["jsonl"].as_str().unwrap_or_default();
        let task = agent_protocol(&field(&answer, "sessionId"), jsonl)?;
        if let Some(jsonl) = answer.get_mut("jsonl") {
            *jsonl = task.to_string().into();
        }
    }
    if operation == Operation::List && answer["sessions"].as_array().is_some_and(Vec::is_empty) {
        note(
            "no sessions; the first message to an agent creates one, and `--archived` adds those of the archive",
        );
        if !args.json {
            return Ok(Exit::Ok);
        }
    }
    let sessions = answer["sessions"].as_array();
    let missing = sessions.and_then(|all| all.iter().find(|one| one["missingKey"].is_string()));
    if let Some(one) = missing {
        note(format_args!(
            "the key `{}` of {} is not in `sessions.encryption.keys`; add it, or delete the sessions in the state `no-key` if it is lost",
            field(one, "missingKey"),
            field(one, "sessionId")
        ));
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
            true => Sessions::read_only(&config, env, log),
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
        ManageError::Sessions(SessionError::Keys(error)) => {
            return Failure::usage(format!("cannot use the keys of the sessions: {error}"));
        }
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
            let mut rendered = Table::new(["AGENT", "SESSION", "STATE", "FORM", "ENTRIES", "AGE"]);
            for one in list("sessions") {
                let updated = humantime::parse_rfc3339(&field(&one, "updated")).ok();
                let updated = updated.map(|at| at.elapsed().unwrap_or_default());
                rendered.add_row([
                    field(&one, "agent"),
                    field(&one, "sessionId"),
                    field(&one, "state"),
                    field(&one, "form"),
                    one["entries"].to_string(),
                    updated.map(text::age).unwrap_or_default(),
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

/// The form of an exported session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// JSON Lines, for `import`
    #[default]
    Jsonl,
    /// A task of the Agent Protocol with its steps, as one object
    AgentProtocol,
}

/// Converts the lines of a session to a task. Each entry of the user starts a step; the entries up to the next one are the
/// output of the step.
///
/// # Errors
/// Some lines are not JSON. The error has their number and the position of the first one.
fn agent_protocol(session: &str, jsonl: &str) -> Result<Value, Failure> {
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(jsonl.lines()) {
        match serde_json::from_str::<Value>(line) {
            // Lines with an `event` record changes of the session itself, not the conversation.
            Ok(entry) if entry["event"].is_null() => entries.push(entry),
            Ok(_) => {}
            Err(_) if line.trim().is_empty() => {}
            Err(error) => unreadable.push((number, error)),
        }
    }
    if let Some((number, error)) = unreadable.first() {
        let count = unreadable.len();
        return Err(Failure::new(format!(
            "cannot export the session `{}` as a task: {count} of its lines are unreadable, the first is line {number}: {error}; export it with `--format jsonl`",
            text::line(session)
        )));
    }
    let mut steps: Vec<Value> = Vec::new();
    for entry in entries {
        let text_of_entry = content_text(&entry["content"]);
        let is_user = entry["role"] == "user";
        if is_user || steps.is_empty() {
            let id = match entry["id"].as_str() {
                Some(id) if !id.is_empty() => id.to_owned(),
                _ => format!("{session}-{}", steps.len() + 1),
            };
            steps.push(json!({
                "task_id": session,
                "step_id": id,
                "name": null,
                "input": is_user.then_some(&text_of_entry),
                "status": "created",
                "output": null,
                "additional_output": {"timestamp": entry["timestamp"]},
                "artifacts": [],
                "is_last": false,
            }));
        }
        if let Some(step) = steps.last_mut().filter(|_| !is_user) {
            let output = match step["output"].as_str() {
                Some(before) => format!("{before}\n\n{text_of_entry}"),
                None => text_of_entry,
            };
            step["output"] = output.into();
            step["status"] = "completed".into();
        }
    }
    if let Some(last) = steps.last_mut() {
        last["is_last"] = true.into();
    }
    let input = steps.first().map(|step| step["input"].clone());
    Ok(json!({
        "task_id": session,
        "input": input,
        "additional_input": null,
        "artifacts": [],
        "steps": steps,
    }))
}

/// Returns the text of an entry: the text parts of its content, or JSON for an object without parts.
fn content_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    match content["parts"].as_array() {
        Some(parts) => {
            let texts: Vec<_> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            texts.join("\n\n")
        }
        None => content.to_string(),
    }
}

const WORKSPACES_EXAMPLES: &str = "\
Examples:
  remote-agent gateway workspaces
  remote-agent gateway workspaces alpha

Each agent has a workspace. With the name of an agent, the command lists the sessions there; `remote-agent gateway sessions get` shows one. \
A gateway lists only the workspaces that the client may read.

Exit codes: 0 listed, 1 there is no such agent, 3 no gateway answers, 4 credential or permission, 5 no answer in time.";

/// List the workspaces at a gateway, or the sessions of one
#[derive(Debug, clap::Args)]
#[command(after_help = WORKSPACES_EXAMPLES)]
pub(super) struct WorkspacesArgs {
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
pub(super) async fn workspaces(args: WorkspacesArgs) -> Result<Exit, Failure> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn entry_of_the_user_begins_a_step() {
        let lines = [
            json!({"timestamp": 1, "role": "user", "content": "Hello", "sessionId": "s", "id": "m-1"}),
            json!({"timestamp": 2, "role": "agent", "content": {"parts": [{"text": "Hi"}]}, "sessionId": "s", "id": "m-2"}),
            json!({"timestamp": 3, "role": "assistant", "content": "there", "sessionId": "s", "id": "m-3"}),
            json!({"event": "committed", "timestamp": 4, "role": "system", "content": null}),
            json!({"timestamp": 5, "role": "user", "content": "Bye", "sessionId": "s", "id": ""}),
        ];
        let jsonl: Vec<_> = lines.iter().map(Value::to_string).collect();
        let task = agent_protocol("s", &jsonl.join("\n")).unwrap();
        assert_eq!(task["input"], "Hello");
        let steps = &task["steps"];
        assert_eq!(steps.as_array().map(Vec::len), Some(2), "{task}");
        assert_eq!(
            (&steps[0]["step_id"], &steps[0]["output"]),
            (&json!("m-1"), &json!("Hi\n\nthere"))
        );
        assert_eq!(
            (&steps[1]["step_id"], &steps[1]["status"]),
            (&json!("s-2"), &json!("created"))
        );
        assert_eq!(steps[1]["is_last"], true);
    }

    #[test]
    fn empty_session_has_no_steps() {
        assert_eq!(agent_protocol("s", "").unwrap()["steps"], json!([]));
    }

    #[test]
    fn unreadable_lines_are_reported_with_their_place() {
        let jsonl = "{\"role\":\"user\",\"content\":\"Hi\"}\n\nnot json\n{\n";
        let failure = agent_protocol("s", jsonl).unwrap_err();
        assert!(
            failure.message.contains("2 of its lines"),
            "{}",
            failure.message
        );
        assert!(failure.message.contains("line 3"), "{}", failure.message);
    }
}
