//! Session operations (Heretek A2A §7.3, §7.5) with JSON arguments and results, for the command and the service `gateway`.

use std::io::{self, Cursor, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::sessions::{SessionError, Sessions, Summary};
use base::json::encoded_bytes;
use base::named;
use collective::ErrorCode;

/// The minimum size of a session's entry in a list.
const MIN_SUMMARY_BYTES: usize = 64;

named! {
    /// An operation on sessions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Operation {
        /// Creates a session: `agent`, `sessionId`?
        Create = "sessions.create",
        /// Lists sessions: `agent`?, `archived`? (includes the archive)
        List = "sessions.list",
        /// Returns the entries of a session: `agent`, `sessionId`
        Get = "sessions.get",
        /// Syncs a session to disk: `agent`, `sessionId`
        Commit = "sessions.commit",
        /// Archives old sessions: `agent`, `olderThanMs`
        Archive = "sessions.archive",
        /// Deletes a session: `agent`, `sessionId`
        Delete = "sessions.delete",
        /// Returns the entries as JSON Lines: `agent`, `sessionId`
        Export = "sessions.export",
        /// Creates a session from JSON Lines: `agent`, `jsonl`, `sessionId`?
        Import = "sessions.import",
    }
}

/// The error of an operation on sessions.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// An error of the session store.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// A field is missing or has the wrong type: the name and the type.
    #[error("`content.{0}` is missing or not a {1}")]
    Field(&'static str, &'static str),
    /// The result exceeds the maximum size of a message.
    #[error(
        "the result is larger than a message; export it with `remote-agent gateway sessions export`, or list one agent with `content.agent`"
    )]
    TooLarge,
    /// The operation was cancelled.
    #[error("the operation on the sessions was cancelled; try again")]
    Cancelled,
}

impl Operation {
    /// Returns whether the operation is read-only.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::List | Self::Get | Self::Export)
    }
}

impl ManageError {
    /// Returns its code in the error registry.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Sessions(error) => error.code(),
            Self::Field(..) | Self::TooLarge => ErrorCode::InvalidContent,
            Self::Cancelled => ErrorCode::AgentError,
        }
    }

    /// Returns the message for clients.
    pub fn public_message(&self) -> String {
        match self {
            Self::Sessions(error) => error.public_message(),
            other => other.to_string(),
        }
    }
}

/// Performs an operation of the gateway's operator. The result has at most approximately `max_bytes`.
///
/// # Errors
/// The arguments are invalid, the result exceeds `max_bytes`, or the store fails.
pub async fn manage(
    sessions: &Sessions,
    operation: Operation,
    arguments: &Value,
    max_bytes: usize,
) -> Result<Value, ManageError> {
    manage_for(&Arc::default(), sessions, operation, arguments, max_bytes).await
}

/// Performs an operation of a client, like [`manage`]. What it adds counts towards the limits of the client's identity.
///
/// # Errors
/// The same as [`manage`], and 3003 if the identity has added too much.
pub(crate) async fn manage_for(
    identity: &Arc<str>,
    sessions: &Sessions,
    operation: Operation,
    arguments: &Value,
    max_bytes: usize,
) -> Result<Value, ManageError> {
    let text = |field: &'static str| {
        let text = arguments[field].as_str();
        text.ok_or(ManageError::Field(field, "string"))
    };
    match operation {
        Operation::Create => {
            let agent = text("agent")?;
            let id = sessions
                .create_for(identity, agent, arguments["sessionId"].as_str())
                .await?;
            return Ok(json!({"agent": agent, "sessionId": id}));
        }
        Operation::Commit => {
            let (agent, session) = (text("agent")?, text("sessionId")?);
            sessions.commit_for(identity, agent, session).await?;
            return Ok(json!({"agent": agent, "sessionId": session}));
        }
        _ => {}
    }
    let (identity, sessions, arguments) =
        (Arc::clone(identity), sessions.clone(), arguments.clone());
    let work = move || perform_blocking(&identity, &sessions, operation, &arguments, max_bytes);
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|_| ManageError::Cancelled)?
}

