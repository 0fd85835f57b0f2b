//! What can be wrong with a session.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use collective::ErrorCode;

/// Why something about a session cannot be done. As a sentence it says what failed, why, and what to do; it never shows what
/// was said in a session.
#[derive(Debug)]
pub enum SessionError {
    /// 4001: there is no such session.
    NotFound {
        /// The workspace.
        agent: String,
        /// The session.
        session: String,
    },
    /// 4002: the session is over.
    Expired {
        /// The workspace.
        agent: String,
        /// The session.
        session: String,
        /// It is in the archive; else its time is up.
        archived: bool,
    },
    /// 4003: another process has the sessions.
    Locked {
        /// What it has locked.
        path: PathBuf,
        /// The process, where it says so.
        process: Option<u32>,
    },
    /// 4003: the session is on its way to the archive.
    Leaving {
        /// The workspace.
        agent: String,
        /// The session.
        session: String,
    },
    /// 4004: what is stored of the session cannot be read.
    Corrupt {
        /// The session.
        session: String,
        /// The file.
        path: PathBuf,
        /// The first line that cannot be read, from 1.
        line: u64,
    },
    /// 4003: the sessions were opened to be read.
    ReadOnly,
    /// 2005: a session of this id is there already, here or in the archive.
    Exists {
        /// The workspace.
        agent: String,
        /// The session.
        session: String,
    },
    /// 3001: it cannot be an agent's name.
    AgentName(String),
    /// 2005: it cannot be a session's id.
    SessionId(String),
    /// 2005: an entry is larger than any frame.
    TooLong,
    /// 2005: what is imported is no session.
    Import {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, as the end of a sentence.
        why: String,
    },
    /// 3003: too much waits for the disk.
    Busy,
    /// 3003: the workspace has as many sessions as it may.
    Full {
        /// The workspace.
        agent: String,
        /// How many it may have.
        most: usize,
    },
    /// 3004: a file cannot be read or written.
    Io {
        /// What failed: `read`, `write`, …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl SessionError {
    /// Its error of the registry.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => ErrorCode::SessionNotFound,
            Self::Expired { .. } => ErrorCode::SessionExpired,
            Self::Locked { .. } | Self::Leaving { .. } | Self::ReadOnly => ErrorCode::SessionLocked,
            Self::Corrupt { .. } => ErrorCode::SessionCorrupt,
            Self::Exists { .. } | Self::SessionId(_) | Self::TooLong | Self::Import { .. } => {
                ErrorCode::InvalidContent
            }
            Self::AgentName(_) => ErrorCode::AgentNotFound,
            Self::Busy | Self::Full { .. } => ErrorCode::AgentBusy,
            Self::Io { .. } => ErrorCode::AgentError,
        }
    }

    /// The sentence for whoever is at the other end of a connection, who must not learn where files are.
    pub fn told(&self) -> String {
        match self {
            Self::Locked { .. } | Self::ReadOnly => {
                "another process has the sessions; try again when it is done".into()
            }
            Self::Corrupt { session, line, .. } => format!(
                "what is stored of the session `{session}` cannot be read from line {line} of its file on; the gateway's operator has to see to it, and another session can be begun"
            ),
            Self::Io { what, .. } => {
                format!("the gateway cannot {what} its sessions; its operator has to see to it")
            }
            other => other.to_string(),
        }
    }

    /// The same for somebody else whom it concerns. Only files that fail concern several.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Io { what, path, error } => {
                let error = io::Error::new(error.kind(), error.to_string());
                Self::io(what, path, error)
            }
            _ => Self::Busy,
        }
    }

    pub(super) fn io(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            error,
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { agent, session } => write!(
                f,
                "the workspace `{agent}` has no session `{session}`; create it, or list those it has"
            ),
            Self::Expired {
                agent,
                session,
                archived: true,
            } => write!(
                f,
                "the session `{session}` of `{agent}` is archived; export it to read it, or begin another"
            ),
            Self::Expired { agent, session, .. } => write!(
                f,
                "the session `{session}` of `{agent}` has expired; export it to read it, or begin another"
            ),
            Self::Locked { path, process } => {
                write!(f, "the sessions are in use (`{}`", path.display())?;
                if let Some(process) = process {
                    write!(f, ", process {process}")?;
                }
                f.write_str("); stop the gateway that has them, or ask it")
            }
            Self::Leaving { agent, session } => write!(
                f,
                "the session `{session}` of `{agent}` is being archived; begin another, or export it when that is done"
            ),
            Self::ReadOnly => {
                f.write_str("the sessions were opened to be read; open them to be written")
            }
            Self::Corrupt {
                session,
                path,
                line,
            } => write!(
                f,
                "the session `{session}` cannot be read: line {line} of `{}` is damaged; mend the line, or delete the session",
                path.display()
            ),
            Self::Exists { agent, session } => write!(
                f,
                "the workspace `{agent}` has a session `{session}` already; choose another id"
            ),
            Self::AgentName(name) => write!(
                f,
                "`{}` cannot be an agent's name; use 1 to 64 letters, digits, `-`, `_` and `.`, no dot first, and no name that differs from another in case alone",
                shortened(name)
            ),
            Self::SessionId(id) => write!(
                f,
                "`{}` cannot be a session's id; use 1 to 256 bytes without control characters",
                shortened(id)
            ),
            Self::Import { line, why } => {
                write!(f, "nothing was imported: line {line} {why}")
            }
            Self::TooLong => f.write_str("the entry is too large to be kept; say less at a time"),
            Self::Busy => f.write_str(
                "more messages wait to be kept than fit; send fewer, and try again in a second",
            ),
            Self::Full { agent, most } => write!(
                f,
                "the workspace `{agent}` has {most} sessions, the most it may; archive or delete some"
            ),
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} `{}`: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The beginning of a name that somebody else chose.
fn shortened(name: &str) -> String {
    let short: String = name.chars().take(64).collect();
    short.escape_debug().to_string()
}
