//! What a session is made of.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use collective::Envelope;
use common::validation;

/// Who can speak (000 §4.2).
const ROLES: [&str; 4] = ["user", "assistant", "system", "agent"];

/// One entry of a session (000 §7.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry<'a> {
    /// When it was kept, in milliseconds since 1970.
    #[serde(default, deserialize_with = "validation::whole")]
    pub timestamp: u64,
    /// Who speaks: `user`, `assistant`, `system` or `agent`.
    pub role: Cow<'a, str>,
    /// What is said: text or an object.
    pub content: Cow<'a, Value>,
    /// The session it belongs to.
    pub session_id: Cow<'a, str>,
    /// The id of the message; empty where it has none.
    #[serde(default)]
    pub id: Cow<'a, str>,
}

impl<'a> Entry<'a> {
    /// The entry for a message that came in at `now` and belongs to a session: `content.content` where the content has the
    /// form of a message (000 §4.2), else the content as it is, said by an agent. A message without an id gets none.
    pub fn of(envelope: &'a Envelope, session_id: &'a str, now: SystemTime) -> Self {
        let said = envelope.content();
        let role = said.get("role").and_then(Value::as_str);
        let role = role.filter(|role| ROLES.contains(role));
        let inner = role.and(said.get("content"));
        Self {
            timestamp: millis(now),
            role: role.unwrap_or("agent").into(),
            content: Cow::Borrowed(inner.unwrap_or(said)),
            session_id: session_id.into(),
            id: envelope.id().unwrap_or_default().into(),
        }
    }

    /// The same entry, borrowing nothing.
    pub fn into_owned(self) -> Entry<'static> {
        Entry {
            timestamp: self.timestamp,
            role: Cow::Owned(self.role.into_owned()),
            content: Cow::Owned(self.content.into_owned()),
            session_id: Cow::Owned(self.session_id.into_owned()),
            id: Cow::Owned(self.id.into_owned()),
        }
    }
}

/// Milliseconds since 1970; 0 for times before.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
