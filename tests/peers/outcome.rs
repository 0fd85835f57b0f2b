//! How a scenario ended, and whether that is as expected.

use std::fmt;

use serde_json::Value;

/// How a scenario ended. Whatever is none of these is a failed assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything arrived unchanged.
    Green,
    /// Everything but what the server itself loses or changes on the way.
    But(&'static str),
    /// The peer refused, or broke off.
    Refused(Refusal),
}

/// What a peer said instead of doing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its error code, the HTTP status, or else our reason: what a program can tell it by.
    pub label: String,
    /// Our sentence with the peer's own words in it.
    pub said: String,
}

/// What a scenario has to end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Green,
    But(&'static str),
    /// The refusal's label, and words of the peer that have to be in it.
    Refused(&'static str, &'static str),
    /// The peer has no such thing, so there is nothing to try.
    NotOffered,
}

impl Outcome {
    /// Returns the refusal in an answer that is an error of the peer.
    pub fn refused(answer: &Value) -> Self {
        assert_eq!(answer["ok"], false, "{answer:#}");
        assert_eq!(answer["error"]["code"], "A2A_SDK_ERROR", "{answer:#}");
        let error = &answer["error"];
        let label = match (
            &error["details"]["rpcCode"],
            &error["details"]["http_status"],
        ) {
            (Value::Number(code), _) => code.to_string(),
            (_, Value::Number(status)) => format!("HTTP {status}"),
            _ => text(&error["reason"]),
        };
        Self::Refused(Refusal {
            label,
            said: text(&error["message"]),
        })
    }

    /// A sentence on what is wrong, where it is not what was expected.
    pub fn held_against(&self, expected: &Expected) -> Result<(), String> {
        let holds = match (self, expected) {
            (Self::Green, Expected::Green) => true,
            (Self::But(note), Expected::But(wanted)) => note == wanted,
            (Self::Refused(refusal), Expected::Refused(label, words)) => {
                refusal.label == *label && refusal.said.contains(words)
            }
            _ => false,
        };
        if holds {
            return Ok(());
        }
        Err(format!("it was {self}, and {expected} is expected"))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Green => formatter.write_str("green"),
            Self::But(note) => write!(formatter, "green but for `{note}`"),
            Self::Refused(Refusal { label, said }) => {
                write!(formatter, "refused with {label}, `{said}`")
            }
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Green => formatter.write_str("green"),
            Self::But(note) => write!(formatter, "green but for `{note}`"),
            Self::Refused(label, words) => write!(formatter, "a refusal with {label}, `{words}`"),
            Self::NotOffered => formatter.write_str("nothing"),
        }
    }
}
