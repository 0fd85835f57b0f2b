//! Agents with their backends, services and the triad.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use base::config::Secret;
use base::settings;
use collective::{DELIBERATION_MS, Quorum};

use super::Permissions;

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

settings! {
    /// The voters and the deadline of proposals.
    #[derive(Debug, Clone, Deserialize)]
    pub struct TriadConfig {
        /// The names of its three members.
        pub members: Vec<String> = ["alpha", "beta", "charlie"].map(str::to_owned).to_vec(),
        /// The voting time of a proposal without a deadline, in milliseconds.
        pub deadline_ms: u64 = DELIBERATION_MS,
        /// The quorum of a decision.
        pub quorum: Quorum,
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

/// The backend of an agent that the gateway runs. Exactly one of `run`, `model`, `target` and `openclaw` is set. Neither
/// `Debug` nor the serialized form contains a secret.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendConfig {
    /// A shell command that runs for each message and each proposal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The endpoint of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelConfig>,
    /// A target of a configuration of the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetConfig>,
    /// An agent of a local OpenClaw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openclaw: Option<OpenClawConfig>,
    /// The timeout of a reply or a vote, in milliseconds.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// The maximum number of messages and proposals that the agent answers concurrently.
    #[serde(default = "concurrency")]
    pub concurrency: NonZeroUsize,
}

/// The endpoint of a model with OpenAI's Chat Completions API.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelConfig {
    /// The URL of the endpoint.
    pub url: String,
    /// The model, as the endpoint names it.
    pub name: String,
    /// The file with the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_file: Option<PathBuf>,
    /// The API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Whether the host name may resolve to an address that is not public.
    #[serde(default)]
    pub allow_private_network: bool,
}

/// A target of the plugin.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetConfig {
    /// Its alias.
    pub alias: String,
    /// The configuration of the plugin with the target.
    pub config_file: PathBuf,
}

/// An agent of a local OpenClaw.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenClawConfig {
    /// Its name.
    pub agent: String,
    /// The URL of OpenClaw's gateway; `None` for the gateway of the OpenClaw on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The token of OpenClaw's gateway; `None` for that of the OpenClaw on this machine if no URL is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
}

impl BackendConfig {
    /// The default of [`timeout_ms`](Self::timeout_ms).
    pub const TIMEOUT_MS: u64 = 120_000;
    /// The default of [`concurrency`](Self::concurrency).
    pub const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    /// Returns the kinds of backends that are set; a valid configuration has one.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let named = [
            ("run", self.run.is_some()),
            ("model", self.model.is_some()),
            ("target", self.target.is_some()),
            ("openclaw", self.openclaw.is_some()),
        ];
        named
            .into_iter()
            .filter_map(|(kind, is_named)| is_named.then_some(kind))
    }

    /// Returns the files that the backend needs.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let system = self
            .model
            .as_mut()
            .and_then(|model| model.system_file.as_mut());
        let target = self.target.as_mut().map(|target| &mut target.config_file);
        system.into_iter().chain(target)
    }
}

fn timeout_ms() -> u64 {
    BackendConfig::TIMEOUT_MS
}

fn concurrency() -> NonZeroUsize {
    BackendConfig::CONCURRENCY
}
