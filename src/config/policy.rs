//! Limits on what requests may set.
use serde::{Deserialize, Serialize};

use base::validation;

/// Limits on what requests may set.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// The output media types to request by default.
    pub accepted_output_modes: Vec<String>,
    /// Compares URLs after normalization, not byte by byte.
    pub normalize_base_url: bool,
    /// Refuses a configuration that prefers an unsupported transport.
    pub enforce_supported_transports: bool,
    /// Allows a request to name a URL that is not configured.
    pub allow_target_url_override: bool,
    /// Allows such a URL to lead to an address that is not public.
    pub allow_private_target_urls: bool,
    /// How many delegations may lie between the first caller and a peer.
    #[serde(deserialize_with = "validation::integer")]
    pub max_delegation_depth: u64,
    /// Connects through the proxy that the environment names.
    pub use_system_proxy: bool,
    /// The callback URLs that requests may name; any public one if empty.
    pub push_callback_urls: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            accepted_output_modes: Vec::new(),
            normalize_base_url: true,
            enforce_supported_transports: true,
            allow_target_url_override: false,
            allow_private_target_urls: false,
            max_delegation_depth: 4,
            use_system_proxy: false,
            push_callback_urls: Vec::new(),
        }
    }
}
