//! Clients in their own processes: the tool through its Rust, Node and other interfaces, the official SDKs, and plain
//! reqwest.

use std::{
    future::Future,
    io::BufRead as _,
    path::Path,
    pin::Pin,
    process::Command,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base::log::Silent;
use futures_util::future::join_all;
use openclaw_remote_agent::plugin::assemble;
use openclaw_remote_agent::remote_agent::{PollIntervals, RemoteAgent, ToolCall, UpdateCallback};
use openclaw_remote_agent_interface::{RNone, RSome, ToolBox, load, updates_to};
use serde_json::{Value, json};
use testkit::support::sdk::{self, Sdk};
use tokio_util::sync::CancellationToken;

use crate::{
    Setup,
    peer::{Peer, group},
    process::Process,
};

pub(crate) const ROLE: &str = "--call";

pub(crate) const REQWEST: &str = "bare reqwest";
pub(crate) const IN_PROCESS: &str = "in process";
pub(crate) const RUST_ABI: &str = "Rust ABI";
pub(crate) const NODE_API: &str = "Node-API";
pub(crate) const NODE_API_03: &str = "Node-API, A2A 0.3";
/// The Node interface, used like the OpenClaw package uses it.
pub(crate) const OPENCLAW: &str = "Node-API, as in OpenClaw";
pub(crate) const JS13: &str = "@a2a-js/sdk 1.3.0";
pub(crate) const JS03: &str = "@a2a-js/sdk 0.3.14";
pub(crate) const RS: &str = "a2a-client-lf 0.2.9";
pub(crate) const PY: &str = "a2a-sdk 1.3.0 (Python)";

/// All clients, with the baseline first.
pub(crate) const ALL: [&str; 9] = [
    REQWEST,
    IN_PROCESS,
    RUST_ABI,
    NODE_API,
    NODE_API_03,
    RS,
    JS13,
    JS03,
    PY,
];

/// Starts a client of the peer.
pub(crate) fn start(name: &str, setup: &Setup, peer: &Peer) -> Process {
    let driver = |file: &str| setup.root.join("benches/report/drivers").join(file);
    let version = match name {
        NODE_API_03 | JS03 => "0.3",
        _ => "1.0",
    };
    let mut settings = json!({
        "origin": peer.origin(version), "config": peer.config(), "target": version,
        "version": version, "library": setup.library,
    });
    let mut command = match name {
        REQWEST | IN_PROCESS | RUST_ABI => {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([ROLE, name]);
            command
        }
        NODE_API | NODE_API_03 => {
            let mut command = Command::new(&setup.node);
            command.arg(driver("node_api.mjs"));
            command
        }
        JS13 | JS03 => {
            let sdk = if name == JS13 { Sdk::Js13 } else { Sdk::Js03 };
            settings["packages"] = json!(sdk::home(sdk));
            let mut command = Command::new(&setup.node);
            command.arg(driver("js_sdk.mjs"));
            command
        }
        RS => Command::new(sdk::home(Sdk::Rs05).join("release/rs-client")),
        PY => {
            let mut command = Command::new(sdk::home(Sdk::Py13).join("bin/python"));
            command.arg(driver("py_sdk.py"));
            command
        }
        other => panic!("there is no client `{other}`"),
    };
    Process::start(command.arg(settings.to_string()))
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A client in Rust.
trait Caller {
    fn send(&self) -> BoxFuture<'_, ()>;
    fn status(&self) -> BoxFuture<'_, ()>;
    /// Follows the stream that `text` requests. Returns the number of received events or updates.
    fn stream<'a>(&'a self, text: &'a str, updates: bool) -> BoxFuture<'a, usize>;
    fn watch(&self, task_id: String) -> BoxFuture<'_, ()>;
    /// Sends a message to each target of a group, in one call or in one for each target.
    fn group(&self, _as_one: bool) -> BoxFuture<'_, ()> {
        unreachable!("only the tool has groups")
    }
}

/// Handles commands until standard input ends.
pub(crate) fn serve(name: &str, settings: &str) {
    let settings: Value = serde_json::from_str(settings).unwrap();
    let setting = |name: &str| settings[name].as_str().unwrap();
    // A single-threaded runtime, like that of a small host.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let caller: Box<dyn Caller> = match name {
        REQWEST => Box::new(ReqwestCaller::new(setting("origin"))),
        IN_PROCESS => {
            let agent = assemble(
                setting("config"),
                PollIntervals::default(),
                Arc::new(Silent),
            )
            .unwrap();
            Box::new(ToolCaller::new(InProcess(agent), setting("target")))
        }
        _ => {
            let module = load(Path::new(setting("library"))).unwrap();
            let tool = module.new_tool()(setting("config").into(), RNone);
            let tool = tool.into_result().expect("a tool");
            Box::new(ToolCaller::new(RustAbi(tool), setting("target")))
        }
    };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let start = Instant::now();
        let mut response = runtime.block_on(run(&*caller, &command));
        response["seconds"] = start.elapsed().as_secs_f64().into();
        println!("{response}");
    }
}

async fn run(caller: &dyn Caller, command: &Value) -> Value {
    match command["op"].as_str().unwrap() {
        "send" => repeat(command, || caller.send()).await,
        "status" => repeat(command, || caller.status()).await,
        "one call" => repeat(command, || caller.group(true)).await,
        "single calls" => repeat(command, || caller.group(false)).await,
        "stream" => {
            let updates = command["updates"].as_bool().unwrap();
            let text = command["text"].as_str().unwrap();
            json!({"seen": caller.stream(text, updates).await})
        }
        _ => {
            let count = command["count"].as_u64().unwrap();
            join_all((0..count).map(|number| caller.watch(format!("w-{number}")))).await;
            json!({})
        }
    }
}

