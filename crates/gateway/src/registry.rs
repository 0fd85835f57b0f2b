//! The agents, the connections that serve them, and the subscriptions to their status.
//!
//! One lock guards agents and subscriptions. A status change is published in one step, and a new subscription reads the
//! current status in one step. So subscribers receive every change, in order. The code never waits while it holds the lock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::{AgentStatus, ErrorCode};

use super::agent::RunStatus;
use super::channels::Subscriptions;
use super::config::AgentConfig;
use super::connected_client::Client;
use super::frames;
use super::frames::RequestError;
use super::outbox::Close;
use super::shares::share;

/// The maximum number of unconfigured agents that stay listed after they have disconnected.
const MAX_OFFLINE_AGENTS: usize = 1024;

/// The maximum number of unconfigured agents. It ensures that a list of all agents fits into one frame.
const MAX_UNCONFIGURED_AGENTS: usize = 4096;

/// The role of unconfigured agents.
const DEFAULT_ROLE: &str = "agent";

/// The agents and connected clients.
#[derive(Debug, Default)]
pub(super) struct Registry {
    agents: HashMap<Arc<str>, Agent>,
    clients: HashMap<Arc<str>, Arc<Client>>,
    pub(super) subscriptions: Subscriptions,
    /// The unconfigured offline agents, in the order in which they disconnected.
    offline: VecDeque<Arc<str>>,
    last_position: usize,
    max_agents: usize,
    /// The maximum number of unconfigured agents of one identity.
    max_agents_per_identity: usize,
}

#[derive(Debug)]
struct Agent {
    role: Arc<str>,
    description: Option<Arc<str>>,
    backend: Option<&'static str>,
    run: Option<RunStatus>,
    status: AgentStatus,
    server: Option<Arc<Client>>,
    configured: bool,
    /// The identity whose client created the agent; `None` if the configuration did.
    creator: Option<Arc<str>>,
    /// The position in lists. Configured agents come first, followed by the others in order of arrival.
    position: usize,
}

/// An agent in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentListing {
    pub(super) name: Arc<str>,
    pub(super) role: Arc<str>,
    pub(super) description: Option<Arc<str>>,
    /// The kind of backend, if the gateway itself runs the agent.
    pub(super) backend: Option<&'static str>,
    /// The run status, if the gateway itself runs the agent.
    pub(super) run: Option<RunStatus>,
    pub(super) status: AgentStatus,
}

impl Registry {
    /// Creates a registry with the configured agents, all of them offline.
    /// `is_required` states whether clients must authenticate.
    pub(super) fn new(agents: &[AgentConfig], is_required: bool) -> Self {
        let mut registry = Self {
            max_agents_per_identity: share(is_required, MAX_UNCONFIGURED_AGENTS),
            max_agents: agents.len() + MAX_UNCONFIGURED_AGENTS,
            ..Self::default()
        };
        for agent in agents {
            registry.configure(agent);
        }
        registry
    }

    /// Adds an agent as if it were configured. Keeps its current connection, if any. `creator` is the identity of the client.
    ///
    /// # Errors
    /// 2005 if the agent is already configured, 3003 if the registry is full or the identity has its share of agents.
    pub(super) fn add_agent(
        &mut self,
        agent: &AgentConfig,
        creator: Arc<str>,
    ) -> Result<(), RequestError> {
        let known = self.agents.get(agent.name.as_str());
        if known.is_some_and(|known| known.configured) {
            let message = format!(
                "the agent `{}` exists already; choose another name",
                agent.name
            );
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        }
        let is_new = known.is_none();
        self.check_share(&creator, None, 1)?;
        if is_new {
            self.check_capacity(1)?;
        }
        self.offline.retain(|offline| **offline != *agent.name);
        self.configure(agent);
        if let Some(agent) = self.agents.get_mut(agent.name.as_str()) {
            agent.creator = Some(creator);
        }
        Ok(())
    }

    fn configure(&mut self, agent: &AgentConfig) {
        let name: Arc<str> = agent.name.as_str().into();
        let before = self.agents.remove(&name);
        let position = match &before {
            Some(before) => before.position,
            None => self.next_position(),
        };
        let known = Agent {
            role: agent.role.as_str().into(),
            description: agent.description.as_deref().map(Into::into),
            backend: agent
                .backend
                .as_ref()
                .and_then(|backend| backend.kinds().next()),
            run: before.as_ref().and_then(|before| before.run.clone()),
            status: before
                .as_ref()
                .map_or(AgentStatus::Offline, |before| before.status),
            server: before.and_then(|before| before.server),
            configured: true,
            creator: None,
            position,
        };
        self.agents.insert(name, known);
    }

