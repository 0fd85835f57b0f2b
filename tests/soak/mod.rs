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
use crate::serve::http_client::command;
use plot::Panel;
use processes::{Process, Resources};

/// The timeout of a step on a busy machine.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The duration of the short run.
const SHORT_RUN_SECONDS: u64 = 8;

/// The duration of a run from which its growth is checked. In shorter runs, caches and pools still fill, and a busy machine opens connections late.
const LONG_RUN_SECONDS: u64 = 600;

/// The processes that must not grow.
const PROCESSES: [&str; 3] = ["Node", "serve", "gateway"];

/// The allowed growth of memory in a long run, which is less than its variation within a minute.
const MEMORY_SLACK_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// The allowed growth of threads, descriptors or handles of a process.
const COUNT_SLACK: f64 = 4.0;

/// Steps without faults, which must succeed.
const SUCCEEDING_STEPS: [&str; 14] = [
    "message", "0.3", "stream", "task", "status", "wait", "watch", "question", "answer", "endless",
    "cancel", "large", "agent", "list",
];

/// Steps with faults, each with an outcome that must occur at least once.
const FAILING_STEPS: [(&str, &str); 4] = [
    ("aborted", "aborted"),
    ("refused", "unreachable"),
    ("token", "auth_required"),
    ("invalid", "invalid_request"),
];

/// Steps that fail while a peer is down, and must also succeed.
const RECOVERING_STEPS: [&str; 6] = [
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
    client_token: String,
}

impl Fixture {
    async fn start() -> Self {
        let temporary = Folder::new();
        let folder = temporary.path().to_owned();
        let client_token = client_token(&folder, "add", "steady");
        let mut serve = start_serve(&folder, "serve", "0");
        let serve_address = address(serve.next().await["url"].as_str().unwrap());
        let mut killed_server = start_open_server(&folder, "0");
        let killed_port = address(killed_server.next().await["url"].as_str().unwrap()).port();
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
        let refused_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            _folder: temporary,
            serve,
            serve_address,
            gateway,
            gateway_url,
            killed_port: killed_port.to_string(),
            refused_port: refused_listener.local_addr().unwrap().port(),
            client_token,
            folder,
        }
    }

    fn config(&self, proxy: SocketAddr, changing: &str) -> Value {
        let serve_url = format!("http://{}", self.serve_address);
        let target = |alias: &str, url: &str, token: &str| json!({"alias": alias, "baseUrl": url, "auth": {"type": "bearer", "token": token}});
        let mut targets = vec![
            target("serve", &serve_url, &self.client_token),
            target("serve03", &serve_url, &self.client_token),
            target("cut", &serve_url, &self.client_token),
            target("changing", &serve_url, changing),
            json!({"alias": "killed", "baseUrl": format!("http://127.0.0.1:{}", self.killed_port)}),
            json!({"alias": "refused", "baseUrl": format!("http://127.0.0.1:{}", self.refused_port)}),
        ];
        targets[1]["protocolVersion"] = json!("0.3");
        targets[2]["endpoint"] = json!(format!("http://{proxy}/a2a"));
        json!({
            "enabled": true,
            "targets": targets,
            "taskHandles": {"maxEntries": 200},
            // Every call is to reach the agent that is down.
            "breaker": {"enabled": false},
            "gateway": {"enabled": true, "url": self.gateway_url},
        })
    }
}

/// Starts an A2A server with the clients of the folder.
fn start_serve(folder: &Path, log: &str, port: &str) -> Process {
    let state = folder.join("serve");
    start_serve_in(&state, &folder.join(log).with_extension("log"), port)
}

/// Starts an A2A server without clients.
fn start_open_server(folder: &Path, port: &str) -> Process {
    start_serve_in(&folder.join("killed"), &folder.join("killed.log"), port)
}

