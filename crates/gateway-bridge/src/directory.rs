//! Implements the tool's view of the gateway: agents, connection state, and peers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use a2a::{Card, Reply, SendRequest, Task, Transport};
use base::environment::Environment;
use base::log::Log;
use base::redact::Secrets;
use collective::ErrorCode;
use egress::HttpClient;
use peer::{
    CallOptions, CardEtag, CardLocation, Connection, Delivered, Discovered, EventStream,
    LocalGateway, Member, NegotiatedProtocol, Peer, PeerConfig, PeerError, PeerErrorKind,
    PeerProvider,
};

use super::connector::{ConnectBudget, Connector};
use super::dial::failed;
use super::settings::{DialectChoice, Settings};
use super::triad::Triad;
use super::{CallContext, GatewayLink, ListPurpose, TRIAD, members};

/// The path prefix of agent cards.
const CARD_PATH_PREFIX: &str = "/agents/";

/// How long a cached description of an agent is used.
const CARD_MAX_AGE: Duration = Duration::from_secs(60);

/// The maximum number of names in an error about an unknown agent.
const MAX_LISTED_NAMES: usize = 20;

/// The local gateway of one instance. It connects on first use.
pub struct BridgedGateway {
    connector: Arc<Connector>,
    /// The triad for gateways that have none.
    triad: Arc<Triad>,
    /// The agents of the last list, so that their tasks can be queried while the gateway is unreachable.
    seen: Mutex<BTreeMap<String, Card>>,
}

impl BridgedGateway {
    /// Creates the gateway of `settings`, which connects through `net`.
    pub fn new(
        net: Arc<dyn HttpClient>,
        settings: Settings,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Self {
        let connector = Arc::new(Connector::new(net, settings, env, log));
        Self {
            triad: Arc::new(local_triad(&connector)),
            connector,
            seen: Mutex::default(),
        }
    }

    fn settings(&self) -> &Settings {
        &self.connector.settings
    }

    async fn all(&self, wait: ListPurpose) -> Result<Vec<Member>, PeerError> {
        let link = self.connector.link_now().await?;
        let mut members = link.members(wait).await?;
        if link.has_triad() || members::can_decide(&members, self.settings()) {
            members.push(members::triad(&members, self.settings()));
        }
        members.retain(|member| self.settings().allows(&member.name));
        let mut seen = self.seen.lock();
        *seen = members
            .iter()
            .map(|member| (member.name.clone(), member.card.clone()))
            .collect();
        Ok(members)
    }

    /// Returns an agent by name, for one call. The call itself checks that the agent exists.
    pub fn agent(&self, name: String, options: &CallOptions<'_>) -> Box<dyn Peer> {
        let call = CallContext {
            agent: name,
            context_id: options.context_id.map(str::to_owned),
            session: options.session.map(str::to_owned),
            session_key: options.host.map(|host| host.session_key.clone()),
            state_dir: options.host.and_then(|host| host.state_dir.clone()),
            since: Some(self.connector.env.now()),
            wait_until: options.wait_until,
            send_state: options.send_state.cloned().unwrap_or_default(),
        };
        Box::new(AgentPeer {
            connector: Arc::clone(&self.connector),
            triad: Arc::clone(&self.triad),
            budget: tokio::sync::Mutex::new(self.connector.budget()),
            secrets: Arc::new(self.settings().secrets()),
            call,
        })
    }

    async fn card(&self, name: &str) -> Result<Card, PeerError> {
        let unknown = |message: String| Err(failed(ErrorCode::AgentNotFound, message));
        if !self.settings().allows(name) {
            return unknown(format!("`{name}` is not among `gateway.agents`"));
        }
        let members = match self.all(ListPurpose::Send).await {
            Ok(members) => members,
            Err(error) => {
                let seen = self.seen.lock();
                let seen = seen.get(name).cloned();
                // A gateway that refuses to list its agents may still know the name.
                let unlisted = self.connector.open().is_some() && lists_no_agents(&error);
                let fallback = || unlisted.then(|| members::card(name, None, self.settings()));
                return seen.or_else(fallback).ok_or(error);
            }
        };
        if let Some(member) = members.iter().find(|member| member.name == name) {
            return Ok(member.card.clone());
        }
        let others = members.iter().filter(|member| member.name != TRIAD);
        let names: Vec<_> = others
            .map(|member| member.name.as_str())
            .take(MAX_LISTED_NAMES)
            .collect();
        // A gateway that lists no agent may still know the name.
        if names.is_empty() {
            return Ok(members::card(name, None, self.settings()));
        }
        let names = names.join(", ");
        if name == TRIAD {
            let voters = self.settings().triad.members.join(", ");
            return unknown(format!(
                "the gateway has no triad: it has {names}, and the triad needs {voters}; name three of its agents in `gateway.triad.members`"
            ));
        }
        unknown(format!("the gateway has no agent `{name}`; it has {names}"))
    }
}

/// Returns whether the gateway does not list its agents: it does not answer, does not support lists, or denies them.
fn lists_no_agents(error: &PeerError) -> bool {
    matches!(
        error.kind,
        PeerErrorKind::Gateway(
            ErrorCode::ConnectionTimeout | ErrorCode::UnknownType | ErrorCode::PermissionDenied
        )
    )
}

/// Returns the triad whose votes the bridge counts. Each request to a member uses the current connection.
fn local_triad(connector: &Arc<Connector>) -> Triad {
    let links = Arc::clone(connector);
    Triad::new(
        Arc::clone(&connector.settings),
        Arc::clone(&connector.env),
        Arc::clone(&connector.log),
        Arc::new(move || {
            let links = Arc::clone(&links);
            Box::pin(async move { links.link(&mut links.budget()).await })
        }),
    )
}

/// Returns the agent of a target: the last segment of its card path.
fn agent(config: &PeerConfig) -> Result<String, PeerError> {
    let path = match &config.card {
        CardLocation::Path(path) => path.as_str(),
        CardLocation::Url(url) => url.path(),
        CardLocation::Given(_) => "",
    };
    let name = path.strip_prefix(CARD_PATH_PREFIX).unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8().unwrap_or_default();
    if name.is_empty() || name.contains('/') {
        let message = "the card path of a gateway target must be `/agents/NAME`";
        return Err(failed(ErrorCode::AgentNotFound, message));
    }
    Ok(name.into_owned())
}

#[async_trait]
impl PeerProvider for BridgedGateway {
    async fn discover(
        &self,
        config: &PeerConfig,
        _known: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        let card = self.card(&agent(config)?).await?;
        Ok(Discovered::Card {
            card: Box::new(card),
            validator: None,
            date: None,
            max_age: Some(CARD_MAX_AGE),
        })
    }

