//! What people do with a gateway's sessions (000 §7.3, §7.5), as JSON in and out: for the command, and for who asks the gateway's own service.

use std::io::{self, Cursor, Write};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::sessions::{SessionError, Sessions, Summary};
use collective::ErrorCode;

/// The least bytes that a session takes in a list.
const SUMMARY_BYTES: usize = 64;

/// What can be done with sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Makes one: `agent`, `sessionId`?
    Create,
    /// Lists them: `agent`?, `archived`? (those of the archive too)
    List,
    /// Its entries: `agent`, `sessionId`
    Get,
    /// Brings it to the disk: `agent`, `sessionId`
    Commit,
    /// Puts old ones aside: `agent`, `olderThanMs`
    Archive,
    /// Takes it away: `agent`, `sessionId`
    Delete,
    /// Its entries as JSON Lines: `agent`, `sessionId`
    Export,
    /// Makes one of JSON Lines: `agent`, `jsonl`, `sessionId`?
    Import,
}

/// Why something cannot be done with sessions.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// The sessions do not allow it.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// A field is missing, or is none that can be used.
    #[error("`content.{0}` is missing, or is no {1}")]
    Field(&'static str, &'static str),
    /// What was asked for is larger than whoever asks can take.
    #[error(
        "the answer would be larger than a message may be; `remote-agent gateway sessions export` reads the files themselves, and other sessions are listed with `content.agent`"
    )]
    TooLarge,
    /// The work was given up.
    #[error("the work on the sessions was given up; try again")]
    GivenUp,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::List,
        Self::Get,
        Self::Commit,
        Self::Archive,
        Self::Delete,
        Self::Export,
        Self::Import,
    ];

    /// Its name, as the gateway's own service knows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "sessions.create",
            Self::List => "sessions.list",
            Self::Get => "sessions.get",
            Self::Commit => "sessions.commit",
            Self::Archive => "sessions.archive",
            Self::Delete => "sessions.delete",
            Self::Export => "sessions.export",
            Self::Import => "sessions.import",
        }
    }

    /// The operation of this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }

    /// It changes nothing.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::List | Self::Get | Self::Export)
    }
}

impl ManageError {
    /// Its error of the registry.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Sessions(error) => error.code(),
            Self::Field(..) | Self::TooLarge => ErrorCode::InvalidContent,
            Self::GivenUp => ErrorCode::AgentError,
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

/// Does it, and says what came of it, in at most about `most` bytes.
///
/// # Errors
/// Why it cannot be done.
pub async fn manage(
    sessions: &Sessions,
    operation: Operation,
    with: &Value,
    most: usize,
) -> Result<Value, ManageError> {
    let text = |field: &'static str| {
        let text = with[field].as_str();
        text.ok_or(ManageError::Field(field, "text"))
    };
    match operation {
        Operation::Create => {
            let agent = text("agent")?;
            let id = sessions.create(agent, with["sessionId"].as_str()).await?;
            return Ok(json!({"agent": agent, "sessionId": id}));
        }
        Operation::Commit => {
            let (agent, session) = (text("agent")?, text("sessionId")?);
            sessions.commit(agent, session).await?;
            return Ok(json!({"agent": agent, "sessionId": session}));
        }
        _ => {}
    }
    let (sessions, with) = (sessions.clone(), with.clone());
    // It reads and writes files.
    let work = move || blocking(&sessions, operation, &with, most);
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ManageError::GivenUp)?
}

fn blocking(
    sessions: &Sessions,
    operation: Operation,
    with: &Value,
    most: usize,
) -> Result<Value, ManageError> {
    let mut room = Room(most);
    let text = |field: &'static str| {
        let text = with[field].as_str();
        text.ok_or(ManageError::Field(field, "text"))
    };
    if operation == Operation::List {
        let agents = match with["agent"].as_str() {
            Some(agent) => vec![agent.to_owned()],
            None => sessions.agents()?,
        };
        let mut all = Vec::new();
        let archived = with["archived"] == true;
        // One more than fit into the answer.
        let limit = most / SUMMARY_BYTES + 1;
        for agent in agents {
            for summary in sessions.list(&agent, archived, limit)? {
                all.push(room.take(listed(&summary))?);
            }
        }
        return Ok(json!({ "sessions": all }));
    }
    let agent = text("agent")?;
    match operation {
        Operation::Archive => {
            let older = with["olderThanMs"]
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
            let (id, entries) = sessions.import(agent, &mut from, with["sessionId"].as_str())?;
            Ok(json!({"agent": agent, "sessionId": id, "entries": entries}))
        }
        Operation::Get => {
            let session = text("sessionId")?;
            let entries = sessions.get(agent, session)?;
            let entries: Result<Vec<Value>, ManageError> =
                entries.map(|entry| room.take(json!(entry?))).collect();
            Ok(json!({"agent": agent, "sessionId": session, "entries": entries?}))
        }
        _ => {
            let session = text("sessionId")?;
            let (mut to, mut over) = (Vec::new(), false);
            let exported = sessions.export(agent, session, &mut Within(&mut to, most, &mut over));
            if over {
                return Err(ManageError::TooLarge);
            }
            let jsonl = String::from_utf8_lossy(&to);
            Ok(json!({"agent": agent, "sessionId": session, "entries": exported?, "jsonl": jsonl}))
        }
    }
}

/// How many bytes an answer may still take.
struct Room(usize);

impl Room {
    fn take(&mut self, value: Value) -> Result<Value, ManageError> {
        let left = self.0.checked_sub(value.to_string().len());
        self.0 = left.ok_or(ManageError::TooLarge)?;
        Ok(value)
    }
}

/// Writes to memory, so many bytes at most; the flag says that there were more.
struct Within<'a>(&'a mut Vec<u8>, usize, &'a mut bool);

impl Write for Within<'_> {
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

fn listed(summary: &Summary) -> Value {
    let time = |at: SystemTime| humantime::format_rfc3339_millis(at).to_string();
    json!({
        "agent": summary.agent,
        "sessionId": summary.session_id,
        "state": summary.state.as_str(),
        "entries": summary.entries,
        "created": time(summary.created),
        "updated": time(summary.updated),
        "committed": summary.committed.map(time),
    })
}
