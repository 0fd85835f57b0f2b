//! Names that become folders, and ids that become keys.

use super::SessionError;

/// The longest name of an agent, in bytes.
const LONGEST_NAME: usize = 64;

/// The longest id of a session, in bytes.
const LONGEST_ID: usize = 256;

/// Checks that `name` can be an agent's: it becomes the name of a folder, so nothing in it may lead elsewhere.
pub(super) fn agent(name: &str) -> Result<(), SessionError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = name.chars().next();
    let good = first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= LONGEST_NAME
        && name.chars().all(fits)
        && !name.ends_with('.');
    if good {
        return Ok(());
    }
    Err(SessionError::AgentName(name.to_owned()))
}

/// Checks that `id` can be a session's. It is never part of a path.
pub(super) fn session(id: &str) -> Result<(), SessionError> {
    if id.is_empty() || id.len() > LONGEST_ID || id.chars().any(char::is_control) {
        return Err(SessionError::SessionId(id.to_owned()));
    }
    Ok(())
}