    /// Checks that an identity may have `count` more agents, besides those that its connection `client` serves.
    fn check_share(
        &self,
        identity: &Arc<str>,
        client: Option<&Arc<Client>>,
        count: usize,
    ) -> Result<(), RequestError> {
        let is_own = |agent: &&Agent| match (&agent.creator, &agent.server) {
            (Some(creator), _) => creator == identity,
            (None, Some(server)) if !agent.configured => {
                server.share_key() == *identity
                    && client.is_none_or(|client| !Arc::ptr_eq(client, server))
            }
            _ => false,
        };
        let own = self.agents.values().filter(is_own).count();
        if own + count <= self.max_agents_per_identity {
            return Ok(());
        }
        let message = format!(
            "this client's identity has its share of {} agents; remove one of them first",
            self.max_agents_per_identity
        );
        Err(RequestError::busy(message, Duration::from_mins(1)))
    }

    /// Makes room for `count` agents. Forgets the agents that are offline the longest, if necessary.
    fn check_capacity(&mut self, count: usize) -> Result<(), RequestError> {
        while self.agents.len() + count > self.max_agents
            && let Some(oldest) = self.offline.pop_front()
        {
            self.agents.remove(&oldest);
        }
        if self.agents.len() + count <= self.max_agents {
            return Ok(());
        }
        Err(RequestError::busy(
            "the gateway has its maximum number of agents; try again later",
            Duration::from_mins(1),
        ))
    }

    fn next_position(&mut self) -> usize {
        self.last_position += 1;
        self.last_position
    }

    /// Adds a client. If there are already `max_clients`, evicts the oldest unauthenticated client. Returns `false` if all
    /// clients are authenticated.
    pub(super) fn add_client(&mut self, client: &Arc<Client>, max_clients: usize) -> bool {
        if self.clients.len() >= max_clients && !self.evict_unauthenticated() {
            return false;
        }
        let id = Arc::clone(client.id());
        self.clients.insert(id, Arc::clone(client));
        true
    }

    fn evict_unauthenticated(&mut self) -> bool {
        let all = self.clients.values();
        let unauthenticated = all.filter(|client| client.identity().is_none());
        // Not the idlest one: a client that sends pings is never idle.
        let oldest = unauthenticated.min_by_key(|client| client.connected_at());
        let Some(client) = oldest.cloned() else {
            return false;
        };
        client.outbox.close(Close::AUTH_REQUIRED);
        self.remove_client(&client);
        true
    }

    /// Removes a client, and sets its agents offline.
    pub(super) fn remove_client(&mut self, client: &Arc<Client>) {
        self.clients.remove(client.id());
        self.subscriptions.remove_client(client);
        for name in client.replace_names(Vec::new()).iter() {
            self.detach(name, client);
        }
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.values()
    }

    /// Replaces the agents that `client` serves.
    ///
    /// # Errors
    /// 5004 if another connection serves one of the agents, 3003 if the registry is full. Nothing changes on error.
    pub(super) fn set_agents(
        &mut self,
        client: &Arc<Client>,
        names: Vec<Arc<str>>,
    ) -> Result<(), RequestError> {
        let conflict = names.iter().find(|name| {
            let server = self
                .agents
                .get(*name)
                .and_then(|agent| agent.server.as_ref());
            server.is_some_and(|server| !Arc::ptr_eq(server, client))
        });
        if let Some(name) = conflict {
            return Err(RequestError::new(
                ErrorCode::PermissionDenied,
                format!(
                    "another connection serves `{name}`; end that connection first, or choose another name"
                ),
            ));
        }
        let is_unconfigured = |name: &&Arc<str>| {
            let known = self.agents.get(*name);
            known.is_none_or(|agent| !agent.configured)
        };
        let unconfigured = names.iter().filter(is_unconfigured).count();
        if unconfigured > 0 {
            self.check_share(&client.share_key(), Some(client), unconfigured)?;
        }
        let added = names.iter().filter(|name| !self.contains(name)).count();
        self.check_capacity(added)?;
        let before = client.replace_names(names.clone());
        for name in before.iter().filter(|name| !names.contains(name)) {
            self.detach(name, client);
        }
        for name in &names {
            self.attach(name, client);
        }
        Ok(())
    }

    fn attach(&mut self, name: &Arc<str>, client: &Arc<Client>) {
        if !self.agents.contains_key(name) {
            let position = self.next_position();
            let agent = Agent {
                role: DEFAULT_ROLE.into(),
                description: None,
                backend: None,
                run: None,
                status: AgentStatus::Offline,
                server: None,
                configured: false,
                creator: None,
                position,
            };
            self.agents.insert(Arc::clone(name), agent);
        }
        self.offline.retain(|offline| offline != name);
        if let Some(agent) = self.agents.get_mut(name)
            && agent.server.is_none()
        {
            agent.server = Some(Arc::clone(client));
            self.set_status(name, AgentStatus::Online);
        }
    }

