//! A mixed load with faults on the plugin in Node.js, `remote-agent serve` and `remote-agent gateway`. Samples the resources of
//! each process: memory, threads, descriptors, handles of Node.js.
//!
//! `cargo real --test suite soak::` runs for some seconds. `SOAK_SECONDS=3600 cargo real --test suite soak::` runs for an hour and
//! writes `docs/explanation/soak.json` and `soak.svg`.

mod faults;
mod plot;
mod processes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::{Value, json};
use testkit::folder::Folder;
use testkit::support::{node::NODE_VERSION, root};

use crate::gateway::crash;
use crate::host_abi::node::install;
use crate::serve::plain::command;
use plot::Panel;
use processes::{Process, Resources};

/// The timeout of a step on a busy machine.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The length of the short run.
const SECONDS: u64 = 8;

/// The length of a run from which growth counts. Before, caches and pools still fill, and a busy machine opens connections late.
const LONG_SECONDS: u64 = 600;

/// The processes that must not grow.
const WATCHED: [&str; 3] = ["Node", "serve", "gateway"];

/// The allowed growth of memory in a long run, which is less than its variation within a minute.
const MEMORY_SLACK_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// The allowed growth of threads, descriptors or handles of a process.
const COUNT_SLACK: f64 = 4.0;

/// Steps without faults, which must succeed.
const FLAWLESS: [&str; 14] = [
    "message", "0.3", "stream", "task", "status", "wait", "watch", "question", "answer", "endless",
    "cancel", "large", "agent", "list",
];

/// Steps with faults, each with an outcome that must occur at least once.
const FAULTY: [(&str, &str); 4] = [
    ("aborted", "aborted"),
    ("refused", "unreachable"),
    ("token", "auth_required"),
    ("invalid", "invalid_request"),
];

/// Steps that fail while a peer is down, and must also succeed.
const RECOVERING: [&str; 6] = [
    "killed",
    "token",
    "cut stream",
    "cut message",
    "killed agent",
    "vote",
];

/// The processes and their resources.
struct Fixture {
    _folder: Folder,
    folder: PathBuf,
    serve: Process,
    serve_address: SocketAddr,
    gateway: Process,
    gateway_url: String,
    killed_port: String,
    refused_port: u16,
    token: String,
}

impl Fixture {
    async fn start() -> Self {
        let own = Folder::new();
        let folder = own.path().to_owned();
        let token = token(&folder, "add", "steady");
        let mut serve = serve(&folder, "serve", "0");
        let serve_address = address(serve.next().await["url"].as_str().unwrap());
        let mut killed = serve_open(&folder, "0");
        let killed_port = address(killed.next().await["url"].as_str().unwrap()).port();
        let log = folder.join("gateway.log");
        let state = folder.join("gateway");
        let args = [
            "gateway",
            "--port",
            "0",
            "--json",
            "--fsync",
            "never",
            "--state-dir",
            state.to_str().unwrap(),
        ];
        let mut gateway = Process::command(&args, &log);
        let gateway_url = gateway.next().await["url"].as_str().unwrap().to_owned();
        let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            _folder: own,
            serve,
            serve_address,
            gateway,
            gateway_url,
            killed_port: killed_port.to_string(),
            refused_port: refused.local_addr().unwrap().port(),
            token,
            folder,
        }
    }

    fn config(&self, proxy: SocketAddr, changing: &str) -> Value {
        let serve = format!("http://{}", self.serve_address);
        let target = |alias: &str, url: &str, token: &str| json!({"alias": alias, "baseUrl": url, "auth": {"type": "bearer", "token": token}});
        let mut targets = vec![
            target("serve", &serve, &self.token),
            target("serve03", &serve, &self.token),
            target("cut", &serve, &self.token),
            target("changing", &serve, changing),
            json!({"alias": "killed", "baseUrl": format!("http://127.0.0.1:{}", self.killed_port)}),
            json!({"alias": "refused", "baseUrl": format!("http://127.0.0.1:{}", self.refused_port)}),
        ];
        targets[1]["protocolVersion"] = json!("0.3");
        targets[2]["endpoint"] = json!(format!("http://{proxy}/a2a"));
        json!({
            "enabled": true,
            "targets": targets,
            "taskHandles": {"maxEntries": 200},
            "gateway": {"enabled": true, "url": self.gateway_url},
        })
    }
}