    fn open(
        &self,
        config: &PeerConfig,
        _card: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        Ok(self.agent(agent(config)?, options))
    }
}

#[async_trait]
impl LocalGateway for BridgedGateway {
    async fn members(&self) -> Result<Vec<Member>, PeerError> {
        self.all(ListPurpose::List).await
    }

    fn connection(&self) -> Connection {
        self.connector.connection()
    }

    async fn close(&self) {
        self.connector.close().await
    }
}

/// One call to one agent.
struct AgentPeer {
    pub(super) connector: Arc<Connector>,
    pub(super) triad: Arc<Triad>,
    pub(super) call: CallContext,
    /// The gateway's token.
    pub(super) secrets: Arc<Secrets>,
    pub(super) budget: tokio::sync::Mutex<ConnectBudget>,
}

impl AgentPeer {
    async fn link(&self) -> Result<Arc<dyn GatewayLink>, PeerError> {
        // The lock covers the wait for a connection: a call sends one request at a time.
        let mut budget = self.budget.lock().await;
        self.connector.link(&mut budget).await
    }

    fn is_local_triad(&self, link: &dyn GatewayLink) -> bool {
        self.call.agent == TRIAD && !link.has_triad()
    }

    async fn backend(&self) -> Result<Backend, PeerError> {
        let link = self.link().await?;
        Ok(if self.is_local_triad(&*link) {
            Backend::Triad
        } else {
            Backend::GatewayLink(link)
        })
    }

    /// Returns the backend for a message, which may leave from now on.
    async fn backend_for_message(&self) -> Result<Backend, PeerError> {
        self.call.send_state.track();
        let backend = self.backend().await?;
        if self.call.send_state.begin() {
            return Ok(backend);
        }
        let message = "the call ended before the message was sent";
        Err(failed(ErrorCode::ConnectionReset, message))
    }

