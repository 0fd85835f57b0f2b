//! The audit log: who sent what type of message to whom, when, and what came of it; never what was said (000 §13.4).

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::config::ServerConfig;
use collective::{ErrorCode, Kind};
use common::audit::Lines;
use common::audit::fields::{short, time};
use common::log::Log;

/// The audit log of a gateway. Where it is switched off it takes lines and does nothing.
pub struct Audit(Option<Lines>);

/// One message.
#[derive(Debug, Clone, Serialize)]
pub struct Passed<'a> {
    /// When it came in, in UTC.
    #[serde(serialize_with = "time")]
    pub time: SystemTime,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub id: Option<&'a str>,
    /// Its type.
    #[serde(
        rename = "type",
        skip_serializing_if = "Option::is_none",
        serialize_with = "word"
    )]
    pub kind: Option<Kind>,
    /// Who sent it: the agent, or the client's id where it is none.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub from: Option<&'a str>,
    /// Whom it was for: an agent, a service, `triad`, `*` or nobody.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub to: Option<&'a str>,
    /// Who sent it, by the credential.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short")]
    pub identity: Option<&'a str>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was handed to whom it was for.
    Delivered,
    /// The gateway did what it asked for.
    Done,
    /// Nobody was there to hand it to, or nobody needs to know.
    Dropped,
    /// It was answered with an error.
    Refused(ErrorCode),
}

impl Audit {
    /// The log in the file that `config` names. The first line opens it.
    pub fn new(config: &ServerConfig, log: Arc<dyn Log>) -> Self {
        let lines = || Lines::new(config.audit_path(), config.audit.max_bytes, log);
        Self(config.audit.enabled.then(lines))
    }

    /// Takes a line, which is written soon and by somebody else. Where thousands wait for the disk, whoever brings one more
    /// waits too.
    pub fn write(&self, passed: &Passed<'_>) {
        if let Some(lines) = &self.0 {
            // Writing to memory fails only where a map has keys that are no strings, and there is no map.
            let mut line = serde_json::to_string(passed).unwrap_or_default();
            line.push('\n');
            lines.write(line);
        }
    }

    /// Returns when every line that was taken is written. Blocks.
    pub fn close(&self) {
        if let Some(lines) = &self.0 {
            lines.close();
        }
    }
}

fn word<S: Serializer>(kind: &Option<Kind>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.map_or("", Kind::as_str))
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::Delivered => "delivered",
            Self::Done => "done",
            Self::Dropped => "dropped",
            Self::Refused(code) => code.name(),
        })
    }
}

#[cfg(test)]
mod tests;
