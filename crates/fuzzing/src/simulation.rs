//! A deterministic simulation: plugin instances, A2A servers, a gateway with agents, and an authorization server in one
//! thread, on a network and with clocks that the simulation controls.
//!
//! A seed decides every message, fault, delay, crash and id, so a failure replays exactly. Nothing opens a connection to
//! another process. The clocks advance when everything waits, so an hour takes milliseconds.
//!
//! Every call is checked against the invariants of `ARCHITECTURE.md`. A simulation ends without faults: every task that a
//! call named must be found by its continuation in a new instance, in the state that its script leads to.

mod network;
mod random;
mod servers;
mod torture;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::log::{Level, Log};
use openclaw_remote_agent::config::Config;
use openclaw_remote_agent::plugin::assemble_over;
use openclaw_remote_agent::remote_agent::{Pace, RemoteAgent, ToolCall};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use torture::{EXCHANGES, expiries, torture};

use crate::tool::check_schema;
use network::{Attempt, CALL, CallState, ECHOED, HOOKS_HOST, SimulatedNet, World};
use random::{Random, SimulatedEnvironment};
use servers::{CLIENT_SECRET, HOOK_TOKEN, LOGIN_HOST, SERVERS, host_of, token_of};

/// Plugin instances.
const INSTANCES: usize = 3;

/// Callers of each instance, each of which makes one call at a time.
const CALLERS: usize = 3;

/// How long a server lets a task run, and a little more.
const MAX_RUN: Duration = Duration::from_secs(299);

/// The part of every credential that nothing may show.
const SECRET: &str = "s3cret";

/// How much later than its deadline a call may return.
const GRACE: Duration = Duration::from_secs(2);

/// How a simulation differs from the usual one.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Calls of all instances together.
    pub calls: u64,
    /// How many of a hundred exchanges have a fault.
    pub faults: u64,
    /// The longest pause of a caller before its next call.
    pub pause: Duration,
}

/// What a simulation did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The calls.
    pub calls: u64,
    /// The envelopes with `ok`.
    pub succeeded: u64,
    /// The injected faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The simulated time.
    pub elapsed: Duration,
    /// A hash of every envelope in order. Equal seeds give equal hashes.
    pub digest: u64,
    /// The violated invariants.
    pub violations: Vec<String>,
}

/// Runs the simulation of a seed.
#[must_use]
pub fn run(seed: u64, settings: Settings) -> Report {
    runtime().block_on(simulate(seed, settings))
}

/// Returns a runtime of one thread, whose clock advances when everything waits.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// What a message makes the scripted executor do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Echo,
    EchoCredential,
    Message,
    Say,
    Task,
    Stream(u64, u64),
    Big(u64),
    Slow(u64),
    Endless,
    Ask,
    Fail,
    Reject,
}

impl Command {
    fn any(random: &mut Random) -> Self {
        match random.below(16) {
            0 | 1 => Self::Echo,
            2 => Self::EchoCredential,
            3 => Self::Message,
            4 => Self::Say,
            5 => Self::Task,
            6..=9 => Self::Stream(1 + random.below(12), random.pick(&[0, 5, 300, 4000])),
            10 => Self::Big(random.below(20_000)),
            11 => Self::Slow(random.below(90_000)),
            12 => Self::Endless,
            13 => Self::Ask,
            14 => Self::Fail,
            _ => Self::Reject,
        }
    }

    fn text(self, id: &str) -> String {
        match self {
            Self::Echo => format!("echo {id}"),
            Self::EchoCredential => format!("echo {id} {ECHOED} {ECHOED}"),
            Self::Message => format!("message {id}"),
            Self::Say => format!("say {id}"),
            Self::Task => format!("task {id}"),
            Self::Stream(events, apart) => format!("stream {events} {apart}"),
            Self::Big(bytes) => format!("big {bytes}"),
            Self::Slow(time) => format!("slow {time}"),
            Self::Endless => format!("begun {id}"),
            Self::Ask => format!("ask {id}"),
            Self::Fail => format!("fail {id}"),
            Self::Reject => format!("reject {id}"),
        }
    }

