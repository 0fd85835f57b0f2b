//! The processes that answer: A2A servers, an authorization server, and a gateway with its agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_server::executor::scripted::ScriptedExecutor;
use a2a_server::executor::{Agent, Executor, ExecutorError, Job, Outcome, Reports};
use a2a_server::http::access_control::{Principal, RequestContext};
use a2a_server::http::{App, CardFacts, DEFAULT_BODY_BYTES, DEFAULT_KEEP_ALIVE, router};
use a2a_server::service::{Parts, Service};
use a2a_server::settings::Settings;
use a2a_server::store::memory::MemoryStore;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use collective::Vote;
use common::log::Silent;
use egress::Net;
use futures_util::future::BoxFuture;
use gateway_server::clients::{AgentEvent, Ballot, Connector, Endpoint, Script};
use gateway_server::config::ServerConfig;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use openclaw_server::push_sender::{HttpPushSender, WebhookPolicy};
use openclaw_server::sessions::SessionKeys;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::network::{SimulatedNet, World};
use super::random::SimulatedEnvironment;

/// The authorization server of the last A2A server.
pub(super) const LOGIN_HOST: &str = "login.example";

/// The client's secret at [`LOGIN_HOST`].
pub(super) const CLIENT_SECRET: &str = "s3cret-client";

/// The token of every webhook.
pub(super) const HOOK_TOKEN: &str = "t-1";

/// The number of A2A servers.
pub(super) const SERVERS: usize = 3;

/// The agents of the gateway, which are also the triad.
const AGENTS: [&str; 3] = ["alpha", "beta", "charlie"];

/// How often the work of each message began, by its id or its text.
pub(super) type Runs = Arc<Mutex<BTreeMap<String, u64>>>;

/// All servers of a simulation.
pub(super) struct Servers {
    hosts: Mutex<BTreeMap<String, Running>>,
    gateway: Mutex<Option<RunningGateway>>,
    stores: Vec<Arc<MemoryStore>>,
    environments: Mutex<Vec<Arc<SimulatedEnvironment>>>,
    /// How often the authorization server gave out a token.
    tokens: Mutex<u64>,
    state_dir: TempDir,
    pub(super) runs: Runs,
    /// How often each server has started.
    pub(super) starts: Mutex<Vec<u64>>,
}

struct Running {
    router: Router,
    service: Service,
    closed: CancellationToken,
}

struct RunningGateway {
    nets: BTreeMap<String, Arc<dyn Net>>,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl Servers {
    pub(super) fn new() -> Self {
        Self {
            hosts: Mutex::default(),
            gateway: Mutex::default(),
            stores: (0..SERVERS).map(|_| Arc::default()).collect(),
            environments: Mutex::default(),
            tokens: Mutex::default(),
            state_dir: tempfile::tempdir().unwrap(),
            runs: Arc::default(),
            starts: Mutex::new(vec![0; SERVERS]),
        }
    }

    /// Returns what answers for a host, and what is cancelled when it stops.
    pub(super) fn router(&self, host: &str) -> Option<(Router, CancellationToken)> {
        let hosts = self.hosts.lock().unwrap();
        let running = hosts.get(host)?;
        Some((running.router.clone(), running.closed.clone()))
    }

    /// Returns the gateway as a process sees it, and what is cancelled when it stops.
    pub(super) fn gateway(&self, name: &str) -> Option<(Arc<dyn Net>, CancellationToken)> {
        let gateway = self.gateway.lock().unwrap();
        let gateway = gateway.as_ref()?;
        Some((Arc::clone(&gateway.nets[name]), gateway.shutdown.clone()))
    }

    pub(super) fn is_up(&self, server: usize) -> bool {
        self.hosts.lock().unwrap().contains_key(&host_of(server))
    }

    /// Checks that a host receives no other credential than its own.
    ///
    /// # Errors
    /// The other credential.
    pub(super) fn credential(&self, host: &str, headers: &HeaderMap) -> Result<(), String> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Ok(());
        };
        let value = value.to_str().unwrap_or_default();
        // A corrupted message registers another webhook.
        if value == format!("Bearer {HOOK_TOKEN}") {
            return Ok(());
        }
        let own = match host {
            LOGIN_HOST => value.starts_with("Basic "),
            _ => (0..SERVERS).any(|server| host == host_of(server) && self.accepts(server, value)),
        };
        let issued = host == host_of(SERVERS - 1) && value.starts_with("Bearer s3cret-access-");
        if own || issued {
            Ok(())
        } else {
            Err(value.to_owned())
        }
    }

    fn accepts(&self, server: usize, authorization: &str) -> bool {
        let token = match server + 1 == SERVERS {
            false => token_of(server),
            true => format!("s3cret-access-{}", self.tokens.lock().unwrap()),
        };
        authorization == format!("Bearer {token}")
    }

    /// Returns how many tokens the authorization server has issued.
    pub(super) fn issued(&self) -> u64 {
        *self.tokens.lock().unwrap()
    }

    /// Issues a token. Those before it are refused from now on.
    pub(super) fn issue_token(&self) -> String {
        let mut tokens = self.tokens.lock().unwrap();
        *tokens += 1;
        format!(
            r#"{{"access_token": "s3cret-access-{tokens}", "token_type": "Bearer", "expires_in": 3600}}"#
        )
    }

    /// Sets the time of day of every server to this many seconds before or after the right one.
    pub(super) fn adjust_clocks(&self, seconds: i64) {
        for env in self.environments.lock().unwrap().iter() {
            env.adjust(seconds);
        }
    }
}

