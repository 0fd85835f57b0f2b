//! A scripted peer without a network.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use a2a::{Card, CardView, Event, Interface, Part, Reply, SendRequest, Task, Transport};
use base::environment::SystemEnvironment;
use base::log::Silent;
use base::redact::Secrets;
use egress::NetFault;
use peer::{
    CallOptions, CardEtag, Discovered, EventStream, NegotiatedProtocol, NextEvent, Peer,
    PeerConfig, PeerError, PeerErrorKind, PeerProvider,
};

/// The credential of each call.
pub(super) const TOKEN: &str = "s3cret-one";

/// The end of a connection after its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Close,
    Cut,
    /// A plain answer: no stream at all.
    Answer,
    Hang,
    /// Reports the working task endlessly, without a pause.
    Flood,
    /// Sends an event of an unknown kind every 10 s.
    Unknown,
    /// Sends events of an unknown kind endlessly, without a pause.
    UnknownFlood,
    /// Sends these events after the first poll, and hangs.
    Later(&'static [&'static str]),
}

/// The answer to a subscription.
#[derive(Debug, Clone)]
pub(super) enum SubscribeReply {
    Events(Vec<Value>, StreamEnd),
    Refused(PeerErrorKind),
    /// Never answers.
    Never,
}

/// The answer to a poll.
#[derive(Debug, Clone)]
pub(super) enum PollReply {
    Task(Value),
    Refused(PeerErrorKind),
    /// An HTTP status.
    Status(u16),
    /// Never answers.
    Never,
}

/// The peer's behaviour, call by call. It repeats the last answer to a poll.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub streaming: Option<bool>,
    pub answer: Option<Value>,
    /// The answers to further messages. The last is repeated; a string is a failed connection, and null never comes.
    pub further: Vec<Value>,
    pub subscriptions: Vec<SubscribeReply>,
    pub polls: Vec<PollReply>,
    /// Further settings of the target; `limits` and `breaker` are those of the tool.
    pub target: Value,
}

/// The tool with a scripted peer.
pub(super) struct Fixture {
    pub agent: RemoteAgent,
    pub peer: Arc<Scripted>,
}

pub(super) struct Scripted {
    answers: Mutex<VecDeque<Value>>,
    echoes: AtomicBool,
    /// The messages that the peer received.
    pub sent: Mutex<Vec<SendRequest>>,
    subscriptions: Mutex<VecDeque<SubscribeReply>>,
    polls: Mutex<VecDeque<PollReply>>,
    calls: Mutex<Vec<&'static str>>,
    /// Whether the last call wanted the order of the fields of forms.
    pub wants_order: AtomicBool,
    /// Cancelled by the first message that the peer answers with a stream.
    pub opened: CancellationToken,
    /// Cancelled by the first resubscription.
    pub resubscribed: CancellationToken,
    /// Cancelled by the first poll.
    pub polled: CancellationToken,
}

impl Scripted {
    /// Drops the next answer.
    pub(super) fn skip_answer(&self) {
        self.answers.lock().unwrap().pop_front();
    }

    /// Lets the agent answer the second message with a completed task that repeats all messages.
    pub(super) fn echo(&self) {
        self.echoes.store(true, Ordering::Relaxed);
    }
}

/// Almost no pauses.
pub(super) fn quick() -> PollIntervals {
    PollIntervals {
        first_poll: Duration::from_micros(1),
        longest_poll: Duration::from_micros(1),
        idle: Duration::from_secs(60),
        final_wait: Duration::from_millis(1),
    }
}

impl Fixture {
    pub(super) fn new(script: Script) -> Self {
        Self::at(quick(), script)
    }

    pub(super) fn at(poll_intervals: PollIntervals, script: Script) -> Self {
        let peer = Arc::new(Scripted {
            answers: Mutex::new(script.answer.into_iter().chain(script.further).collect()),
            echoes: AtomicBool::new(false),
            sent: Mutex::default(),
            subscriptions: Mutex::new(script.subscriptions.into()),
            polls: Mutex::new(script.polls.into()),
            calls: Mutex::default(),
            wants_order: AtomicBool::new(false),
            opened: CancellationToken::new(),
            resubscribed: CancellationToken::new(),
            polled: CancellationToken::new(),
        });
        let agent = tool(
            poll_intervals,
            script.target,
            Arc::new(FakeProvider(Arc::clone(&peer), script.streaming)),
        );
        Self { agent, peer }
    }

    pub(super) async fn call(&self, request: Value) -> Value {
        self.updates(request).await.0
    }

