//! Agents and links that a gateway runs in its own process.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use base::backoff::Backoff;
use base::environment::{IdGenerator as _, SystemEnvironment};
use base::log::{Level, Log};
use base::panics;
use gateway_bridge::client::{AgentEvent, Connector, Endpoint};
use gateway_server::{LocalAgent, LocalLink, Server};

use super::agent::Agent;
use super::backend::AgentBackend;
use super::link;
use super::settings::AgentSettings;

/// The delays before an agent restarts.
const RESTART_DELAY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// The run time after which an agent restarts with the first delay.
const STABLE_RUN_TIME: Duration = Duration::from_mins(1);

/// The agents and links that a gateway runs. Each runs in its own task and restarts after a failure.
pub struct Supervisor {
    agents: Vec<Supervised>,
    links: Vec<LocalLink>,
    log: Arc<dyn Log>,
}

struct Supervised {
    settings: AgentSettings,
    backend: Arc<dyn AgentBackend>,
    local: LocalAgent,
}

impl Supervisor {
    /// Creates a supervisor without agents. It logs failures to `log`.
    pub fn new(log: Arc<dyn Log>) -> Self {
        Self {
            agents: Vec::new(),
            links: Vec::new(),
            log,
        }
    }

    /// Adds an agent of `server`.
    pub fn add(
        &mut self,
        server: &Server,
        settings: AgentSettings,
        backend: Arc<dyn AgentBackend>,
    ) {
        let local = server.local_agent(&settings.name);
        self.agents.push(Supervised {
            settings,
            backend,
            local,
        });
    }

    /// Adds the links that `server` dials.
    pub fn add_links(&mut self, server: &Server) {
        self.links.extend(server.links());
    }

    /// Runs the agents and links until `shutdown` is cancelled, and waits until they have stopped.
    pub async fn run(self, shutdown: CancellationToken) {
        let Ok(url) = Url::parse("ws://127.0.0.1/") else {
            return;
        };
        let endpoint = Endpoint::new(url);
        let mut running = JoinSet::new();
        for one in self.links {
            running.spawn(link::run(one, endpoint.clone(), shutdown.clone()));
        }
        for agent in self.agents {
            let (log, endpoint) = (Arc::clone(&self.log), endpoint.clone());
            running.spawn(agent.run(endpoint, log, shutdown.clone()));
        }
        while running.join_next().await.is_some() {}
    }
}

impl Supervised {
    async fn run(self, endpoint: Endpoint, log: Arc<dyn Log>, shutdown: CancellationToken) {
        let env = Arc::new(SystemEnvironment);
        let name = self.settings.name.clone();
        let connector = Connector::with_parts(self.local.network(), self.local.environment());
        let mut restarts = 0;
        loop {
            let report = reporter(name.clone(), self.local.clone(), Arc::clone(&log));
            let agent = Agent::new(
                self.settings.clone(),
                Arc::clone(&self.backend),
                env.clone(),
                report,
            );
            let started = Instant::now();
            let served = agent.serve(&connector, &endpoint, &shutdown);
            let served = panics::catch_async(served).await;
            if shutdown.is_cancelled() {
                return;
            }
            let reason = match served {
                Ok(Ok(())) => "the gateway ended its connection".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(panicked) => format!("it panicked {panicked}"),
            };
            if started.elapsed() >= STABLE_RUN_TIME {
                restarts = 0;
            }
            let wait = RESTART_DELAY.jittered(restarts, env.random());
            let line = format!(
                "the agent `{name}` has ended: {reason}; it starts again in {:.1} s",
                wait.as_secs_f64()
            );
            log.log(Level::Warn, &line);
            self.local.record_exit(&reason, wait);
            if shutdown
                .run_until_cancelled(tokio::time::sleep(wait))
                .await
                .is_none()
            {
                return;
            }
            restarts += 1;
        }
    }
}

/// Returns a function that records starts and exits, and logs events. It logs failures as warnings, and never logs the text
/// of messages.
fn reporter(
    name: String,
    local: LocalAgent,
    log: Arc<dyn Log>,
) -> impl Fn(&AgentEvent) + Send + Sync + 'static {
    move |event| {
        let (level, line) = match event {
            AgentEvent::Failed(reason) => (Level::Warn, format!("failed: {reason}")),
            AgentEvent::Error(error) => (Level::Warn, error.to_string()),
            AgentEvent::Lost(error, wait) => {
                local.record_exit(&error.to_string(), *wait);
                (Level::Debug, format!("lost its connection: {error}"))
            }
            AgentEvent::Connected(_) => {
                local.record_start();
                (Level::Debug, "connected".to_owned())
            }
            AgentEvent::Voted(id, vote) => {
                (Level::Debug, format!("voted {} on `{id}`", vote.as_str()))
            }
            _ => return,
        };
        log.log(level, &format!("agent `{name}`: {line}"));
    }
}
