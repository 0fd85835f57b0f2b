//! Backends of agents.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use base::config::Secret;
use base::validation;

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
    #[serde(default = "timeout_ms", deserialize_with = "validation::integer")]
    pub timeout_ms: u64,
    /// The maximum number of messages and proposals that the agent answers concurrently.
    #[serde(default = "concurrency")]
    pub concurrency: NonZeroUsize,
}

/// The endpoint of a model with OpenAI's Chat Completions API.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelConfig {
    /// The name of the model at the endpoint.
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
