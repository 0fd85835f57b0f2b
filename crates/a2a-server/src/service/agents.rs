//! The agents behind the server, and which of them a request is for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Send;
use crate::call_context::CallContext;
use crate::executor::{Agent, Executor};
use a2a::{A2aError, ErrorReason};

/// Where a message or a request names the agent it is for.
pub const AGENT: &str = "openclaw-remote-agent/agent";

/// How long the answer of the executor is kept.
const CACHE_LIFETIME: Duration = Duration::from_secs(30);

/// What the executor said last.
#[derive(Default)]
pub(super) struct AgentCache(Mutex<Option<(Instant, Arc<[Agent]>)>>);

impl AgentCache {
    /// The agents. Where the executor cannot say any more, what it said before holds.
    pub(super) async fn get(&self, executor: &dyn Executor) -> Result<Arc<[Agent]>, A2aError> {
        // Held while the executor is asked, so that it is asked once.
        let mut known = self.0.lock().await;
        if let Some((at, agents)) = &*known
            && at.elapsed() < CACHE_LIFETIME
        {
            return Ok(agents.clone());
        }
        match executor.agents().await {
            Ok(agents) => {
                let agents: Arc<[Agent]> = agents.into();
                *known = Some((Instant::now(), agents.clone()));
                Ok(agents)
            }
            Err(error) => {
                tracing::warn!(%error, "the agents cannot be listed");
                match &*known {
                    Some((_, agents)) => Ok(agents.clone()),
                    None => Err(A2aError::new(
                        ErrorReason::Unavailable,
                        "which agents there are cannot be said now; try again in a moment",
                    )),
                }
            }
        }
    }
}

/// The agent that a request names, in its path, its metadata or as its tenant.
pub(super) fn named(caller: &CallContext, send: &Send) -> Result<Option<String>, A2aError> {
    let request = &send.request;
    let ways = [
        (caller.agent.as_deref(), "the path"),
        (
            in_metadata(request.message.metadata.as_ref())?,
            "message.metadata",
        ),
        (in_metadata(request.metadata.as_ref())?, "metadata"),
        (
            request.tenant.as_deref().filter(|name| !name.is_empty()),
            "tenant",
        ),
    ];
    let mut said: Option<(&str, &str)> = None;
    for (name, place) in ways {
        match (said, name) {
            (Some((before, elsewhere)), Some(name)) if before != name => {
                return Err(A2aError::new(
                    ErrorReason::InvalidParams,
                    format!("{elsewhere} and {place} name different agents; name one"),
                )
                .at(place));
            }
            (None, Some(name)) => said = Some((name, place)),
            _ => {}
        }
    }
    Ok(said.map(|(name, _)| name.to_owned()))
}

fn in_metadata(metadata: Option<&HashMap<String, Value>>) -> Result<Option<&str>, A2aError> {
    match metadata.and_then(|metadata| metadata.get(AGENT)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(_) => Err(A2aError::new(
            ErrorReason::InvalidParams,
            format!("`{AGENT}` has to be a string: the name of an agent"),
        )
        .at("metadata")),
    }
}

/// Nobody here has that name.
pub(super) fn unknown(name: &str, agents: &[Agent]) -> A2aError {
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    A2aError::new(
        ErrorReason::InvalidParams,
        format!(
            "there is no agent `{}` here; there is {}",
            name.chars().take(64).collect::<String>(),
            names.join(", ")
        ),
    )
    .at("metadata")
}
