//! A deterministic simulation of plugin instances, A2A servers, a gateway with agents, and an authorization server. All run
//! in one thread; the simulation controls their network and their clocks.
//!
//! A seed determines every message, fault, delay, crash and id, so a failure can be replayed exactly. The simulation opens
//! no connection to another process. The clocks advance when all tasks wait, so a simulated hour takes milliseconds.
//!
//! The simulation checks every call against the invariants of `ARCHITECTURE.md`. At the end it stops injecting faults. A new
//! instance must then find every task that a call returned, by its continuation and in the state that its script leads to.

mod body;
mod checks;
mod command;
mod fault;
mod inject_faults;
mod instance;
mod network;
mod openclaw;
mod processes;
mod random;
mod servers;
mod torture;
mod webhooks;
mod world;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openclaw_remote_agent::remote_agent::ToolCall;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use torture::{EXCHANGES, expiries, torture};

use crate::tool::check_schema;
use command::{Command, Work, any_timeout, limit};
use instance::{INSTANCES, Instance, names, start_instance};
use random::Random;
use servers::{HOOK_TOKEN, SERVERS, is_near};
use webhooks::HOOKS_HOST;
use world::{CALL, CallState, World};

/// The number of callers per instance. Each makes one call at a time.
const CALLERS: usize = 3;

/// How long a call may take beyond its deadline.
const GRACE: Duration = Duration::from_secs(2);

/// The settings of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The number of calls of all instances.
    pub calls: u64,
    /// The percentage of exchanges with a fault.
    pub faults: u64,
    /// The maximum pause of a caller between two calls.
    pub pause: Duration,
}

/// The result of a simulation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of calls.
    pub calls: u64,
    /// The number of envelopes with `ok`.
    pub succeeded: u64,
    /// The number of injected faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The simulated duration.
    pub elapsed: Duration,
    /// A hash of all envelopes in order. Equal seeds give equal hashes.
    pub digest: u64,
    /// The violated invariants.
    pub violations: Vec<String>,
}

/// Runs the simulation of a seed.
#[must_use]
pub fn run(seed: u64, settings: Settings) -> Report {
    runtime().block_on(simulate(seed, settings))
}

/// Returns a single-threaded runtime whose clock advances when all tasks wait.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// A task that a call returned.
#[derive(Clone)]
struct Known {
    id: String,
    command: Command,
    server: usize,
    continuation: Value,
    /// Whether its content or state cannot be predicted, because the network changed a byte or a caller canceled the task.
    unpredictable: bool,
    canceled: bool,
    /// How often its server had started when the caller sent the message.
    starts: u64,
    sent: Instant,
}

struct Simulation {
    world: Arc<World>,
    settings: Settings,
    began: Instant,
    instances: Vec<Mutex<Arc<Instance>>>,
    /// The number of started calls, without those of the final check.
    calls: AtomicU64,
    succeeded: AtomicU64,
    known: Mutex<Vec<Known>>,
    /// The statements of errors about delivery, by message id.
    claims: Mutex<Vec<(String, String)>>,
    digest: Mutex<DefaultHasher>,
}

/// Starts all processes of a simulation.
async fn start(seed: u64, settings: Settings) -> Arc<Simulation> {
    let world = Arc::new(World {
        servers: servers::Servers::new(),
        healed: CancellationToken::new(),
        faults: Mutex::default(),
        attempts: Mutex::default(),
        violations: Mutex::default(),
        random: Mutex::new(Random::new(seed)),
        plan: Mutex::default(),
        carried: Default::default(),
        broken: Mutex::default(),
        duplicated: Mutex::default(),
        webhooks: Arc::default(),
    });
    for server in 0..SERVERS {
        processes::start_server(&world, server, settings.faults).await;
    }
    processes::start_gateway(&world, &names()).await;
    processes::start_agents(&world, settings.faults);
    let instances =
        (0..INSTANCES).map(|number| Mutex::new(start_instance(&world, number, settings.faults)));
    Arc::new(Simulation {
        began: Instant::now(),
        instances: instances.collect(),
        settings,
        calls: AtomicU64::new(0),
        succeeded: AtomicU64::new(0),
        known: Mutex::default(),
        claims: Mutex::default(),
        digest: Mutex::new(DefaultHasher::new()),
        world,
    })
}

async fn simulate(seed: u64, settings: Settings) -> Report {
    let simulation = start(seed, settings).await;
    let world = Arc::clone(&simulation.world);
    let callers: Vec<_> = (0..INSTANCES * CALLERS)
        .map(|number| {
            let random = world.fork();
            tokio::spawn(Arc::clone(&simulation).caller(number % INSTANCES, random))
        })
        .collect();
    let disturbing = tokio::spawn(Arc::clone(&simulation).inject_faults(world.fork()));
    for caller in callers {
        if let Err(error) = caller.await {
            world.violation(format!("a call panicked: {error}"));
        }
    }
    world.healed.cancel();
    let _ = disturbing.await;
    simulation.finish().await
}

/// A call and the facts that its checks need.
struct Call {
    request: Value,
    /// The id of its message.
    id: Option<String>,
    /// The maximum duration of the call.
    limit: Duration,
    follows: bool,
}

