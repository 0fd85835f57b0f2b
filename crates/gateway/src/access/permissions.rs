//! Permissions of roles and agents.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{AccessError, Identity};
use crate::config::{Permissions, ServerConfig};
use collective::{ErrorCode, GATEWAY};

/// An operation that needs permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Send a message to this agent.
    Send(&'a str),
    /// Send a proposal to the triad.
    Propose,
    /// Vote.
    Vote,
    /// Subscribe to a channel.
    Subscribe,
    /// Broadcast a message.
    Broadcast,
    /// Send a request to this service.
    Request(&'a str),
    /// Read the sessions of this workspace.
    Workspace(&'a str),
    /// Act as this agent and receive its messages.
    Serve(&'a str),
}

/// The permissions of roles and agents.
pub(super) struct Rules {
    roles: BTreeMap<String, Permissions>,
    agents: HashMap<String, Permissions>,
}

impl Rules {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let own = |agent: &super::super::config::AgentConfig| {
            Some((agent.name.clone(), agent.permissions.clone()?))
        };
        Self {
            roles: config.roles.clone(),
            agents: config.agents.iter().filter_map(own).collect(),
        }
    }

    /// Checks that a role of the identity allows the operation, and that the permissions of the agent `speaks_as` do too.
    pub(super) fn authorize(
        &self,
        identity: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), AccessError> {
        if !self.by_role(identity, speaks_as, operation) {
            let message = format!(
                "`{}` may not {operation}; the gateway's operator can allow it for a role",
                identity.name
            );
            return Err(AccessError::new(ErrorCode::PermissionDenied, message));
        }
        let own = speaks_as.and_then(|agent| Some((agent, self.agents.get(agent)?)));
        match own {
            Some((agent, own)) if !is_own(speaks_as, operation) && !own.allow(operation) => {
                let message = format!(
                    "the agent `{agent}` may not {operation}; the gateway's operator can allow it in the agent's permissions"
                );
                Err(AccessError::new(ErrorCode::PermissionDenied, message))
            }
            _ => Ok(()),
        }
    }

    fn by_role(
        &self,
        identity: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> bool {
        if identity.is_local {
            return match operation {
                Operation::Send(_) | Operation::Vote | Operation::Subscribe => true,
                Operation::Serve(name) | Operation::Workspace(name) => {
                    identity.agent.as_deref() == Some(name)
                }
                Operation::Propose | Operation::Broadcast | Operation::Request(_) => false,
            };
        }
        // Without roles, any authenticated client is allowed. A credential for one agent may serve only that agent.
        if self.roles.is_empty() {
            return match (operation, &identity.agent) {
                (Operation::Serve(name), Some(agent)) => agent == name,
                _ => true,
            };
        }
        if matches!(operation, Operation::Serve(name) if identity.agent.as_deref() == Some(name)) {
            return true;
        }
        // The gateway checked the permission when the client started to act as the agent.
        if is_own(speaks_as, operation) && !matches!(operation, Operation::Serve(_)) {
            return true;
        }
        let mut roles = identity
            .roles
            .iter()
            .filter_map(|role| self.roles.get(role));
        roles.any(|role| role.allow(operation))
    }
}

/// Returns whether the operation only concerns the agent itself.
fn is_own(speaks_as: Option<&str>, operation: Operation<'_>) -> bool {
    match operation {
        Operation::Workspace(name) | Operation::Serve(name) => speaks_as == Some(name),
        _ => false,
    }
}

impl Permissions {
    fn allow(&self, operation: Operation<'_>) -> bool {
        let listed = |list: &[String], name: &str| list.iter().any(|one| one == "*" || one == name);
        match operation {
            Operation::Send(agent) => listed(&self.send, agent),
            Operation::Propose => self.propose,
            Operation::Vote => self.vote,
            Operation::Subscribe => self.subscribe,
            Operation::Broadcast => self.broadcast,
            // `*` does not include the service `gateway`, which manages the gateway.
            Operation::Request(GATEWAY) => self.request.iter().any(|one| one == GATEWAY),
            Operation::Request(service) => listed(&self.request, service),
            Operation::Workspace(agent) => listed(&self.workspaces, agent),
            Operation::Serve(agent) => listed(&self.serve, agent),
        }
    }
}

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(agent) => write!(f, "send to `{}`", agent.escape_debug()),
            Self::Propose => f.write_str("propose"),
            Self::Vote => f.write_str("vote"),
            Self::Subscribe => f.write_str("subscribe"),
            Self::Broadcast => f.write_str("broadcast"),
            Self::Request(service) => write!(
                f,
                "send requests to the service `{}`",
                service.escape_debug()
            ),
            Self::Workspace(agent) => {
                write!(f, "read the workspace `{}`", agent.escape_debug())
            }
            Self::Serve(agent) => write!(f, "speak as `{}`", agent.escape_debug()),
        }
    }
}