pub(super) fn host_of(server: usize) -> String {
    format!("server-{server}.example")
}

/// The token of a server; the last one takes those of the authorization server.
pub(super) fn token_of(server: usize) -> String {
    format!("s3cret-token-{server}")
}

/// Starts an A2A server with the tasks that it had before.
pub(super) async fn start_server(world: &Arc<World>, server: usize, faults: u64) {
    let servers = &world.servers;
    servers.starts.lock().unwrap()[server] += 1;
    let env = Arc::new(SimulatedEnvironment::new(world.fork()));
    servers.environments.lock().unwrap().push(Arc::clone(&env));
    let net = SimulatedNet::new(Arc::clone(world), "server", faults, Arc::clone(&env));
    let sender = HttpPushSender::new(Arc::new(net), WebhookPolicy::default());
    let service = Service::start(Parts {
        settings: Settings::default(),
        executor: Arc::new(Counting {
            script: ScriptedExecutor::default(),
            runs: Arc::clone(&servers.runs),
        }),
        store: Arc::clone(&servers.stores[server]) as _,
        sender: Arc::new(sender),
        sessions: Arc::new(SessionKeys),
        env,
        clients: None,
    })
    .await
    .expect("a store in memory answers");
    let guarded = Arc::clone(world);
    let authenticate = move |mut request: Request, next: Next| {
        let header = request.headers().get(AUTHORIZATION);
        let header = header
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let principal = match guarded.servers.accepts(server, header) {
            true => Ok(Principal {
                name: "simulated".into(),
                authenticated: true,
                operator: false,
                revoked: CancellationToken::new(),
            }),
            false => Err(a2a::A2aError::new(
                a2a::ErrorReason::Unauthenticated,
                "send a token",
            )),
        };
        request.extensions_mut().insert(RequestContext {
            client: [127, 0, 0, 1].into(),
            origin: format!("https://{}", host_of(server)),
            direct: true,
            principal,
        });
        next.run(request)
    };
    let mut card = CardFacts::new(host_of(server), "Simulated.", "1");
    card.push_notifications = true;
    let router = router(App {
        service: service.clone(),
        requires_token: true,
        card,
        body_limit: DEFAULT_BODY_BYTES,
        keep_alive: DEFAULT_KEEP_ALIVE,
    });
    let running = Running {
        router: router.layer(from_fn(authenticate)),
        service,
        closed: CancellationToken::new(),
    };
    servers
        .hosts
        .lock()
        .unwrap()
        .insert(host_of(server), running);
}

