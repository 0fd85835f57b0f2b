//! Agent names, session ids and the paths derived from them.

use std::fmt;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

const MAX_AGENT_BYTES: usize = 64;
const MAX_SESSION_ID_BYTES: usize = 256;

/// The maximum length in bytes of a session id that is used as a file name.
const MAX_PLAIN_BYTES: usize = 100;

/// The directory of active sessions, in the directory of their workspace.
pub(super) const ACTIVE: &str = "sessions";
/// The directory of the archived sessions.
pub(super) const ARCHIVE: &str = "archive";
pub(super) const EXTENSION: &str = "jsonl";

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
    pub(super) fn new(agent: &str, session: &str) -> Option<Self> {
        let length = 1..=MAX_SESSION_ID_BYTES;
        let valid = length.contains(&session.len()) && !session.chars().any(char::is_control);
        let (agent, session) = (agent.to_owned(), session.to_owned());
        valid.then_some(Self { agent, session })
    }

    /// Returns the path of the session's file in the directory `folder` of its workspace.
    pub(super) fn path(&self, root: &Path, folder: &str) -> PathBuf {
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
pub(super) fn file_stem(session: &str) -> String {
    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if session.len() <= MAX_PLAIN_BYTES && session.chars().all(safe) {
        return session.to_owned();
    }
    let hash = digest(&SHA256, session.as_bytes());
    let hex = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("~".to_owned()).chain(hex).collect()
}
