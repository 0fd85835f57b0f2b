//! Who is there: the agents that are known, who serves each, how each is, and who wants to hear of it.
//!
//! One lock holds both agents and watchers. A change and the news of it, or the present state and a subscription, happen under it
//! together, so that no watcher misses a change or hears of two in the wrong order. Nothing waits while it is held.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::ErrorCode;

use super::client::Client;
use super::config::AgentConfig;
use super::frames;
use super::refusal::Refusal;
use super::status::Status;
use super::talk::NO_CREDENTIAL;
use super::watchers::Subscriptions;

/// So many agents that nobody configured are remembered when they are gone.
const REMEMBERED: usize = 1024;

/// So many agents that nobody configured are known, there or not: a list of all fits in one frame.
const MAX_UNKNOWN_AGENTS: usize = 4096;

/// The role of an agent that nobody configured.
const ROLE: &str = "agent";

/// Who is there.
#[derive(Debug, Default)]
pub(super) struct Registry {
    agents: HashMap<Arc<str>, Agent>,
    clients: HashMap<Arc<str>, Arc<Client>>,
    pub(super) watchers: Subscriptions,
    /// Agents that nobody configured, in the order they left.
    left: VecDeque<Arc<str>>,
    places: usize,
    /// So many agents can be known.
    most: usize,
}

#[derive(Debug)]
struct Agent {
    role: Arc<str>,
    description: Option<Arc<str>>,
    status: Status,
    server: Option<Arc<Client>>,
    configured: bool,
    /// Its place in lists: as configured, then as they came.
    place: usize,
}

/// An agent as lists have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: Arc<str>,
    pub(super) role: Arc<str>,
    pub(super) description: Option<Arc<str>>,
    pub(super) status: Status,
}

impl Registry {
    /// Knows the agents of the configuration; none of them is there yet.
    pub(super) fn new(agents: &[AgentConfig]) -> Self {
        let mut registry = Self {
            most: agents.len() + MAX_UNKNOWN_AGENTS,
            ..Self::default()
        };
        for agent in agents {
            registry.configure(agent);
        }
        registry
    }

    /// Knows one more agent, as if it had been configured. One that is served already stays so.
    ///
    /// # Errors
    /// 2005 it is configured, 3003 too many are known.
    pub(super) fn learn(&mut self, agent: &AgentConfig) -> Result<(), Refusal> {
        let known = self.agents.get(agent.name.as_str());
        if known.is_some_and(|known| known.configured) {
            let message = format!("an agent `{}` is known already", agent.name);
            return Err(Refusal::new(ErrorCode::InvalidContent, message));
        }
        if known.is_none() {
            self.has_room(1)?;
        }
        self.left.retain(|left| **left != *agent.name);
        self.configure(agent);
        Ok(())
    }

    fn configure(&mut self, agent: &AgentConfig) {
        let name: Arc<str> = agent.name.as_str().into();
        let before = self.agents.remove(&name);
        let place = match &before {
            Some(before) => before.place,
            None => self.place(),
        };
        let known = Agent {
            role: agent.role.as_str().into(),
            description: agent.description.as_deref().map(Into::into),
            status: before
                .as_ref()
                .map_or(Status::Offline, |before| before.status),
            server: before.and_then(|before| before.server),
            configured: true,
            place,
        };
        self.agents.insert(name, known);
    }

    fn has_room(&self, more: usize) -> Result<(), Refusal> {
        if self.agents.len() + more <= self.most {
            return Ok(());
        }
        Err(Refusal::busy(
            "as many agents are known as the gateway can list; no more can be served",
            Duration::from_mins(1),
        ))
    }

    fn place(&mut self) -> usize {
        self.places += 1;
        self.places
    }

    /// Adds a client. Where there are `most` already, the longest-silent one that is not authenticated gives way; `false`
    /// where there is none.
    pub(super) fn enter(&mut self, client: &Arc<Client>, most: usize, now: Instant) -> bool {
        if self.clients.len() >= most && !self.evict(now) {
            return false;
        }
        let id = Arc::clone(client.id());
        self.clients.insert(id, Arc::clone(client));
        true
    }

    fn evict(&mut self, now: Instant) -> bool {
        let all = self.clients.values();
        let unauthenticated = all.filter(|client| client.identity().is_none());
        let silent = unauthenticated.max_by_key(|client| client.silent(now));
        let Some(client) = silent.cloned() else {
            return false;
        };
        client.outbox.finish(NO_CREDENTIAL);
        self.leave(&client);
        true
    }

    /// A client has gone, and with it the agents it served.
    pub(super) fn leave(&mut self, client: &Arc<Client>) {
        self.clients.remove(client.id());
        self.watchers.forget(client);
        for name in client.serve(Vec::new()).iter() {
            self.unserve(name, client);
        }
    }

