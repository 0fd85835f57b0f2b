//! The client of another gateway: it passes messages between that gateway and its own, and offers each the agents of the
//! other.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use base::backoff::Backoff;
use base::environment::{IdGenerator as _, SystemEnvironment};
use collective::{
    AgentStatus, CONFIRM, Channel, Envelope, Kind, MAX_SERVED_AGENTS, PROTOCOL_VERSION,
};
use gateway_bridge::client::{
    AgentEvent, ClientConnection, ClientError, ClientErrorKind, Connector, Endpoint, MessageSender,
};
use gateway_server::LocalLink;

/// The delays after an error that another attempt does not repair by itself, such as a refused certificate.
const RETRY_DELAY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// Keeps a link connected until `shutdown` is cancelled. `local` is the endpoint of clients in the own process.
pub(super) async fn run(link: LocalLink, local: Endpoint, shutdown: CancellationToken) {
    let url = link.config().url.as_deref().map(Url::parse);
    let (Some(Ok(url)), Ok(connector)) = (url, Connector::new()) else {
        link.record_failure("the URL or the TLS configuration of this machine is unusable");
        return;
    };
    let endpoint = Endpoint {
        trust: link.trust(),
        allow_remote: true,
        ..Endpoint::new(url)
    };
    let failures = AtomicU32::new(0);
    let on_event = |event: &AgentEvent| match event {
        AgentEvent::Lost(error, _) => link.record_failure(&error.message),
        AgentEvent::Connected(_) => failures.store(0, Ordering::Relaxed),
        _ => {}
    };
    while !shutdown.is_cancelled() {
        let serve = |connection| relay(&link, &local, connection);
        let served = connector.keep_connected(&endpoint, &[], &on_event, &shutdown, serve);
        if let Err(error) = served.await {
            link.record_failure(&error.message);
            let attempt = failures.fetch_add(1, Ordering::Relaxed);
            let wait = RETRY_DELAY.jittered(attempt, SystemEnvironment.random());
            shutdown.run_until_cancelled(tokio::time::sleep(wait)).await;
        }
    }
}

/// Passes messages between both gateways until one connection ends. The connection in the own process exists only while the
/// other one does, so its end tells the own gateway which messages have an unknown fate.
async fn relay(
    link: &LocalLink,
    endpoint: &Endpoint,
    mut remote: ClientConnection,
) -> Result<(), ClientError> {
    // Marks the answers to requests of this client.
    let own = format!("link-{}", link.environment().uuid());
    let offered = discover(&mut remote, &own).await?;
    let connector = Connector::with_parts(link.network(), link.environment());
    let (mut local, _) = connector.open(endpoint, &[]).await?;
    let exported = discover(&mut local, &own).await?;
    let lists = |name: &str| link.lists(name);
    let mut incoming = Mirror::new(local.sender(), &own, &lists);
    // Without a link there, the other gateway would give the agents of this one its own names.
    let knows_links = offered["link"].is_string();
    let is_exported = |_: &str| knows_links;
    let mut outgoing = Mirror::new(remote.sender(), &own, &is_exported);
    incoming.update(agents(&offered)).await?;
    outgoing.update(agents(&exported)).await?;
    let ended = tokio::select! {
        ended = pass(&mut remote, &mut incoming) => ended,
        ended = pass(&mut local, &mut outgoing) => ended,
    };
    ended.map(|never| match never {})
}

/// Subscribes to the status of agents, and returns the content of a discovery response.
async fn discover(connection: &mut ClientConnection, own: &str) -> Result<Value, ClientError> {
    let list = Envelope::new(Kind::Discovery, json!({"action": "list"})).with("id", own);
    connection.sender().send(list).await?;
    let answered = async {
        loop {
            let envelope = connection.recv().await?;
            match envelope.kind() {
                Kind::Discovery => return Ok(envelope.content().clone()),
                Kind::Error => return Err(ClientError::from_error(&envelope)),
                _ => {}
            }
        }
    };
    let listed = timeout(Endpoint::DEFAULT_TIMEOUT, answered).await;
    let listed =
        listed.unwrap_or_else(|_| Err(lost("a gateway did not list its agents in time")))?;
    // Sends the current status first, so no change gets lost.
    let content = json!({"channel": Channel::Status.as_str()});
    let subscribe = Envelope::new(Kind::Subscribe, content).with("id", own);
    connection.sender().send(subscribe).await?;
    Ok(listed)
}

fn lost(message: &str) -> ClientError {
    ClientError {
        kind: ClientErrorKind::Unreachable,
        message: message.to_owned(),
    }
}

/// Returns the names and statuses in the content of a discovery response.
fn agents(content: &Value) -> impl Iterator<Item = (&str, AgentStatus)> {
    let agents = content["agents"].as_array().into_iter().flatten();
    agents.filter_map(|agent| Some((agent["name"].as_str()?, known_status(&agent["status"]))))
}

