//! An executor that sends messages through a gateway: to the agents of OpenClaw's gateway, or to the members of a
//! collective behind a gateway of the collective protocol (`a2a-v1`). Each message starts a run, whose answer is
//! streamed.
//!
//! The executor generates the id of a run, because two clients may use the same message id. The server stores the id
//! with the name of the agent (`AGENT/ID`) to find the run after a restart. The triad is an agent only if the gateway
//! counts its votes (`collective.rs`). With OpenClaw's gateway, the client would count the votes and lose them in a
//! restart.

mod collective;
mod event_forwarder;
mod outcome;

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use a2a_server::executor::{
    Agent, ExecutionEvent, ExecutionEvents, Executor, ExecutorError, Outcome, RunInput,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use ::collective::{AgentStatus, SUBPROTOCOL};
use a2a::SendRequest;
use base::backoff::Backoff;
use base::environment::Environment;
use base::log::Log;
use egress::ReqwestClient;
use gateway_bridge::delegation;
use gateway_bridge::session_key;
use gateway_bridge::{self, BridgedGateway, TRIAD, openclaw};
use peer::{
    CallOptions, ConnectionState, EventStream, LocalGateway as _, Peer, PeerError, PeerErrorKind,
};

use self::collective::Proposal;
use super::delegated::DelegationWriter;
use super::parts;
use super::settings::Thinking;
use event_forwarder::EventForwarder;

/// How long the readiness check of the gateway may take.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of attempts to find a run again after the connection broke, and the delays before all but the first. They
/// cover a restart of the gateway.
const MAX_RECONNECTS: usize = 8;
const RECONNECT_DELAY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));

/// The delay before the executor sends a proposal again.
const REPEAT_DELAY: Duration = Duration::from_secs(1);

/// The agent if neither the message nor the gateway names one. OpenClaw gives its first agent this name.
const DEFAULT_AGENT: &str = "main";

/// The settings of runs.
#[derive(Debug, Clone)]
pub struct GatewayRuns {
    /// The timeout of a run. The gateway enforces it even if the server has stopped.
    pub timeout: Duration,
    /// The thinking level; `None` lets OpenClaw select the level.
    pub thinking: Option<Thinking>,
    /// The state directory of the OpenClaw behind the gateway, for delegation records; `None` if it is on another
    /// machine.
    pub state_dir: Option<PathBuf>,
    /// Whether clients may call the triad of a collective.
    pub triad: bool,
}

/// Executes messages with the agents behind a gateway.
pub struct GatewayExecutor(Arc<Runs>);

struct Runs {
    gateway: BridgedGateway,
    settings: GatewayRuns,
    delegated: DelegationWriter,
    env: Arc<dyn Environment>,
    /// The name of the default agent, once it is known.
    default: Mutex<Option<String>>,
    /// Whether runs continue when their futures are dropped.
    detached: AtomicBool,
}

impl GatewayExecutor {
    /// Creates the executor for the gateway in `settings`. The executor connects on first use.
    ///
    /// # Errors
    /// The TLS configuration of the system cannot be used.
    pub fn new(
        settings: gateway_bridge::Settings,
        runs: GatewayRuns,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, ExecutorError> {
        let net = ReqwestClient::new().map_err(|error| ExecutorError(error.to_string()))?;
        let gateway =
            BridgedGateway::new(Arc::new(net), settings, Arc::clone(&env), Arc::clone(&log));
        let state_dir = runs.state_dir.clone();
        Ok(Self(Arc::new(Runs {
            gateway,
            settings: runs,
            delegated: DelegationWriter::new(state_dir, Arc::clone(&env), log),
            env,
            default: Mutex::default(),
            detached: AtomicBool::new(false),
        })))
    }
}

impl Executor for GatewayExecutor {
    fn detach(&self) {
        self.0.detached.store(true, Ordering::Relaxed);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.gateway.close()
    }

    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(async {
            let agents = self.0.list_agents().await;
            agents.map_err(|error| ExecutorError(outcome::for_operator(&error)))
        })
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let runs = Arc::clone(&self.0);
        Box::pin(async move {
            runs.start_run(input, events, cancel)
                .await
                .unwrap_or_else(|outcome| outcome)
        })
    }

    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let (agent, id) = run.rsplit_once('/')?;
        let mut handle = RunHandle {
            runs: Arc::clone(&self.0),
            agent: agent.to_owned(),
            context: input.context_id,
            session: input.session,
            run: id.to_owned(),
            proposal: None,
        };
        if agent == TRIAD {
            let proposal =
                Proposal::from_run(id, parts::to_agent(input.message.parts), input.delegation)?;
            handle.run.clone_from(&proposal.id);
            handle.proposal = Some(proposal);
        }
        Some(Box::pin(async move {
            let work = async {
                match handle.resubscribe(None).await {
                    Ok(stream) => handle.follow(stream, events).await,
                    Err(outcome) => outcome,
                }
            };
            handle.until_canceled(work, &cancel).await
        }))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(async {
            if self.0.gateway.connection().state == ConnectionState::Open {
                return Ok(());
            }
            match timeout(READY_TIMEOUT, self.0.gateway.members()).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(ExecutorError(outcome::for_operator(&error))),
                Err(_) => Err(ExecutorError(format!(
                    "the gateway did not answer within {} s; check it with `{}`",
                    READY_TIMEOUT.as_secs(),
                    outcome::GATEWAY_STATUS
                ))),
            }
        })
    }
}

