//! The script of a gateway, as JSON. Unknown fields are errors.

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::conformance::peers::{Piece, one_or_more};

/// Matchers by JSON Pointer, as in the strict comparison of cases. All of them must hold.
pub(super) type Condition = BTreeMap<String, Value>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    /// A description for people.
    #[serde(default, rename = "about")]
    _about: String,
    /// The responses to upgrades: the first match applies, and 404 without one.
    #[serde(default = "any_door", deserialize_with = "one_or_more")]
    pub(super) upgrade: Vec<UpgradeReply>,
    /// The responses to frames: the first match that is not used up.
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
    /// Answered with this instead of an upgrade, as it stands, and closed.
    pub(super) raw: Option<Vec<Piece>>,
    /// `echo` selects what was offered first; another text is selected as it stands; without it none is.
    pub(super) protocol: Option<String>,
    /// More headers of the upgrade.
    #[serde(default)]
    pub(super) headers: Map<String, Value>,
    /// Pings of the WebSocket are left unanswered.
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
    /// Whether the frame is JSON; either will do where nothing is said.
    pub(super) json: Option<bool>,
    /// Only on connections that came with this path.
    pub(super) path: Option<String>,
    /// Only where something is kept under this name.
    pub(super) given: Option<String>,
    /// Only where nothing is kept under this name.
    pub(super) unless: Option<String>,
    /// Only on the connection of this number, the first being 1.
    pub(super) connection: Option<usize>,
    /// The maximum number of frames that it matches.
    pub(super) times: Option<u64>,
    /// A name for what is done, so that `stop` can end it.
    #[serde(rename = "as")]
    pub(super) name: Option<String>,
    #[serde(rename = "do")]
    pub(super) acts: Vec<Action>,
    /// Done where it was stopped.
    #[serde(default)]
    pub(super) stopped: Vec<Action>,
}

/// One thing that is done.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Action {
    /// A text frame with this JSON.
    Send(Value),
    /// The same to every connection.
    SendAll(Value),
    /// A text frame with this text.
    Text(String),
    /// A frame of any shape.
    Frame(Frame),
    /// Bytes as they stand.
    Raw(Vec<Piece>),
    /// Waits.
    DelayMs(u64),
    /// Waits until it is released, for ever or for so long.
    Await(Gate),
    /// Opens a gate.
    Release(String),
    /// Keeps values under names, for placeholders.
    Remember(BTreeMap<String, Value>),
    /// Ends what goes by this name.
    Stop(String),
    /// These, over and over.
    Repeat(Repeat),
    /// A close frame; the connection ends once the other side has answered, or after a second.
    Close(Closing),
    /// The connection ends without one.
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
        /// Done instead of what follows, where the gate was not opened in time.
        #[serde(rename = "else")]
        late: Vec<Action>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    /// Absent: for ever.
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
    /// The sending side is closed, in the middle of whatever was being said.
    Drop,
    /// Stops reading and writing, and does not close.
    Hang,
}

impl Profile {
    pub(super) fn read(value: &Value) -> io::Result<Self> {
        Self::deserialize(value).map_err(|error| slip("gateway profile", &error))
    }
}

impl Action {
    pub(super) fn read(value: &Value) -> io::Result<Self> {
        Self::deserialize(value).map_err(|error| slip("act", &error))
    }
}

fn slip(what: &str, error: &serde_json::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
}

fn any_door() -> Vec<UpgradeReply> {
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
    fn a_slip_in_a_field_name_is_an_error() {
        for slip in [
            json!({"on": [{"when": {}, "do": [], "time": 1}]}),
            json!({"on": [{"do": [{"sned": {}}]}]}),
            json!({"upgrade": {"protocl": "echo"}}),
            json!({"on": [{"do": [{"await": {"gate": "g", "within_ms": 1, "els": []}}]}]}),
        ] {
            assert!(Profile::read(&slip).is_err(), "{slip}");
        }
    }

    #[test]
    fn empty_profile_accepts_all_clients() {
        assert_eq!(Profile::read(&json!({})).unwrap().upgrade.len(), 1);
    }
}
