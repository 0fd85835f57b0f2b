//! The audit log: caller, time, target and outcome of each call, never its content.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use a2a::Usage;
use base::audit::Lines;
use base::audit::fields::{short, time};
use base::log::Log;
use serde::{Serialize, Serializer};

/// The audit log of one instance.
pub struct AuditLog(Lines);

impl AuditLog {
    pub fn new(path: PathBuf, max_bytes: u64, log: Arc<dyn Log>) -> Self {
        Self(Lines::new(path, max_bytes, log))
    }

    pub fn write(&self, record: &Record<'_>) {
        self.0.write(record.line());
    }

    /// Waits until the lines written so far are in the file. A later line is written by the thread that adds it.
    pub fn close(&self) {
        self.0.close();
    }
}

/// The members of one line. Unknown ones are omitted.
#[derive(Debug, Clone, Serialize)]
pub struct Record<'a> {
    /// When the call began, in UTC (RFC 3339).
    #[serde(serialize_with = "time")]
    pub time: SystemTime,
    /// The trace that the call is part of (W3C Trace Context): 32 hexadecimal digits.
    pub trace_id: String,
    /// The host's agent that called, as the host reports it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub agent: Option<&'a str>,
    /// The operator of the host who called, also in the name of `agent`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub operator: Option<&'a str>,
    /// The host's session that called.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub session: Option<&'a str>,
    /// The chain of delegations that the message belongs to.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub chain: Option<&'a str>,
    /// `list_targets`, `send`, `watch`, `status` or `cancel`; `unknown` for any other action.
    pub action: &'static str,
    /// The group of calls that the call belongs to, or is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<&'a str>,
    /// The target's alias.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub target: Option<&'a str>,
    /// The origin of the target's base URL: scheme, host and port, never path or query.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub origin: Option<&'a str>,
    /// The transport to the peer; omitted where no peer was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// The task's id at the peer.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub task_id: Option<&'a str>,
    /// The conversation's id at the peer.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub context_id: Option<&'a str>,
    /// The parts of the message sent to the peer, in bytes of JSON.
    pub sent_bytes: u64,
    /// The peer's task, message and events, in bytes of JSON, without cards and HTTP framing.
    pub received_bytes: u64,
    /// The last known state of the task.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub state: Option<&'a str>,
    /// The questions that a person was asked, without words.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub questions: &'a [AskedQuestion],
    /// What the agent reports that the task used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<&'a Usage>,
    /// How long the call took, in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// `ok`, or the `reason` of the error that the call ended with.
    pub outcome: &'static str,
}

/// A question that a person was asked.
#[derive(Debug, Clone, Serialize)]
pub struct AskedQuestion {
    /// The question's id.
    pub id: String,
    /// What the person did.
    pub action: &'static str,
    /// Who it was, as the host says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Record<'_> {
    pub fn line(&self) -> String {
        // `serde_json` fails here only on maps with keys that are not strings, and the record has no map.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

fn millis<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(base::environment::millis(*duration))
}

#[cfg(test)]
mod tests;