    /// Returns the connection for a query that the bridge may answer itself; `None` if it cannot connect.
    async fn link_if_needed(
        &self,
        task_id: &str,
    ) -> Result<Option<Arc<dyn GatewayLink>>, PeerError> {
        if let Some(link) = self.connector.open() {
            return Ok(Some(link));
        }
        match self.connector.tasks.find(&self.call.agent, task_id) {
            Some(known) if known.is_terminal() && !known.awaits_decision() => Ok(None),
            Some(_) => Ok(self.link().await.ok()),
            None => self.link().await.map(Some),
        }
    }

    fn stored_task(&self, task_id: &str) -> Result<Task, PeerError> {
        self.connector.tasks.task(&self.call.agent, task_id)
    }
}

/// The implementation behind a peer.
enum Backend {
    /// The gateway, through its connection.
    GatewayLink(Arc<dyn GatewayLink>),
    /// The triad of the bridge, for gateways without one.
    Triad,
}

/// Returns whether the connection was lost before any byte of the message left. Another connection may send it then.
fn was_not_sent(error: &PeerError) -> bool {
    error.delivered == Delivered::No
        && error.kind == PeerErrorKind::Gateway(ErrorCode::ConnectionReset)
}

#[async_trait]
impl Peer for AgentPeer {
    fn protocol(&self) -> NegotiatedProtocol {
        let known = self.connector.connection().dialect;
        NegotiatedProtocol {
            version: known.unwrap_or(match self.connector.settings.dialect {
                DialectChoice::Auto => "unknown",
                DialectChoice::OpenClaw => "openclaw/4",
                DialectChoice::A2aV1 => "a2a-v1",
                DialectChoice::HeretekJs => "heretek-js",
            }),
            transport: Transport::Gateway,
        }
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets)
    }

    async fn card(&self) -> Result<Card, PeerError> {
        let card = members::card(&self.call.agent, None, &self.connector.settings);
        Ok(card)
    }

    async fn send(&self, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        loop {
            let link = match self.backend_for_message().await? {
                Backend::GatewayLink(link) => link,
                Backend::Triad => return self.triad.send(&self.call, outgoing).await,
            };
            match link.send(&self.call, outgoing).await {
                Err(error) if was_not_sent(&error) && !link.is_open() => {}
                done => return done,
            }
        }
    }

    async fn stream(&self, outgoing: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        loop {
            let link = match self.backend_for_message().await? {
                Backend::GatewayLink(link) => link,
                Backend::Triad => return self.triad.stream(&self.call, outgoing).await,
            };
            match link.stream(&self.call, outgoing).await {
                Err(error) if was_not_sent(&error) && !link.is_open() => {}
                done => return done,
            }
        }
    }

    async fn get_task(
        &self,
        task_id: &str,
        _history_length: Option<u64>,
    ) -> Result<Task, PeerError> {
        if self.call.agent == TRIAD && self.triad.contains(task_id) {
            return self.triad.get_task(task_id);
        }
        match self.link_if_needed(task_id).await? {
            Some(link) if self.is_local_triad(&*link) => self.triad.get_task(task_id),
            Some(link) => link.get_task(&self.call, task_id).await,
            None => self.stored_task(task_id),
        }
    }

    async fn cancel(&self, task_id: &str) -> Result<Task, PeerError> {
        if self.call.agent == TRIAD && self.triad.contains(task_id) {
            return self.triad.cancel(task_id).await;
        }
        match self.link_if_needed(task_id).await? {
            Some(link) if self.is_local_triad(&*link) => self.triad.cancel(task_id).await,
            Some(link) => link.cancel(&self.call, task_id).await,
            None => self.connector.tasks.cancel(&self.call.agent, task_id),
        }
    }

    async fn resubscribe(&self, task_id: &str) -> Result<Box<dyn EventStream>, PeerError> {
        if self.call.agent == TRIAD && self.triad.contains(task_id) {
            return self.triad.resubscribe(task_id);
        }
        let known = self.connector.tasks.find(&self.call.agent, task_id);
        let settled = known.filter(|entry| entry.is_terminal() && !entry.awaits_decision());
        if let Some(entry) = settled {
            return Ok(entry.subscribe());
        }
        match self.backend().await? {
            Backend::GatewayLink(link) => link.resubscribe(&self.call, task_id).await,
            Backend::Triad => self.triad.resubscribe(task_id),
        }
    }
}
