//! What an agent can be called.

use collective::{ErrorCode, GATEWAY};

use super::sessions;

/// What an agent cannot be called, because others are.
const RESERVED: [&str; 2] = [GATEWAY, "triad"];

/// How the ids of connections begin.
pub(super) const CLIENT: &str = "client-";

/// An agent's name is its workspace's, and is written in lists, paths and targets.
///
/// # Errors
/// 2005 it is no name, 5004 the gateway means something else by it.
pub(super) fn agent(name: &str) -> Result<(), (ErrorCode, String)> {
    if !sessions::is_agent_name(name) {
        let message = "an agent's name has 1 to 64 letters, digits, `-`, `_` and `.`, a letter, a digit or `_` first, and no dot last";
        return Err((ErrorCode::InvalidContent, message.to_owned()));
    }
    if RESERVED.contains(&name) || name.starts_with(CLIENT) {
        let message =
            format!("no agent can be called `{name}`: the gateway means something else by it");
        return Err((ErrorCode::PermissionDenied, message));
    }
    Ok(())
}
