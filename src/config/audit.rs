//! The audit log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use common::validation;

/// The audit log: who called whom, when, and what came of it; never what was said.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Audit {
    /// Whether it is written.
    pub enabled: bool,
    /// The file it is written to. Needed where it is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How large the file may grow before it is put aside and a new one begun, in bytes.
    #[serde(deserialize_with = "validation::whole")]
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
