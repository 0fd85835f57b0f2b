//! Sessions on disk: JSON Lines, one append-only file per session.
//!
//! Below the state directory, `agents/NAME/sessions/FILE.jsonl` contains the entries of one session, one per line, in the
//! format of Heretek A2A §7.2. Only `rekey` changes a written line. Archiving moves the file to `agents/NAME/archive/`; deleting
//! removes it. A kill loses only entries that are not acknowledged; what
//! a loss of power loses depends on [`Fsync`](base::files::Fsync). With `sessions.encryption`, each line is encrypted.

mod encryption;
mod line;
mod manage;
mod rekey;
mod scan;
mod store;
mod writer;

use std::fs::{File, TryLockError};
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use line::{Event, NewLine};
use ring::digest::{SHA256, digest};
use store::Store;

use crate::config::ServerConfig;
use base::config::ConfigError;
use base::environment::Environment;
use base::files::{self, LockedFile};
use base::log::Log;
use base::text::{first_chars, hex};
use collective::ErrorCode;

pub use encryption::{EncryptionKeys, Form, KeyId};
pub use line::Entry;
pub use manage::{Reader, State, Summary};

/// The directory of all workspaces, below the state directory.
const AGENTS: &str = "agents";

const MAX_AGENT_BYTES: usize = 64;
const MAX_SESSION_ID_BYTES: usize = 256;

/// The maximum length in bytes of a session id that is used as a file name.
const MAX_PLAIN_BYTES: usize = 100;

/// The directory of active sessions, in the directory of their workspace.
const ACTIVE: &str = "sessions";
/// The directory of the archived sessions.
const ARCHIVE: &str = "archive";
const EXTENSION: &str = "jsonl";

/// The sessions of all workspaces. Clones share them.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    /// The lock of the process that may write; `None` for read-only access.
    lock: Option<ProcessLock>,
}

impl Sessions {
    /// Opens the sessions for writing and locks out other processes. Blocks.
    ///
    /// # Errors
    /// 4003 if another process holds the lock, 3004 if a key cannot be used.
    pub fn open(
        config: &ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, SessionError> {
        let store = Arc::new(Store::new(config, env, log)?);
        let lock = Some(ProcessLock::acquire(&config.state_dir.join(AGENTS))?);
        Ok(Self(Arc::new(Inner { store, lock })))
    }

    /// Opens the sessions for reading. Another process may write at the same time.
    ///
    /// # Errors
    /// 3004 if a key cannot be used.
    pub fn read_only(
        config: &ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, SessionError> {
        let store = Arc::new(Store::new(config, env, log)?);
        Ok(Self(Arc::new(Inner { store, lock: None })))
    }

    /// Appends an entry of a client, which counts towards the limits of its identity. Entries are appended in the order of the
    /// calls, even if the caller drops the future.
    ///
    /// # Errors
    /// 4001, 4002 or 4004 if the session does not accept entries, 3003 if the queue is full or the identity has added too much,
    /// 3004 if the write failed. The file does not contain the entry then, unless its removal failed too.
    pub(crate) fn append_for(
        &self,
        identity: &Arc<str>,
        agent: &str,
        entry: &Entry<'_>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        self.write(identity, agent, &entry.session_id, entry.into())
    }

    /// Creates a session for a client with the id `session_id` or a new id, and returns the id. Its file counts towards the
    /// limits of the client's identity.
    ///
    /// # Errors
    /// 2005 if the id is in use; otherwise the same as [`append_for`](Self::append_for).
    pub(crate) async fn create_for(
        &self,
        identity: &Arc<str>,
        agent: &str,
        session_id: Option<&str>,
    ) -> Result<String, SessionError> {
        let new_id = || format!("sess-{}", self.0.store.env.uuid());
        let id = session_id.map_or_else(new_id, str::to_owned);
        self.write_event(identity, agent, &id, Event::Created)
            .await?;
        Ok(id)
    }

    /// Syncs a session to disk and records the commit, which counts towards the limits of the client's identity.
    ///
    /// # Errors
    /// The same as [`append_for`](Self::append_for).
    pub(crate) async fn commit_for(
        &self,
        identity: &Arc<str>,
        agent: &str,
        session_id: &str,
    ) -> Result<(), SessionError> {
        let event = Event::Committed;
        self.write_event(identity, agent, session_id, event).await
    }

    fn write_event(
        &self,
        identity: &Arc<str>,
        agent: &str,
        session: &str,
        event: Event,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let line = event.line(session, self.0.store.now());
        self.write(identity, agent, session, line)
    }

    fn write(
        &self,
        identity: &Arc<str>,
        agent: &str,
        session: &str,
        line: NewLine,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let key = self.writable().and_then(|()| self.key(agent, session));
        let reply = key.and_then(|key| self.0.store.enqueue(identity, key, line));
        async move {
            reply?.await.unwrap_or_else(|_| {
                let error = io::Error::other("the gateway is shutting down");
                Err(SessionError::io("write", AGENTS.as_ref(), error))
            })
        }
    }

    /// Returns the number of sessions of a workspace without archived ones. Needs no I/O once the workspace is in use.
    pub fn count(&self, agent: &str) -> usize {
        self.0.store.count(agent).unwrap_or(0)
    }

    /// Writes the queued lines and syncs them to disk. Blocks.
    ///
    /// # Errors
    /// 3004 if a file cannot be synced.
    pub fn close(&self) -> Result<(), SessionError> {
        self.0.store.flush()
    }

    fn key(&self, agent: &str, session: &str) -> Result<SessionKey, SessionError> {
        self.0.store.check_agent(agent)?;
        SessionKey::new(agent, session).ok_or_else(|| SessionError::SessionId(session.to_owned()))
    }

    fn writable(&self) -> Result<(), SessionError> {
        match self.0.lock {
            Some(_) => Ok(()),
            None => Err(SessionError::ReadOnly),
        }
    }
}

/// Writes the queued lines before other processes can acquire the lock.
impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.store.flush();
    }
}

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
    /// 4004: a line of the session's file, counted from 1, is damaged or missing.
    #[error("cannot read the {0}: line {2} of `{path}` is damaged or missing; restore the file, or delete the session", path = .1.display())]
    Corrupt(SessionKey, PathBuf, u64),
    /// 3004: the session is encrypted with a key that the gateway does not have.
    #[error(
        "cannot read the {0}: it is encrypted with the key `{1}`, which is not in `sessions.encryption.keys`; add the key, or delete the session if the key is lost"
    )]
    MissingKey(SessionKey, KeyId),
    /// 3004: the session is not encrypted, which the configuration refuses.
    #[error(
        "cannot read the {0}: it is not encrypted, and `sessions.encryption.refusePlain` is set; encrypt it with `remote-agent gateway sessions rekey`, or delete it"
    )]
    Plain(SessionKey),
    /// 3004: there is no key to encrypt sessions.
    #[error("cannot encrypt sessions without a key; set `sessions.encryption.keys`")]
    NoKeys,
    /// 3004: a key of the configuration cannot be used.
    #[error(transparent)]
    Keys(#[from] ConfigError),
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
            Self::Io(..) | Self::MissingKey(..) | Self::Plain(_) | Self::NoKeys | Self::Keys(_) => {
                ErrorCode::AgentError
            }
        }
    }

    /// Returns the message for clients, which omits paths.
    pub fn public_message(&self) -> String {
        match self {
            Self::Locked(..) | Self::ReadOnly => {
                "another process uses the sessions; try again later".into()
            }
            Self::Corrupt(key, _, line) => format!(
                "cannot read the {key}: line {line} of its file is damaged or missing; begin another session, or ask the gateway's operator to restore the file"
            ),
            Self::Io(action, ..) => {
                format!("the gateway cannot {action} its sessions; ask its operator")
            }
            Self::MissingKey(key, _) | Self::Plain(key) => {
                format!(
                    "the gateway cannot read the {key}; begin another session, or ask its operator"
                )
            }
            Self::NoKeys | Self::Keys(_) => {
                "the gateway cannot use its keys; ask its operator".into()
            }
            other => other.to_string(),
        }
    }

    fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io(action, path.to_owned(), Arc::new(error))
    }
}

