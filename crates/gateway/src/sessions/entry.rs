//! Entries of sessions.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::line::Event;

use collective::Envelope;
use common::validation;

/// The roles of a message (Heretek A2A §4.2).
const ROLES: [&str; 4] = ["user", "assistant", "system", "agent"];

/// One entry of a session (Heretek A2A §7.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry<'a> {
    /// When the gateway received it, in milliseconds since 1970.
    #[serde(default, deserialize_with = "validation::whole")]
    pub timestamp: u64,
    /// The speaker: `user`, `assistant`, `system` or `agent`.
    pub role: Cow<'a, str>,
    /// Text or an object.
    pub content: Cow<'a, Value>,
    /// Its session.
    pub session_id: Cow<'a, str>,
    /// The id of the message; empty if it has none.
    #[serde(default)]
    pub id: Cow<'a, str>,
    /// The change of the session that the line records instead of an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<Event>,
}

impl<'a> Entry<'a> {
    /// Returns the entry for a message received at `now`: `content.content` if the content has the form of a message (Heretek
    /// A2A §4.2), otherwise the content itself with the role `agent`.
    pub fn of(envelope: &'a Envelope, session_id: &'a str, now: SystemTime) -> Self {
        let content = envelope.content();
        let role = content.get("role").and_then(Value::as_str);
        let role = role.filter(|role| ROLES.contains(role));
        let inner = role.and(content.get("content"));
        Self {
            timestamp: millis(now),
            role: role.unwrap_or("agent").into(),
            content: Cow::Borrowed(inner.unwrap_or(content)),
            session_id: session_id.into(),
            id: envelope.id().unwrap_or_default().into(),
            event: None,
        }
    }
}

/// Converts a time to milliseconds since 1970; earlier times are 0.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
