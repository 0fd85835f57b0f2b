//! The list of agents, and the agent that a request selects.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use a2a::{A2aError, ErrorReason};
use base::environment::Environment;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::SendMessage;

use crate::executor::{Agent, Executor};
use crate::service::CallContext;

/// The metadata key of a message or request for the name of the agent.
pub const AGENT: &str = "openclaw-remote-agent/agent";

/// How long the list of agents is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(30);

/// The agents, and the time when the list last changed.
#[derive(Clone)]
pub(crate) struct AgentList {
    pub(crate) agents: Arc<[Agent]>,
    pub(crate) changed: SystemTime,
}

/// The cached list of agents, and the time when the executor returned it.
#[derive(Default)]
pub(super) struct AgentCache(Mutex<Option<(Instant, AgentList)>>);

impl AgentCache {
    /// Returns the agents. If the executor fails, returns the expired list instead.
    pub(super) async fn get(
        &self,
        executor: &dyn Executor,
        env: &dyn Environment,
    ) -> Result<AgentList, A2aError> {
        // The lock is held during the call, so that concurrent requests share one call.
        let mut known = self.0.lock().await;
        if let Some((at, list)) = &*known
            && at.elapsed() < CACHE_LIFETIME
        {
            return Ok(list.clone());
        }
        match executor.agents().await {
            Ok(agents) => {
                let list = match known.take() {
                    Some((_, list)) if *list.agents == *agents => list,
                    _ => AgentList {
                        agents: agents.into(),
                        changed: env.system_time(),
                    },
                };
                *known = Some((Instant::now(), list.clone()));
                Ok(list)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot list the agents");
                match &*known {
                    Some((_, list)) => Ok(list.clone()),
                    None => Err(A2aError::new(
                        ErrorReason::Unavailable,
                        "the server cannot reach its agents at the moment, and its log has the cause for its operator; try again later",
                    )),
                }
            }
        }
    }
}

/// Returns the agent that the request names in its path, its metadata or its tenant.
pub(super) fn named(caller: &CallContext, send: &SendMessage) -> Result<Option<String>, A2aError> {
    let request = &send.request;
    let places = [
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
    let mut found: Option<(&str, &str)> = None;
    for (name, place) in places {
        match (found, name) {
            (Some((before, elsewhere)), Some(name)) if before != name => {
                return Err(A2aError::new(
                    ErrorReason::InvalidParams,
                    format!("{elsewhere} and {place} name different agents; name one"),
                )
                .at(place));
            }
            (None, Some(name)) => found = Some((name, place)),
            _ => {}
        }
    }
    Ok(found.map(|(name, _)| name.to_owned()))
}

fn in_metadata(metadata: Option<&HashMap<String, Value>>) -> Result<Option<&str>, A2aError> {
    match metadata.and_then(|metadata| metadata.get(AGENT)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(_) => Err(A2aError::new(
            ErrorReason::InvalidParams,
            format!("`{AGENT}` must be a string: the name of an agent"),
        )
        .at("metadata")),
    }
}

/// Returns the error of an unknown agent.
pub(super) fn unknown(name: &str, agents: &[Agent]) -> A2aError {
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    A2aError::new(
        ErrorReason::InvalidParams,
        format!(
            "unknown agent `{}`; this server has {}",
            name.chars().take(64).collect::<String>(),
            names.join(", ")
        ),
    )
    .at("metadata")
}
