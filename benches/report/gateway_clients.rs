//! Agents that reply or vote, and senders, in their own process.

use std::{
    collections::HashSet,
    io::BufRead as _,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use base::environment::unix_millis;
use base::jws::SigningKey;
use base::log::Silent;
use collective::{Envelope, signature};
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use openclaw_remote_agent::plugin::assemble;
use openclaw_remote_agent::remote_agent::{PollIntervals, ToolCall};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};
use tokio_util::{either::Either, sync::CancellationToken};

type Socket = WebSocketStream<Either<TcpStream, TlsStream<TcpStream>>>;

pub(crate) const ROLE: &str = "--gateway-clients";

/// Handles commands until standard input ends.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let response = if command["votes"].is_null() {
            runtime.block_on(measure_messages(&command))
        } else {
            runtime.block_on(measure_votes(&command))
        };
        println!("{response}");
    }
}

fn quantiles(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let percentile = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    json!({"p50": percentile(50), "p99": percentile(99), "count": times.len()})
}

/// Returns the key of all senders, from RFC 8037 appendix A.1.
pub(crate) fn signing_key() -> SigningKey {
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    SigningKey::parse(pem.as_bytes()).unwrap()
}

/// The number of agents with which each sender has a conversation.
const CONVERSATIONS: usize = 64;

/// Connects agents that reply, begins the conversations, and sends messages in them for the requested time.
async fn measure_messages(command: &Value) -> Value {
    let count_field = |name: &str| usize::try_from(command[name].as_u64().unwrap()).unwrap();
    let address = parse_address(&command["address"]);
    let link = &command["link"];
    let routed = command["routed"].as_bool().unwrap();
    let duration = Duration::from_secs_f64(command["seconds"].as_f64().unwrap());
    let mut agents = JoinSet::new();
    let tls = link["certificates"]
        .as_str()
        .map(|folder| tls_connector(folder.as_ref()));
    for n in 0..count_field("agents") {
        let mut socket = match &tls {
            Some(tls) => connect(parse_address(&link["address"]), Some(tls)).await,
            None => connect(address, None).await,
        };
        if routed {
            advertise_agent(&mut socket, &format!("agent-{n}")).await;
        }
        agents.spawn(answer_messages(socket));
    }
    let mut suffix = String::new();
    if let Some(name) = link["name"].as_str() {
        suffix = format!("@{name}");
        wait_for_agents(address, count_field("agents")).await;
    }
    let mut connected = JoinSet::new();
    for n in 0..count_field("senders") {
        let mut socket = connect(address, None).await;
        let key = (command["signed"] == true).then(signing_key);
        if key.is_some() {
            advertise_agent(&mut socket, &format!("sender-{n}")).await;
        }
        let mut sender = Sender {
            name: n,
            key,
            routed,
            agents: count_field("agents"),
            suffix: suffix.clone(),
            reply: "x".repeat(200),
            sent: Vec::new(),
        };
        connected.spawn(async move {
            let (mut sink, mut stream) = socket.split();
            let mut first = Vec::new();
            for _ in 0..CONVERSATIONS {
                sender.send(&mut sink).await;
                first.push(sender.receive(&mut stream).await);
            }
            (sender, sink, stream, first)
        });
    }
    let mut senders = JoinSet::new();
    let connected = connected.join_all().await;
    let started = Instant::now();
    let mut first = Vec::new();
    for (sender, sink, stream, times) in connected {
        first.extend(times);
        senders.spawn(sender.run(sink, stream, count_field("in_flight"), duration));
    }
    let times = senders.join_all().await.concat();
    let mut response = quantiles(times);
    response["first"] = quantiles(first);
    response["seconds"] = started.elapsed().as_secs_f64().into();
    response
}

fn parse_address(address: &Value) -> SocketAddr {
    address.as_str().unwrap().parse().unwrap()
}

/// Waits until the link of a gateway has offered it this number of agents.
async fn wait_for_agents(address: SocketAddr, count: usize) {
    let mut socket = connect(address, None).await;
    let subscribe = json!({"type": "subscribe", "content": {"channel": "agent:status"}});
    socket.send(text_frame(&subscribe)).await.unwrap();
    let mut online = HashSet::new();
    while online.len() < count {
        let Message::Text(frame) = socket.next().await.unwrap().unwrap() else {
            continue;
        };
        let message: Value = serde_json::from_str(&frame).unwrap();
        assert_ne!(message["type"], "error", "{message}");
        if message["content"]["status"] == "online" {
            online.insert(message["content"]["agent"].to_string());
        }
    }
}

/// Advertises an agent and waits for the acknowledgement of the gateway.
async fn advertise_agent(socket: &mut Socket, name: &str) {
    let types = ["message", "proposal", "vote"];
    let capabilities =
        json!({"supportedMessageTypes": types, "supportedAgents": [name], "version": "1.0.0"});
    let content = json!({"action": "advertise", "capabilities": capabilities});
    let advertise = json!({"type": "handshake", "content": content});
    socket.send(text_frame(&advertise)).await.unwrap();
    let Message::Text(frame) = socket.next().await.unwrap().unwrap() else {
        panic!("the gateway answers in text");
    };
    let response: Value = serde_json::from_str(&frame).unwrap();
    assert_ne!(response["type"], "error", "{response}");
}

