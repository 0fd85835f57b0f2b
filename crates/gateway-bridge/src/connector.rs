//! The single connection of an instance: opened on demand, shared by all calls, and replaced when it is lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use parking_lot::Mutex;
use tokio::time::timeout_at;

use base::backoff::Backoff;
use base::environment::Environment;
use base::log::{Level, Log};
use collective::{ErrorCode, Greeting};
use egress::HttpClient;
use peer::{BoxFuture, Connection, ConnectionState, PeerError, PeerErrorKind};

use super::dial::{dial, failed};
use super::pending_tasks::PendingTasks;
use super::settings::{DialectChoice, Settings};
use super::{GatewayLink, a2a_v1, dial, heretek_js, openclaw};

/// The maximum number of attempts of a call to connect, and the delays between them.
const MAX_ATTEMPTS: u32 = 5;
const RECONNECT_DELAY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

type Attempt = Shared<BoxFuture<'static, Result<Arc<dyn GatewayLink>, PeerError>>>;

/// Opens and holds the connection.
pub(super) struct Connector {
    net: Arc<dyn HttpClient>,
    pub(super) settings: Arc<Settings>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
    /// The pending tasks, which outlive connections.
    pub(super) tasks: Arc<PendingTasks>,
    /// The runs at an OpenClaw gateway, which outlive connections.
    runs: Arc<Mutex<openclaw::RunCache>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<dyn GatewayLink>>,
    attempt: Option<Attempt>,
    closing: bool,
    /// The number of connections so far.
    connection_count: u64,
    last_error: Option<String>,
}

/// The attempts of one call to connect. A call that is still waiting after the last one makes one more, after the longest
/// pause.
#[derive(Debug, Default)]
pub(super) struct ConnectBudget {
    attempts: u32,
    /// The number of the connection that the gateway had dismissed when the call began.
    dismissed: Option<u64>,
}

impl ConnectBudget {
    /// Returns the pause before the next attempt, or `None` after the last one. The first attempt has no pause.
    fn next_pause(&mut self, env: &dyn Environment) -> Option<Duration> {
        let failed = self.attempts;
        if failed == MAX_ATTEMPTS {
            self.attempts -= 1;
            return None;
        }
        self.attempts += 1;
        Some(match failed {
            0 => Duration::ZERO,
            failed => RECONNECT_DELAY.jittered(failed, env.random()),
        })
    }
}

