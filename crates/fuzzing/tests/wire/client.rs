//! The tool at a peer whose HTTP messages have a fault, or that resets the connection within a request.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::environment::SystemEnvironment;
use base::log::Silent;
use egress::ReqwestClient;
use openclaw_remote_agent::config::Config;
use openclaw_remote_agent::plugin::assemble_with_network;
use openclaw_remote_agent::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use openclaw_remote_agent_fuzzing::check_schema;
use serde_json::{Value, json};
use testkit::http::{Connection, Server, response};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{FAULTS, Fault, places, with_changed_bit};

// Each has one address, by which a case is recognised.
static REPLY: &[u8] = include_bytes!("../../../../tests/cuts/recordings/v1_0-json-rpc/reply.http");
static STREAM: &[u8] =
    include_bytes!("../../../../tests/cuts/recordings/v1_0-json-rpc/stream.http");

/// How long a call waits for a peer that says no more.
const TIMEOUT: Duration = Duration::from_millis(600);

/// How much later than its deadline a call may return on a busy machine.
const GRACE: Duration = Duration::from_secs(20);

const TOKEN: &str = "s3cret-4f1b9c77";

/// The next exchange.
#[derive(Debug, Clone, Copy)]
enum Case {
    Answer(&'static [u8], usize, Fault),
    /// The peer resets the connection after so many bytes of the request.
    Request(usize),
}

struct Peer {
    case: Mutex<Case>,
    /// The connections since the case began.
    connections: Mutex<usize>,
    /// The length of the last whole request with a message, in bytes.
    length: Mutex<usize>,
}

impl Peer {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> std::io::Result<()> {
        let case = *self.case.lock().unwrap();
        let is_message = {
            // The card is fetched once, on a connection of its own.
            let mut first = [0; 4];
            stream.peek(&mut first).await?;
            first[0] == b'P'
        };
        *self.connections.lock().unwrap() += usize::from(is_message);
        if let (true, Case::Request(at)) = (is_message, case) {
            stream.read_exact(&mut vec![0; at]).await?;
            return stream.set_zero_linger();
        }
        let origin = format!("http://{}", stream.local_addr()?);
        let mut connection = Connection::new(stream);
        let Some(request) = connection.next().await? else {
            return Ok(());
        };
        if !is_message {
            let card = card(&origin).to_string();
            let card = response("200 OK", "application/json", "connection: close\r\n", &card);
            return connection.write(card).await;
        }
        let method = request.json()["method"].to_string();
        let Case::Answer(answer, at, fault) = case else {
            return Ok(());
        };
        if !method.contains("Send") {
            return connection.stream.set_zero_linger();
        }
        *self.length.lock().unwrap() = request.text().len();
        match fault {
            Fault::Corrupt => return connection.write(with_changed_bit(answer, at)).await,
            _ => connection.write(&answer[..at]).await?,
        }
        match fault {
            Fault::Reset => connection.stream.set_zero_linger(),
            Fault::Stall => connection.drain().await,
            _ => Ok(()),
        }
    }
}

fn card(origin: &str) -> Value {
    json!({
        "name": "Desk", "description": "Writes reports.", "version": "1.0.0", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
        "supportedInterfaces": [{"url": format!("{origin}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    })
}

/// A peer with an instance that calls it.
struct Pair {
    peer: Arc<Peer>,
    agent: RemoteAgent,
    _server: Server,
}

impl Pair {
    async fn start() -> Self {
        let peer = Arc::new(Peer {
            case: Mutex::new(Case::Answer(REPLY, REPLY.len(), Fault::Cut)),
            connections: Mutex::default(),
            length: Mutex::default(),
        });
        let serving = Arc::clone(&peer);
        let server = Server::start(move |stream, _| Arc::clone(&serving).serve(stream)).await;
        let config = json!({"targets": [{
            "alias": "desk", "baseUrl": server.url("/"), "allowPrivateNetwork": true,
            "auth": {"type": "bearer", "token": TOKEN},
        }], "breaker": {"enabled": false}});
        let config = Config::parse(&config.to_string()).unwrap();
        let net = Arc::new(ReqwestClient::new().unwrap());
        let (env, log) = (Arc::new(SystemEnvironment), Arc::new(Silent));
        let agent =
            assemble_with_network(&config, net, env, PollIntervals::default(), log).unwrap();
        Self {
            peer,
            agent,
            _server: server,
        }
    }

    /// Sends a message in a case, and checks the envelope.
    async fn call(&self, case: Case) -> Value {
        *self.peer.case.lock().unwrap() = case;
        *self.peer.connections.lock().unwrap() = 0;
        let follows = matches!(case, Case::Answer(answer, ..) if std::ptr::eq(answer, STREAM));
        let is_silent = matches!(case, Case::Answer(.., Fault::Stall | Fault::Corrupt));
        let wait = if is_silent { TIMEOUT } else { GRACE };
        let millis = u64::try_from(wait.as_millis()).unwrap();
        let request = json!({
            "action": "send", "target_alias": "desk", "parts": [{"kind": "text", "text": "Write."}],
            "follow_updates": follows, "timeout_ms": millis,
        });
        let (request, began) = (request.to_string(), Instant::now());
        let envelope = self.agent.execute(ToolCall {
            request: &request,
            caller: None,
            updates: None,
            person: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        });
        let envelope = envelope.await;
        check_schema(&envelope).unwrap();
        assert!(!envelope.contains(TOKEN), "a secret: {envelope}");
        assert!(began.elapsed() < wait + GRACE, "{case:?} takes too long");
        serde_json::from_str(&envelope).unwrap()
    }

    /// A message whose connection breaks is neither repeated nor called undelivered.
    async fn check(&self, case: Case) {
        let envelope = self.call(case).await;
        let sends = *self.peer.connections.lock().unwrap();
        let follows_up = matches!(case, Case::Answer(answer, ..) if std::ptr::eq(answer, STREAM));
        assert!(follows_up || sends <= 1, "{case:?}: {sends} requests");
        let delivered = &envelope["error"]["details"]["delivered"];
        assert!(sends == 0 || *delivered != "no", "{case:?}: {envelope}");
        if !matches!(case, Case::Answer(_, _, Fault::Corrupt)) {
            let is_over = envelope["ok"] == true && envelope["summary"]["incomplete"] != true;
            assert!(!is_over || follows_up, "{case:?}: {envelope}");
        }
    }
}

/// Makes the calls of all cases, several at a time.
fn run(cases: Vec<Case>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let cases = Arc::new(Mutex::new(cases));
        let lanes = (0..16).map(|_| {
            let cases = Arc::clone(&cases);
            tokio::spawn(async move {
                let pair = Pair::start().await;
                let whole = Case::Answer(REPLY, REPLY.len(), Fault::Cut);
                let envelope = pair.call(whole).await;
                assert_eq!(envelope["ok"], true, "{envelope}");
                loop {
                    let next = cases.lock().unwrap().pop();
                    let Some(case) = next else { return };
                    pair.check(case).await;
                }
            })
        });
        for lane in lanes.collect::<Vec<_>>() {
            lane.await.unwrap();
        }
    });
}

#[test]
fn broken_answers_at_each_byte_give_one_envelope() {
    let messages = [REPLY, STREAM];
    let cases = messages.into_iter().flat_map(|message| {
        let at = places(message, crate::step("wire"));
        at.flat_map(move |at| FAULTS.map(|fault| Case::Answer(message, at, fault)))
    });
    run(cases.collect());
}

#[test]
fn resets_at_each_byte_of_a_request_repeat_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let length = runtime.block_on(async {
        let pair = Pair::start().await;
        pair.call(Case::Answer(REPLY, REPLY.len(), Fault::Cut))
            .await;
        *pair.peer.length.lock().unwrap()
    });
    assert!(length > 100, "{length}");
    run((0..length)
        .step_by(crate::step("wire").min(11))
        .map(Case::Request)
        .collect());
}