/// Starts an A2A server with the clients of the folder.
fn serve(folder: &Path, log: &str, port: &str) -> Process {
    let state = folder.join("serve");
    start_serve(&state, &folder.join(log).with_extension("log"), port)
}

/// Starts an A2A server without clients.
fn serve_open(folder: &Path, port: &str) -> Process {
    start_serve(&folder.join("killed"), &folder.join("killed.log"), port)
}

fn start_serve(state: &Path, log: &Path, port: &str) -> Process {
    let state = state.to_str().unwrap();
    let args = [
        "serve",
        "--json",
        "--executor",
        "scripted",
        "--port",
        port,
        "--state-dir",
        state,
        "--retention-count",
        "200",
    ];
    Process::command(&args, log)
}

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://")
        .trim_end_matches('/')
        .parse()
        .unwrap()
}

/// Adds a client of the server, or rotates its token, and returns the token.
fn token(folder: &Path, action: &str, name: &str) -> String {
    let state = folder.join("serve");
    let done = command(&[
        "serve",
        "clients",
        action,
        name,
        "--state-dir",
        state.to_str().unwrap(),
    ]);
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

async fn agent(fixture: &Fixture, name: &str, vote: &str) -> Process {
    let args = [
        "gateway",
        "agent",
        "--json",
        "--url",
        &fixture.gateway_url,
        "--name",
        name,
        "--vote",
        vote,
    ];
    let mut agent = Process::command(&args, &fixture.folder.join("agents.log"));
    while agent.next().await["happened"] != "connected" {}
    agent.ignore_lines();
    agent
}

/// Kills the peers repeatedly.
async fn kill_peers(fixture: &Fixture) {
    loop {
        let alpha = agent(fixture, "alpha", "approve").await;
        let mut killed = serve_open(&fixture.folder, &fixture.killed_port);
        killed.next().await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        drop((killed, alpha));
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// Opens slow readers of the server, and agents of the gateway that read nothing.
async fn read_slowly(fixture: &Fixture) {
    loop {
        let mute = crash::advertised(&fixture.gateway_url, "coder").await;
        let streams = [(); 3].map(|()| faults::slow_reader(fixture.serve_address, &fixture.token));
        let _ = futures_util::future::join_all(streams).await;
        drop(mute);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The measurements of one time.
struct Sample {
    seconds: f64,
    resources: [Resources; WATCHED.len()],
    node: Value,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_stay_flat_under_faults() {
    let requested_seconds = env::var("SOAK_SECONDS")
        .ok()
        .map(|seconds| seconds.parse().unwrap());
    let length = Duration::from_secs(requested_seconds.unwrap_or(SECONDS));
    let fixture = Fixture::start().await;
    let proxy = faults::proxy(fixture.serve_address).await;
    let first = token(&fixture.folder, "add", "changing");
    let config = |token: &str| fixture.config(proxy.address, token);
    let first = config(&first);
    let mut node = tokio::process::Command::new(install("node", &[]).node());
    node.arg("--expose-gc")
        .arg(root("tests/soak/calls.mjs"))
        .arg(crate::host_abi::fixture::library());
    let _agents = (
        agent(&fixture, "beta", "approve").await,
        agent(&fixture, "charlie", "reject").await,
    );
    let before = [&fixture.serve, &fixture.gateway].map(Process::resources);
    node.arg(first.to_string()).args(["4", "400"]);
    let mut node = Process::start(node, &fixture.folder.join("node.log"));

    let (kills, slow) = (kill_peers(&fixture), read_slowly(&fixture));
    let samples = tokio::select! {
        samples = watch(&fixture, &mut node, length, config) => samples,
        () = kills => unreachable!("it kills for ever"),
        () = slow => unreachable!("it reads for ever"),
    };

    node.close_stdin();
    let at_end = node.next().await;
    assert!(node.assert_clean_exit().await);
    let log = fs::read_to_string(fixture.folder.join("node.log")).unwrap();
    assert_eq!(log, "", "Node has complained");
    let growths = growths(&samples);
    if requested_seconds.is_some() {
        write(&samples, &at_end, &growths, length);
    }
    println!(
        "{}",
        serde_json::to_string_pretty(&json!({"growth": growths, "end": at_end})).unwrap()
    );
    check_calls(&at_end["outcomes"]);
    assert!(at_end["handles"].as_array().unwrap().len() <= 4, "{at_end}");
    for (name, growth) in &growths {
        let allowed = if name.ends_with("bytes") {
            MEMORY_SLACK_BYTES
        } else {
            COUNT_SLACK
        };
        assert!(
            length.as_secs() < LONG_SECONDS || *growth <= allowed,
            "{name} grows by {growth}: {growths:?}"
        );
    }
    // Without clients, both servers must return to their earlier resources.
    for (server, before) in [&fixture.serve, &fixture.gateway].into_iter().zip(before) {
        tokio::time::timeout(SETTLE_TIMEOUT, wait_until_settled(server, before))
            .await
            .expect("connections end with their clients");
    }
}

async fn wait_until_settled(server: &Process, before: Resources) {
    while server.resources().descriptors > before.descriptors + 8 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Samples all processes, and periodically rotates the token of one instance.
async fn watch(
    fixture: &Fixture,
    node: &mut Process,
    length: Duration,
    config: impl Fn(&str) -> Value,
) -> Vec<Sample> {
    let began = Instant::now();
    let every = (length / 720).max(Duration::from_millis(500));
    let mut samples = Vec::new();
    let mut new_token = None;
    let mut rotations = 0;
    let mut outcomes = Value::Null;
    // A busy machine makes few calls a second: the run goes on until every outcome has occurred.
    while began.elapsed() < length
        || (missing_outcome(&outcomes).is_some() && began.elapsed() < length + SETTLE_TIMEOUT)
    {
        tokio::time::sleep(every).await;
        node.write(&json!({"sample": true})).await;
        let mut of_node = node.next().await;
        outcomes = of_node["outcomes"].take();
        samples.push(Sample {
            seconds: began.elapsed().as_secs_f64(),
            resources: [&*node, &fixture.serve, &fixture.gateway].map(Process::resources),
            node: of_node,
        });
        // Revokes the token. Calls fail for at least two seconds, until the client has the new one.
        let old = new_token
            .take_if(|(_, since): &mut (String, Instant)| since.elapsed() > Duration::from_secs(2));
        if let Some((token, _)) = old {
            let config = config(&token).to_string();
            node.write(&json!({"config": config})).await;
        } else if new_token.is_none() && began.elapsed().as_secs() / 4 > rotations {
            rotations = began.elapsed().as_secs() / 4;
            let folder = fixture.folder.clone();
            let rotated = tokio::task::spawn_blocking(move || token(&folder, "rotate", "changing"));
            new_token = Some((rotated.await.unwrap(), Instant::now()));
        }
    }
    samples
}

/// Returns every curve by its name.
fn curves(samples: &[Sample]) -> BTreeMap<String, Vec<f64>> {
    let mut curves = BTreeMap::<_, Vec<f64>>::new();
    for sample in samples {
        for (process, resources) in WATCHED.iter().zip(sample.resources) {
            let values = [
                ("memory bytes", resources.memory_bytes),
                ("threads", resources.threads),
                ("descriptors", resources.descriptors),
                ("CPU ms", resources.cpu_ms),
            ];
            for (what, value) in values {
                curves
                    .entry(format!("{process} {what}"))
                    .or_default()
                    .push(value as f64);
            }
        }
        for (what, member) in [
            ("heap bytes", "heap"),
            ("external bytes", "external"),
            ("handles", "handles"),
        ] {
            curves
                .entry(format!("Node {what}"))
                .or_default()
                .push(sample.node[member].as_f64().unwrap());
        }
    }
    curves
}

/// Returns how much each curve grows in the last three quarters of the run.
fn growths(samples: &[Sample]) -> BTreeMap<String, f64> {
    let warm = samples.len() / 4;
    let curves = curves(samples)
        .into_iter()
        .filter(|(name, _)| !name.ends_with("CPU ms"));
    curves
        .map(|(name, values)| (name, growth(&values[warm..])))
        .collect()
}

/// Returns the growth from the first value to the last by the Theil–Sen estimator: the median of the slopes between all pairs.
fn growth(values: &[f64]) -> f64 {
    let pairs = (0..values.len()).flat_map(|a| (a + 1..values.len()).map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs
        .map(|(a, b)| (values[b] - values[a]) / (b - a) as f64)
        .collect();
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0) * (values.len() - 1) as f64
}

fn check_calls(outcomes: &Value) {
    assert_eq!(missing_outcome(outcomes), None, "{outcomes}");
    for step in FLAWLESS {
        let mut counts = outcomes[step].as_object().unwrap().keys();
        assert!(counts.all(|outcome| outcome == "ok"), "{step}: {outcomes}");
    }
}

/// Returns a step and an outcome that it must have had, and has not had.
fn missing_outcome(outcomes: &Value) -> Option<(&'static str, &'static str)> {
    let succeeded = FLAWLESS.into_iter().chain(RECOVERING);
    let required = succeeded.map(|step| (step, "ok")).chain(FAULTY);
    required
        .into_iter()
        .find(|(step, outcome)| !outcomes[step][outcome].is_u64())
}

/// Writes the measurements and their picture into the documents.
fn write(samples: &[Sample], at_end: &Value, growths: &BTreeMap<String, f64>, length: Duration) {
    let curves = curves(samples);
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let report = json!({
        "command": format!("SOAK_SECONDS={} cargo real --test suite soak::", length.as_secs()),
        "processor": processor.map(|(_, name)| name),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "node": NODE_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "growth": growths,
        "outcomes": at_end["outcomes"],
        "updates": at_end["updates"],
        "seconds": samples.iter().map(|sample| sample.seconds.round()).collect::<Vec<_>>(),
        "curves": curves,
    });
    let folder = root("docs/explanation");
    fs::write(folder.join("soak.json"), format!("{report}\n")).unwrap();
    let curve = |name: &str, unit: f64| {
        curves[name]
            .iter()
            .map(|value| value / unit)
            .collect::<Vec<_>>()
    };
    let panel = |title, what: &str, unit| Panel {
        title,
        curves: WATCHED
            .map(|process| (process, curve(&format!("{process} {what}"), unit)))
            .into(),
    };
    let mebibyte = f64::from(1 << 20);
    let panels = [
        panel("Resident memory, MiB", "memory bytes", mebibyte),
        panel("Descriptors", "descriptors", 1.0),
        panel("Threads", "threads", 1.0),
        Panel {
            title: "Node's heap, MiB, and handles",
            curves: vec![
                ("heap", curve("Node heap bytes", mebibyte)),
                ("handles", curve("Node handles", 1.0)),
            ],
        },
    ];
    fs::write(
        folder.join("soak.svg"),
        plot::svg(&panels, length.as_secs_f64()),
    )
    .unwrap();
}

#[test]
fn growth_finds_a_leak_in_noise() {
    let noise = |at: usize| (at * 7919 % 13) as f64;
    let flat: Vec<f64> = (0..200).map(|at| 100.0 + noise(at)).collect();
    let leak: Vec<f64> = (0..200)
        .map(|at| 100.0 + noise(at) + at as f64 / 20.0)
        .collect();
    assert!(growth(&flat).abs() < 1.0, "{}", growth(&flat));
    assert!((growth(&leak) - 10.0).abs() < 1.0, "{}", growth(&leak));
}
