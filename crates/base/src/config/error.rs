//! Errors of configurations.

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use serde_json::json;

use crate::validation;

/// A fault of a configuration, with its place. Shows no value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON Pointer (RFC 6901) to the place; empty for the whole.
    pub path: String,
    /// The fault and the repair, as a sentence without a full stop.
    pub message: String,
}

impl ConfigError {
    /// Returns an error at `path`.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// Creates the error of a schema violation.
    pub fn from_schema(violation: &jsonschema::ValidationError<'_>) -> Self {
        let (place, message) = validation::sentence(violation);
        // The schema has alternatives for secrets only.
        if matches!(violation.kind(), ValidationErrorKind::AnyOf { .. }) {
            let message =
                "must be a string that is not empty, or a SecretRef `{source, provider, id}`";
            return Self::at(place, message);
        }
        Self::at(place, message)
    }

    /// Returns the error as JSON: `{"code","message","path"}`.
    pub fn to_json(&self) -> String {
        json!({ "code": "INVALID_CONFIG", "message": self.to_string(), "path": self.path })
            .to_string()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "configuration at `{}`: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for ConfigError {}
