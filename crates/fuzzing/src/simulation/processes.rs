//! Starts and stops the servers, the gateway and its agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_server::executor::scripted::ScriptedExecutor;
use a2a_server::executor::{Agent, ExecutionEvents, Executor, ExecutorError, Outcome, RunInput};
use a2a_server::http::access_control::{Principal, RequestContext};
use a2a_server::http::{App, CardFacts, DEFAULT_BODY_BYTES, DEFAULT_KEEP_ALIVE, router};
use a2a_server::service::{Service, ServiceComponents};
use a2a_server::settings::Settings;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use base::log::Silent;
use collective::Vote;
use futures_util::future::BoxFuture;
use gateway_bridge::client::{AgentEvent, Ballot, Connector, Endpoint, Script};
use gateway_server::config::ServerConfig;
use http::header::AUTHORIZATION;
use openclaw_server::push_sender::{HttpPushSender, WebhookPolicy};
use openclaw_server::sessions::SessionKeys;
use tokio_util::sync::CancellationToken;

use super::network::SimulatedNet;
use super::random::SimulatedEnvironment;

use super::openclaw::{AGENTS, Runs};
use super::servers::{Running, RunningGateway, host_of};
use super::world::World;

/// Starts an A2A server with its previous tasks.
pub(super) async fn start_server(world: &Arc<World>, server: usize, faults: u64) {
    let servers = &world.servers;
    servers.starts.lock().unwrap()[server] += 1;
    let env = Arc::new(SimulatedEnvironment::new(world.fork()));
    servers.environments.lock().unwrap().push(Arc::clone(&env));
    let net = SimulatedNet::new(Arc::clone(world), "server", faults, Arc::clone(&env));
    let sender = HttpPushSender::new(Arc::new(net), WebhookPolicy::default());
    let service = Service::start(ServiceComponents {
        settings: Settings::default(),
        executor: Arc::new(CountingExecutor {
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
            true => Ok(Arc::new(Principal {
                name: "simulated".into(),
                authenticated: true,
                operator: false,
                revoked: CancellationToken::new(),
            })),
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
        card_signer: None,
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

/// Stops an A2A server and breaks its connections.
pub(super) async fn stop_server(world: &World, server: usize) {
    let running = world.servers.hosts.lock().unwrap().remove(&host_of(server));
    if let Some(running) = running {
        running.closed.cancel();
        running.service.close(Duration::ZERO).await;
    }
}

/// Starts the gateway with its previous sessions. `plugins` are the names of the other clients.
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
    let nets = names.map(|name| (name.clone(), server.local_agent(&name).network()));
    let (nets, shutdown) = (nets.collect(), CancellationToken::new());
    let running = RunningGateway {
        nets,
        serving: tokio::spawn(server.run(shutdown.clone())),
        shutdown,
    };
    *servers.gateway.lock().unwrap() = Some(running);
}

/// Stops the gateway and breaks its connections.
pub(super) async fn stop_gateway(world: &World) {
    let running = world.servers.gateway.lock().unwrap().take();
    if let Some(running) = running {
        running.shutdown.cancel();
        let _ = running.serving.await;
    }
}

/// Starts the agents of the gateway. They reconnect after each restart of the gateway.
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
        // The id of the current connection, and the connection on which each proposal arrived.
        let proposals = Mutex::new((String::new(), BTreeMap::new()));
        let count = move |event: &AgentEvent| {
            let (connection, proposals) = &mut *proposals.lock().unwrap();
            let text = match event {
                AgentEvent::Connected(id) => return connection.clone_from(id),
                AgentEvent::Received(_, text, _) => text,
                AgentEvent::Proposed(id, text) => {
                    let before = proposals.insert(id.clone(), connection.clone());
                    // The gateway sends a pending proposal again, with the same id, to a member that reconnects.
                    if before.is_some_and(|before| before != *connection) {
                        return;
                    }
                    text
                }
                _ => return,
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
                // `serve` returns an error if the first connection fails, so try again.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
}

/// A scripted executor that counts the runs of each message.
struct CountingExecutor {
    script: ScriptedExecutor,
    runs: Runs,
}

impl Executor for CountingExecutor {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        self.script.agents()
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let id = input.message.message_id.clone();
        *self.runs.lock().unwrap().entry(id).or_default() += 1;
        self.script.run(input, events, cancel)
    }

    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        self.script.reattach(input, run, events, cancel)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.script.ready()
    }
}