impl Runs {
    async fn list_agents(&self) -> Result<Vec<Agent>, PeerError> {
        let mut members = self.gateway.members().await?;
        let triad = self.offers_triad();
        members.retain(|member| member.name != TRIAD || triad);
        if !self.is_openclaw() {
            members.sort_by_key(|member| {
                let last = member.name == TRIAD;
                (last, rank(member.status), member.name != DEFAULT_AGENT)
            });
        }
        let in_collective = self.is_collective();
        let agents: Vec<_> = members
            .into_iter()
            .map(|member| {
                if in_collective {
                    return collective::agent(member);
                }
                let view = member.card.view.ok();
                let title = view.and_then(|view| view.name);
                Agent {
                    title: title.filter(|title| *title != member.name),
                    name: member.name,
                    description: member.role,
                    skills: Vec::new(),
                }
            })
            .collect();
        let first = agents.first().map(|agent| agent.name.clone());
        *self.default.lock() = first;
        Ok(agents)
    }

    /// Returns whether the gateway is an OpenClaw gateway. OpenClaw lists its default agent first, and its agents read
    /// the delegation file. Other gateways list agents in any order and receive the depth in the metadata of a message.
    fn is_openclaw(&self) -> bool {
        let dialect = self.gateway.connection().dialect;
        dialect.is_some_and(|dialect| dialect.starts_with("openclaw"))
    }

    /// Returns whether the gateway uses the collective protocol.
    fn is_collective(&self) -> bool {
        self.gateway.connection().dialect == Some(SUBPROTOCOL)
    }

    fn offers_triad(&self) -> bool {
        self.settings.triad && self.is_collective()
    }

    /// Returns the outcome if a run cannot be started or followed.
    fn outcome(&self, error: &PeerError) -> Outcome {
        outcome::outcome(error, &self.gateway.connection().url)
    }

    /// Connects to the gateway, unless an earlier connection has already identified its protocol.
    async fn connect(&self) -> Result<(), Outcome> {
        if self.gateway.connection().dialect.is_none() {
            let connected = self.list_agents().await;
            connected.map_err(|error| self.outcome(&error))?;
        }
        Ok(())
    }

    /// Returns the agent for a run.
    async fn agent(&self, input: &RunInput) -> Result<String, Outcome> {
        if let Some(name) = &input.agent {
            if name == TRIAD && !self.offers_triad() {
                return Err(Outcome::Rejected(
                    "this server does not offer a triad; send the message to one of its agents"
                        .into(),
                ));
            }
            return Ok(name.clone());
        }
        let known = self.default.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let agents = self
            .list_agents()
            .await
            .map_err(|error| self.outcome(&error))?;
        agents
            .into_iter()
            .next()
            .map(|agent| agent.name)
            .ok_or_else(|| {
                Outcome::Rejected("the gateway has no agent; the operator must create one".into())
            })
    }

