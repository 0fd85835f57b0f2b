//! Errors of the session store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::text::first_chars;
use collective::ErrorCode;

use super::name::SessionKey;

/// An error of a session operation. The message has a hint, and never contains the content of a session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// 4001: the session is unknown.
    #[error("unknown {0}; create it, or list the sessions")]
    NotFound(SessionKey),
    /// 4002: the session's time to live has expired.
    #[error("the {0} has expired; export it to read it, or begin another")]
    Expired(SessionKey),
    /// 4002: the session is in the archive.
    #[error("the {0} is archived; export it to read it, or begin another")]
    Archived(SessionKey),
    /// 4003: another process, with this id if known, holds the lock on this file.
    #[error("another process uses the sessions (`{}`{}); stop that gateway, or ask it with `--url`", .0.display(), .1.map(|id| format!(", process {id}")).unwrap_or_default())]
    Locked(PathBuf, Option<u32>),
    /// 4003: the sessions are open for reading.
    #[error("the sessions are open for reading only; open them for writing")]
    ReadOnly,
    /// 4004: a line of the session's file, counted from 1, is damaged.
    #[error("cannot read the {0}: line {2} of `{path}` is damaged; repair the line, or delete the session", path = .1.display())]
    Corrupt(SessionKey, PathBuf, u64),
    /// 2005: the session exists, possibly in the archive.
    #[error("the {0} already exists; choose another id")]
    Exists(SessionKey),
    /// 3001: invalid name of an agent.
    #[error("invalid agent name `{}`; use 1 to 64 letters, digits, `-`, `_` and `.`, no dot first or last, and no name that differs from another in case alone", excerpt(.0))]
    AgentName(String),
    /// 2005: invalid session id.
    #[error("invalid session id `{}`; use 1 to 256 bytes without control characters", excerpt(.0))]
    SessionId(String),
    /// 2005: a line of the import, counted from 1, is invalid.
    #[error("cannot import the session: line {0} {1}")]
    Import(u64, &'static str),
    /// 2005: the entry exceeds the maximum length of a line.
    #[error("the entry is too large for a session; split it")]
    TooLong,
    /// 3003: the write queue is full.
    #[error("the queue of session entries is full; send fewer messages, and try again in a second")]
    Busy,
    /// 3003: a client has added its maximum of bytes within a day.
    #[error(
        "the client has added {0} bytes of session entries within a day, which is its limit (`limits.dailySessionBytesPerClient`); send the message again later"
    )]
    Quota(u64),
    /// 3004: an action (`read`, `write`, …) on a file failed.
    #[error("cannot {0} `{path}`: {2}", path = .1.display())]
    Io(&'static str, PathBuf, #[source] Arc<io::Error>),
}

impl SessionError {
    /// Returns its code in the error registry.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound(_) => ErrorCode::SessionNotFound,
            Self::Expired(_) | Self::Archived(_) => ErrorCode::SessionExpired,
            Self::Locked(..) | Self::ReadOnly => ErrorCode::SessionLocked,
            Self::Corrupt(..) => ErrorCode::SessionCorrupt,
            Self::Exists(_) | Self::SessionId(_) | Self::TooLong | Self::Import(..) => {
                ErrorCode::InvalidContent
            }
            Self::AgentName(_) => ErrorCode::AgentNotFound,
            Self::Busy | Self::Quota(_) => ErrorCode::AgentBusy,
            Self::Io(..) => ErrorCode::AgentError,
        }
    }

    /// Returns the message for clients, which omits paths.
    pub fn public_message(&self) -> String {
        match self {
            Self::Locked(..) | Self::ReadOnly => {
                "another process uses the sessions; try again later".into()
            }
            Self::Corrupt(key, _, line) => format!(
                "cannot read the {key}: line {line} of its file is damaged; begin another session, or ask the gateway's operator to repair the file"
            ),
            Self::Io(action, ..) => {
                format!("the gateway cannot {action} its sessions; ask its operator")
            }
            other => other.to_string(),
        }
    }

    pub(super) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io(action, path.to_owned(), Arc::new(error))
    }
}

/// Returns the printable beginning of a name that a client chose.
fn excerpt(name: &str) -> String {
    first_chars(name, 64).escape_debug().to_string()
}
