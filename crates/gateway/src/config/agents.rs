//! Agents, services and the triad.

use std::fmt;

use serde::Deserialize;

use super::{BackendConfig, Permissions};
use base::validation;
use collective::{DELIBERATION_MS, Quorum};

/// A configured agent. The gateway lists it even before it connects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// Its name, which is also the name of its workspace.
    pub name: String,
    /// Its role, such as `Triad member`.
    pub role: String,
    /// Its purpose.
    pub description: Option<String>,
    /// The maximum permissions of clients that act as this agent. `None` does not restrict their roles.
    pub permissions: Option<Permissions>,
    /// The backend of an agent that the gateway itself runs. `None` means that a client serves the agent.
    pub backend: Option<BackendConfig>,
}

/// A service that is not an agent (Heretek A2A §6.4).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceConfig {
    /// Its name.
    pub service_id: String,
    /// The URL for requests, `http` or `https`.
    pub endpoint: String,
    /// Its capabilities.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The URL of its health check, `http` or `https`.
    pub health_endpoint: Option<String>,
}

/// The voters and the deadline of proposals.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TriadConfig {
    /// The names of its three members.
    pub members: Vec<String>,
    /// The voting time of a proposal without a deadline, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub deadline_ms: u64,
    /// The quorum of a decision.
    pub quorum: Quorum,
}

impl Default for TriadConfig {
    fn default() -> Self {
        Self {
            members: ["alpha", "beta", "charlie"].map(str::to_owned).to_vec(),
            deadline_ms: DELIBERATION_MS,
            quorum: Quorum::default(),
        }
    }
}

/// Omits the URLs, because path and query may contain a key.
impl fmt::Debug for ServiceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceConfig")
            .field("service_id", &self.service_id)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// Returns the twelve agents of the collective (Heretek A2A §8.1).
pub(super) fn collective() -> Vec<AgentConfig> {
    let agents = [
        ("main", "Default agent"),
        ("steward", "Orchestrator"),
        ("alpha", "Triad member"),
        ("beta", "Triad member"),
        ("charlie", "Triad member"),
        ("examiner", "Evaluator"),
        ("explorer", "Researcher"),
        ("sentinel", "Safety"),
        ("coder", "Developer"),
        ("dreamer", "Creative"),
        ("empath", "Emotional"),
        ("historian", "Historical"),
    ];
    let agent = |(name, role): (&str, &str)| AgentConfig {
        name: name.into(),
        role: role.into(),
        description: None,
        permissions: None,
        backend: None,
    };
    agents.map(agent).to_vec()
}
