//! What requests may do.

use serde::{Deserialize, Serialize};

use common::validation;

/// What requests may do.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Media types asked for when a request names none.
    pub accepted_output_modes: Vec<String>,
    /// Compares URLs by their meaning.
    pub normalize_base_url: bool,
    /// Refuses a configuration that prefers a transport that is not spoken.
    pub enforce_supported_transports: bool,
    /// A request may name a target by URL that is not configured.
    pub allow_target_url_override: bool,
    /// Such a target may be at an address that is not public.
    pub allow_private_target_urls: bool,
    /// How many delegations may lie between the first caller and a peer; a send beyond is refused.
    #[serde(deserialize_with = "validation::whole")]
    pub max_delegation_depth: u64,
    /// Connections go through the proxy that the environment names.
    pub use_system_proxy: bool,
    /// The callback addresses that requests may name; any public one where the list is empty.
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
