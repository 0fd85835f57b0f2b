//! One message and its answer, one at a time and 64 at a time: bare reqwest, the tool in process, and through each door.

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use common::log::Silent;
use openclaw_remote_agent::plugin::assemble;
use openclaw_remote_agent::remote_agent::{Pace, RemoteAgent, ToolCall};
use openclaw_remote_agent_interface::{RNone, ToolBox, load};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use crate::{ROUNDS, median, node, peers::Running, table::Table};

/// How many calls are in flight, and how many are made in one slice.
const WIDTHS: [(usize, usize); 2] = [(1, 300), (64, 3_200)];

/// Each round gives every way this many turns, so that a slow moment of the machine meets them all.
const SLICES: usize = 5;

/// What the others are held against.
const FLOOR: &str = "bare reqwest";

/// A way to make the round trip.
trait Way {
    fn name(&self) -> &'static str;
    /// Makes `calls` calls, `width` of them at any time, and returns the seconds.
    fn time<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>>;
}

pub(crate) fn measure(table: &mut Table, library: &Path) {
    // The host of each way but Node's: one thread, as a small host would have it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let node = node::install("node", &[]).node();
    let mut rates = BTreeMap::<_, Vec<f64>>::new();
    for _ in 0..ROUNDS {
        // Peers remember what they were asked, so each round has its own.
        let peers = Running::start();
        let ways: Vec<Box<dyn Way>> = vec![
            Box::new(Bare::new(&peers)),
            Box::new(InProcess::new(&peers)),
            Box::new(RustDoor::new(&peers, library)),
            Box::new(NodeDoor {
                node: node.clone(),
                library: library.to_owned(),
                config: peers.config(),
            }),
        ];
        for (width, calls) in WIDTHS {
            let mut seconds = vec![0.0; ways.len()];
            for _ in 0..SLICES {
                for (way, seconds) in ways.iter().zip(&mut seconds) {
                    *seconds += LocalSet::new().block_on(&runtime, way.time(width, calls));
                }
            }
            for (order, (way, seconds)) in ways.iter().zip(seconds).enumerate() {
                let rate = (calls * SLICES) as f64 / seconds;
                let way = (width, order, way.name());
                rates.entry(way).or_default().push(rate);
            }
        }
    }
    for (&(width, _, name), taken) in &rates {
        let floor = &rates[&(width, 0, FLOOR)];
        let shares = taken.iter().zip(floor).map(|(rate, floor)| rate / floor);
        let share = median(shares.collect());
        table.row(
            format!("send, {width} in flight: {name}"),
            format!("{:.0}/s", median(taken.clone())),
            format!("{share:.2} of the floor"),
        );
    }
}

fn request() -> String {
    json!({"action": "send", "target_alias": "desk", "parts": [{"kind": "text", "text": "Good morning"}]}).to_string()
}

/// Runs `call` over and over, a few calls first that do not count.
async fn time<F: Future<Output = ()> + 'static>(
    width: usize,
    calls: usize,
    call: impl Fn() -> F + 'static,
) -> f64 {
    let call = Rc::new(call);
    let repeat = async |each: usize| {
        let workers = (0..width).map(|_| {
            let call = Rc::clone(&call);
            tokio::task::spawn_local(async move {
                for _ in 0..each {
                    call().await;
                }
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.unwrap();
        }
    };
    repeat(10).await;
    let start = Instant::now();
    repeat(calls / width).await;
    start.elapsed().as_secs_f64()
}

/// The message that the tool would send, written as JSON, sent by reqwest with a deadline, and its answer read as JSON.
struct Bare {
    client: reqwest::Client,
    url: String,
    message: Rc<Value>,
}

impl Bare {
    fn new(peers: &Running) -> Self {
        let message = json!({
            "kind": "message", "messageId": "00000000-0000-4000-8000-000000000000", "role": "user",
            "parts": [{"kind": "text", "text": "Good morning"}],
        });
        let configuration = json!({"blocking": true, "acceptedOutputModes": []});
        let params = json!({"message": message, "configuration": configuration});
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params});
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
            url: peers.desk(),
            message: Rc::new(message),
        }
    }
}

