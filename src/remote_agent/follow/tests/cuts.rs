//! Any number of cuts leads to the result without cuts, as long as the peer reports the task correctly.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use a2a::{Card, Event, Reply, SendRequest, Task};
use egress::NetFault;
use peer::{
    CallOptions, CardEtag, Discovered, EventStream, NegotiatedProtocol, NextEvent, Peer,
    PeerConfig, PeerError, PeerErrorKind, PeerProvider,
};

use super::fake::{PROTOCOL, artifact, call, card, peer_error, piece, quick, status, task, tool};
use super::send;

/// A connection: whether the peer accepts it, how far the task is then, how many events it sends, how it ends.
#[derive(Debug, Clone)]
struct Connection {
    acceptance: Acceptance,
    missed: usize,
    sent: usize,
    cut: bool,
}

#[derive(Debug, Clone, Copy)]
enum Acceptance {
    /// Begins with a snapshot of the task.
    WithSnapshot,
    /// Begins with the next event.
    WithoutSnapshot,
    Refused,
}

/// A task that progresses with or without subscribers: its events, and how many of them have happened.
#[derive(Debug)]
struct TaskModel {
    events: Vec<Value>,
    at: usize,
    connections: VecDeque<Connection>,
}

impl TaskModel {
    /// Returns the current task, computed without the code under test.
    fn snapshot(&self) -> Value {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        let mut state = "working";
        for event in &self.events[..self.at] {
            if event["kind"] == "status-update" {
                state = event["status"]["state"].as_str().unwrap();
                continue;
            }
            let id = event["artifact"]["artifactId"].as_str().unwrap();
            let text = event["artifact"]["parts"][0]["text"].as_str().unwrap();
            let at = all
                .iter()
                .position(|(known, _)| known == id)
                .unwrap_or_else(|| {
                    all.push((id.to_owned(), Vec::new()));
                    all.len() - 1
                });
            if event["append"] == false {
                all[at].1.clear();
            }
            all[at].1.push(text.to_owned());
        }
        let artifacts: Vec<_> = all
            .iter()
            .map(|(id, texts)| artifact(id, &texts.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        task(state, json!(artifacts))
    }

    fn advance(&mut self, steps: usize) {
        self.at = (self.at + steps).min(self.events.len());
    }
}

struct Agent(Arc<Mutex<TaskModel>>);

#[async_trait]
impl PeerProvider for Agent {
    async fn discover(
        &self,
        _: &PeerConfig,
        _: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        Ok(card(Some(true)))
    }

    fn open(
        &self,
        _: &PeerConfig,
        _: &Card,
        _: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }
}

impl Agent {
    fn open_stream(&self) -> Result<Box<dyn EventStream>, PeerError> {
        let mut model = self.0.lock().unwrap();
        let next = model.connections.pop_front();
        let next = next.unwrap_or(Connection {
            acceptance: Acceptance::WithoutSnapshot,
            missed: 0,
            sent: usize::MAX,
            cut: false,
        });
        model.advance(next.missed);
        let is_finished = model.at == model.events.len();
        let first = match next.acceptance {
            Acceptance::WithSnapshot => Some(model.snapshot()),
            Acceptance::WithoutSnapshot if !is_finished => None,
            Acceptance::WithoutSnapshot | Acceptance::Refused => {
                return Err(peer_error(PeerErrorKind::Rpc));
            }
        };
        Ok(Box::new(ScriptedStream {
            model: Arc::clone(&self.0),
            first,
            remaining: next.sent,
            cut: next.cut,
        }))
    }
}

#[async_trait]
impl Peer for Agent {
    fn protocol(&self) -> NegotiatedProtocol {
        PROTOCOL
    }

    async fn card(&self) -> Result<Card, PeerError> {
        unreachable!("no test requests another card")
    }

    async fn send(&self, _: &SendRequest) -> Result<Reply, PeerError> {
        unreachable!("the message goes by stream")
    }

    async fn stream(&self, _: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        self.open_stream()
    }

    /// Each poll advances the task a little.
    async fn get_task(&self, _: &str, _: Option<u64>) -> Result<Task, PeerError> {
        let mut model = self.0.lock().unwrap();
        let now = model.snapshot();
        model.advance(2);
        Ok(Task::read(now).unwrap())
    }

    async fn cancel(&self, _: &str) -> Result<Task, PeerError> {
        unreachable!("no test cancels a task")
    }

    async fn resubscribe(&self, _: &str) -> Result<Box<dyn EventStream>, PeerError> {
        self.open_stream()
    }
}

struct ScriptedStream {
    model: Arc<Mutex<TaskModel>>,
    first: Option<Value>,
    remaining: usize,
    cut: bool,
}

impl ScriptedStream {
    fn step(&mut self) -> NextEvent {
        let mut model = self.model.lock().unwrap();
        let event = self.first.take().or_else(|| {
            self.remaining = self.remaining.checked_sub(1)?;
            let event = model.events.get(model.at)?.clone();
            model.at += 1;
            Some(event)
        });
        match event {
            Some(event) => Some(Ok((Event::read(event).unwrap(), 1))),
            None if self.cut => Some(Err(peer_error(PeerErrorKind::Net(NetFault::Cut)))),
            None => None,
        }
    }
}

#[async_trait]
impl EventStream for ScriptedStream {
    async fn next(&mut self) -> NextEvent {
        self.step()
    }
}

fn events() -> impl Strategy<Value = Vec<Value>> {
    let collected = ("[abc]", "[xyz]{1,3}", any::<bool>());
    let one = prop_oneof![
        5 => collected.prop_map(|(id, text, append)| piece(&id, &text, append)),
        1 => Just(status("working")),
    ];
    let end = prop_oneof![Just("completed"), Just("failed"), Just("input-required")];
    (prop::collection::vec(one, 0..12), end).prop_map(|(mut events, end)| {
        let mut last = HashMap::new();
        // Two equal pieces in a row, one of them missed, look like one piece that the agent stored twice.
        events.retain(|event| {
            let artifact = &event["artifact"];
            let before = last.insert(artifact["artifactId"].clone(), artifact["parts"].clone());
            event["append"] != true || before.as_ref() != Some(&artifact["parts"])
        });
        events.push(status(end));
        events
    })
}

fn connection() -> impl Strategy<Value = Connection> {
    let acceptance = prop_oneof![
        3 => Just(Acceptance::WithSnapshot),
        3 => Just(Acceptance::WithoutSnapshot),
        1 => Just(Acceptance::Refused),
    ];
    (acceptance, 0..4_usize, 0..5_usize, any::<bool>()).prop_map(
        |(acceptance, missed, sent, cut)| Connection {
            acceptance,
            missed,
            sent,
            cut,
        },
    )
}

proptest! {
    #[test]
    fn any_cuts_lead_to_the_uncut_result(
        events in events(),
        sent in 0..6_usize,
        cut in any::<bool>(),
        later in prop::collection::vec(connection(), 0..6),
    ) {
        let first = Connection { acceptance: Acceptance::WithSnapshot, missed: 0, sent, cut };
        let model = TaskModel { events, at: 0, connections: std::iter::once(first).chain(later).collect() };
        let whole = TaskModel { at: model.events.len(), events: model.events.clone(), connections: VecDeque::new() }.snapshot();
        let agent = tool(quick(), Value::Null, Arc::new(Agent(Arc::new(Mutex::new(model)))));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();

        let (result, _) = runtime.block_on(call(&agent, send(), CancellationToken::new()));

        let summary = &result["summary"];
        prop_assert_eq!(&summary["continuation"]["task"]["status"], &whole["status"]["state"], "{}", result);
        let artifacts = summary.get("artifacts").cloned().unwrap_or_else(|| json!([]));
        prop_assert_eq!(&artifacts, &whole["artifacts"], "{}", result);
    }
}
