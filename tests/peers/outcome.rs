//! The outcome of a scenario, and its expectation.

use std::fmt;

use serde_json::Value;

/// The outcome of a scenario. Any other end is a failed assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything arrived unchanged.
    Green,
    /// Everything arrived, except for losses or changes of the server.
    Deviates(&'static str),
    /// The peer refused or broke off.
    Refused(Refusal),
}

/// The refusal of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its label for programs: the error code, the HTTP status, or else the tool's reason.
    pub label: String,
    /// The tool's message, which quotes the peer.
    pub message: String,
}

/// The expected outcome of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Green,
    Deviates(&'static str),
    /// A refusal with this label and these words of the peer.
    Refused(&'static str, &'static str),
    /// The peer lacks the feature, so the scenario does not run.
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
            message: text(&error["message"]),
        })
    }

    /// Returns a sentence about the difference from the expectation.
    pub fn compare(&self, expected: &Expected) -> Result<(), String> {
        let matches = match (self, expected) {
            (Self::Green, Expected::Green) => true,
            (Self::Deviates(note), Expected::Deviates(expected)) => note == expected,
            (Self::Refused(refusal), Expected::Refused(label, message)) => {
                refusal.label == *label && refusal.message.contains(message)
            }
            _ => false,
        };
        if matches {
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
            Self::Deviates(note) => write!(formatter, "green but for `{note}`"),
            Self::Refused(Refusal { label, message }) => {
                write!(formatter, "refused with {label}, `{message}`")
            }
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Green => formatter.write_str("green"),
            Self::Deviates(note) => write!(formatter, "green but for `{note}`"),
            Self::Refused(label, message) => {
                write!(formatter, "a refusal with {label}, `{message}`")
            }
            Self::NotOffered => formatter.write_str("nothing"),
        }
    }
}
