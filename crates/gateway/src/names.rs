//! Valid names of agents.

use collective::{ErrorCode, GATEWAY, imitates_marker};

use super::sessions;

/// Reserved names.
const RESERVED: [&str; 2] = [GATEWAY, "triad"];

/// The prefix of the ids of connections.
pub(super) const CLIENT_ID_PREFIX: &str = "client-";

/// Validates an agent's name. Names appear in lists, paths and targets.
///
/// # Errors
/// 2005 for an invalid name, 5004 for a reserved one.
pub(super) fn validate_agent_name(name: &str) -> Result<(), (ErrorCode, String)> {
    if !sessions::is_agent_name(name) {
        let message = "invalid agent name; use 1 to 64 letters, digits, `-`, `_` and `.`, a letter, a digit or `_` first, and no dot last";
        return Err((ErrorCode::InvalidContent, message.to_owned()));
    }
    if RESERVED.contains(&name) || name.starts_with(CLIENT_ID_PREFIX) {
        let message = format!("the name `{name}` is reserved; choose another name");
        return Err((ErrorCode::PermissionDenied, message));
    }
    Ok(())
}

/// Validates a name that a client chose, as [`validate_agent_name`] does. Readers see the name beside the text of their own
/// tools, so it must not read as a marker or a role.
///
/// # Errors
/// 2005 for an invalid name, 5004 for a reserved one.
pub(super) fn validate_client_name(name: &str) -> Result<(), (ErrorCode, String)> {
    validate_agent_name(name)?;
    match imitates_marker(name) {
        true => {
            let message =
                format!("the name `{name}` reads as a marker or a role; choose another name");
            Err((ErrorCode::PermissionDenied, message))
        }
        false => Ok(()),
    }
}
