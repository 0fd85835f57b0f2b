//! The local gateway and its agents in `list_targets`.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::remote_agent::RemoteAgent;
use crate::remote_agent::admission::may_see;
use crate::remote_agent::call;
use crate::remote_agent::caller::Caller;
use crate::remote_agent::deadline::Deadline;
use crate::remote_agent::error::{Reason, ToolError};
use crate::targets::{FetchedCard, Local, Target};
use base::environment::millis;
use base::log::Level;
use collective::{AgentStatus, ErrorCode};
use peer::{Connection, LocalGateway, Member, PeerError, PeerErrorKind, status_name};

use super::object;

/// The gateway, and those of its agents that the caller may see.
pub(super) struct GatewayAgents {
    /// `summary.gateway`.
    pub(super) gateway: Value,
    pub(super) agents: Vec<Agent>,
}

/// An agent of the gateway.
pub(super) struct Agent {
    pub(super) target: Arc<Target>,
    /// Its card or the error.
    pub(super) card: Result<FetchedCard, ToolError>,
    pub(super) standing: AgentPresence,
}

/// The gateway's data about an agent, in addition to its card.
pub(super) struct AgentPresence {
    role: Option<String>,
    status: Option<AgentStatus>,
    members: Vec<(String, Option<AgentStatus>)>,
}

/// Returns the agents of the local gateway; `None` if there is no gateway or `caller` may not see it. For an
/// unreachable gateway the result has the error, and the agents that the operator named.
pub(super) async fn agents(
    tool: &RemoteAgent,
    caller: &Caller,
    deadline: &Deadline,
) -> Option<GatewayAgents> {
    let (local, gateway) = (tool.catalog.local()?, tool.gateway.as_ref()?);
    if !may_see(local.gateway_target(), caller) {
        return None;
    }
    let (agents, error) = match members(&**gateway, local, deadline).await {
        Ok(members) => (reachable_agents(tool, local, members), None),
        Err(error) => (unreachable_agents(local, &error), Some(error.message)),
    };
    Some(GatewayAgents {
        gateway: connection_json(&gateway.connection(), error),
        agents,
    })
}

async fn members(
    gateway: &dyn LocalGateway,
    local: &Local,
    deadline: &Deadline,
) -> Result<Vec<Member>, ToolError> {
    call::check_secret(local.gateway_target()).map_err(ToolError::for_gateway)?;
    match deadline.run(gateway.members()).await {
        Ok(members) => Ok(members.map_err(|error| ToolError::from(error).for_gateway())?),
        Err(error) if error.reason == Reason::Timeout => {
            let message = "the local gateway did not list its agents in time";
            Err(PeerError::new(
                PeerErrorKind::Gateway(ErrorCode::ConnectionTimeout),
                message,
            )
            .into())
        }
        Err(error) => Err(error),
    }
}

/// Returns the agents of the gateway, and those that the operator named and the gateway lacks.
fn reachable_agents(tool: &RemoteAgent, local: &Local, members: Vec<Member>) -> Vec<Agent> {
    let mut seen = HashSet::new();
    let mut agents = Vec::with_capacity(members.len());
    for member in members {
        let Some(target) = local.target(&member.name) else {
            let line = format!(
                "the local gateway has an agent `{}` that cannot be a target: it is not among gateway.agents, or its name has characters that no alias has",
                member.name.escape_debug()
            );
            tool.log.log(Level::Debug, &line);
            continue;
        };
        if seen.insert(member.name) {
            agents.push(Agent {
                target,
                card: Ok(FetchedCard {
                    card: Arc::new(member.card),
                    refreshed: tool.env.system_time(),
                    stale: None,
                    clock_skew: None,
                    pin: None,
                }),
                standing: AgentPresence {
                    role: member.role,
                    status: member.status,
                    members: member.members,
                },
            });
        }
    }
    for name in local.agents().filter(|name| !seen.contains(*name)) {
        let message = format!("the local gateway has no agent named `{name}`");
        let error = PeerError::new(PeerErrorKind::Gateway(ErrorCode::AgentNotFound), message);
        agents.extend(missing_agent(local, name, &error.into()));
    }
    agents
}

/// Returns the agents that the operator named, while the gateway is unreachable.
fn unreachable_agents(local: &Local, error: &ToolError) -> Vec<Agent> {
    let named = local.named();
    named
        .filter_map(|name| missing_agent(local, name, error))
        .collect()
}

fn missing_agent(local: &Local, name: &str, error: &ToolError) -> Option<Agent> {
    let members = if local.is_triad(name) {
        local.triad()
    } else {
        &[]
    };
    let unknown = |member: &String| (member.clone(), None);
    Some(Agent {
        target: local.target(name)?,
        card: Err(error.clone()),
        standing: AgentPresence {
            role: None,
            status: None,
            members: members.iter().map(unknown).collect(),
        },
    })
}

impl AgentPresence {
    /// Adds the data to the target's JSON.
    pub(super) fn merge_into(&self, target: &mut Value) {
        if let Some(role) = &self.role {
            target["role"] = json!(role);
        }
        target["status"] = json!(status_name(self.status));
        if !self.members.is_empty() {
            let members = self.members.iter();
            target["members"] = members
                .map(|(name, status)| json!({ "name": name, "status": status_name(*status) }))
                .collect();
        }
    }
}

/// `summary.gateway`: the state and parameters of the connection. `error` is the error of the current query.
fn connection_json(connection: &Connection, error: Option<String>) -> Value {
    object([
        ("url", json!(connection.url)),
        ("state", json!(connection.state.as_str())),
        ("state_code", json!(connection.state.code())),
        ("dialect", json!(connection.dialect)),
        ("protocol", json!(connection.protocol)),
        ("timeout_ms", json!(millis(connection.timeout))),
        ("heartbeat_ms", json!(millis(connection.heartbeat))),
        (
            "last_error",
            json!(error.or_else(|| connection.last_error.clone())),
        ),
    ])
}