/// Stops an A2A server. Its connections break.
pub(super) async fn stop_server(world: &World, server: usize) {
    let running = world.servers.hosts.lock().unwrap().remove(&host_of(server));
    if let Some(running) = running {
        running.closed.cancel();
        running.service.close(Duration::ZERO).await;
    }
}

/// Starts the gateway with the sessions that it had before. `plugins` are the names of its other clients.
pub(super) async fn start_gateway(world: &Arc<World>, plugins: &[String]) {
    let servers = &world.servers;
    let config = serde_json::json!({
        "listen": "127.0.0.1:0", "stateDir": servers.state_dir.path(), "fsync": "never",
    });
    let config = ServerConfig::parse(&config.to_string()).unwrap();
    let env = Arc::new(SimulatedEnvironment::new(world.fork()));
    servers.environments.lock().unwrap().push(Arc::clone(&env));
    let server = gateway_server::Server::bind(config, env, Arc::new(Silent));
    let server = server.await.expect("the earlier gateway has stopped");
    let names = AGENTS.iter().map(|name| (*name).to_owned());
    let names = names.chain(plugins.iter().cloned());
    let nets = names.map(|name| (name.clone(), server.local_net(&name)));
    let (nets, shutdown) = (nets.collect(), CancellationToken::new());
    let running = RunningGateway {
        nets,
        serving: tokio::spawn(server.run(shutdown.clone())),
        shutdown,
    };
    *servers.gateway.lock().unwrap() = Some(running);
}

/// Stops the gateway. Its connections break.
pub(super) async fn stop_gateway(world: &World) {
    let running = world.servers.gateway.lock().unwrap().take();
    if let Some(running) = running {
        running.shutdown.cancel();
        let _ = running.serving.await;
    }
}

/// Starts the agents of the gateway, which connect again whenever it comes back.
pub(super) fn start_agents(world: &Arc<World>, faults: u64) {
    for (number, name) in AGENTS.into_iter().enumerate() {
        let env = Arc::new(SimulatedEnvironment::new(world.fork()));
        let net = SimulatedNet::new(Arc::clone(world), name, faults, Arc::clone(&env));
        let connector = Connector::with_parts(Arc::new(net), env);
        let vote = if number == 2 {
            Vote::Reject
        } else {
            Vote::Approve
        };
        let script = Script {
            name: name.to_owned(),
            ballot: Some(Ballot {
                vote,
                reasoning: Script::REASON.to_owned(),
                confidence: None,
            }),
            delay: Duration::from_millis(50),
            reply: Script::REPLY.to_owned(),
        };
        let runs = Arc::clone(&world.servers.runs);
        let count = move |event: &AgentEvent| {
            let (AgentEvent::Received(_, text) | AgentEvent::Asked(_, text)) = event else {
                return;
            };
            *runs
                .lock()
                .unwrap()
                .entry(format!("{name} {text}"))
                .or_default() += 1;
        };
        tokio::spawn(async move {
            let endpoint = Endpoint::new("ws://127.0.0.1:1".parse().unwrap());
            loop {
                let serving = connector.serve(
                    endpoint.clone(),
                    script.clone(),
                    &count,
                    CancellationToken::new(),
                );
                let _ = serving.await;
                // It gives up where the first connection fails.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
}

/// A scripted executor that counts the runs of each message.
struct Counting {
    script: ScriptedExecutor,
    runs: Runs,
}

impl Executor for Counting {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        self.script.agents()
    }

    fn run(
        &self,
        job: Job,
        reports: Reports,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let id = job.message.message_id.clone();
        *self.runs.lock().unwrap().entry(id).or_default() += 1;
        self.script.run(job, reports, cancel)
    }

    fn reattach(
        &self,
        job: Job,
        run: String,
        reports: Reports,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        self.script.reattach(job, run, reports, cancel)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.script.ready()
    }
}
