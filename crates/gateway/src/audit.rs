//! The audit log: sender, recipient, type, time and outcome of each message, without its content (Heretek A2A §13.4).

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::config::ServerConfig;
use base::audit::Lines;
use base::audit::fields::{short, time};
use base::log::Log;
use collective::{ErrorCode, Kind};

/// The audit log of a gateway. A disabled log ignores all records.
pub struct Audit(Option<Lines>);

/// The record of one message.
#[derive(Debug, Clone, Serialize)]
pub struct AuditRecord<'a> {
    /// When the gateway received it, in UTC.
    #[serde(serialize_with = "time")]
    pub time: SystemTime,
    /// The id of the message.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub id: Option<&'a str>,
    /// The type of the message.
    #[serde(
        rename = "type",
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_kind"
    )]
    pub kind: Option<Kind>,
    /// The sender: an agent, or the id of a client without agents.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub from: Option<&'a str>,
    /// The recipient: an agent, a service, `triad`, `*`, or none.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub to: Option<&'a str>,
    /// The identity of the sender.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub identity: Option<&'a str>,
    /// The outcome of the message.
    pub outcome: Outcome,
    /// The number of messages that the record counts; `None` for a record of one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The gateway delivered it.
    Delivered,
    /// The gateway performed the requested operation.
    Done,
    /// The message had no recipient, or needed none.
    Dropped,
    /// The gateway refused it with this error.
    Refused(ErrorCode),
    /// The gateway refused several messages, above the rate at which it records each.
    Refusals,
}

impl Audit {
    /// Creates the audit log of `config`. Opens the file when the first record is written.
    pub fn new(config: &ServerConfig, log: Arc<dyn Log>) -> Self {
        let lines = || Lines::new(config.audit_path(), config.audit.max_bytes, log);
        Self(config.audit.enabled.then(lines))
    }

    /// Queues a record for the writer thread. Blocks while the queue is full.
    pub fn write(&self, record: &AuditRecord<'_>) {
        if let Some(lines) = &self.0 {
            // Serialization only fails for maps with non-string keys, and a record has none.
            let mut line = serde_json::to_string(record).unwrap_or_default();
            line.push('\n');
            lines.write(line);
        }
    }

    /// Writes the queued records. Blocks.
    pub fn close(&self) {
        if let Some(lines) = &self.0 {
            lines.close();
        }
    }
}

fn serialize_kind<S: Serializer>(kind: &Option<Kind>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.map_or("", Kind::as_str))
}

impl Outcome {
    /// Returns the name of the outcome, or that of the error.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Done => "done",
            Self::Dropped => "dropped",
            Self::Refused(code) => code.name(),
            Self::Refusals => "refused",
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests;