    /// Makes a call without cancelling it, and returns the result and the events of the updates.
    pub(super) async fn updates(&self, request: Value) -> (Value, Vec<Value>) {
        self.update_events(request, CancellationToken::new()).await
    }

    /// Returns the result, and the events of the updates.
    pub(super) async fn update_events(
        &self,
        request: Value,
        cancel: CancellationToken,
    ) -> (Value, Vec<Value>) {
        call(&self.agent, request, cancel).await
    }

    /// Returns the calls that the peer received, in order.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.peer.calls.lock().unwrap().clone()
    }
}

/// Returns the tool with one target, `agent`, which `directory` opens.
pub(super) fn tool(
    poll_intervals: PollIntervals,
    settings: Value,
    directory: Arc<dyn PeerProvider>,
) -> RemoteAgent {
    let mut config = json!({"targets": [{"alias": "agent", "baseUrl": "https://agent.example", "pins": "off", "default": true}]});
    for (name, value) in settings.as_object().into_iter().flatten() {
        match &**name {
            "limits" | "breaker" => config[name] = value.clone(),
            _ => config["targets"][0][name] = value.clone(),
        }
    }
    let config = Config::parse(&config.to_string()).unwrap();
    RemoteAgent::new(
        &config,
        directory,
        None,
        Arc::new(SystemEnvironment),
        poll_intervals,
        Arc::new(Silent),
    )
    .unwrap()
}

pub(super) async fn call(
    agent: &RemoteAgent,
    request: Value,
    cancel: CancellationToken,
) -> (Value, Vec<Value>) {
    let update_events = Mutex::new(Vec::new());
    let take = |update: &str| {
        let update: Value = serde_json::from_str(update).unwrap();
        update_events.lock().unwrap().push(update["raw"].clone());
    };
    let call = ToolCall {
        request: &request.to_string(),
        caller: None,
        updates: Some(&take),
        person: None,
        cancel,
        closing: CancellationToken::new(),
    };
    let result = serde_json::from_str(&agent.execute(call).await).unwrap();
    (result, update_events.into_inner().unwrap())
}

/// Returns a card that announces streaming, denies it, or omits it.
pub(super) fn card(streaming: Option<bool>) -> Discovered {
    Discovered::Card {
        card: Box::new(Card {
            streaming,
            ..Card::new(
                vec![Interface::new("JSONRPC", "https://agent.example/")],
                CardView::default(),
            )
        }),
        validator: None,
        max_age: None,
        date: None,
    }
}

pub(super) const PROTOCOL: NegotiatedProtocol = NegotiatedProtocol {
    version: "1.0",
    transport: Transport::HttpJson,
};

struct FakeProvider(Arc<Scripted>, Option<bool>);

#[async_trait]
impl PeerProvider for FakeProvider {
    async fn discover(
        &self,
        _: &PeerConfig,
        _: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        Ok(card(self.1))
    }

    fn open(
        &self,
        _: &PeerConfig,
        _: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        let wants_order = options.field_order.is_some();
        self.0.wants_order.store(wants_order, Ordering::Relaxed);
        Ok(Box::new(FakePeer(Arc::clone(&self.0))))
    }
}

struct FakePeer(Arc<Scripted>);

impl FakePeer {
    fn record(&self, call: &'static str) {
        self.0.calls.lock().unwrap().push(call);
    }

    async fn open_stream(&self) -> Result<Box<dyn EventStream>, PeerError> {
        let next = self.0.subscriptions.lock().unwrap().pop_front();
        match next {
            Some(SubscribeReply::Events(events, end)) => {
                let polled = self.0.polled.clone();
                Ok(Box::new(ScriptedStream(events.into(), end, polled)))
            }
            Some(SubscribeReply::Refused(fault)) => Err(peer_error(fault)),
            Some(SubscribeReply::Never) => std::future::pending().await,
            None => Err(peer_error(PeerErrorKind::Rpc)),
        }
    }
}

pub(super) fn peer_error(fault: PeerErrorKind) -> PeerError {
    let mut error = PeerError::new(fault, "no");
    // The peer has no such task.
    error.rpc_code = (fault == PeerErrorKind::Rpc).then_some(-32001);
    error
}

#[async_trait]
impl Peer for FakePeer {
    fn protocol(&self) -> NegotiatedProtocol {
        PROTOCOL
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::new(Secrets::new([TOKEN.to_owned().into()]))
    }

    async fn card(&self) -> Result<Card, PeerError> {
        unreachable!("no test requests another card")
    }

