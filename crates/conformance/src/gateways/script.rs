//! The script of a gateway, as JSON. Unknown fields are errors.

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::peers::{Piece, one_or_more};

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
