//! Who is behind the gateway: agents, services, the triad.

use std::fmt;

use serde::Deserialize;

use super::Permissions;
use collective::{DELIBERATION_MS, Quorum};
use common::validation;

/// An agent that is known before it connects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// Its name, which is also its workspace's.
    pub name: String,
    /// What it is, such as `Triad member`.
    pub role: String,
    /// What it is for.
    pub description: Option<String>,
    /// What whoever speaks as this agent may do, at most. Without it, what their own roles allow.
    pub permissions: Option<Permissions>,
}

/// A service that is not an agent (000 §6.4).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceConfig {
    /// Its name.
    pub service_id: String,
    /// Where it takes requests, http or https.
    pub endpoint: String,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Where it says whether it works, http or https.
    pub health_endpoint: Option<String>,
}

/// Who votes on proposals, and for how long.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TriadConfig {
    /// Its three members by name.
    pub members: Vec<String>,
    /// How long a proposal waits for votes that says no deadline, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub deadline_ms: u64,
    /// When it is decided.
    #[serde(deserialize_with = "quorum")]
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

/// An endpoint's path and query may hold a key.
impl fmt::Debug for ServiceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceConfig")
            .field("service_id", &self.service_id)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

fn quorum<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Quorum, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Majority,
        All,
    }
    Ok(match Word::deserialize(deserializer)? {
        Word::Majority => Quorum::Majority,
        Word::All => Quorum::All,
    })
}

/// The twelve agents of the collective (000 §8.1).
pub(super) fn collective() -> Vec<AgentConfig> {
    let known = [
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
    };
    known.map(agent).to_vec()
}