    /// Returns the state that the script leads to.
    fn state(self) -> &'static str {
        match self {
            Self::Endless => "working",
            Self::Ask => "input-required",
            Self::Fail => "failed",
            Self::Reject => "rejected",
            _ => "completed",
        }
    }

    /// Returns the text of all artifacts at the end, where it can be predicted.
    fn artifact(self, id: &str) -> Option<String> {
        match self {
            Self::Echo | Self::Endless => Some(id.to_owned()),
            Self::Task => Some(format!("alpha beta {id}")),
            Self::Stream(events, _) => Some((0..events).map(|n| format!("{n} ")).collect()),
            Self::Big(bytes) => Some("x".repeat(usize::try_from(bytes).unwrap())),
            _ => None,
        }
    }
}

/// A task that a call named.
#[derive(Clone)]
struct Known {
    id: String,
    command: Command,
    server: usize,
    continuation: Value,
    /// Whether its content or state cannot be predicted: the network changed a byte, or its caller canceled it.
    unpredictable: bool,
    canceled: bool,
    /// How often its server had started when the message was sent.
    starts: u64,
    sent: Instant,
}

/// An instance until it crashes.
struct Instance {
    agent: RemoteAgent,
    net: Arc<SimulatedNet>,
    env: Arc<SimulatedEnvironment>,
    crashed: CancellationToken,
}

/// The lines of all instances, none of which shows a credential.
struct CheckedLog(Arc<World>);

impl Log for CheckedLog {
    fn log(&self, _: Level, line: &str) {
        if line.contains(SECRET) || line.contains("panic") {
            self.0.violation(format!("a line of the log: {line}"));
        }
    }
}

struct Simulation {
    world: Arc<World>,
    settings: Settings,
    began: Instant,
    instances: Vec<Mutex<Arc<Instance>>>,
    /// The calls that began, those of the check at the end left out.
    calls: AtomicU64,
    succeeded: AtomicU64,
    known: Mutex<Vec<Known>>,
    /// What errors said about messages, by their ids.
    claims: Mutex<Vec<(String, String)>>,
    digest: Mutex<DefaultHasher>,
}

/// Starts every process of a simulation.
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
        hooks: Mutex::default(),
    });
    for server in 0..SERVERS {
        servers::start_server(&world, server, settings.faults).await;
    }
    servers::start_gateway(&world, &names()).await;
    servers::start_agents(&world, settings.faults);
    let instances =
        (0..INSTANCES).map(|number| Mutex::new(start_instance(&world, number, settings)));
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
    let disturbing = tokio::spawn(Arc::clone(&simulation).disturb(world.fork()));
    for caller in callers {
        if let Err(error) = caller.await {
            world.violation(format!("a call panicked: {error}"));
        }
    }
    world.healed.cancel();
    let _ = disturbing.await;
    simulation.finish().await
}

fn names() -> Vec<String> {
    (0..INSTANCES)
        .map(|number| format!("plugin-{number}"))
        .collect()
}

fn config() -> String {
    let bearer = |server: usize| json!({"type": "bearer", "token": token_of(server)});
    let last = SERVERS - 1;
    let target = |alias: &str, server: usize, version: &str, transport: &str, auth: Value| {
        json!({
            "alias": alias, "baseUrl": format!("https://{}/", host_of(server)), "protocolVersion": version,
            "preferredTransports": [transport], "auth": auth,
        })
    };
    let oauth = json!({
        "type": "oauth2", "tokenUrl": format!("https://{LOGIN_HOST}/token"), "clientId": "plugin",
        "clientSecret": CLIENT_SECRET,
    });
    json!({
        "targets": [
            target("rpc-1", 0, "1.0", "JSONRPC", bearer(0)),
            target("rpc-0.3", 1, "0.3", "JSONRPC", bearer(1)),
            target("http-1", 0, "1.0", "HTTP+JSON", bearer(0)),
            target("http-0.3", 1, "0.3", "HTTP+JSON", bearer(1)),
            target("any", last, "auto", "JSONRPC", oauth),
        ],
        "gateway": {"enabled": true, "url": "ws://127.0.0.1:1", "dialect": "a2a-v1", "timeoutMs": 5000},
        "cards": {"ttlMs": 60_000},
        "taskHandles": {"maxEntries": 20},
    })
    .to_string()
}

/// The targets with the servers behind them.
const TARGETS: [(&str, usize); 5] = [
    ("rpc-1", 0),
    ("rpc-0.3", 1),
    ("http-1", 0),
    ("http-0.3", 1),
    ("any", SERVERS - 1),
];