fn perform_blocking(
    identity: &Arc<str>,
    sessions: &Sessions,
    operation: Operation,
    arguments: &Value,
    max_bytes: usize,
) -> Result<Value, ManageError> {
    let mut remaining = RemainingBytes(max_bytes);
    let text = |field: &'static str| {
        let text = arguments[field].as_str();
        text.ok_or(ManageError::Field(field, "string"))
    };
    if operation == Operation::List {
        let agents = match arguments["agent"].as_str() {
            Some(agent) => vec![agent.to_owned()],
            None => sessions.agents()?,
        };
        let mut all = Vec::new();
        let archived = arguments["archived"] == true;
        // One more than the result can contain.
        let limit = max_bytes / MIN_SUMMARY_BYTES + 1;
        for agent in agents {
            for summary in sessions.list(&agent, archived, limit)? {
                all.push(remaining.charge(summary_json(&summary))?);
            }
        }
        return Ok(json!({ "sessions": all }));
    }
    let agent = text("agent")?;
    match operation {
        Operation::Archive => {
            let older = arguments["olderThanMs"]
                .as_u64()
                .ok_or(ManageError::Field("olderThanMs", "whole number"))?;
            let archived = sessions.archive(agent, Duration::from_millis(older))?;
            Ok(json!({"agent": agent, "archived": archived}))
        }
        Operation::Delete => {
            let session = text("sessionId")?;
            sessions.delete(agent, session)?;
            Ok(json!({"agent": agent, "sessionId": session}))
        }
        Operation::Import => {
            let mut from = Cursor::new(text("jsonl")?.as_bytes());
            let session = arguments["sessionId"].as_str();
            let (id, entries) = sessions.import_for(identity, agent, &mut from, session)?;
            Ok(json!({"agent": agent, "sessionId": id, "entries": entries}))
        }
        Operation::Get => {
            let session = text("sessionId")?;
            let entries = sessions.get(agent, session)?;
            let entries: Result<Vec<Value>, ManageError> = entries
                .map(|entry| remaining.charge(json!(entry?)))
                .collect();
            Ok(json!({"agent": agent, "sessionId": session, "entries": entries?}))
        }
        _ => {
            let session = text("sessionId")?;
            let (mut to, mut over) = (Vec::new(), false);
            let exported = sessions.export(
                agent,
                session,
                &mut LimitedWriter(&mut to, max_bytes, &mut over),
            );
            if over {
                return Err(ManageError::TooLarge);
            }
            let jsonl = String::from_utf8_lossy(&to);
            Ok(json!({"agent": agent, "sessionId": session, "entries": exported?, "jsonl": jsonl}))
        }
    }
}

/// The number of bytes that the result may still use.
struct RemainingBytes(usize);

impl RemainingBytes {
    fn charge(&mut self, value: Value) -> Result<Value, ManageError> {
        let remaining = self.0.checked_sub(encoded_bytes(&value));
        self.0 = remaining.ok_or(ManageError::TooLarge)?;
        Ok(value)
    }
}

/// Writes to memory up to a limit. Sets the flag if the data exceeds the limit.
struct LimitedWriter<'a>(&'a mut Vec<u8>, usize, &'a mut bool);

impl Write for LimitedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > self.1 {
            *self.2 = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn summary_json(summary: &Summary) -> Value {
    let time = |at: SystemTime| humantime::format_rfc3339_millis(at).to_string();
    let mut json = json!({
        "agent": summary.agent,
        "sessionId": summary.session_id,
        "state": summary.state.as_str(),
        "entries": summary.entries,
        "created": time(summary.created),
        "updated": time(summary.updated),
        "committed": summary.committed.map(time),
    });
    if let Some(form) = summary.form {
        json["form"] = form.as_str().into();
    }
    if let Some(id) = summary.missing_key {
        json["missingKey"] = id.to_string().into();
    }
    json
}
