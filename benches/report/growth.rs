//! Measures how cost grows with the number of targets, artifacts, stored tasks and clients, and compares neighboring sizes.

use std::{future::Future, io::Write as _, sync::Arc, time::Instant};

use a2a_server::store::{Filter, TaskStore};
use base::{files::Fsync, log::Silent};
use openclaw_remote_agent::plugin::assemble;
use openclaw_remote_agent::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testkit::support::target;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::{
    Scale,
    callers::RUST_ABI,
    gateway::GATEWAY,
    load,
    peer::Peer,
    process::{Process, Usage},
    render::number,
    samples::{Measured, Section, median},
    server, store,
};

/// An operation that is measured at growing sizes.
struct Operation {
    name: &'static str,
    section: &'static str,
    /// The text before and after the size in the name of the case.
    case: [&'static str; 2],
    subject: &'static str,
    metric: &'static str,
}

impl Operation {
    /// Returns whether the metric counts operations a second.
    fn is_rate(&self) -> bool {
        self.metric.ends_with("/s")
    }
}

const fn operation(
    name: &'static str,
    section: &'static str,
    case: [&'static str; 2],
    subject: &'static str,
    metric: &'static str,
) -> Operation {
    Operation {
        name,
        section,
        case,
        subject,
        metric,
    }
}

const fn growth(
    name: &'static str,
    suffix: &'static str,
    subject: &'static str,
    metric: &'static str,
) -> Operation {
    operation(name, "growth", ["", suffix], subject, metric)
}

const OPERATIONS: [Operation; 16] = [
    growth(
        "start the tool, by targets",
        " targets",
        "start the tool",
        "ms",
    ),
    growth(
        "`list_targets`, by targets",
        " targets",
        "list_targets",
        "ms",
    ),
    growth("`send`, by targets", " targets", "send", "ms"),
    growth(
        "follow a task, by artifacts",
        " artifacts",
        "follow a task",
        "ms",
    ),
    operation(
        "follow a task, by events",
        "stream",
        ["append, ", " events"],
        RUST_ABI,
        "ms",
    ),
    operation(
        "resolve a handle, by handles",
        "handles",
        ["", ""],
        "resolve any",
        "ns",
    ),
    growth(
        "open the store, by tasks",
        " stored tasks",
        "open the store",
        "ms",
    ),
    growth(
        "a page of 50, by tasks",
        " stored tasks",
        "first page of 50",
        "ms",
    ),
    growth(
        "a page of one client, by tasks",
        " stored tasks",
        "a client's page of 50",
        "ms",
    ),
    growth(
        "load a task, by tasks",
        " stored tasks",
        "load a task",
        "ms",
    ),
    growth(
        "store a task, by tasks",
        " stored tasks",
        "a new task",
        "ms",
    ),
    growth(
        "files of the store, by tasks",
        " stored tasks",
        "file",
        "MB",
    ),
    growth(
        "a message to `serve`, by clients",
        " clients",
        "a message to serve",
        "CPU µs",
    ),
    growth("start `serve`, by clients", " clients", "start serve", "ms"),
    operation(
        "a task of `serve`, by connections",
        "server",
        ["task, ", " clients"],
        server::MEMORY,
        "answers/s",
    ),
    operation(
        "a message of the gateway, by agents",
        "gateway",
        ["", " agents, 16 in flight"],
        GATEWAY,
        "messages/s",
    ),
];

pub(crate) fn measure(scale: &Scale, section: &mut Section) {
    let runtime = Runtime::new().unwrap();
    for round in 0..scale.rounds {
        eprintln!("growth, round {}", round + 1);
        for &count in scale.targets {
            runtime.block_on(targets(count, section));
        }
        for &count in scale.targets {
            runtime.block_on(artifacts(count, section));
        }
        for &count in scale.targets {
            clients(count, scale.slice, section);
        }
    }
    for &count in scale.stored {
        runtime.block_on(stored_tasks(count, scale.rounds, section));
    }
}

/// Returns the milliseconds of `work`.
async fn milliseconds(work: impl Future<Output = ()>) -> f64 {
    let start = Instant::now();
    work.await;
    start.elapsed().as_secs_f64() * 1e3
}

/// Returns the tool with `count` targets, which are one peer, and the milliseconds of its start.
fn tool(peer: &Peer, count: u64) -> (RemoteAgent, f64) {
    let target =
        |number| json!({"alias": format!("agent-{number}"), "baseUrl": peer.origin("1.0")});
    let config = json!({
        "targets": (0..count).map(target).collect::<Vec<_>>(),
        "policy": {"allowPrivateTargetUrls": true},
        "limits": {"artifacts": 100_000},
    });
    let (config, start) = (config.to_string(), Instant::now());
    let tool = assemble(&config, PollIntervals::default(), Arc::new(Silent)).unwrap();
    (tool, start.elapsed().as_secs_f64() * 1e3)
}

async fn call(tool: &RemoteAgent, request: &Value) -> String {
    let call = ToolCall {
        request: &request.to_string(),
        caller: None,
        updates: None,
        person: None,
        cancel: CancellationToken::new(),
        closing: CancellationToken::new(),
    };
    let envelope = tool.execute(call).await;
    assert!(envelope.starts_with(r#"{"ok":true"#), "{envelope}");
    envelope
}

/// Returns the request of a message to a target in the middle of the list.
fn message(count: u64, text: &str) -> Value {
    json!({
        "action": "send", "target_alias": format!("agent-{}", count / 2), "follow_updates": true,
        "timeout_ms": 120_000, "parts": [{"kind": "text", "text": text}],
    })
}

async fn targets(count: u64, section: &mut Section) {
    const CALLS: u32 = 200;
    let peer = Peer::start();
    let case = format!("{count} targets");
    let (tool, started) = tool(&peer, count);
    section.add(&case, "start the tool", "ms", started);
    let list = json!({"action": "list_targets"});
    call(&tool, &list).await;
    let listed = milliseconds(async {
        call(&tool, &list).await;
    });
    section.add(&case, "list_targets", "ms", listed.await);
    let send = message(count, "append 3");
    call(&tool, &send).await;
    let sent = milliseconds(async {
        for _ in 0..CALLS {
            call(&tool, &send).await;
        }
    });
    section.add(&case, "send", "ms", sent.await / f64::from(CALLS));
}

async fn artifacts(count: u64, section: &mut Section) {
    let peer = Peer::start();
    let (tool, _) = tool(&peer, 1);
    let send = message(1, &format!("artifacts {}", count + 2));
    call(&tool, &send).await;
    let followed = milliseconds(async {
        let envelope = call(&tool, &send).await;
        let last = format!("\"a-{count}\"");
        assert!(
            envelope.contains(&last),
            "the result has no artifact {last}"
        );
    });
    section.add(
        &format!("{count} artifacts"),
        "follow a task",
        "ms",
        followed.await,
    );
}

/// Starts `remote-agent serve` with `count` clients, of which 64 send messages.
fn clients(count: u64, slice: f64, section: &mut Section) {
    let client = |number| {
        let hash = digest(&SHA256, load::token(number).as_bytes());
        let hash: String = hash
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        json!({"name": format!("client-{number}"), "sha256": hash})
    };
    let config = json!({"clients": (0..count).map(client).collect::<Vec<_>>()});
    let mut file = tempfile::NamedTempFile::with_suffix_in(".json", target()).unwrap();
    write!(file, "{config}").unwrap();
    let start = Instant::now();
    let server = server::scripted(&[
        "--task-store",
        "memory",
        "--config",
        file.path().to_str().unwrap(),
    ]);
    let case = format!("{count} clients");
    section.add(
        &case,
        "start serve",
        "ms",
        start.elapsed().as_secs_f64() * 1e3,
    );
    let mut load = Process::start_role(&[load::ROLE]);
    let usage = Usage::start(server.id());
    let response = load.call(&json!({
        "address": server.url().replace("http://", ""), "path": "/a2a", "method": "SendMessage",
        "params": {"message": {"role": "ROLE_USER", "parts": [{"text": "message: hello"}]}},
        "expected": "hello", "clients": 64, "seconds": slice, "tokens": count,
    }));
    let answered = response["answered"].as_f64().unwrap();
    section.add(
        &case,
        "a message to serve",
        "CPU µs",
        usage.cpu_seconds() / answered * 1e6,
    );
}

async fn stored_tasks(count: u64, rounds: usize, section: &mut Section) {
    let directory = tempfile::tempdir_in(target()).unwrap();
    store::fill(directory.path(), count).await;
    let case = format!("{count} stored tasks");
    for round in 0..rounds as u64 {
        let start = Instant::now();
        let store = store::open(directory.path(), Fsync::Interval);
        section.add(
            &case,
            "open the store",
            "ms",
            start.elapsed().as_secs_f64() * 1e3,
        );
        for (name, owner) in [
            ("first page of 50", None),
            ("a client's page of 50", Some("client-1")),
        ] {
            section.add(&case, name, "ms", page(&store, owner).await);
        }
        let loaded = milliseconds(async {
            for number in 0..100 {
                let id = store::task_id(number * 7_919 % count);
                assert!(store.load(&id).await.unwrap().is_some());
            }
        });
        section.add(&case, "load a task", "ms", loaded.await / 100.0);
        let created = milliseconds(async {
            for number in 0..100 {
                store::complete(&store, count + round * 100 + number).await;
            }
        });
        section.add(&case, "a new task", "ms", created.await / 100.0);
        store.close().await.unwrap();
        let files = std::fs::read_dir(directory.path()).unwrap();
        let bytes: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        section.add(&case, "file", "MB", bytes as f64 / 1e6);
    }
}

/// Returns the median milliseconds of a page in the middle of the list.
async fn page(store: &Arc<dyn TaskStore>, owner: Option<&str>) -> f64 {
    let mut filter = Filter {
        owner: owner.map(str::to_owned),
        context_id: None,
        state: None,
        changed_after: None,
        page_size: 50,
        after: None,
    };
    let mut times = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        let page = store.list(&filter).await.unwrap();
        for task in &page.tasks {
            assert!(store.load(&task.id).await.unwrap().is_some());
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        filter.after = page.next;
    }
    median(&times)
}

/// An operation at growing sizes.
struct Growth {
    name: &'static str,
    unit: &'static str,
    /// Size, and the median of its cost.
    costs: Vec<(f64, f64)>,
}

impl Growth {
    /// Returns the largest factor of the cost for a tenfold size.
    fn largest_factor(&self) -> f64 {
        let factors = self.costs.windows(2).map(|pair| {
            let [(small, cheap), (large, dear)] = [pair[0], pair[1]];
            (dear / cheap).powf(1.0 / (large / small).log10())
        });
        factors.fold(0.0, f64::max)
    }
}

fn all(measured: &Measured) -> Vec<Growth> {
    let growth = |operation: &Operation| {
        let section = measured.get(operation.section)?;
        let [prefix, suffix] = operation.case;
        let costs = section.cases().into_iter().filter_map(|case| {
            let size = case.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let value = section.median(case, operation.subject, operation.metric)?;
            let cost = if operation.is_rate() {
                1e6 / value
            } else {
                value
            };
            Some((size.parse().ok()?, cost))
        });
        let costs: Vec<_> = costs.collect();
        (costs.len() > 1).then(|| Growth {
            name: operation.name,
            unit: if operation.is_rate() {
                "µs"
            } else {
                operation.metric
            },
            costs,
        })
    };
    OPERATIONS.iter().filter_map(growth).collect()
}

/// Returns the largest factor of all operations.
pub(crate) fn largest(measured: &Measured) -> Option<f64> {
    all(measured)
        .iter()
        .map(Growth::largest_factor)
        .reduce(f64::max)
}

/// Returns the table of all operations and sizes.
pub(crate) fn table(measured: &Measured) -> String {
    let mut text = String::from(
        "| operation | cost at each size | largest factor for ten times as many |\n|---|---|--:|\n",
    );
    for growth in all(measured) {
        let costs = growth
            .costs
            .iter()
            .map(|(size, cost)| format!("{}: {}", number(*size), number(*cost)));
        text += &format!(
            "| {} | {} {} | {}x |\n",
            growth.name,
            costs.collect::<Vec<_>>().join(" · "),
            growth.unit,
            number(growth.largest_factor()),
        );
    }
    text
}
