//! The script of a gateway, as JSON, with placeholders `{{…}}` in its frames. Unknown fields are errors.
//!
//! `{{/POINTER}}` is a value of the answered frame (or of the upgrade), `{{i}}` the number of the repetition, `{{now}}` the
//! time in milliseconds, `{{now+MS}}` a later one, `{{iso}}` the time as text, `{{uuid}}` a new id, `{{connection}}` the number
//! of the connection, `{{port}}` the gateway's port, `{{mine:NAME}}` the value stored under `NAME` and the connection's number,
//! and any other name the value stored under it. A text of only a placeholder becomes the value itself, so that numbers stay
//! numbers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::peers::{Piece, one_or_more};
use crate::refs;

/// Matchers by JSON Pointer, as in the strict comparison of cases. All must match.
pub(super) type Condition = BTreeMap<String, Value>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    /// A description for people.
    #[serde(default, rename = "about")]
    _about: String,
    /// The responses to upgrades: the first match applies, and 404 without one.
    #[serde(default = "any_upgrade", deserialize_with = "one_or_more")]
    pub(super) upgrade: Vec<UpgradeReply>,
    /// The responses to frames: the first match with remaining uses applies.
    #[serde(default)]
    pub(super) on: Vec<Rule>,
    /// The response to other frames.
    #[serde(default)]
    pub(super) otherwise: Vec<Action>,
}

/// The response to an upgrade. `when` matches `{method, path, query, headers, connection}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpgradeReply {
    #[serde(default)]
    pub(super) when: Condition,
    /// The raw response instead of an upgrade, after which the connection closes.
    pub(super) raw: Option<Vec<Piece>>,
    /// The selected subprotocol: `echo` is the first offered one, another text itself; absent is none.
    pub(super) protocol: Option<String>,
    /// Further headers of the upgrade.
    #[serde(default)]
    pub(super) headers: Map<String, Value>,
    /// Whether to ignore pings of the WebSocket.
    #[serde(default)]
    pub(super) mute: bool,
    /// The acts after the connection opens.
    #[serde(default, rename = "do")]
    pub(super) acts: Vec<Action>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// The condition on the frame. A frame that is not JSON is a string.
    #[serde(default)]
    pub(super) when: Condition,
    /// Whether the frame must be JSON, or must not be; either if absent.
    pub(super) json: Option<bool>,
    /// Applies only to connections with this path.
    pub(super) path: Option<String>,
    /// Applies only if a value is stored under this name.
    pub(super) given: Option<String>,
    /// Applies only without a value under this name.
    pub(super) unless: Option<String>,
    /// Applies only to the connection with this number, from 1.
    pub(super) connection: Option<usize>,
    /// The maximum number of frames that it answers.
    pub(super) times: Option<u64>,
    /// The name of the acts for `stop`.
    #[serde(rename = "as")]
    pub(super) name: Option<String>,
    #[serde(rename = "do")]
    pub(super) acts: Vec<Action>,
    /// The acts after a stop.
    #[serde(default)]
    pub(super) stopped: Vec<Action>,
}

