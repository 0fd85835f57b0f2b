//! What somebody may do.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{AccessError, Identity};
use crate::config::{Permissions, ServerConfig};
use collective::{ErrorCode, GATEWAY};

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A message to this agent.
    Send(&'a str),
    /// A proposal to the triad.
    Propose,
    /// A vote.
    Vote,
    /// A subscription.
    Subscribe,
    /// A message to everybody.
    Broadcast,
    /// A request to this service.
    Request(&'a str),
    /// A look at the sessions of this workspace.
    Workspace(&'a str),
    /// To speak as this agent and to take its messages.
    Serve(&'a str),
}

/// What roles and agents may do.
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

    /// Whether one of the roles of `who` allows it, and the agent `speaks_as` does not forbid it.
    pub(super) fn may(
        &self,
        who: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), AccessError> {
        if !self.by_role(who, speaks_as, operation) {
            let message = format!(
                "`{}` may not {operation}; the gateway's operator can allow it to a role",
                who.name
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

    fn by_role(&self, who: &Identity, speaks_as: Option<&str>, operation: Operation<'_>) -> bool {
        // Without roles, to be let in is all that is needed. Who is a certain agent is that one alone even so.
        if self.roles.is_empty() {
            return match (operation, &who.agent) {
                (Operation::Serve(name), Some(agent)) => agent == name,
                _ => true,
            };
        }
        if matches!(operation, Operation::Serve(name) if who.agent.as_deref() == Some(name)) {
            return true;
        }
        // What it speaks as was allowed when it began to.
        if is_own(speaks_as, operation) && !matches!(operation, Operation::Serve(_)) {
            return true;
        }
        let mut roles = who.roles.iter().filter_map(|role| self.roles.get(role));
        roles.any(|role| role.allow(operation))
    }
}

/// An agent and its own workspace.
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
            // Whoever manages the gateway can do more than any service: `*` does not mean it.
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
            Self::Request(service) => write!(f, "ask the service `{}`", service.escape_debug()),
            Self::Workspace(agent) => {
                write!(f, "see the workspace `{}`", agent.escape_debug())
            }
            Self::Serve(agent) => write!(f, "speak as `{}`", agent.escape_debug()),
        }
    }
}
