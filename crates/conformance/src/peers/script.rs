//! The script of a peer, as JSON, with placeholders `{{…}}` in its responses. Unknown fields are errors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::refs;

/// Every peer of a case by its name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    #[serde(default)]
    pub(super) peers: BTreeMap<String, Peer>,
}

impl Script {
    pub(super) fn read(value: &Value) -> io::Result<Self> {
        Self::deserialize(value).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("peer script: {error}"))
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    /// The port is bound without a listener.
    #[serde(default)]
    pub(super) unreachable: bool,
    /// Connections are accepted and never read.
    #[serde(default)]
    pub(super) accept_only: bool,
    #[serde(default, deserialize_with = "present")]
    pub(super) card: Option<Value>,
    #[serde(default = "default_card_path")]
    pub(super) card_path: String,
    #[serde(default = "default_rpc_path")]
    pub(super) rpc_path: String,
    #[serde(default)]
    pub(super) rpc: BTreeMap<String, Responses>,
    #[serde(default)]
    pub(super) routes: BTreeMap<String, Responses>,
}

/// Responses in order; the last one repeats.
#[derive(Debug)]
pub(super) struct Responses(pub(super) Vec<Response>);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    #[serde(default)]
    pub(super) delay_ms: u64,
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) headers: Map<String, Value>,
    pub(super) end: Option<End>,
    pub(super) close: Option<Close>,
    pub(super) sse: Option<Vec<Item>>,
    pub(super) body_repeat: Option<Padding>,
    pub(super) body: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(super) json: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) result: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) error: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) id: Option<Value>,
    pub(super) truncate_at: Option<u64>,
    pub(super) raw_response: Option<Vec<Piece>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// A TCP reset.
    Destroy,
    /// Sends nothing more and does not close.
    Hang,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Close {
    /// Only the sending side is closed; a body of unknown length stays unfinished.
    Half,
}

/// `chunk`, `count` times; endless without `count`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Padding {
    pub(crate) chunk: String,
    pub(crate) count: Option<u64>,
    #[serde(default)]
    pub(crate) gap_ms: u64,
}

/// One step of an event stream.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    #[serde(default)]
    pub(super) delay_ms: u64,
    pub(super) event: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(super) id: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) result: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) error: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(super) rest: Option<Value>,
    pub(super) raw: Option<String>,
    pub(super) raw_repeat: Option<Padding>,
    pub(super) repeat: Option<Repeat>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    #[serde(default)]
    pub(super) from: u64,
    /// The number of repetitions; endless if absent.
    pub(super) count: Option<u64>,
    #[serde(default)]
    pub(super) gap_ms: u64,
    #[serde(deserialize_with = "one_or_more")]
    pub(super) each: Vec<Item>,
}

/// A part of a response that the peer writes unchanged.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    Bytes(Vec<u8>),
    Wait(u64),
    Padding(Padding),
}

impl<'de> Deserialize<'de> for Responses {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let answers: Vec<Response> = one_or_more(input)?;
        if answers.is_empty() {
            return Err(serde::de::Error::custom(
                "a list of responses needs at least one",
            ));
        }
        Ok(Self(answers))
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        enum ItemFields {
            Hex(String),
            DelayMs(u64),
            Repeat(Padding),
        }
        use serde::de::Error;
        match Value::deserialize(input)? {
            Value::String(text) => Ok(Self::Text(text)),
            other => match ItemFields::deserialize(other).map_err(D::Error::custom)? {
                ItemFields::Hex(text) => bytes_of_hex(&text)
                    .map(Self::Bytes)
                    .ok_or_else(|| D::Error::custom(format!("not hex: `{text}`"))),
                ItemFields::DelayMs(ms) => Ok(Self::Wait(ms)),
                ItemFields::Repeat(fill) => Ok(Self::Padding(fill)),
            },
        }
    }
}

/// Distinguishes `null` (a value) from an absent field.
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

pub(crate) fn one_or_more<'de, D, T>(input: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let values = match Value::deserialize(input)? {
        Value::Array(values) => values,
        single => vec![single],
    };
    values
        .into_iter()
        .map(|value| serde_json::from_value(value).map_err(serde::de::Error::custom))
        .collect()
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| {
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    })
}

fn default_card_path() -> String {
    "/.well-known/agent-card.json".to_owned()
}

fn default_rpc_path() -> String {
    "/a2a/jsonrpc".to_owned()
}

/// The values of placeholders in one response.
pub(super) struct Vars<'a> {
    pub(super) own_origin: &'a str,
    pub(super) origins: &'a BTreeMap<String, String>,
    pub(super) rpc_id: Option<&'a Value>,
}

impl Vars<'_> {
    fn lookup(&self, name: &str) -> Option<String> {
        if name == "origin" {
            return Some(self.own_origin.to_owned());
        }
        lookup_origin(self.origins, name)
    }

    pub(super) fn fill_value(&self, value: &Value) -> Value {
        refs::fill_value(value, &|name| self.lookup(name))
    }

    pub(super) fn fill<'t>(&self, text: &'t str) -> Cow<'t, str> {
        refs::fill(text, &|name| self.lookup(name))
    }

    /// In raw bytes `{{rpc_id}}` is the request's id as JSON.
    pub(super) fn fill_raw(&self, text: &str) -> String {
        let id = || {
            self.rpc_id
                .map_or_else(|| "null".to_owned(), Value::to_string)
        };
        refs::fill(text, &|name| {
            if name == "rpc_id" {
                Some(id())
            } else {
                self.lookup(name)
            }
        })
        .into_owned()
    }
}

/// Resolves `origin:NAME` and `port:NAME`.
pub(crate) fn lookup_origin(origins: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let (what, peer) = name.split_once(':')?;
    let origin = origins.get(peer)?;
    match what {
        "origin" => Some(origin.clone()),
        "port" => origin.rsplit(':').next().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn null_card_is_a_card() {
        let script = Script::read(&json!({"peers": {"a": {"card": null}, "b": {}}})).unwrap();
        assert_eq!(script.peers["a"].card, Some(Value::Null));
        assert_eq!(script.peers["b"].card, None);
    }

    #[test]
    fn misspelled_field_is_an_error() {
        let unknown_field = json!({"peers": {"a": {"rpc": {"message/send": {"reslt": 1}}}}});
        let error = Script::read(&unknown_field).unwrap_err();
        assert!(error.to_string().contains("reslt"), "{error}");
    }

    #[test]
    fn empty_list_of_responses_is_an_error() {
        assert!(Script::read(&json!({"peers": {"a": {"routes": {"GET /": []}}}})).is_err());
    }

    #[test]
    fn raw_pieces_are_text_bytes_or_waits() {
        let response: Response = serde_json::from_value(
            json!({"raw_response": ["HTTP/1.1 200 OK\r\n", {"hex": "0d 0A"}, {"delay_ms": 3}]}),
        )
        .unwrap();
        let pieces = response.raw_response.unwrap();
        assert!(matches!(&pieces[1], Piece::Bytes(bytes) if bytes == b"\r\n"));
        assert!(matches!(pieces[2], Piece::Wait(3)));
    }
}