    /// Every client.
    pub(super) fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.values()
    }

    /// Takes `names` as the agents that `client` serves, instead of what it served before.
    ///
    /// # Errors
    /// 5004: somebody else serves one of them. Then nothing changes.
    pub(super) fn serve(
        &mut self,
        client: &Arc<Client>,
        names: Vec<Arc<str>>,
    ) -> Result<(), Refusal> {
        let taken = names.iter().find(|name| {
            let server = self
                .agents
                .get(*name)
                .and_then(|agent| agent.server.as_ref());
            server.is_some_and(|server| !Arc::ptr_eq(server, client))
        });
        if let Some(name) = taken {
            return Err(Refusal::new(
                ErrorCode::PermissionDenied,
                format!(
                    "`{name}` is served by another connection, and nobody else can be it until that connection ends"
                ),
            ));
        }
        let strangers = names.iter().filter(|name| !self.knows(name)).count();
        self.has_room(strangers)?;
        let before = client.serve(names.clone());
        for name in before.iter().filter(|name| !names.contains(name)) {
            self.unserve(name, client);
        }
        for name in &names {
            self.serve_one(name, client);
        }
        Ok(())
    }

    fn serve_one(&mut self, name: &Arc<str>, client: &Arc<Client>) {
        if !self.agents.contains_key(name) {
            let place = self.place();
            let stranger = Agent {
                role: ROLE.into(),
                description: None,
                status: Status::Offline,
                server: None,
                configured: false,
                place,
            };
            self.agents.insert(Arc::clone(name), stranger);
        }
        self.left.retain(|left| left != name);
        if let Some(agent) = self.agents.get_mut(name)
            && agent.server.is_none()
        {
            agent.server = Some(Arc::clone(client));
            self.change(name, Status::Online);
        }
    }

    fn unserve(&mut self, name: &Arc<str>, client: &Arc<Client>) {
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
        self.change(name, Status::Offline);
        if !configured {
            self.left.push_back(Arc::clone(name));
            if self.left.len() > REMEMBERED
                && let Some(forgotten) = self.left.pop_front()
            {
                self.agents.remove(&forgotten);
            }
        }
    }

    /// Changes how an agent is, and tells whoever wants to know.
    pub(super) fn change(&mut self, name: &str, status: Status) {
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
        self.watchers.tell_status(&name, &text);
    }

    /// Who serves an agent that takes messages.
    ///
    /// # Errors
    /// 3001 nobody is called so, 3002 it is not there or has failed, 3003 it is busy.
    pub(super) fn reach(&self, name: &str) -> Result<Arc<Client>, Refusal> {
        let Some(agent) = self.agents.get(name) else {
            // Whoever is no agent can be written to by the id that the gateway stamps on what it sends.
            let client = self.clients.get(name);
            let client = client.filter(|client| client.identity().is_some());
            return client.map(Arc::clone).ok_or_else(|| {
                let message =
                    format!("nobody here is called `{name}`; `discovery` lists who is there");
                Refusal::new(ErrorCode::AgentNotFound, message)
            });
        };
        match (agent.status, &agent.server) {
            (Status::Busy, Some(_)) => Err(Refusal::busy(
                format!("`{name}` is busy; the message was not delivered, send it again later"),
                Duration::from_secs(1),
            )),
            (Status::Error, Some(_)) => Err(Refusal::new(
                ErrorCode::AgentOffline,
                format!("`{name}` has failed; the message was not delivered"),
            )),
            (Status::Online | Status::Idle, Some(server)) => Ok(Arc::clone(server)),
            (Status::Offline, _) | (_, None) => Err(Refusal::offline(name)),
        }
    }

    /// Who serves an agent that hears what is said to it, busy or not.
    pub(super) fn listener(&self, name: &str) -> Option<&Arc<Client>> {
        let agent = self
            .agents
            .get(name)
            .filter(|agent| agent.status.listens())?;
        agent.server.as_ref()
    }

    /// Whether an agent of this name is known.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.agents.contains_key(name)
    }

    /// How an agent is.
    #[cfg(test)]
    pub(super) fn status(&self, name: &str) -> Option<Status> {
        self.agents.get(name).map(|agent| agent.status)
    }

    /// The agents that are known and that nobody serves.
    pub(super) fn absent(&self) -> impl Iterator<Item = &str> {
        let absent = self
            .agents
            .iter()
            .filter(|(_, agent)| agent.server.is_none());
        absent.map(|(name, _)| &**name)
    }

    /// Every agent that is known.
    pub(super) fn list(&self) -> Vec<Listed> {
        let mut all: Vec<_> = self.agents.iter().collect();
        all.sort_by_key(|(_, agent)| agent.place);
        let listed = |(name, agent): (&Arc<str>, &Agent)| Listed {
            name: Arc::clone(name),
            role: Arc::clone(&agent.role),
            description: agent.description.as_ref().map(Arc::clone),
            status: agent.status,
        };
        all.into_iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests;