    async fn send(&self, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        self.record("send");
        self.0.sent.lock().unwrap().push(outgoing.clone());
        let sent = self.0.sent.lock().unwrap().clone();
        if self.0.echoes.load(Ordering::Relaxed) && sent.len() > 1 {
            let history = sent.iter().map(|message| {
                let parts: Vec<_> = message.parts.iter().map(Part::json).collect();
                json!({"kind": "message", "role": "user", "messageId": message.message_id, "parts": parts})
            });
            let mut done = task("completed", json!([]));
            done["history"] = history.collect::<Vec<_>>().into();
            return Ok(Reply::read(done).unwrap());
        }
        let next = {
            let mut answers = self.0.answers.lock().unwrap();
            match answers.len() {
                0 | 1 => answers.front().cloned(),
                _ => answers.pop_front(),
            }
        };
        match next {
            Some(Value::String(_)) => {
                Err(peer_error(PeerErrorKind::Net(NetFault::Unreachable)).undelivered())
            }
            Some(answer) if !answer.is_null() => Ok(Reply::read(answer).unwrap()),
            _ => std::future::pending().await,
        }
    }

    async fn stream(&self, _: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        self.record("stream");
        self.0.opened.cancel();
        self.open_stream().await
    }

    async fn get_task(&self, _: &str, _: Option<u64>) -> Result<Task, PeerError> {
        self.record("get");
        self.0.polled.cancel();
        let next = {
            let mut polls = self.0.polls.lock().unwrap();
            match polls.len() {
                0 | 1 => polls.front().cloned(),
                _ => polls.pop_front(),
            }
        };
        match next {
            Some(PollReply::Task(task)) => Ok(Task::read(task).unwrap()),
            Some(PollReply::Refused(fault)) => Err(peer_error(fault)),
            Some(PollReply::Status(status)) => {
                let mut error = peer_error(PeerErrorKind::HttpStatus);
                error.http_status = Some(status);
                Err(error)
            }
            Some(PollReply::Never) => std::future::pending().await,
            None => Err(peer_error(PeerErrorKind::Rpc)),
        }
    }

    async fn cancel(&self, task_id: &str) -> Result<Task, PeerError> {
        self.get_task(task_id, None).await
    }

    async fn resubscribe(&self, _: &str) -> Result<Box<dyn EventStream>, PeerError> {
        self.record("subscribe");
        self.0.resubscribed.cancel();
        self.open_stream().await
    }
}

struct ScriptedStream(VecDeque<Value>, StreamEnd, CancellationToken);

#[async_trait]
impl EventStream for ScriptedStream {
    async fn next(&mut self) -> NextEvent {
        if let (true, StreamEnd::Later(states)) = (self.0.is_empty(), self.1) {
            self.2.cancelled().await;
            self.0 = states.iter().map(|state| status(state)).collect();
            self.1 = StreamEnd::Hang;
        }
        match (self.0.pop_front(), self.1) {
            // An event that cannot be read.
            (Some(Value::Null), _) => Some(Err(peer_error(PeerErrorKind::InvalidResponse))),
            // The agent's error with this code.
            (Some(Value::Number(_)), _) => Some(Err(peer_error(PeerErrorKind::AuthRequired))),
            (Some(event), _) => {
                let bytes = event.to_string().len();
                Some(Ok((Event::read(event).unwrap(), bytes)))
            }
            (None, StreamEnd::Close | StreamEnd::Answer) => None,
            (None, StreamEnd::Cut) => Some(Err(peer_error(PeerErrorKind::Net(NetFault::Cut)))),
            (None, StreamEnd::Flood) => Some(Ok((Event::read(status("working")).unwrap(), 100))),
            (None, StreamEnd::Unknown | StreamEnd::UnknownFlood) => {
                if self.1 == StreamEnd::Unknown {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                }
                let event = json!({"kind": "weather", "taskId": "t"});
                Some(Ok((Event::read(event).unwrap(), 100)))
            }
            (None, StreamEnd::Hang | StreamEnd::Later(_)) => std::future::pending().await,
        }
    }

    fn is_plain_response(&self) -> bool {
        matches!(self.1, StreamEnd::Answer)
    }
}

pub(super) fn task(state: &str, artifacts: Value) -> Value {
    json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts})
}

pub(super) fn status(state: &str) -> Value {
    let last = state != "working";
    json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": last, "status": {"state": state}})
}

pub(super) fn artifact(id: &str, texts: &[&str]) -> Value {
    let parts: Vec<_> = texts
        .iter()
        .map(|text| json!({"kind": "text", "text": text}))
        .collect();
    json!({"artifactId": id, "parts": parts})
}

pub(super) fn piece(id: &str, text: &str, append: bool) -> Value {
    json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "append": append, "artifact": artifact(id, &[text])})
}