/// Keeps the requested number of calls in flight for the requested time.
async fn repeat<'a>(command: &Value, call: impl Fn() -> BoxFuture<'a, ()>) -> Value {
    let time = Duration::from_secs_f64(command["seconds"].as_f64().unwrap());
    let end = Instant::now() + time;
    let workers = (0..command["width"].as_u64().unwrap()).map(|_| async {
        let mut count = 0_u64;
        while count == 0 || Instant::now() < end {
            call().await;
            count += 1;
        }
        count
    });
    json!({"calls": join_all(workers).await.iter().sum::<u64>()})
}

/// The baseline: reqwest with a timeout sends the tool's requests and parses the responses as JSON.
struct ReqwestCaller {
    client: reqwest::Client,
    url: String,
}

impl ReqwestCaller {
    fn new(origin: &str) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy();
        Self {
            client: client.build().unwrap(),
            url: format!("{origin}/rpc"),
        }
    }

    async fn post(&self, method: &str, params: Value) -> reqwest::Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .timeout(Duration::from_secs(120))
            .body(body.to_string());
        request.send().await.unwrap()
    }
}

fn message(text: &str) -> Value {
    json!({"message": {
        "messageId": "00000000-0000-4000-8000-000000000000", "role": "ROLE_USER",
        "parts": [{"text": text}],
    }})
}

impl Caller for ReqwestCaller {
    fn send(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let response = self.post("SendMessage", message("Good morning")).await;
            let response: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            assert!(response["result"]["message"].is_object());
        })
    }

    fn status(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let response = self.post("GetTask", json!({"id": "t-1"})).await;
            let response: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            assert!(response["result"]["id"].is_string());
        })
    }

    fn stream<'a>(&'a self, text: &'a str, _updates: bool) -> BoxFuture<'a, usize> {
        Box::pin(async {
            let mut response = self.post("SendStreamingMessage", message(text)).await;
            let mut events = 0;
            while let Some(chunk) = response.chunk().await.unwrap() {
                events += memchr::memmem::find_iter(&chunk, b"\n\n").count();
            }
            events
        })
    }

    fn watch(&self, _task_id: String) -> BoxFuture<'_, ()> {
        unreachable!("the floor has no watches")
    }
}

/// An interface of the tool.
trait HostInterface {
    /// Runs a call and returns the envelope. Counts the updates in `updates`, if given.
    fn execute(&self, request: String, updates: Option<Arc<AtomicUsize>>) -> BoxFuture<'_, String>;
}

struct InProcess(RemoteAgent);

impl HostInterface for InProcess {
    fn execute(&self, request: String, updates: Option<Arc<AtomicUsize>>) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let count = updates.map(|count| {
                move |_: &str| {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            let call = ToolCall {
                request: &request,
                caller: None,
                updates: count.as_ref().map(|count| count as UpdateCallback<'_>),
                person: None,
                cancel: CancellationToken::new(),
                closing: CancellationToken::new(),
            };
            self.0.execute(call).await
        })
    }
}

struct RustAbi(ToolBox);

impl HostInterface for RustAbi {
    fn execute(&self, request: String, updates: Option<Arc<AtomicUsize>>) -> BoxFuture<'_, String> {
        let updates = match updates {
            None => RNone,
            Some(count) => RSome(updates_to(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })),
        };
        let call = self.0.execute(request.into(), RNone, updates);
        Box::pin(async { call.future.await.into_string() })
    }
}

struct ToolCaller<E> {
    interface: Rc<E>,
    target: String,
    send: String,
    status: String,
}

impl<E: HostInterface> ToolCaller<E> {
    fn new(interface: E, target: &str) -> Self {
        let parts = json!([{"kind": "text", "text": "Good morning"}]);
        let send = json!({"action": "send", "target_alias": target, "parts": parts});
        let status = json!({"action": "status", "target_alias": target, "task_id": "t-1"});
        Self {
            interface: Rc::new(interface),
            target: target.to_owned(),
            send: send.to_string(),
            status: status.to_string(),
        }
    }

    async fn succeed(&self, request: String, updates: Option<Arc<AtomicUsize>>) {
        let envelope = self.interface.execute(request, updates).await;
        assert!(envelope.starts_with(r#"{"ok":true"#), "{envelope}");
    }
}

impl<E: HostInterface> Caller for ToolCaller<E> {
    fn send(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.succeed(self.send.clone(), None))
    }

    fn status(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.succeed(self.status.clone(), None))
    }

    fn stream<'a>(&'a self, text: &'a str, updates: bool) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            let request = json!({
                "action": "send", "target_alias": self.target, "follow_updates": true,
                "timeout_ms": 120_000, "parts": [{"kind": "text", "text": text}],
            });
            let seen = Arc::new(AtomicUsize::new(0));
            self.succeed(request.to_string(), updates.then(|| seen.clone()))
                .await;
            seen.load(Ordering::Relaxed)
        })
    }

    fn watch(&self, task_id: String) -> BoxFuture<'_, ()> {
        let request = json!({
            "action": "watch", "target_alias": self.target, "task_id": task_id,
            "timeout_ms": 120_000,
        });
        Box::pin(self.succeed(request.to_string(), None))
    }

    fn group(&self, as_one: bool) -> BoxFuture<'_, ()> {
        let request = |field: &str, value: Value| {
            let parts = json!([{"kind": "text", "text": "status 3"}]);
            let mut request = json!({"action": "send", "follow_updates": true, "parts": parts});
            request[field] = value;
            self.succeed(request.to_string(), None)
        };
        Box::pin(async move {
            match as_one {
                true => request("target_aliases", json!(group())).await,
                false => {
                    let each = |alias| request("target_alias", json!(alias));
                    join_all(group().into_iter().map(each)).await;
                }
            }
        })
    }
}
