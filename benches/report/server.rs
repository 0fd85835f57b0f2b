//! Measures A2A servers under load: `remote-agent serve` with each store, the official servers, and as the baseline axum
//! without A2A.

use axum::{Router, body::Bytes, routing::post};
use serde_json::{Value, json};
use testkit::support::{
    redis_server::RedisServer,
    sdk::{self, Sdk},
    serve::Server,
};

use crate::{
    Scale, load,
    process::{Process, Usage},
    samples::Section,
};

pub(crate) const ROLE: &str = "--axum";

pub(crate) const AXUM_ECHO: &str = "axum echo";
pub(crate) const MEMORY: &str = "serve, memory";
pub(crate) const INTERVAL: &str = "serve, SQLite, fsync interval";
pub(crate) const REDIS: &str = "serve, Redis";
pub(crate) const RS: &str = "a2a-server-lf 0.5.3";
pub(crate) const JS: &str = "@a2a-js/sdk 1.3.0";
const PY: &str = "a2a-sdk 1.3.0 (Python)";

const ALL: [&str; 9] = [
    AXUM_ECHO,
    MEMORY,
    "serve, SQLite, fsync never",
    INTERVAL,
    "serve, SQLite, fsync always",
    REDIS,
    RS,
    JS,
    PY,
];

/// The number of tasks that a list request finds.
const LISTED_TASKS: u64 = 100;

/// A running server. Dropping it stops its processes.
struct ServerUnderTest {
    address: String,
    path: &'static str,
    pid: u32,
    _parts: Box<dyn std::any::Any>,
}

fn start(name: &str) -> ServerUnderTest {
    if name == AXUM_ECHO {
        let process = Process::start_role(&[ROLE]);
        return ServerUnderTest {
            address: process.ready.clone(),
            path: "/rpc",
            pid: process.id(),
            _parts: Box::new(process),
        };
    }
    let sdk = match name {
        JS => Some(Sdk::Js13),
        RS => Some(Sdk::Rs05),
        PY => Some(Sdk::Py13),
        _ => None,
    };
    if let Some(sdk) = sdk {
        let server = sdk::start(sdk);
        return ServerUnderTest {
            address: server.origin("1.0").replace("http://", ""),
            path: "/rpc",
            pid: server.id(),
            _parts: Box::new(server),
        };
    }
    let redis = (name == REDIS).then(RedisServer::start);
    let store = match (&redis, name.rsplit_once("fsync ")) {
        (Some(redis), _) => vec!["--task-store".to_owned(), redis.url()],
        (None, Some((_, fsync))) => vec!["--fsync".to_owned(), fsync.to_owned()],
        (None, None) => vec!["--task-store".to_owned(), "memory".to_owned()],
    };
    let flags: Vec<&str> = store.iter().map(String::as_str).collect();
    let server = scripted(&flags);
    ServerUnderTest {
        address: server.url().replace("http://", ""),
        path: "/a2a",
        pid: server.id(),
        _parts: Box::new((server, redis)),
    }
}

/// Starts `remote-agent serve` without rate limits, because the report measures the server.
pub(crate) fn scripted(flags: &[&str]) -> Server {
    let limits = [
        "runs=10000",
        "openRequests=65535",
        "connectionsPerAddress=65535",
        "requestsPerSecond=1000000",
        "burst=1000000",
        "tasksPerClient=1000000",
    ];
    let limits = limits.into_iter().flat_map(|limit| ["--limit", limit]);
    Server::scripted(&flags.iter().copied().chain(limits).collect::<Vec<_>>())
}

/// Runs the baseline: a server that reads a request and sends its body back.
pub(crate) fn axum_echo() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let app = Router::new().route("/rpc", post(|body: Bytes| async { body }));
        axum::serve(listener, app).await.unwrap();
    });
}

/// Returns the requests of clients, and a text that each response must contain.
fn requests(context: &str) -> [(&'static str, &'static str, Value, &'static str); 4] {
    let message = |text: &str| json!({"message": {"role": "ROLE_USER", "parts": [{"text": text}]}});
    let task = message("task: hello");
    let list = json!({"contextId": context, "pageSize": 50});
    [
        ("list", "ListTasks", list, "\"tasks\""),
        ("message", "SendMessage", message("message: hello"), "hello"),
        ("task", "SendMessage", task.clone(), "TASK_STATE_COMPLETED"),
        (
            "stream",
            "SendStreamingMessage",
            task,
            "TASK_STATE_COMPLETED",
        ),
    ]
}

pub(crate) fn measure(scale: &Scale, section: &mut Section) {
    let mut load = Process::start_role(&[load::ROLE]);
    for round in 0..scale.rounds {
        for name in ALL {
            eprintln!("server, round {}: {name}", round + 1);
            let server = start(name);
            // Each server has its own context with the tasks to list.
            let context = if name == AXUM_ECHO {
                String::new()
            } else {
                seed(&mut load, &server)
            };
            for (operation, method, params, expected) in requests(&context) {
                if name == AXUM_ECHO && operation != "message" {
                    continue;
                }
                for &clients in scale.clients {
                    // The Python server needs seconds for a thousand concurrent requests of the other kinds.
                    if name == PY && clients > 64 && operation != "message" {
                        continue;
                    }
                    let command = json!({
                        "address": server.address, "path": server.path, "method": method, "params": params,
                        "expected": expected, "clients": clients, "seconds": scale.slice,
                    });
                    let usage = Usage::start(server.pid);
                    let response = load.call(&command);
                    let cpu_seconds = usage.cpu_seconds();
                    let response_count = response["answered"].as_f64().unwrap();
                    let seconds = response["seconds"].as_f64().unwrap();
                    let case = format!("{operation}, {clients} clients");
                    section.add(&case, name, "answers/s", response_count / seconds);
                    section.add(&case, name, "CPU µs", cpu_seconds / response_count * 1e6);
                    section.add(&case, name, "peak MB", usage.peak_bytes() / 1e6);
                }
            }
        }
    }
}

/// Creates the tasks to list, and returns their context.
fn seed(load: &mut Process, server: &ServerUnderTest) -> String {
    let context = uuid::Uuid::new_v4().to_string();
    let params = json!({"message": {
        "role": "ROLE_USER", "parts": [{"text": "task: hello"}], "contextId": context,
    }});
    load.call(&json!({
        "address": server.address, "path": server.path, "method": "SendMessage", "params": params,
        "expected": "TASK_STATE_COMPLETED", "clients": 1, "requests": LISTED_TASKS, "seconds": 60,
    }));
    context
}
