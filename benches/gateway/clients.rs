//! Who makes the load: agents that answer, and senders that ask them.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};

type Socket = WebSocketStream<TcpStream>;

/// What is to be done.
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// Whether messages go to agents, which reply. Otherwise each sender gets its own message back.
    pub(crate) routed: bool,
    pub(crate) agents: usize,
    pub(crate) senders: usize,
    /// So many messages of each sender are under way.
    pub(crate) in_flight: usize,
    /// The bytes of what is said.
    pub(crate) size: usize,
    pub(crate) took: Duration,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) at_rest: u64,
    pub(crate) loaded: u64,
    pub(crate) after: u64,
}

pub(crate) async fn run(load: &Load, memory: impl Fn() -> u64) -> Measured {
    let mut agents = JoinSet::new();
    for n in 0..load.agents {
        let mut socket = connect(load.address).await;
        if load.routed {
            let capabilities =
                json!({"supportedAgents": [format!("agent-{n}")], "version": "1.0.0"});
            let advertise = json!({"type": "handshake", "content": {"action": "advertise", "capabilities": capabilities}});
            socket.send(text(&advertise)).await.unwrap();
            socket.next().await.unwrap().unwrap();
        }
        agents.spawn(answer(socket));
    }
    let at_rest = memory();
    let mut senders = JoinSet::new();
    let began = Instant::now();
    for n in 0..load.senders {
        let socket = connect(load.address).await;
        let sender = Sender {
            name: n,
            routed: load.routed,
            agents: load.agents,
            said: "x".repeat(load.size),
            sent: Vec::new(),
        };
        senders.spawn(sender.run(socket, load.in_flight, load.took));
    }
    tokio::time::sleep(load.took / 2).await;
    let loaded = memory();
    let mut times = Vec::new();
    while let Some(done) = senders.join_next().await {
        times.extend(done.unwrap());
    }
    let seconds = began.elapsed().as_secs_f64();
    agents.abort_all();
    while agents.join_next().await.is_some() {}
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = memory();
    times.sort_unstable();
    // An exchange with an agent is two messages.
    let messages = times.len() * if load.routed { 2 } else { 1 };
    Measured {
        per_second: messages as f64 / seconds,
        p50: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
        at_rest,
        loaded,
        after,
    }
}

async fn connect(address: SocketAddr) -> Socket {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
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

fn text(message: &Value) -> Message {
    Message::Text(message.to_string().into())
}

/// An agent that answers at once.
async fn answer(mut socket: Socket) {
    while let Some(Ok(frame)) = socket.next().await {
        let Message::Text(frame) = frame else {
            continue;
        };
        let asked: Value = serde_json::from_str(&frame).unwrap();
        if asked["type"] != "message" {
            continue;
        }
        let said = json!({
            "type": "message",
            "id": asked["id"],
            "agent": asked["from"],
            "content": {"role": "agent", "content": asked["content"]["content"]},
            "metadata": {"correlationId": asked["metadata"]["correlationId"]},
        });
        if socket.send(text(&said)).await.is_err() {
            return;
        }
    }
}

struct Sender {
    name: usize,
    routed: bool,
    agents: usize,
    said: String,
    /// When each message left, by its number.
    sent: Vec<Instant>,
}

impl Sender {
    async fn run(mut self, socket: Socket, in_flight: usize, took: Duration) -> Vec<Duration> {
        let (mut sink, mut stream) = socket.split();
        let end = Instant::now() + took;
        let mut times = Vec::new();
        for _ in 0..in_flight {
            self.send(&mut sink).await;
        }
        while times.len() < self.sent.len() {
            times.push(self.receive(&mut stream).await);
            if Instant::now() < end {
                self.send(&mut sink).await;
            }
        }
        times
    }

    async fn send(&mut self, sink: &mut SplitSink<Socket, Message>) {
        let number = self.sent.len();
        // A step that is no factor, so that every agent has its turn.
        let agent = (self.name * 31 + number * 7) % self.agents;
        let message = json!({
            "type": "message",
            "id": format!("msg-{}-{number}", self.name),
            "agent": format!("agent-{agent}"),
            "sessionId": format!("sess-{}", self.name),
            "content": {"role": "user", "content": self.said},
            "timestamp": 1_711_843_200_000_u64,
            "metadata": {"correlationId": number.to_string(), "requiresResponse": true},
        });
        self.sent.push(Instant::now());
        sink.send(text(&message)).await.unwrap();
    }

    async fn receive(&self, stream: &mut SplitStream<Socket>) -> Duration {
        loop {
            let Message::Text(frame) = stream.next().await.unwrap().unwrap() else {
                continue;
            };
            let answer: Value = serde_json::from_str(&frame).unwrap();
            if answer["type"] == "ping" {
                continue;
            }
            assert_eq!(answer["type"], "message", "{answer}");
            assert!(!self.routed || answer["content"]["role"] == "agent");
            let number: usize = answer["metadata"]["correlationId"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            return self.sent[number].elapsed();
        }
    }
}