/// Returns the printable beginning of a name that a client chose.
fn excerpt(name: &str) -> String {
    first_chars(name, 64).escape_debug().to_string()
}

/// Locks out other processes until it is dropped. The operating system releases the lock when the process ends.
struct ProcessLock {
    _file: LockedFile,
}

impl ProcessLock {
    /// Acquires the lock of the directory `folder`. Creates the directory if necessary.
    fn acquire(folder: &Path) -> Result<Self, SessionError> {
        files::create_private_dir(folder).map_err(|e| SessionError::io("create", folder, e))?;
        // No workspace can have this name.
        let path = folder.join(".lock");
        let opened = files::open_private_append(&path);
        let mut file = opened.map_err(|e| SessionError::io("open", &path, e))?;
        try_lock(&file, &path)?;
        // The content of the file is only informative; ignore errors.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self {
            _file: LockedFile(file),
        })
    }
}

/// Locks a file.
///
/// # Errors
/// 4003 if another process holds the lock.
fn try_lock(file: &File, path: &Path) -> Result<(), SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        // Some network file systems do not support locks. Continue without a lock.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let process = fs::read_to_string(path).ok();
            let process = process.and_then(|text| text.parse().ok());
            Err(SessionError::Locked(path.to_owned(), process))
        }
        Err(TryLockError::Error(error)) => Err(SessionError::io("lock", path, error)),
    }
}

/// Identifies a session of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    /// The agent whose workspace it is.
    pub agent: String,
    /// The session id.
    pub session: String,
}

impl SessionKey {
    /// Creates a key. Returns `None` for an invalid session id.
    fn new(agent: &str, session: &str) -> Option<Self> {
        let length = 1..=MAX_SESSION_ID_BYTES;
        let valid = length.contains(&session.len()) && !session.chars().any(char::is_control);
        let (agent, session) = (agent.to_owned(), session.to_owned());
        valid.then_some(Self { agent, session })
    }

    /// Returns the path of the session's file in the directory `folder` of its workspace.
    fn path(&self, root: &Path, folder: &str) -> PathBuf {
        let name = format!("{}.{EXTENSION}", file_stem(&self.session));
        root.join(&self.agent).join(folder).join(name)
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session `{}` of `{}`", self.session, self.agent)
    }
}

/// Returns whether an agent may have this name. The name becomes a directory, so it must not be a path to another one.
pub(crate) fn is_agent_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_AGENT_BYTES
        && name.chars().all(allowed)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && !name.ends_with('.')
}

/// Returns the file name of a session without extension: the id itself if every file system accepts it, otherwise `~` and
/// its SHA-256.
fn file_stem(session: &str) -> String {
    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if session.len() <= MAX_PLAIN_BYTES && session.chars().all(safe) {
        return session.to_owned();
    }
    format!("~{}", hex(digest(&SHA256, session.as_bytes()).as_ref()))
}

#[cfg(test)]
mod tests;