/// An act.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Action {
    /// Sends a text frame with this JSON.
    Send(Value),
    /// Sends the same to every connection.
    SendAll(Value),
    /// Sends a text frame with this text.
    Text(String),
    /// Sends a frame of any shape.
    Frame(Frame),
    /// Sends raw bytes.
    Raw(Vec<Piece>),
    /// Waits for this time, in milliseconds.
    DelayMs(u64),
    /// Waits until the gate opens, forever or up to its limit.
    Await(Gate),
    /// Opens a gate.
    Release(String),
    /// Stores values under names, for placeholders.
    Remember(BTreeMap<String, Value>),
    /// Stops the acts of this name.
    Stop(String),
    /// Repeats acts.
    Repeat(Repeat),
    /// Sends a close frame. The connection ends after the answer, or after a second.
    Close(Closing),
    /// Ends the connection without a close frame.
    End(End),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Frame {
    pub(super) opcode: u8,
    #[serde(default = "yes")]
    pub(super) last: bool,
    #[serde(default)]
    pub(super) reserved: u8,
    #[serde(default)]
    pub(super) masked: bool,
    /// A false length for the header.
    pub(super) length: Option<u64>,
    #[serde(default, deserialize_with = "one_or_more")]
    pub(super) payload: Vec<Piece>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Gate {
    Named(String),
    Bounded {
        gate: String,
        within_ms: Value,
        /// The acts instead of the following ones, if the gate did not open in time.
        #[serde(rename = "else")]
        late: Vec<Action>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    /// The number of repetitions; endless if absent.
    pub(super) count: Option<u64>,
    #[serde(default)]
    pub(super) gap_ms: u64,
    pub(super) each: Vec<Action>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Closing {
    pub(super) code: Option<u16>,
    #[serde(default)]
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// A TCP reset.
    Destroy,
    /// Closes the sending side, even within a frame.
    Drop,
    /// Stops reading and writing, and does not close.
    Hang,
}

impl Profile {
    pub(super) fn read(value: &Value) -> io::Result<Self> {
        Self::deserialize(value).map_err(|error| unknown_field("gateway profile", &error))
    }
}

impl Action {
    pub(super) fn read(value: &Value) -> io::Result<Self> {
        Self::deserialize(value).map_err(|error| unknown_field("act", &error))
    }
}

fn unknown_field(what: &str, error: &serde_json::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
}

fn any_upgrade() -> Vec<UpgradeReply> {
    vec![UpgradeReply::default()]
}

fn yes() -> bool {
    true
}

/// The values of placeholders.
#[derive(Clone, Copy)]
pub(super) struct Vars<'a> {
    pub(super) frame: &'a Value,
    pub(super) values: &'a Mutex<BTreeMap<String, Value>>,
    pub(super) connection: usize,
    pub(super) port: u16,
    pub(super) round: u64,
}

impl Vars<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        if name.is_empty() || name.starts_with('/') {
            return self.frame.pointer(name).cloned();
        }
        if let Some(later) = name.strip_prefix("now") {
            let later: u64 = match later.strip_prefix('+') {
                Some(ms) => ms.parse().ok()?,
                None if later.is_empty() => 0,
                None => return None,
            };
            return Some((now().as_millis() as u64 + later).into());
        }
        match name {
            "i" => Some(self.round.into()),
            "connection" => Some(self.connection.into()),
            "port" => Some(self.port.into()),
            "uuid" => Some(Uuid::new_v4().to_string().into()),
            "iso" => Some(
                humantime::format_rfc3339_millis(UNIX_EPOCH + now())
                    .to_string()
                    .into(),
            ),
            name => {
                let mine = name.strip_prefix("mine:");
                let mine = mine.map(|name| format!("{name} {}", self.connection));
                let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
                values.get(mine.as_deref().unwrap_or(name)).cloned()
            }
        }
    }

    /// Replaces the placeholders of a text.
    pub(super) fn text(&self, text: &str) -> String {
        let lookup = |name: &str| {
            Some(match self.lookup(name)? {
                Value::String(text) => text,
                other => other.to_string(),
            })
        };
        refs::fill(text, &lookup).into_owned()
    }

    /// Replaces the placeholders in every string and key of a JSON value.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let whole = text
                    .strip_prefix("{{")
                    .and_then(|rest| rest.strip_suffix("}}"))
                    .filter(|name| !name.contains("}}"));
                whole
                    .and_then(|name| self.lookup(name))
                    .unwrap_or_else(|| self.text(text).into())
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, item)| (self.text(key), self.value(item)))
                .collect(),
            other => other.clone(),
        }
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn misspelled_field_is_an_error() {
        for unknown_field in [
            json!({"on": [{"when": {}, "do": [], "time": 1}]}),
            json!({"on": [{"do": [{"sned": {}}]}]}),
            json!({"upgrade": {"protocl": "echo"}}),
            json!({"on": [{"do": [{"await": {"gate": "g", "within_ms": 1, "els": []}}]}]}),
        ] {
            assert!(Profile::read(&unknown_field).is_err(), "{unknown_field}");
        }
    }

    #[test]
    fn empty_profile_accepts_all_clients() {
        assert_eq!(Profile::read(&json!({})).unwrap().upgrade.len(), 1);
    }
}

#[cfg(test)]
mod vars_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn single_placeholder_keeps_its_type() {
        let frame = json!({"id": 7, "metadata": {"correlationId": "c-1"}});
        let values = Mutex::new(BTreeMap::from([("run c-1".to_owned(), json!(true))]));
        let vars = Vars {
            frame: &frame,
            values: &values,
            connection: 2,
            port: 9,
            round: 3,
        };
        let template = json!({
            "id": "{{/id}}", "text": "{{/metadata/correlationId}}/{{i}}/{{/nothing}}", "whole": "{{/metadata}}",
            "of {{connection}}": "{{run c-1}}", "sum": "{{i}}{{i}}",
        });
        let expected = json!({
            "id": 7, "text": "c-1/3/{{/nothing}}", "whole": {"correlationId": "c-1"}, "of 2": true, "sum": "33",
        });
        assert_eq!(vars.value(&template), expected);
    }

    #[test]
    fn later_time_is_a_number() {
        let vars = Vars {
            frame: &Value::Null,
            values: &Mutex::default(),
            connection: 1,
            port: 1,
            round: 0,
        };
        let (now, later) = (
            vars.value(&json!("{{now}}")),
            vars.value(&json!("{{now+60000}}")),
        );
        let ahead = later.as_u64().zip(now.as_u64()).map(|(b, a)| b - a);
        assert!(ahead.is_some_and(|ms| (60_000..70_000).contains(&ms)));
    }
}
