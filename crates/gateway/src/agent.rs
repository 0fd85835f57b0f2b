//! How an agent reports its status and runs, and the names that it may have.

use std::time::Instant;

use base::text::first_chars;
use serde_json::{Value, json};

use collective::{ErrorCode, GATEWAY, imitates_marker};

use super::sessions;

/// The maximum length of an exit reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// The name of the triad, to which proposals go.
pub(super) const TRIAD: &str = "triad";

/// Reserved names.
const RESERVED: [&str; 2] = [GATEWAY, TRIAD];

/// The prefix of the ids of connections.
pub(super) const CLIENT_ID_PREFIX: &str = "client-";

/// The run status of an agent in the gateway's own process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RunStatus {
    /// The number of restarts.
    restarts: u64,
    /// The time of the next start, if the agent waits for one.
    starts_at: Option<Instant>,
    /// The reason of the last exit.
    last_exit: Option<String>,
}

impl RunStatus {
    /// Records that the agent started.
    pub(super) fn on_started(&mut self) {
        self.restarts += u64::from(self.starts_at.take().is_some());
    }

    /// Records that the agent ended, and when it restarts.
    pub(super) fn on_exit(&mut self, reason: &str, starts_at: Instant) {
        self.starts_at = Some(starts_at);
        self.last_exit = Some(first_chars(reason, MAX_REASON_CHARS).to_owned());
    }

    /// Returns the status for lists of agents. With `with_reason`, includes the reason of the last exit.
    pub(super) fn to_json(&self, now: Instant, with_reason: bool) -> Value {
        let mut status = json!({"restarts": self.restarts});
        if let Some(at) = self.starts_at {
            let remaining_ms = at.saturating_duration_since(now).as_millis();
            status["startsInMs"] = u64::try_from(remaining_ms).unwrap_or(u64::MAX).into();
        }
        if let Some(reason) = self.last_exit.as_ref().filter(|_| with_reason) {
            status["lastExit"] = reason.as_str().into();
        }
        status
    }
}

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