fn start_instance(world: &Arc<World>, number: usize, settings: Settings) -> Arc<Instance> {
    let env = Arc::new(SimulatedEnvironment::new(world.fork()));
    let name = &names()[number];
    let net = SimulatedNet::new(Arc::clone(world), name, settings.faults, Arc::clone(&env));
    let net = Arc::new(net);
    let config = Config::parse(&config()).unwrap();
    let log = Arc::new(CheckedLog(Arc::clone(world)));
    let agent = assemble_over(&config, net.clone(), env.clone(), Pace::default(), log).unwrap();
    Arc::new(Instance {
        agent,
        net,
        env,
        crashed: CancellationToken::new(),
    })
}

/// A message to a server.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// The alias, and the server behind it.
    target: (&'static str, usize),
    command: Command,
    follows: bool,
    timeout_ms: Option<u64>,
}

impl Work {
    fn any(random: &mut Random) -> Self {
        Self {
            target: random.pick(&TARGETS),
            command: Command::any(random),
            follows: random.percent(60),
            timeout_ms: any_timeout(random),
        }
    }
}

/// One call and what it is about.
struct Call {
    request: Value,
    /// The id of its message.
    id: Option<String>,
    /// How long it may take.
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
                1..=3 => self.ask_agent(instance, &mut random).await,
                4..=10 if !own.is_empty() => {
                    let at = random.index(own.len());
                    let mut task = own.swap_remove(at);
                    self.go_on(instance, &mut task, &mut random).await;
                    own.push(task);
                    own.truncate(6);
                }
                _ => {
                    let work = Work::any(&mut random);
                    own.extend(self.send(instance, work, None, &mut random).await);
                }
            }
        }
    }

    /// Checks the end, stops every process and returns the report.
    async fn finish(&self) -> Report {
        self.check_the_end().await;
        let world = &self.world;
        for server in 0..SERVERS {
            servers::stop_server(world, server).await;
        }
        servers::stop_gateway(world).await;
        let violations = world.violations.lock().unwrap().clone();
        Report {
            calls: self.calls.load(Ordering::Relaxed),
            succeeded: self.succeeded.load(Ordering::Relaxed),
            faults: world.faults.lock().unwrap().clone(),
            elapsed: self.began.elapsed(),
            digest: self.digest.lock().unwrap().finish(),
            violations,
        }
    }

    /// Stops and starts processes, and sets clocks, until the faults end.
    async fn disturb(self: Arc<Self>, mut random: Random) {
        let world = &self.world;
        while self.settings.faults > 0 {
            let longest = self.settings.pause.max(Duration::from_secs(60));
            let longest = u64::try_from(longest.as_millis()).unwrap();
            let pause = sleep(Duration::from_secs(5) + random.millis(longest));
            if world.healed.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let down = random.millis(8000);
            match random.below(6) {
                0 | 1 => {
                    world.count("crashed instance");
                    let number = random.index(INSTANCES);
                    let fresh = start_instance(world, number, self.settings);
                    let old =
                        std::mem::replace(&mut *self.instances[number].lock().unwrap(), fresh);
                    old.crashed.cancel();
                }
                2 => {
                    world.count("restarted server");
                    let server = random.index(SERVERS);
                    servers::stop_server(world, server).await;
                    sleep(down).await;
                    servers::start_server(world, server, self.settings.faults).await;
                }
                3 => {
                    world.count("restarted gateway");
                    servers::stop_gateway(world).await;
                    sleep(down).await;
                    servers::start_gateway(world, &names()).await;
                }
                4 => {
                    world.count("adjusted clock");
                    let hours = i64::try_from(random.below(96)).unwrap() - 48;
                    world.servers.adjust_clocks(hours * 3600);
                    let number = random.index(INSTANCES);
                    let instance = Arc::clone(&self.instances[number].lock().unwrap());
                    instance.env.adjust(-hours * 3600);
                }
                _ => {
                    world.count("revoked token");
                    let _ = world.servers.issue_token();
                }
            }
        }
    }

    /// Makes a call and checks what holds for every envelope. `None` if the instance crashed meanwhile.
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
        for text in updates.lock().unwrap().iter().chain([&envelope]) {
            self.digest.lock().unwrap().write(text.as_bytes());
            if let Err(wrong) = check_schema(text) {
                world.violation(wrong);
            }
            let rendered = instance.agent.render(text, 20_000);
            if text.contains(SECRET) || rendered.contains(SECRET) {
                world.violation(format!("a credential in {text}"));
            }
        }
        let altered =
            *state.altered.lock().unwrap() || instance.net.garbled.load(Ordering::Relaxed);
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

    /// Nothing is sent twice, and what an error says about delivery is true.
    fn check_sent(&self, id: &str, envelope: &Value) {
        let error = &envelope["error"];
        let delivered = error["details"]["delivered"].as_str().unwrap_or_default();
        let claim = if envelope["ok"] == true {
            "yes"
        } else {
            delivered
        };
        if error["retryable"] == true && delivered != "no" {
            let wrong = format!("{id} is retryable, and delivered `{delivered}`: {error}");
            self.world.violation(wrong);
        }
        self.claims
            .lock()
            .unwrap()
            .push((id.to_owned(), claim.to_owned()));
    }

    /// A cut is not an end.
    fn check_followed(&self, call: &Call, envelope: &Value) {
        let summary = &envelope["summary"];
        let status = summary["continuation"]["task"]["status"].as_str();
        let open = ["wait_expired", "incomplete"]
            .iter()
            .any(|flag| summary[flag] == true);
        let is_over = matches!(
            status,
            Some("completed" | "failed" | "rejected" | "canceled" | "input-required")
        );
        if !open && !is_over && summary["response_kind"] != "message" {
            let request = &call.request;
            self.world.violation(format!(
                "a call ended before its task: {request} {envelope}"
            ));
        }
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

    /// Sends work to a server, or the answer to a task.
    async fn send(
        &self,
        number: usize,
        work: Work,
        about: Option<&Known>,
        random: &mut Random,
    ) -> Option<Known> {
        let Work {
            target,
            command,
            follows,
            timeout_ms,
        } = work;
        let (alias, server) = target;
        let server = about.map_or(server, |about| about.server);
        let id = self.new_id();
        let mut request = json!({
            "action": "send", "message_id": id, "follow_updates": follows,
            "parts": [{"kind": "text", "text": command.text(&id)}],
        });
        match about {
            Some(about) => request["continuation"] = about.continuation.clone(),
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

    /// Watches, reads, answers or cancels a task.
    async fn go_on(&self, number: usize, task: &mut Known, random: &mut Random) {
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
    async fn ask_agent(&self, number: usize, random: &mut Random) {
        let alias = random.pick(&["gateway:alpha", "gateway:beta", "gateway:triad"]);
        let timeout_ms = any_timeout(random);
        self.ask(number, alias, timeout_ms, random).await;
    }

    async fn ask(&self, number: usize, alias: &str, timeout_ms: Option<u64>, random: &mut Random) {
        let id = self.new_id();
        let follows = random.percent(50);
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
        let Some(outcome) = self.call(number, &call, random).await else {
            return;
        };
        let (envelope, text) = (
            &outcome.envelope,
            &outcome.envelope["summary"]["message_text"],
        );
        // The triad asks each of its members.
        let agent = alias.replace("gateway:", "").replace("triad", "alpha");
        self.check_sent(&format!("{agent} {id}"), envelope);
        // A proposal without a decision has the votes so far.
        let status = &envelope["summary"]["continuation"]["task"]["status"];
        let is_open = text.is_null() || alias == "gateway:triad" && status != "completed";
        if outcome.altered || envelope["ok"] != true || is_open {
            return;
        }
        let answers = match alias {
            "gateway:triad" => ["approved", "rejected", "no decision", "deadline"].as_slice(),
            _ => &["You said: "],
        };
        let text = text.as_str().unwrap_or_default();
        if !answers.iter().any(|answer| text.contains(answer)) {
            self.world
                .violation(format!("{alias} answers otherwise: {envelope}"));
        }
    }

    /// Complete artifacts, once, and no other state than the script's.
    fn check_task(&self, task: &Known, summary: &Value, follows: bool, envelope: &Value) {
        if task.unpredictable {
            return;
        }
        let status = summary["continuation"]["task"]["status"]
            .as_str()
            .unwrap_or_default();
        let restarted = self.world.servers.starts.lock().unwrap()[task.server] > task.starts
            || !self.world.servers.is_up(task.server);
        let possible = ["submitted", "working", task.command.state()].contains(&status)
            // A watch that learned nothing in its time.
            || status.is_empty() && summary["wait_expired"] == true
            || status == "canceled" && task.canceled
            || status == "failed" && (restarted || task.sent.elapsed() > MAX_RUN);
        let mut wrong = Vec::new();
        if !possible {
            wrong.push(format!("the state `{status}`"));
        }
        let artifacts = summary["artifacts"].as_array();
        let texts = artifacts.into_iter().flatten().flat_map(|artifact| {
            let parts = artifact["parts"].as_array().cloned().unwrap_or_default();
            parts
                .into_iter()
                .filter_map(|part| part["text"].as_str().map(str::to_owned))
        });
        let text: String = texts.collect();
        if let Some(whole) = task.command.artifact(&task.id) {
            let complete = status == "completed" && summary["incomplete"] != true;
            if complete && text != whole || !whole.starts_with(&text) {
                wrong.push(format!("the artifact `{text}`"));
            }
        }
        if !wrong.is_empty() {
            let (command, id) = (task.command, &task.id);
            let wrong = wrong.join(", ");
            self.world.violation(format!(
                "{id} {command:?} follows {follows}: {wrong} in {envelope}"
            ));
        }
    }

    /// Checks what holds once the faults are over: counts of messages, and every task through its continuation.
    async fn check_the_end(&self) {
        let world = &self.world;
        for number in 0..INSTANCES {
            *self.instances[number].lock().unwrap() = start_instance(world, number, self.settings);
        }
        let duplicated = world
            .faults
            .lock()
            .unwrap()
            .get("duplicated request")
            .copied();
        for (id, attempts) in world.attempts.lock().unwrap().iter() {
            let left = attempts
                .iter()
                .filter(|attempt| **attempt == Attempt::Left)
                .count();
            if left > 1 {
                world.violation(format!("{id} was sent {left} times: {attempts:?}"));
            }
        }
        let runs = world.servers.runs.lock().unwrap().clone();
        for (id, count) in &runs {
            // The network duplicates requests to servers, and no frames.
            if *count > 1 && (duplicated.is_none() || !id.starts_with("call-")) {
                world.violation(format!("{id} ran {count} times"));
            }
        }
        for id in world.broken.lock().unwrap().iter() {
            if runs.contains_key(id) {
                world.violation(format!("{id} ran, and did not arrive whole"));
            }
        }
        for (id, claim) in self.claims.lock().unwrap().iter() {
            if claim == "no" && runs.contains_key(id) {
                world.violation(format!(
                    "{id} ran, and its error says that it was not delivered"
                ));
            }
        }
        let known = std::mem::take(&mut *self.known.lock().unwrap());
        for (number, mut task) in known.into_iter().enumerate() {
            let call = Call {
                request: json!({"action": "status", "continuation": task.continuation}),
                id: None,
                limit: Duration::from_secs(120),
                follows: false,
            };
            let mut calm = Random::new(1);
            let outcome = self.call(number % INSTANCES, &call, &mut calm).await;
            let envelope = outcome.map(|outcome| outcome.envelope).unwrap_or_default();
            if task.unpredictable {
                continue;
            }
            if envelope["ok"] != true {
                let wrong = format!("{} is lost after a restart: {envelope}", task.id);
                world.violation(wrong);
                continue;
            }
            task.starts = task.starts.min(1);
            self.check_task(&task, &envelope["summary"], false, &envelope);
        }
    }
}

/// Returns the timeout of a request, which may have none.
fn any_timeout(random: &mut Random) -> Option<u64> {
    match random.below(4) {
        0 => None,
        1 => Some(50 + random.below(1000)),
        _ => Some(1000 + random.below(40_000)),
    }
}

/// Sets the timeout of a request. Returns how long the call may take.
fn limit(request: &mut Value, timeout_ms: Option<u64>) -> Duration {
    let Some(millis) = timeout_ms else {
        // The default timeout of a call that does not follow.
        return Duration::from_secs(120);
    };
    request["timeout_ms"] = millis.into();
    Duration::from_millis(millis)
}

fn summary(envelope: &Value) -> &Value {
    match envelope["ok"] == true {
        true => &envelope["summary"],
        false => &envelope["error"]["details"]["latest_event_summary"],
    }
}