    fn detach(&mut self, name: &Arc<str>, client: &Arc<Client>) {
        let Some(agent) = self.agents.get_mut(name) else {
            return;
        };
        if !agent
            .server
            .as_ref()
            .is_some_and(|server| Arc::ptr_eq(server, client))
        {
            return;
        }
        agent.server = None;
        let configured = agent.configured;
        self.set_status(name, AgentStatus::Offline);
        if !configured {
            self.offline.push_back(Arc::clone(name));
            if self.offline.len() > MAX_OFFLINE_AGENTS
                && let Some(oldest) = self.offline.pop_front()
            {
                self.agents.remove(&oldest);
            }
        }
    }

    /// Sets the status of an agent, and publishes the change.
    pub(super) fn set_status(&mut self, name: &str, status: AgentStatus) {
        let Some((name, agent)) = self.agents.get_key_value(name) else {
            return;
        };
        let (name, previous) = (Arc::clone(name), agent.status);
        if previous == status {
            return;
        }
        if let Some(agent) = self.agents.get_mut(&name) {
            agent.status = status;
        }
        let text: Utf8Bytes = frames::status(&name, status, Some(previous)).into();
        self.subscriptions.publish_status(&name, &text);
    }

    /// Updates the run status of an agent in this process.
    pub(super) fn update_run(&mut self, name: &str, change: impl FnOnce(&mut RunStatus)) {
        if let Some(agent) = self.agents.get_mut(name) {
            change(agent.run.get_or_insert_default());
        }
    }

    /// Returns the run status of an agent, if the gateway itself runs it.
    pub(super) fn run_status(&self, name: &str) -> Option<&RunStatus> {
        self.agents.get(name)?.run.as_ref()
    }

    /// Returns the connection of an agent that accepts messages, or of the client with this id.
    ///
    /// # Errors
    /// 3001 if the name is unknown, 3002 if the agent is offline or failed, 3003 if it is busy.
    pub(super) fn recipient(&self, name: &str) -> Result<Arc<Client>, RequestError> {
        let Some(agent) = self.agents.get(name) else {
            let client = self.clients.get(name);
            let client = client.filter(|client| client.identity().is_some());
            return client
                .map(Arc::clone)
                .ok_or_else(|| RequestError::unknown_agent(name));
        };
        match (agent.status, &agent.server) {
            (AgentStatus::Busy, Some(_)) => Err(RequestError::busy(
                format!("`{name}` is busy; the message was not delivered, send it again later"),
                Duration::from_secs(1),
            )),
            (AgentStatus::Error, Some(_)) => Err(RequestError::new(
                ErrorCode::AgentOffline,
                format!("`{name}` has failed; the message was not delivered"),
            )),
            (AgentStatus::Online | AgentStatus::Idle, Some(server)) => Ok(Arc::clone(server)),
            (AgentStatus::Offline, _) | (_, None) => Err(RequestError::offline(name)),
        }
    }

    /// Returns the connection of an agent, unless the agent failed.
    pub(super) fn server(&self, name: &str) -> Option<&Arc<Client>> {
        let agent = self.agents.get(name)?;
        let is_reachable = !matches!(agent.status, AgentStatus::Offline | AgentStatus::Error);
        agent.server.as_ref().filter(|_| is_reachable)
    }

    /// Returns whether the registry has an agent with this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.agents.contains_key(name)
    }

    #[cfg(test)]
    pub(super) fn status(&self, name: &str) -> Option<AgentStatus> {
        self.agents.get(name).map(|agent| agent.status)
    }

    /// Returns the agents without a connection.
    pub(super) fn offline_agents(&self) -> impl Iterator<Item = &str> {
        let offline = self
            .agents
            .iter()
            .filter(|(_, agent)| agent.server.is_none());
        offline.map(|(name, _)| &**name)
    }

    /// Lists all agents.
    pub(super) fn list(&self) -> Vec<AgentListing> {
        let mut all: Vec<_> = self.agents.iter().collect();
        all.sort_by_key(|(_, agent)| agent.position);
        let listed = |(name, agent): (&Arc<str>, &Agent)| AgentListing {
            name: Arc::clone(name),
            role: Arc::clone(&agent.role),
            description: agent.description.as_ref().map(Arc::clone),
            backend: agent.backend,
            run: agent.run.clone(),
            status: agent.status,
        };
        all.into_iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests;