impl Way for Bare {
    fn name(&self) -> &'static str {
        FLOOR
    }

    fn time<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let (client, url, message) = (self.client.clone(), self.url.clone(), self.message.clone());
        Box::pin(time(width, calls, move || {
            let request = client
                .post(&url)
                .header("content-type", "application/json")
                .timeout(Duration::from_secs(60))
                .body(message.to_string());
            async move {
                let answer = request.send().await.unwrap().bytes().await.unwrap();
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                assert_eq!(answer["result"]["kind"], "message");
            }
        }))
    }
}

struct InProcess(Rc<RemoteAgent>);

impl InProcess {
    fn new(peers: &Running) -> Self {
        Self(Rc::new(
            assemble(&peers.config(), Pace::default(), Arc::new(Silent)).unwrap(),
        ))
    }
}

impl Way for InProcess {
    fn name(&self) -> &'static str {
        "in process"
    }

    fn time<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let agent = Rc::clone(&self.0);
        // A host has the request as text before it calls.
        let request = Rc::<str>::from(request());
        Box::pin(time(width, calls, move || {
            let (agent, request) = (Rc::clone(&agent), Rc::clone(&request));
            async move {
                let call = ToolCall {
                    request: &request,
                    caller: None,
                    updates: None,
                    cancel: CancellationToken::new(),
                    closing: CancellationToken::new(),
                };
                succeeded(&agent.execute(call).await);
            }
        }))
    }
}

struct RustDoor(Rc<ToolBox>);

impl RustDoor {
    fn new(peers: &Running, library: &Path) -> Self {
        let module = load(library).unwrap();
        let config = peers.config();
        let tool = module.new_tool()(config.as_str().into(), RNone);
        Self(Rc::new(tool.into_result().expect("a tool")))
    }
}

impl Way for RustDoor {
    fn name(&self) -> &'static str {
        "Rust door"
    }

    fn time<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let (tool, request) = (Rc::clone(&self.0), request());
        Box::pin(time(width, calls, move || {
            let call = tool.execute(request.as_str().into(), RNone, RNone);
            async move { succeeded(call.future.await.as_str()) }
        }))
    }
}

fn succeeded(envelope: &str) {
    assert!(envelope.starts_with(r#"{"ok":true"#), "{envelope}");
}

struct NodeDoor {
    node: PathBuf,
    library: PathBuf,
    config: String,
}

const SCRIPT: &str = r#"
const [library, config, request, width, calls] = process.argv.slice(1);
const loaded = { exports: {} };
process.dlopen(loaded, library);
const { RemoteAgent, CancelToken } = loaded.exports;
const agent = new RemoteAgent(config);
const repeat = async (each) => {
  for (let n = 0; n < each; n++) {
    const envelope = await agent.execute(request, null, new CancelToken(), null);
    if (!envelope.startsWith('{"ok":true')) throw new Error(envelope);
  }
};
const all = (each) => Promise.all(Array.from({ length: Number(width) }, () => repeat(each)));
(async () => {
  await all(Math.max(10, 200 / width));
  const start = process.hrtime.bigint();
  await all(calls / width);
  console.log(Number(process.hrtime.bigint() - start) / 1e9);
  agent.close();
})();
"#;

impl Way for NodeDoor {
    fn name(&self) -> &'static str {
        "Node door"
    }

    fn time<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let output = Command::new(&self.node)
            .args(["-e", SCRIPT])
            .arg(&self.library)
            .args([
                &self.config,
                &request(),
                &width.to_string(),
                &calls.to_string(),
            ])
            .output()
            .unwrap();
        let seconds = String::from_utf8(output.stdout).unwrap().trim().parse();
        let seconds =
            seconds.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        Box::pin(std::future::ready(seconds))
    }
}