    async fn start_run(
        self: Arc<Self>,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Result<Outcome, Outcome> {
        self.connect().await?;
        let agent = self.agent(&input).await?;
        let key = session_key::session_key(&agent, &input.session);
        if self.is_openclaw() {
            self.delegated
                .record(&key, input.delegation.as_ref())
                .await?;
        }
        let proposal = match agent == TRIAD {
            true => Some(Proposal::new(
                parts::to_agent(input.message.parts.clone()),
                input.delegation.clone(),
                self.settings.timeout,
                &*self.env,
            )?),
            false => None,
        };
        let (run, stored_run) = match &proposal {
            Some(proposal) => (proposal.id.clone(), proposal.run()),
            None => {
                let run = self.run_id();
                (run.clone(), run)
            }
        };
        // Store the name of the run before it starts, so that a restarted server can find it.
        let _ = events
            .send(ExecutionEvent::Run(format!("{agent}/{stored_run}")))
            .await;
        let request = match &proposal {
            Some(proposal) => proposal.request(),
            None => self.send_request(&run, input.message.parts, input.delegation),
        };
        let handle = RunHandle {
            runs: self,
            agent,
            context: input.context_id,
            session: input.session,
            run,
            proposal,
        };
        let work = async {
            match handle.peer().stream(&request).await {
                Ok(stream) => handle.follow(stream, events).await,
                // The gateway may have received the message before the connection broke.
                Err(error) if error.kind.is_cut() => match handle.resubscribe(Some(error)).await {
                    Ok(stream) => handle.follow(stream, events).await,
                    Err(outcome) => outcome,
                },
                Err(error) => handle.runs.outcome(&error),
            }
        };
        Ok(handle.until_canceled(work, &cancel).await)
    }

    /// Generates the id of a run, in the format of message ids in the gateway's protocol.
    fn run_id(&self) -> String {
        let id = self.env.uuid();
        match self.is_openclaw() {
            true => id.to_string(),
            false => format!("msg-{id}"),
        }
    }

    fn send_request(
        &self,
        run: &str,
        parts: Vec<a2a::v1_0::Part>,
        delegation: Option<Value>,
    ) -> SendRequest {
        let mut parts = parts::to_agent(parts);
        if let Some(line) = openclaw::line_before(&openclaw::text(&parts)) {
            parts.insert(0, parts::text_part(line));
        }
        let limit = base::environment::millis(self.settings.timeout);
        let mut metadata = Map::new();
        metadata.insert(openclaw::RUN_TIMEOUT_KEY.to_owned(), limit.into());
        if let Some(thinking) = self.settings.thinking {
            metadata.insert(openclaw::THINKING_KEY.to_owned(), thinking.as_str().into());
        }
        if let Some(delegation) = delegation {
            metadata.insert(delegation::DELEGATION_KEY.to_owned(), delegation);
        }
        SendRequest {
            message_id: run.to_owned(),
            parts,
            followed: true,
            metadata: Some(metadata),
            ..SendRequest::default()
        }
    }
}

/// Returns a sort key for agents. The agents most likely to answer have the lowest key.
fn rank(status: Option<AgentStatus>) -> u8 {
    match status {
        Some(AgentStatus::Online | AgentStatus::Idle | AgentStatus::Busy) => 0,
        None => 1,
        Some(AgentStatus::Offline | AgentStatus::Error) => 2,
    }
}

/// Identifies a run at the gateway.
struct RunHandle {
    runs: Arc<Runs>,
    agent: String,
    context: String,
    session: String,
    run: String,
    /// The proposal of the run, if the agent is the triad.
    proposal: Option<Proposal>,
}

impl RunHandle {
    fn peer(&self) -> Box<dyn Peer> {
        let options = CallOptions {
            context_id: Some(&self.context),
            session: Some(&self.session),
            ..CallOptions::default()
        };
        self.runs.gateway.agent(self.agent.clone(), &options)
    }

    /// Follows the run until it ends. Reconnects when the connection breaks.
    async fn follow(&self, mut stream: Box<dyn EventStream>, events: ExecutionEvents) -> Outcome {
        let forwarder = EventForwarder::new(events);
        loop {
            let error = match stream.next().await {
                Some(Ok((event, _))) => match forwarder.forward(event).await {
                    Some(outcome) if self.can_repeat(&outcome) => {
                        tokio::time::sleep(REPEAT_DELAY).await;
                        None
                    }
                    Some(outcome) => {
                        let address = self.runs.gateway.connection().url;
                        return outcome::for_client(outcome, &address);
                    }
                    None => continue,
                },
                Some(Err(error)) => Some(error),
                None => None,
            };
            stream = match self.resubscribe(error).await {
                Ok(stream) => stream,
                Err(outcome) => return outcome,
            };
        }
    }

    /// Returns whether the same message may be sent again: a proposal that the gateway dropped when it stopped.
    fn can_repeat(&self, outcome: &Outcome) -> bool {
        let is_unreachable =
            matches!(outcome, Outcome::Failed { reason, .. } if *reason == outcome::UNREACHABLE);
        is_unreachable && self.proposal.is_some()
    }

    /// Subscribes to the run again. `error` is the one that ended the connection.
    async fn resubscribe(&self, error: Option<PeerError>) -> Result<Box<dyn EventStream>, Outcome> {
        let mut last = error;
        let delays = iter::once(Duration::ZERO).chain(RECONNECT_DELAY.delays());
        for delay in delays.take(MAX_RECONNECTS) {
            tokio::time::sleep(delay).await;
            let opened = match &self.proposal {
                Some(proposal) if proposal.has_expired(&*self.runs.env) => {
                    return Err(collective::undecided_outcome());
                }
                // The gateway accepts a proposal with a known id only once, and sends its decision again.
                Some(proposal) => self.peer().stream(&proposal.request()).await,
                None => self.peer().resubscribe(&self.run).await,
            };
            match opened {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind.is_unreachable() => last = Some(error),
                // After a restart of the gateway, the members need time to reconnect.
                Err(error) if self.proposal.is_some() && outcome::is_offline(&error) => {
                    last = Some(error);
                }
                Err(error) if error.kind == PeerErrorKind::TaskForgotten => {
                    return Err(outcome::interrupted());
                }
                Err(error) => return Err(self.runs.outcome(&error)),
            }
        }
        Err(last.map_or_else(outcome::interrupted, |error| self.runs.outcome(&error)))
    }
}

#[cfg(test)]
mod tests;
