//! One message and its answer, one at a time and 64 at a time: bare reqwest, the tool in process, and through each door.

use std::{
    future::Future, path::PathBuf, pin::Pin, process::Command, rc::Rc, sync::Arc, time::Instant,
};

use bytes::Bytes;
use openclaw_remote_agent::{
    log::Silent,
    plugin::assemble,
    remote_agent::{Call, RemoteAgent},
};
use openclaw_remote_agent_interface::{RNone, ToolBox, load};
use serde_json::json;
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use crate::{ROUNDS, library, median, node, peer::Peer, table::Table};

const WIDTHS: [(usize, usize); 2] = [(1, 1_500), (64, 12_800)];

/// A way to make the round trip.
trait Way {
    fn name(&self) -> &'static str;
    /// Makes `calls` calls, `width` of them at any time, and returns how many a second.
    fn rate<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>>;
}

pub(crate) fn measure(table: &mut Table, peer: &Peer) {
    // The host of each way but Node's: one thread, as a small host would have it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut ways: Vec<Box<dyn Way>> = vec![
        Box::new(Bare::new(peer)),
        Box::new(InProcess::new(peer)),
        Box::new(RustDoor::new(peer)),
    ];
    match node::install("node", &[]) {
        Some(installed) => ways.push(Box::new(NodeDoor {
            node: installed.node(),
            config: peer.config(),
        })),
        None => table.row("Node door", "not measured".to_owned(), String::new()),
    }
    LocalSet::new().block_on(&runtime, async {
        for (width, calls) in WIDTHS {
            let mut rates = vec![Vec::new(); ways.len()];
            for _ in 0..ROUNDS {
                for (way, rates) in ways.iter().zip(&mut rates) {
                    rates.push(way.rate(width, calls).await);
                }
            }
            let floor = rates[0].clone();
            for (way, rates) in ways.iter().zip(rates) {
                let share = median(
                    rates
                        .iter()
                        .zip(&floor)
                        .map(|(rate, floor)| rate / floor)
                        .collect(),
                );
                let name = format!("send, {width} in flight: {}", way.name());
                table.row(
                    name,
                    format!("{:.0}/s", median(rates)),
                    format!("{share:.2} of the floor"),
                );
            }
        }
    });
}

fn request() -> String {
    json!({"action": "send", "parts": [{"kind": "text", "text": "Good morning"}]}).to_string()
}

/// Runs `call` over and over, a few calls first that do not count.
async fn rate<F: Future<Output = ()> + 'static>(
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
    calls as f64 / start.elapsed().as_secs_f64()
}

/// What the tool would send, sent by reqwest and read to the end: no HTTP client does less.
struct Bare {
    client: reqwest::Client,
    url: String,
    body: Bytes,
}

impl Bare {
    fn new(peer: &Peer) -> Self {
        let message = json!({
            "kind": "message", "messageId": "00000000-0000-4000-8000-000000000000", "role": "user",
            "parts": [{"kind": "text", "text": "Good morning"}],
        });
        let params = json!({"message": message, "configuration": {"blocking": true, "acceptedOutputModes": []}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params});
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .build()
            .unwrap();
        Self {
            client,
            url: peer.rpc(),
            body: body.to_string().into(),
        }
    }
}

impl Way for Bare {
    fn name(&self) -> &'static str {
        "bare reqwest"
    }

    fn rate<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let (client, url, body) = (self.client.clone(), self.url.clone(), self.body.clone());
        Box::pin(rate(width, calls, move || {
            let request = client
                .post(&url)
                .header("content-type", "application/json")
                .body(body.clone());
            async move {
                let answer = request.send().await.unwrap().bytes().await.unwrap();
                assert!(answer.len() > 50);
            }
        }))
    }
}

struct InProcess(Rc<RemoteAgent>);

impl InProcess {
    fn new(peer: &Peer) -> Self {
        Self(Rc::new(assemble(&peer.config(), Arc::new(Silent)).unwrap()))
    }
}

impl Way for InProcess {
    fn name(&self) -> &'static str {
        "in process"
    }

    fn rate<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let agent = Rc::clone(&self.0);
        Box::pin(rate(width, calls, move || {
            let agent = Rc::clone(&agent);
            async move {
                let request = request();
                let call = Call {
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
    fn new(peer: &Peer) -> Self {
        let module = load(library()).unwrap();
        let config = peer.config();
        let tool = module.new_tool()(config.as_str().into(), RNone);
        Self(Rc::new(tool.into_result().expect("a tool")))
    }
}

impl Way for RustDoor {
    fn name(&self) -> &'static str {
        "Rust door"
    }

    fn rate<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let tool = Rc::clone(&self.0);
        Box::pin(rate(width, calls, move || {
            let call = tool.execute(request().into(), RNone, RNone);
            async move { succeeded(call.future.await.as_str()) }
        }))
    }
}

fn succeeded(envelope: &str) {
    assert!(envelope.starts_with(r#"{"ok":true"#), "{envelope}");
}

struct NodeDoor {
    node: PathBuf,
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
  await all(Math.max(10, 500 / width));
  const start = process.hrtime.bigint();
  await all(calls / width);
  console.log(calls / (Number(process.hrtime.bigint() - start) / 1e9));
  agent.close();
})();
"#;

impl Way for NodeDoor {
    fn name(&self) -> &'static str {
        "Node door"
    }

    fn rate<'a>(&'a self, width: usize, calls: usize) -> Pin<Box<dyn Future<Output = f64> + 'a>> {
        let output = Command::new(&self.node)
            .args(["-e", SCRIPT])
            .arg(library())
            .args([
                &self.config,
                &request(),
                &width.to_string(),
                &calls.to_string(),
            ])
            .output()
            .unwrap();
        let rate = String::from_utf8(output.stdout).unwrap().trim().parse();
        let rate = rate.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        Box::pin(std::future::ready(rate))
    }
}
