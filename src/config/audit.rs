use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use base::validation;

/// The audit log: caller, time, target and outcome of each call, never its content.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Audit {
    /// Whether the log is written.
    pub enabled: bool,
    /// The file that the log is written to. Required where the log is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The size at which the file is rotated, in bytes.
    #[serde(deserialize_with = "validation::integer")]
    pub max_bytes: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: false,
            path: None,
            max_bytes: 10 << 20,
        }
    }
}