/// The outcome of a call.
struct Outcome {
    envelope: Value,
    altered: bool,
}

impl Simulation {
    async fn caller(self: Arc<Self>, instance: usize, mut random: Random) {
        let mut own: Vec<Known> = Vec::new();
        let pause = u64::try_from(self.settings.pause.as_millis()).unwrap();
        while self.calls.load(Ordering::Relaxed) < self.settings.calls {
            self.calls.fetch_add(1, Ordering::Relaxed);
            sleep(random.millis(pause)).await;
            match random.below(20) {
                0 => self.list_targets(instance).await,
                1..=3 => self.call_agent(instance, &mut random).await,
                4..=10 if !own.is_empty() => {
                    let at = random.index(own.len());
                    let mut task = own.swap_remove(at);
                    self.continue_task(instance, &mut task, &mut random).await;
                    // The task now does the work of the answer.
                    own.extend((!task.unpredictable).then_some(task));
                    own.truncate(6);
                }
                _ => {
                    let work = Work::any(&mut random);
                    own.extend(self.send(instance, work, None, &mut random).await);
                }
            }
        }
    }

    /// Runs the final checks, stops all processes and returns the report.
    async fn finish(&self) -> Report {
        self.check_final_state().await;
        let world = &self.world;
        for server in 0..SERVERS {
            processes::stop_server(world, server).await;
        }
        processes::stop_gateway(world).await;
        let mut violations = world.violations.lock().unwrap().clone();
        violations.extend(world.webhooks.violations());
        Report {
            calls: self.calls.load(Ordering::Relaxed),
            succeeded: self.succeeded.load(Ordering::Relaxed),
            faults: world.faults.lock().unwrap().clone(),
            elapsed: self.began.elapsed(),
            digest: self.digest.lock().unwrap().finish(),
            violations,
        }
    }