/// Sends proposals with the tool, one after another, to a triad that approves at once.
async fn measure_votes(command: &Value) -> Value {
    let address = command["address"].as_str().unwrap();
    let mut members = JoinSet::new();
    for name in ["alpha", "beta", "charlie"] {
        let mut socket = connect(address.parse().unwrap(), None).await;
        advertise_agent(&mut socket, name).await;
        members.spawn(vote_on_proposals(socket));
    }
    let gateway = json!({"enabled": true, "url": format!("ws://{address}"), "dialect": "a2a-v1"});
    let config = json!({"gateway": gateway}).to_string();
    let tool = assemble(&config, PollIntervals::default(), Arc::new(Silent)).unwrap();
    let request = json!({
        "action": "send", "target_alias": "gateway:triad", "follow_updates": true,
        "parts": [{"kind": "text", "text": "Ship it"}],
    });
    let request = request.to_string();
    let mut times = Vec::new();
    // The first call opens the connection.
    for _ in 0..=command["votes"].as_u64().unwrap() {
        let start = Instant::now();
        let call = ToolCall {
            request: &request,
            caller: None,
            updates: None,
            person: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        };
        let envelope = tool.execute(call).await;
        assert!(envelope.contains("approved"), "{envelope}");
        times.push(start.elapsed());
    }
    quantiles(times.split_off(1))
}

/// A member of the triad that approves at once.
async fn vote_on_proposals(mut socket: Socket) {
    while let Some(Ok(frame)) = socket.next().await {
        let Message::Text(frame) = frame else {
            continue;
        };
        let request: Value = serde_json::from_str(&frame).unwrap();
        if request["type"] != "proposal" {
            continue;
        }
        let id = &request["metadata"]["correlationId"];
        let content = json!({"proposalId": id, "vote": "approve"});
        let vote = json!({"type": "vote", "content": content, "metadata": {"correlationId": id}});
        if socket.send(text_frame(&vote)).await.is_err() {
            return;
        }
    }
}

/// Returns a connector with the certificate of the agents, from a folder with that of the authority.
fn tls_connector(folder: &Path) -> TlsConnector {
    let file = |name: &str| folder.join(name);
    let read = |name: &str| CertificateDer::from_pem_file(file(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(read("ca.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("agents.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![read("agents.pem")], key);
    TlsConnector::from(Arc::new(config.unwrap()))
}

async fn connect(address: SocketAddr, tls: Option<&TlsConnector>) -> Socket {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut stream = match tls {
        None => Either::Left(stream),
        Some(tls) => {
            let secured = tls.connect(address.ip().into(), stream).await;
            Either::Right(secured.unwrap())
        }
    };
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    let config = WebSocketConfig::default().read_buffer_size(4096);
    WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await
}

fn text_frame(message: &Value) -> Message {
    Message::Text(message.to_string().into())
}

/// An agent that answers at once.
async fn answer_messages(mut socket: Socket) {
    while let Some(Ok(frame)) = socket.next().await {
        let Message::Text(frame) = frame else {
            continue;
        };
        let request: Value = serde_json::from_str(&frame).unwrap();
        if request["type"] != "message" {
            continue;
        }
        let reply = json!({
            "type": "message",
            "id": request["id"],
            "agent": request["from"],
            "content": {"role": "agent", "content": request["content"]["content"]},
            "metadata": {"correlationId": request["metadata"]["correlationId"]},
        });
        if socket.send(text_frame(&reply)).await.is_err() {
            return;
        }
    }
}

struct Sender {
    name: usize,
    /// Signs the messages.
    key: Option<SigningKey>,
    routed: bool,
    agents: usize,
    /// The part of the agents' names that names their link.
    suffix: String,
    reply: String,
    /// The send time of each message, by its number.
    sent: Vec<Instant>,
}

impl Sender {
    async fn run(
        mut self,
        mut sink: SplitSink<Socket, Message>,
        mut stream: SplitStream<Socket>,
        in_flight: usize,
        duration: Duration,
    ) -> Vec<Duration> {
        let earlier = self.sent.len();
        let end = Instant::now() + duration;
        let mut times = Vec::new();
        for _ in 0..in_flight {
            self.send(&mut sink).await;
        }
        while times.len() < self.sent.len() - earlier {
            times.push(self.receive(&mut stream).await);
            if Instant::now() < end {
                self.send(&mut sink).await;
            }
        }
        times
    }

    async fn send(&mut self, sink: &mut SplitSink<Socket, Message>) {
        let number = self.sent.len();
        // The step is coprime to the number of agents, so that every agent takes part.
        let agent = (self.name * 31 + number % CONVERSATIONS * 7) % self.agents;
        let mut message = json!({
            "type": "message",
            "id": format!("msg-{}-{number}", self.name),
            "agent": format!("agent-{agent}{}", self.suffix),
            "sessionId": format!("sess-{}", self.name),
            "content": {"role": "user", "content": self.reply},
            "timestamp": 1_711_843_200_000_u64,
            "metadata": {"correlationId": number.to_string(), "requiresResponse": true},
        });
        self.sent.push(Instant::now());
        if let Some(key) = &self.key {
            message["from"] = format!("sender-{}", self.name).into();
            message["timestamp"] = unix_millis(SystemTime::now()).into();
            let envelope = Envelope::from_value(message).unwrap();
            message = signature::sign(envelope, key).unwrap().into_json();
        }
        sink.send(text_frame(&message)).await.unwrap();
    }

    async fn receive(&self, stream: &mut SplitStream<Socket>) -> Duration {
        loop {
            let Message::Text(frame) = stream.next().await.unwrap().unwrap() else {
                continue;
            };
            let response: Value = serde_json::from_str(&frame).unwrap();
            if response["type"] == "ping" {
                continue;
            }
            assert_eq!(response["type"], "message", "{response}");
            assert!(!self.routed || response["content"]["role"] == "agent");
            let number: usize = response["metadata"]["correlationId"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            return self.sent[number].elapsed();
        }
    }
}