fn start_serve_in(state: &Path, log: &Path, port: &str) -> Process {
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
fn client_token(folder: &Path, action: &str, name: &str) -> String {
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

async fn start_agent(fixture: &Fixture, name: &str, vote: &str) -> Process {
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
        let alpha = start_agent(fixture, "alpha", "approve").await;
        let mut killed_server = start_open_server(&fixture.folder, &fixture.killed_port);
        killed_server.next().await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        drop((killed_server, alpha));
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// Opens slow readers of the server, and agents of the gateway that read nothing.
async fn read_slowly(fixture: &Fixture) {
    loop {
        let silent_agent = crash::connect_agent(&fixture.gateway_url, "coder").await;
        let streams =
            [(); 3].map(|()| faults::slow_reader(fixture.serve_address, &fixture.client_token));
        let _ = futures_util::future::join_all(streams).await;
        drop(silent_agent);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The measurements of one time.
struct Sample {
    seconds: f64,
    resources: [Resources; PROCESSES.len()],
    node: Value,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_stay_flat_under_faults() {
    let requested_seconds = env::var("SOAK_SECONDS")
        .ok()
        .map(|seconds| seconds.parse().unwrap());
    let duration = Duration::from_secs(requested_seconds.unwrap_or(SHORT_RUN_SECONDS));
    let fixture = Fixture::start().await;
    let proxy = faults::proxy(fixture.serve_address).await;
    let first_token = client_token(&fixture.folder, "add", "changing");
    let config = |token: &str| fixture.config(proxy.address, token);
    let first_config = config(&first_token);
    let mut node = tokio::process::Command::new(install("node", &[]).node());
    node.arg("--expose-gc")
        .arg(root("tests/soak/calls.mjs"))
        .arg(crate::host_abi::fixture::library());
    let _agents = (
        start_agent(&fixture, "beta", "approve").await,
        start_agent(&fixture, "charlie", "reject").await,
    );
    let initial = [&fixture.serve, &fixture.gateway].map(Process::resources);
    node.arg(first_config.to_string()).args(["4", "400"]);
    let mut node = Process::start(node, &fixture.folder.join("node.log"));

    let (killing, reading) = (kill_peers(&fixture), read_slowly(&fixture));
    let samples = tokio::select! {
        samples = collect_samples(&fixture, &mut node, duration, config) => samples,
        () = killing => unreachable!("the killing does not end"),
        () = reading => unreachable!("the reading does not end"),
    };

    node.close_stdin();
    let report = node.next().await;
    assert!(node.assert_clean_exit().await);
    let log = fs::read_to_string(fixture.folder.join("node.log")).unwrap();
    assert_eq!(log, "", "Node.js wrote to stderr");
    let growths = growths(&samples);
    if requested_seconds.is_some() {
        write_report(&samples, &report, &growths, duration);
    }
    println!(
        "{}",
        serde_json::to_string_pretty(&json!({"growth": growths, "end": report})).unwrap()
    );
    check_outcomes(&report["outcomes"]);
    assert!(report["handles"].as_array().unwrap().len() <= 4, "{report}");
    for (name, growth) in &growths {
        let allowed = if name.ends_with("bytes") {
            MEMORY_SLACK_BYTES
        } else {
            COUNT_SLACK
        };
        assert!(
            duration.as_secs() < LONG_RUN_SECONDS || *growth <= allowed,
            "{name} grows by {growth}: {growths:?}"
        );
    }
    // Without clients, both servers must return to their earlier resources.
    for (server, initial) in [&fixture.serve, &fixture.gateway].into_iter().zip(initial) {
        tokio::time::timeout(SETTLE_TIMEOUT, wait_until_settled(server, initial))
            .await
            .expect("connections end with their clients");
    }
}

async fn wait_until_settled(server: &Process, initial: Resources) {
    while server.resources().descriptors > initial.descriptors + 8 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Samples all processes, and periodically rotates the token of one instance.
async fn collect_samples(
    fixture: &Fixture,
    node: &mut Process,
    duration: Duration,
    config: impl Fn(&str) -> Value,
) -> Vec<Sample> {
    let started = Instant::now();
    let interval = (duration / 720).max(Duration::from_millis(500));
    let mut samples = Vec::new();
    let mut new_token = None;
    let mut rotations = 0;
    let mut outcomes = Value::Null;
    // A busy machine makes few calls a second: the run continues until every outcome has occurred.
    while started.elapsed() < duration
        || (missing_outcome(&outcomes).is_some() && started.elapsed() < duration + SETTLE_TIMEOUT)
    {
        tokio::time::sleep(interval).await;
        node.write(&json!({"sample": true})).await;
        let mut node_sample = node.next().await;
        outcomes = node_sample["outcomes"].take();
        samples.push(Sample {
            seconds: started.elapsed().as_secs_f64(),
            resources: [&*node, &fixture.serve, &fixture.gateway].map(Process::resources),
            node: node_sample,
        });
        // Revokes the token. Calls fail for at least two seconds, until the client has the new one.
        let due = new_token
            .take_if(|(_, since): &mut (String, Instant)| since.elapsed() > Duration::from_secs(2));
        if let Some((token, _)) = due {
            let config = config(&token).to_string();
            node.write(&json!({"config": config})).await;
        } else if new_token.is_none() && started.elapsed().as_secs() / 4 > rotations {
            rotations = started.elapsed().as_secs() / 4;
            let folder = fixture.folder.clone();
            let rotated =
                tokio::task::spawn_blocking(move || client_token(&folder, "rotate", "changing"));
            new_token = Some((rotated.await.unwrap(), Instant::now()));
        }
    }
    samples
}

/// Returns every curve by its name.
fn curves(samples: &[Sample]) -> BTreeMap<String, Vec<f64>> {
    let mut curves = BTreeMap::<_, Vec<f64>>::new();
    for sample in samples {
        for (process, resources) in PROCESSES.iter().zip(sample.resources) {
            let values = [
                ("memory bytes", resources.memory_bytes),
                ("threads", resources.threads),
                ("descriptors", resources.descriptors),
                ("CPU ms", resources.cpu_ms),
            ];
            for (metric, value) in values {
                curves
                    .entry(format!("{process} {metric}"))
                    .or_default()
                    .push(value as f64);
            }
        }
        for (metric, member) in [
            ("heap bytes", "heap"),
            ("external bytes", "external"),
            ("handles", "handles"),
        ] {
            curves
                .entry(format!("Node {metric}"))
                .or_default()
                .push(sample.node[member].as_f64().unwrap());
        }
    }
    curves
}

/// Returns how much each curve grows in the last three quarters of the run.
fn growths(samples: &[Sample]) -> BTreeMap<String, f64> {
    let warm_up = samples.len() / 4;
    let curves = curves(samples)
        .into_iter()
        .filter(|(name, _)| !name.ends_with("CPU ms"));
    curves
        .map(|(name, values)| (name, growth(&values[warm_up..])))
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

fn check_outcomes(outcomes: &Value) {
    assert_eq!(missing_outcome(outcomes), None, "{outcomes}");
    for step in SUCCEEDING_STEPS {
        let mut counts = outcomes[step].as_object().unwrap().keys();
        assert!(counts.all(|outcome| outcome == "ok"), "{step}: {outcomes}");
    }
}

/// Returns a required outcome that has not occurred, with its step.
fn missing_outcome(outcomes: &Value) -> Option<(&'static str, &'static str)> {
    let steps = SUCCEEDING_STEPS.into_iter().chain(RECOVERING_STEPS);
    let required = steps.map(|step| (step, "ok")).chain(FAILING_STEPS);
    required
        .into_iter()
        .find(|(step, outcome)| !outcomes[step][outcome].is_u64())
}

/// Writes the measurements and a plot into the documentation.
fn write_report(
    samples: &[Sample],
    report: &Value,
    growths: &BTreeMap<String, f64>,
    duration: Duration,
) {
    let curves = curves(samples);
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let report = json!({
        "command": format!("SOAK_SECONDS={} cargo real --test suite soak::", duration.as_secs()),
        "processor": processor.map(|(_, name)| name),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "node": NODE_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "growth": growths,
        "outcomes": report["outcomes"],
        "updates": report["updates"],
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
    let panel = |title, metric: &str, unit| Panel {
        title,
        curves: PROCESSES
            .map(|process| (process, curve(&format!("{process} {metric}"), unit)))
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
        plot::svg(&panels, duration.as_secs_f64()),
    )
    .unwrap();
}

#[test]
fn growth_finds_a_leak_in_noise() {
    let noise = |index: usize| (index * 7919 % 13) as f64;
    let flat: Vec<f64> = (0..200).map(|index| 100.0 + noise(index)).collect();
    let leak: Vec<f64> = (0..200)
        .map(|index| 100.0 + noise(index) + index as f64 / 20.0)
        .collect();
    assert!(growth(&flat).abs() < 1.0, "{}", growth(&flat));
    assert!((growth(&leak) - 10.0).abs() < 1.0, "{}", growth(&leak));
}