impl Connector {
    pub(super) fn new(
        net: Arc<dyn HttpClient>,
        settings: Settings,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Self {
        let tasks = Arc::new(PendingTasks::new());
        Self {
            net,
            settings: Arc::new(settings),
            env,
            log,
            tasks,
            runs: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Returns the budget of a new call.
    pub(super) fn budget(&self) -> ConnectBudget {
        ConnectBudget {
            attempts: 0,
            dismissed: self.state.lock().dismissed(),
        }
    }

    /// Returns the open connection, if any.
    pub(super) fn open(&self) -> Option<Arc<dyn GatewayLink>> {
        let state = self.state.lock();
        state.link.as_ref().filter(|link| link.is_open()).cloned()
    }

    /// Returns the open connection, or opens one. All callers share one attempt at a time. Tries up to five times to reach a
    /// gateway that was connected before. Tries only once otherwise, because the gateway probably does not run.
    ///
    /// # Errors
    /// Connecting failed.
    pub(super) async fn link(
        self: &Arc<Self>,
        budget: &mut ConnectBudget,
    ) -> Result<Arc<dyn GatewayLink>, PeerError> {
        let mut last = None;
        loop {
            if let Some(link) = self.open() {
                return Ok(link);
            }
            self.check_not_dismissed(budget)?;
            let Some(pause) = budget.next_pause(&*self.env) else {
                return Err(last.unwrap_or_else(|| self.unreachable_error()));
            };
            tokio::time::sleep(pause).await;
            match self.attempt().await {
                Ok(link) => return Ok(link),
                Err(error) if is_transient(&error) && self.state.lock().connection_count > 0 => {
                    last = Some(error)
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Connects with a single attempt.
    ///
    /// # Errors
    /// Connecting failed.
    pub(super) async fn link_now(self: &Arc<Self>) -> Result<Arc<dyn GatewayLink>, PeerError> {
        match self.open() {
            Some(link) => Ok(link),
            None => self.attempt().await,
        }
    }

    fn check_not_dismissed(&self, budget: &ConnectBudget) -> Result<(), PeerError> {
        match self.state.lock().dismissed() {
            dismissed if dismissed.is_none() || dismissed == budget.dismissed => Ok(()),
            _ => Err(failed(
                ErrorCode::ConnectionReset,
                format!(
                    "the gateway at `{}` closed the connection and asked not to reconnect; the next call connects again",
                    self.settings.display_url()
                ),
            )),
        }
    }

    fn unreachable_error(&self) -> PeerError {
        failed(
            ErrorCode::ConnectionReset,
            format!(
                "the connection to the gateway at `{}` breaks repeatedly; check the gateway",
                self.settings.display_url()
            ),
        )
    }

    /// Returns the current attempt, or starts one. It continues even if the caller stops waiting.
    fn attempt(self: &Arc<Self>) -> Attempt {
        let mut state = self.state.lock();
        if let Some(attempt) = &state.attempt {
            return attempt.clone();
        }
        if state.closing {
            return std::future::ready(Err(shutdown_error())).boxed().shared();
        }
        let this = Arc::clone(self);
        let connecting = tokio::spawn(async move {
            let mut connected = this.connect().await;
            let closing = this.state.lock().closing;
            if let Ok(link) = connected.as_ref()
                && closing
            {
                link.close().await;
                connected = Err(shutdown_error());
            }
            this.record_attempt(&connected);
            connected
        });
        let attempt = async move {
            let abandoned = |_| failed(ErrorCode::ConnectionReset, "connecting was abandoned");
            connecting
                .await
                .map_err(abandoned)
                .and_then(|connected| connected)
        };
        let attempt = attempt.boxed().shared();
        state.attempt = Some(attempt.clone());
        attempt
    }

    fn record_attempt(&self, result: &Result<Arc<dyn GatewayLink>, PeerError>) {
        let mut state = self.state.lock();
        state.attempt = None;
        match result {
            Ok(link) => {
                state.link = Some(Arc::clone(link));
                state.connection_count += 1;
                state.last_error = None;
                let line = format!(
                    "gateway {}: connected, {}",
                    self.settings.display_url(),
                    link.dialect()
                );
                self.log.log(Level::Debug, &line);
            }
            Err(error) => {
                state.last_error = Some(error.message.clone());
                // The callers report it.
                self.log.log(Level::Debug, &format!("no gateway: {error}"));
            }
        }
    }

    async fn connect(&self) -> Result<Arc<dyn GatewayLink>, PeerError> {
        match self.handshake(&self.settings).await {
            Err(a2a_v1::HandshakeError::OpenClaw)
                if self.settings.dialect == DialectChoice::Auto =>
            {
                // The gateway sent its greeting late. Dial again with the known dialect and the full timeout.
                let known = Settings {
                    dialect: DialectChoice::OpenClaw,
                    ..(*self.settings).clone()
                };
                self.handshake(&known)
                    .await
                    .map_err(|error| error.into_peer_error(&known))
            }
            result => result.map_err(|error| error.into_peer_error(&self.settings)),
        }
    }

    async fn handshake(
        &self,
        settings: &Settings,
    ) -> Result<Arc<dyn GatewayLink>, a2a_v1::HandshakeError> {
        let dialed = dial(&*self.net, settings).await?;
        let until = dialed.until;
        let linked = async {
            let settings = Arc::clone(&self.settings);
            let (env, log) = (Arc::clone(&self.env), Arc::clone(&self.log));
            match dialed.greeting {
                None => {
                    a2a_v1::handshake(dialed, settings, env, log, Arc::clone(&self.tasks)).await
                }
                Some(Greeting::HeretekJs) => {
                    let tasks = Arc::clone(&self.tasks);
                    Ok(heretek_js::handshake(dialed, settings, env, log, tasks).await?)
                }
                Some(Greeting::OpenClaw) => {
                    Ok(
                        openclaw::handshake(dialed, settings, env, log, Arc::clone(&self.runs))
                            .await?,
                    )
                }
            }
        };
        let linked = timeout_at(until, linked).await;
        linked.unwrap_or_else(|_| Err(dial::handshake_timeout(settings).into()))
    }

    /// Returns the state of the connection.
    pub(super) fn connection(&self) -> Connection {
        let state = self.state.lock();
        let open = state.link.as_ref().filter(|link| link.is_open());
        let now = match (open, &state.attempt) {
            _ if state.closing && open.is_some() => ConnectionState::Closing,
            (Some(_), _) => ConnectionState::Open,
            (None, Some(_)) => ConnectionState::Connecting,
            (None, None) => ConnectionState::Closed,
        };
        let ended = || {
            state
                .link
                .as_ref()
                .filter(|link| !link.is_open())?
                .last_error()
        };
        Connection {
            url: self.settings.display_url(),
            state: now,
            dialect: state.link.as_ref().map(|link| link.dialect()),
            protocol: self.settings.protocol.clone(),
            timeout: self.settings.timeout,
            heartbeat: self.settings.heartbeat,
            last_error: state.last_error.clone().or_else(ended),
        }
    }

    /// Disconnects and closes.
    pub(super) async fn close(&self) {
        let link = {
            let mut state = self.state.lock();
            state.closing = true;
            state.link.clone()
        };
        if let Some(link) = link {
            link.close().await;
        }
    }
}

impl State {
    /// Returns the number of the last connection if the gateway dismissed it.
    fn dismissed(&self) -> Option<u64> {
        let last = self.link.as_ref()?;
        (!last.is_open() && last.is_dismissed()).then_some(self.connection_count)
    }
}

/// Returns whether another attempt may soon succeed.
fn is_transient(error: &PeerError) -> bool {
    matches!(
        error.kind,
        PeerErrorKind::Gateway(
            ErrorCode::ConnectionRefused
                | ErrorCode::ConnectionTimeout
                | ErrorCode::ConnectionReset
                | ErrorCode::AgentBusy
        )
    )
}

fn shutdown_error() -> PeerError {
    failed(ErrorCode::ConnectionRefused, "the plugin was shut down")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::environment::SystemEnvironment;

    #[test]
    fn h_47_call_tries_five_times_first_at_once() {
        let mut budget = ConnectBudget::default();
        let pauses: Vec<_> = std::iter::from_fn(|| budget.next_pause(&SystemEnvironment)).collect();
        assert_eq!((pauses.len(), pauses[0]), (5, Duration::ZERO));
        for (pause, whole) in pauses[1..]
            .iter()
            .zip([2, 4, 8, 16].map(Duration::from_secs))
        {
            assert!((whole / 2..=whole).contains(pause), "{pauses:?}");
        }
    }

    #[test]
    fn each_call_after_exhausted_retries_tries_once() {
        let mut budget = ConnectBudget::default();
        while budget.next_pause(&SystemEnvironment).is_some() {}
        for _ in 0..3 {
            let pause = budget.next_pause(&SystemEnvironment);
            assert!(pause >= Some(Duration::from_secs(8)), "{pause:?}");
            assert_eq!(budget.next_pause(&SystemEnvironment), None);
        }
    }
}