    /// Makes a call and checks the invariants of every envelope. Returns `None` if the instance crashed during the call.
    async fn call(&self, number: usize, call: &Call, random: &mut Random) -> Option<Outcome> {
        let instance = Arc::clone(&self.instances[number].lock().unwrap());
        let (world, cancel) = (&self.world, CancellationToken::new());
        if random.percent(3) {
            let (cancel, wait) = (cancel.clone(), random.millis(5000));
            tokio::spawn(async move {
                sleep(wait).await;
                cancel.cancel();
            });
        }
        let request = call.request.to_string();
        let (state, began) = (Arc::new(CallState::default()), Instant::now());
        let updates = Mutex::new(Vec::new());
        let add = |update: &str| updates.lock().unwrap().push(update.to_owned());
        let execute = instance.agent.execute(ToolCall {
            request: &request,
            caller: None,
            updates: Some(&add),
            person: None,
            cancel,
            closing: CancellationToken::new(),
        });
        let execute = timeout(call.limit + GRACE, CALL.scope(Arc::clone(&state), execute));
        let executed = tokio::select! {
            biased;
            () = instance.crashed.cancelled() => return None,
            executed = execute => executed,
        };
        let elapsed = began.elapsed();
        let Ok(envelope) = executed else {
            world.violation(format!("no envelope after {elapsed:?}: {request}"));
            return None;
        };
        let altered =
            *state.altered.lock().unwrap() || instance.net.garbled.load(Ordering::Relaxed);
        for text in updates.lock().unwrap().iter().chain([&envelope]) {
            self.digest.lock().unwrap().write(text.as_bytes());
            if let Err(error) = check_schema(text) {
                world.violation(error);
            }
            let rendered = instance.agent.render(text, 20_000);
            let shows = |text: &str| world.servers.are_credentials_in(text);
            // The text for a model replaces a character that the network may have put into a credential.
            if shows(text) || !altered && shows(&rendered) {
                world.violation(format!("a credential in {text}"));
            }
        }
        let envelope: Value = serde_json::from_str(&envelope).unwrap();
        if envelope["ok"] == true {
            self.succeeded.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(id) = &call.id {
            self.check_sent(id, &envelope);
        }
        if !altered && call.follows && envelope["ok"] == true {
            self.check_followed(call, &envelope);
        }
        Some(Outcome { envelope, altered })
    }

    async fn list_targets(&self, instance: usize) {
        let call = Call {
            request: json!({"action": "list_targets"}),
            id: None,
            limit: Duration::from_secs(120),
            follows: false,
        };
        let mut random = self.world.fork();
        if let Some(outcome) = self.call(instance, &call, &mut random).await
            && outcome.envelope["ok"] != true
            && outcome.envelope["error"]["reason"] != "aborted"
        {
            self.world
                .violation(format!("no targets: {}", outcome.envelope));
        }
    }

    fn new_id(&self) -> String {
        let number = self.world.random.lock().unwrap().next();
        format!("call-{number:016x}")
    }

    /// Sends a message with work to a server, or the answer to an interrupted task.
    async fn send(
        &self,
        number: usize,
        work: Work,
        known: Option<&Known>,
        random: &mut Random,
    ) -> Option<Known> {
        let Work {
            target,
            command,
            follows,
            timeout_ms,
        } = work;
        let (alias, server) = target;
        let server = known.map_or(server, |known| known.server);
        let id = self.new_id();
        let mut request = json!({
            "action": "send", "message_id": id, "follow_updates": follows,
            "parts": [{"kind": "text", "text": command.text(&id)}],
        });
        match known {
            Some(known) => request["continuation"] = known.continuation.clone(),
            None => request["target_alias"] = alias.into(),
        }
        if !follows && random.percent(30) {
            request["task_requirement"] = "required".into();
        }
        if random.percent(20) {
            let url = format!("https://{HOOKS_HOST}/{id}");
            request["push_notification_config"] = json!({"url": url, "token": HOOK_TOKEN});
        }
        let limit = limit(&mut request, timeout_ms);
        let starts = self.world.servers.starts.lock().unwrap()[server];
        let call = Call {
            request,
            id: Some(id.clone()),
            limit,
            follows,
        };
        let outcome = self.call(number, &call, random).await?;
        let summary = summary(&outcome.envelope);
        let continuation = &summary["continuation"];
        continuation["task"]["task_id"].as_str()?;
        let known = Known {
            id,
            command,
            server,
            continuation: continuation.clone(),
            unpredictable: outcome.altered,
            canceled: false,
            starts,
            sent: Instant::now(),
        };
        if outcome.envelope["ok"] == true {
            self.check_task(&known, summary, follows, &outcome.envelope);
        }
        self.known.lock().unwrap().push(known.clone());
        Some(known)
    }

    /// Watches, gets, answers or cancels a task.
    async fn continue_task(&self, number: usize, task: &mut Known, random: &mut Random) {
        let action = match random.below(8) {
            0 => "cancel",
            1..=3 => "status",
            4 if task.command == Command::Ask => {
                task.unpredictable = true;
                self.known
                    .lock()
                    .unwrap()
                    .retain(|known| known.id != task.id);
                let work = Work::any(random);
                self.send(number, work, Some(task), random).await;
                return;
            }
            _ => "watch",
        };
        if action == "cancel" {
            task.canceled = true;
            let mut known = self.known.lock().unwrap();
            known
                .iter_mut()
                .filter(|known| known.id == task.id)
                .for_each(|known| known.canceled = true);
        }
        let mut request = json!({"action": action, "continuation": task.continuation});
        let limit = limit(&mut request, any_timeout(random));
        let call = Call {
            request,
            id: None,
            limit,
            follows: action == "watch",
        };
        let Some(outcome) = self.call(number, &call, random).await else {
            return;
        };
        if outcome.envelope["ok"] == true && !outcome.altered {
            let follows = call.follows;
            self.check_task(
                task,
                &outcome.envelope["summary"],
                follows,
                &outcome.envelope,
            );
        }
    }

    /// Sends a message to an agent of the gateway, or a proposal to its triad.
    async fn call_agent(&self, number: usize, random: &mut Random) {
        let alias = random.pick(&["gateway:alpha", "gateway:beta", "gateway:triad"]);
        let timeout_ms = any_timeout(random);
        let follows = random.percent(50);
        self.send_and_check(number, alias, follows, timeout_ms, random)
            .await;
    }

    async fn send_and_check(
        &self,
        number: usize,
        alias: &str,
        follows: bool,
        timeout_ms: Option<u64>,
        random: &mut Random,
    ) -> Option<Outcome> {
        let id = self.new_id();
        let mut request = json!({
            "action": "send", "target_alias": alias, "follow_updates": follows,
            "parts": [{"kind": "text", "text": id}],
        });
        let limit = limit(&mut request, timeout_ms);
        let call = Call {
            request,
            id: None,
            limit,
            follows,
        };
        let outcome = self.call(number, &call, random).await?;
        let (envelope, text) = (
            &outcome.envelope,
            &outcome.envelope["summary"]["message_text"],
        );
        // The triad sends a request to each member.
        let agent = alias.replace("gateway:", "").replace("triad", "alpha");
        self.check_sent(&format!("{agent} {id}"), envelope);
        // Before the end, the status text is a vote or reports an agent as online.
        let status = &envelope["summary"]["continuation"]["task"]["status"];
        let is_open = text.is_null() || status.is_string() && status != "completed";
        if outcome.altered || envelope["ok"] != true || is_open {
            return Some(outcome);
        }
        let answers = match alias {
            "gateway:triad" => ["approved", "rejected", "no decision", "deadline"].as_slice(),
            _ => &["You said: "],
        };
        let text = text.as_str().unwrap_or_default().as_bytes();
        // The network may have changed a bit on the connection of the agent.
        let contains = |answer: &&str| {
            let mut pieces = text.windows(answer.len());
            pieces.any(|piece| is_near(piece, answer.as_bytes()))
        };
        if !answers.iter().any(contains) {
            self.world
                .violation(format!("{alias} answers otherwise: {envelope}"));
        }
        Some(outcome)
    }
}

fn summary(envelope: &Value) -> &Value {
    match envelope["ok"] == true {
        true => &envelope["summary"],
        false => &envelope["error"]["details"]["latest_event_summary"],
    }
}