/// Returns a status of the protocol (Heretek A2A §8.2). An agent with another one is not available.
fn known_status(status: &Value) -> AgentStatus {
    let known = status.as_str().and_then(AgentStatus::from_name);
    known.unwrap_or(AgentStatus::Error)
}

/// Passes what agents of one gateway send on to the other gateway.
async fn pass(
    from: &mut ClientConnection,
    mirror: &mut Mirror<'_>,
) -> Result<Infallible, ClientError> {
    loop {
        let envelope = from.recv().await?;
        let is_answer = envelope.correlation_id().is_some() || envelope.parent_id().is_some();
        match envelope.kind() {
            Kind::Error if envelope.parent_id() == Some(mirror.own) => {
                return Err(ClientError::from_error(&envelope));
            }
            Kind::Status if !is_answer => {
                let content = envelope.content();
                let agent = content["agent"].as_str();
                let status = known_status(&content["status"]);
                mirror.update(agent.map(|agent| (agent, status))).await?;
            }
            Kind::Disconnect => return Err(lost("the other gateway ended the connection")),
            Kind::Pong if !is_answer => {}
            Kind::Message
            | Kind::Request
            | Kind::Response
            | Kind::Error
            | Kind::Status
            | Kind::Pong
            | Kind::Broadcast
            | Kind::Proposal
            | Kind::Vote
            | Kind::Decision => mirror.relay(envelope).await?,
            _ => {}
        }
    }
}

/// The agents of one gateway, as this client offers them to the other gateway.
struct Mirror<'a> {
    target: MessageSender,
    own: &'a str,
    is_offered: &'a (dyn Fn(&str) -> bool + Send + Sync),
    agents: HashMap<String, AgentStatus>,
}

impl<'a> Mirror<'a> {
    fn new(
        target: &MessageSender,
        own: &'a str,
        is_offered: &'a (dyn Fn(&str) -> bool + Send + Sync),
    ) -> Self {
        Self {
            target: target.clone(),
            own,
            is_offered,
            agents: HashMap::new(),
        }
    }

    /// Sends a message to the other gateway. A ping follows if the sender needs to know that the gateway has the message: the
    /// gateway handles messages in order.
    async fn relay(&self, envelope: Envelope) -> Result<(), ClientError> {
        let confirm = envelope.metadata(CONFIRM) == Some(&Value::Bool(true));
        if !confirm {
            return self.target.relay(envelope).await;
        }
        let correlation = envelope.correlation_id().map(str::to_owned);
        let ping = Envelope::new(Kind::Ping, json!({})).with_metadata("correlationId", correlation);
        self.target
            .relay(envelope.with_metadata(CONFIRM, Value::Null))
            .await?;
        self.target.send(ping).await
    }

    /// Makes room for an agent with this status: an offline agent gives way to one that is not. Returns whether there is room.
    fn make_room(&mut self, status: AgentStatus) -> bool {
        if self.agents.len() < MAX_SERVED_AGENTS {
            return true;
        }
        let mut offered = self.agents.iter();
        let is_offline = |status: AgentStatus| status == AgentStatus::Offline;
        let offline = offered.find(|(_, offered)| !is_offline(status) && is_offline(**offered));
        let offline = offline.map(|(name, _)| name.clone());
        offline.is_some_and(|name| self.agents.remove(&name).is_some())
    }

    /// Offers new agents, and reports changes of their status.
    async fn update<'n>(
        &mut self,
        agents: impl IntoIterator<Item = (&'n str, AgentStatus)>,
    ) -> Result<(), ClientError> {
        let mut changed = Vec::new();
        let mut is_advertised = true;
        for (name, status) in agents {
            if !(self.is_offered)(name) {
                continue;
            }
            // An agent is online once it is offered.
            let before = match self.agents.get(name).copied() {
                Some(before) => before,
                None if !self.make_room(status) => continue,
                None => {
                    is_advertised = false;
                    AgentStatus::Online
                }
            };
            if before != status {
                changed.push((name, status));
            }
            self.agents.insert(name.to_owned(), status);
        }
        if !is_advertised {
            let names: Vec<&String> = self.agents.keys().collect();
            let capabilities = json!({"supportedAgents": names, "version": PROTOCOL_VERSION});
            let content = json!({"action": "advertise", "capabilities": capabilities});
            let advertise = Envelope::new(Kind::Handshake, content).with("id", self.own);
            self.target.send(advertise).await?;
        }
        changed.retain(|(name, _)| self.agents.contains_key(*name));
        for (name, status) in changed {
            let content = json!({"agent": name, "status": status.as_str()});
            self.target
                .send(Envelope::new(Kind::Status, content))
                .await?;
        }
        Ok(())
    }
}
