//! The bridge against a gateway that the test controls, with literal JSON and a paused clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod correlation;
mod decisions;
mod ends;
mod frames;
mod handshake;
mod members;
mod tasks;
mod triad;
mod votes;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use url::Url;

use crate::testing::{Arrivals, Connection, DialAnswer, ScriptedNet, TestEnvironment, network};
use crate::{BridgedGateway, DialectChoice, Settings};
use a2a::{Event, Part, Reply, SendRequest, StatusUpdate, Task, TaskState};
use base::log::Recorder;
use collective::ErrorCode;
use egress::NetFault;
use peer::{
    CallOptions, CardLocation, Delivered, EventStream, LocalGateway as _, Peer, PeerConfig,
    PeerError, PeerErrorKind, PeerProvider as _,
};

/// The bridge, and the receiver of its connections.
struct Harness {
    gateway: BridgedGateway,
    net: ScriptedNet,
    arrivals: Arrivals,
    log: Arc<Recorder>,
}

fn settings() -> Settings {
    Settings {
        dialect: DialectChoice::A2aV1,
        ..Settings::new(Url::parse("ws://127.0.0.1:18789").unwrap())
    }
}

fn harness(settings: Settings) -> Harness {
    let (net, arrivals) = network();
    let log = Arc::new(Recorder::default());
    let gateway = BridgedGateway::new(
        Arc::new(net.clone()),
        settings,
        Arc::new(TestEnvironment::new()),
        Arc::clone(&log) as _,
    );
    Harness {
        gateway,
        net,
        arrivals,
        log,
    }
}

impl Harness {
    fn peer(&self, agent: &str) -> Arc<dyn Peer> {
        let base = Url::parse("http://127.0.0.1:18789").unwrap();
        let reach = PeerConfig::new(base, CardLocation::Path(format!("/agents/{agent}")));
        let card = crate::members::card(agent, None, &settings());
        self.gateway
            .open(&reach, &card, &CallOptions::default())
            .unwrap()
            .into()
    }

    /// Starts to send `outgoing` to `agent`.
    fn send(&self, agent: &str, outgoing: SendRequest) -> JoinHandle<Result<Reply, PeerError>> {
        let peer = self.peer(agent);
        tokio::spawn(async move { peer.send(&outgoing).await })
    }

    /// Returns the receiver of new connections.
    fn arrivals(&mut self) -> Arrivals {
        std::mem::replace(&mut self.arrivals, network().1)
    }

    /// Returns the next connection after its handshake.
    async fn connect(&mut self) -> Connection {
        connect(&mut self.arrivals).await
    }

    /// Connects before the first call and returns the connection.
    async fn connect_with_list(&mut self) -> Connection {
        let (members, connection) = tokio::join!(self.gateway.members(), async {
            let mut connection = connect(&mut self.arrivals).await;
            answer_list(
                &mut connection,
                json!([{"name": "alpha", "role": "triad-member", "status": "online"}]),
            )
            .await;
            connection
        });
        members.unwrap();
        connection
    }

    /// Connects for the discovery of alpha, and returns the connection before the first request.
    async fn connect_with_discovery(&mut self) -> Connection {
        let base = Url::parse("http://127.0.0.1:18789").unwrap();
        let alpha = PeerConfig::new(base, CardLocation::Path("/agents/alpha".to_owned()));
        let connection = connect(&mut self.arrivals);
        let (found, connection) = tokio::join!(self.gateway.discover(&alpha, None), connection);
        found.unwrap();
        connection
    }

    /// Sends a message to alpha as a task, and returns its frame and the task.
    async fn start_task(&self, connection: &mut Connection) -> (Value, Task) {
        let sending = self.send("alpha", as_task(text_message("hello")));
        let request = connection.recv().await;
        (request, task(sending.await.unwrap()))
    }

    /// Sends a message that fails.
    async fn refusal(&self, agent: &str, outgoing: SendRequest) -> PeerError {
        self.send(agent, outgoing).await.unwrap().unwrap_err()
    }

    /// Starts to stream a message to `agent`.
    fn stream(
        &self,
        agent: &str,
        text: &str,
    ) -> JoinHandle<Result<Box<dyn EventStream>, PeerError>> {
        let (peer, outgoing) = (self.peer(agent), text_message(text));
        tokio::spawn(async move { peer.stream(&outgoing).await })
    }

    /// Returns the present state of a task.
    async fn stored(&self, agent: &str, task: &Task) -> Task {
        let id = task.id().unwrap();
        self.peer(agent).get_task(id, None).await.unwrap()
    }

    async fn follow(&self, agent: &str, task: &Task) -> Box<dyn EventStream> {
        let id = task.id().unwrap();
        self.peer(agent).resubscribe(id).await.unwrap()
    }

    /// Lets the next `count` attempts to connect fail.
    fn fail_dials(&self, count: usize) {
        let away = DialAnswer::Fails(NetFault::Unreachable);
        self.net.queue_answers(std::iter::repeat_n(away, count));
    }

    #[track_caller]
    fn assert_warned(&self, text: &str) {
        let warnings = self.warnings();
        assert!(warnings[0].contains(text), "{warnings:?}");
    }

    fn warnings(&self) -> Vec<String> {
        let lines = self.log.0.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.starts_with("warn: "))
            .cloned()
            .collect()
    }
}

fn acknowledge() -> Value {
    json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "client-1",
        "availableAgents": ["steward", "alpha", "beta", "charlie"], "protocolVersion": "1.0.0"}})
}

async fn connect(arrivals: &mut Arrivals) -> Connection {
    let mut connection = arrivals.next().await;
    assert_eq!(connection.recv().await["type"], "handshake");
    connection.send(acknowledge()).await;
    assert_eq!(connection.recv().await["type"], "subscribe");
    connection
}

/// Returns a gateway that has sent its list of agents.
async fn listed() -> (Harness, Connection) {
    let mut harness = harness(settings());
    let connection = harness.connect_with_list().await;
    (harness, connection)
}

/// Asserts that no frame arrives for a while.
async fn assert_silent(connection: &mut Connection) {
    let more = tokio::time::timeout(Duration::from_secs(20), connection.recv()).await;
    assert!(more.is_err(), "{more:?}");
}

/// Sends a message to alpha, and returns the gateway, the frame it received, and the outcome.
async fn sent(
    outgoing: SendRequest,
) -> (
    Harness,
    Connection,
    Value,
    JoinHandle<Result<Reply, PeerError>>,
) {
    let mut harness = harness(settings());
    let sending = harness.send("alpha", outgoing);
    let mut connection = harness.connect().await;
    let request = connection.recv().await;
    (harness, connection, request, sending)
}

async fn answer_list(connection: &mut Connection, agents: Value) {
    let request = connection.recv().await;
    connection.send(list_reply(&request, agents)).await;
}

async fn disconnect(connection: &mut Connection, reason: &str) {
    let content = json!({"reason": reason});
    connection
        .send(json!({"type": "disconnect", "content": content}))
        .await;
}

/// Returns the response to a request for the list of agents.
fn list_reply(request: &Value, agents: Value) -> Value {
    assert_eq!(
        (&request["type"], &request["content"]["action"]),
        (&json!("discovery"), &json!("list"))
    );
    json!({"type": "discovery", "content": {"agents": agents}})
}

fn text_message(text: &str) -> SendRequest {
    SendRequest {
        message_id: "m-1".into(),
        parts: vec![Part::text(text.into())],
        blocking: true,
        ..SendRequest::default()
    }
}

/// Returns the message as a non-blocking one, whose result is a task.
fn as_task(outgoing: SendRequest) -> SendRequest {
    SendRequest {
        blocking: false,
        ..outgoing
    }
}

fn with_metadata(outgoing: SendRequest, metadata: Value) -> SendRequest {
    let Value::Object(metadata) = metadata else {
        panic!("an object")
    };
    SendRequest {
        metadata: Some(metadata),
        ..outgoing
    }
}

/// Returns an agent's reply to `request`.
fn reply(request: &Value, from: &str, text: &str) -> Value {
    json!({"type": "message", "from": from, "agent": "client-1",
        "content": {"role": "agent", "content": text},
        "metadata": {"correlationId": request["metadata"]["correlationId"]}})
}

fn error(request: &Value, code: ErrorCode, message: &str) -> Value {
    json!({"type": "error", "from": "gateway",
        "content": {"error": code.name(), "message": message, "code": code.number()},
        "metadata": {"correlationId": request["metadata"]["correlationId"], "parentId": request["id"]}})
}

fn busy(request: &Value) -> Value {
    error(request, ErrorCode::AgentBusy, "later")
}

fn fault(code: ErrorCode) -> PeerErrorKind {
    PeerErrorKind::Gateway(code)
}

#[track_caller]
fn assert_fault(error: &PeerError, code: ErrorCode, delivered: Delivered) {
    assert_eq!((error.kind, error.delivered), (fault(code), delivered));
}

fn reply_text(reply: Result<Reply, PeerError>) -> String {
    match reply.unwrap() {
        Reply::Message(message) => message.text().unwrap_or_default().into_owned(),
        Reply::Task(task) => panic!("a task: {}", task.json()),
    }
}

fn task(reply: Result<Reply, PeerError>) -> Task {
    match reply.unwrap() {
        Reply::Task(task) => task,
        Reply::Message(message) => panic!("a message: {}", message.json()),
    }
}

async fn event(stream: &mut Box<dyn EventStream>) -> Event {
    match stream.next().await {
        Some(Ok((event, _))) => event,
        end => panic!("{end:?}"),
    }
}

async fn status_event(stream: &mut Box<dyn EventStream>) -> StatusUpdate {
    match event(stream).await {
        Event::Status(update) => update,
        other => panic!("{other:?}"),
    }
}

async fn task_event(stream: &mut Box<dyn EventStream>) -> Task {
    match event(stream).await {
        Event::Task(task) => task,
        other => panic!("{other:?}"),
    }
}

fn artifact_text(task: &Task) -> String {
    let artifact = task.artifacts().next().expect("an artifact");
    artifact.text().unwrap_or_default().into_owned()
}

/// Waits until all sent frames have arrived.
async fn wait_until_idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
