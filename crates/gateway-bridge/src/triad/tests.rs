#![allow(clippy::unwrap_used, clippy::panic)]

mod lifecycle;
mod votes;

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use crate::ListPurpose;
use a2a::{Event, Part};
use base::environment::SystemEnvironment;
use base::log::Silent;
use collective::Quorum;
use peer::{Delivered, Member, NextEvent};

use super::*;

/// The scripted reactions of a member, in order.
#[derive(Clone)]
enum Reaction {
    Reply(&'static str),
    Fail,
    Missing,
    Hang,
}

/// A gateway with scripted agents.
struct Agents {
    script: Mutex<HashMap<String, Vec<Reaction>>>,
    requests: Mutex<Vec<(CallContext, SendRequest)>>,
    canceled: Mutex<Vec<String>>,
    stopped: tokio::sync::Notify,
    /// Agents reply once they have a permit.
    gate: Semaphore,
}

/// The events of a stream, and whether the stream stays open after them.
struct ScriptedStream(Vec<Value>, bool);

#[async_trait]
impl EventStream for ScriptedStream {
    async fn next(&mut self) -> NextEvent {
        if !self.0.is_empty() {
            return Some(Ok((Event::read(self.0.remove(0)).unwrap(), 0)));
        }
        if self.1 {
            std::future::pending::<()>().await;
        }
        None
    }
}

#[async_trait]
impl GatewayLink for Agents {
    fn dialect(&self) -> &'static str {
        "openclaw/4"
    }
    fn is_open(&self) -> bool {
        true
    }
    async fn members(&self, _: ListPurpose) -> Result<Vec<Member>, PeerError> {
        Ok(Vec::new())
    }
    async fn send(&self, _: &CallContext, _: &SendRequest) -> Result<Reply, PeerError> {
        panic!("a triad listens to its members")
    }
    async fn stream(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        self.requests.lock().push((call.clone(), outgoing.clone()));
        let reaction = self
            .script
            .lock()
            .get_mut(&call.agent)
            .map_or(Reaction::Missing, |all| all.remove(0));
        self.gate.acquire().await.unwrap().forget();
        // A reply takes time.
        tokio::task::yield_now().await;
        let id = outgoing.message_id.as_str();
        let status = |state: &str| json!({"kind": "status-update", "taskId": id, "status": {"state": state}, "final": true});
        let (events, progress) = match reaction {
            Reaction::Reply(text) => (
                vec![
                    json!({"kind": "task", "id": id, "status": {"state": "submitted"}}),
                    json!({"kind": "artifact-update", "taskId": id, "artifact": {"artifactId": "reply", "parts": [{"kind": "text", "text": text}]}}),
                    status("completed"),
                ],
                false,
            ),
            Reaction::Fail => (vec![status("failed")], false),
            Reaction::Missing => {
                return Err(PeerError::new(
                    PeerErrorKind::Gateway(ErrorCode::AgentNotFound),
                    "no such agent",
                ));
            }
            Reaction::Hang => (
                vec![json!({"kind": "task", "id": id, "status": {"state": "working"}})],
                true,
            ),
        };
        Ok(Box::new(ScriptedStream(events, progress)) as Box<dyn EventStream>)
    }
    async fn get_task(&self, _: &CallContext, _: &str) -> Result<Task, PeerError> {
        panic!("not asked")
    }
    async fn cancel(&self, call: &CallContext, _: &str) -> Result<Task, PeerError> {
        self.canceled.lock().push(call.agent.clone());
        self.stopped.notify_one();
        Err(PeerError::new(PeerErrorKind::TaskForgotten, "gone"))
    }
    async fn resubscribe(
        &self,
        _: &CallContext,
        _: &str,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        panic!("not asked")
    }
    async fn close(&self) {}
}

const APPROVE: Reaction =
    Reaction::Reply(r#"{"vote":"approve","reasoning":"Good.","confidence":0.9}"#);
const REJECT: Reaction = Reaction::Reply(r#"{"vote":"reject","reasoning":"Bad."}"#);
const ABSTAIN: Reaction = Reaction::Reply(r#"{"vote":"abstain","reasoning":"No view."}"#);
const HANG: Reaction = Reaction::Hang;
const INVALID_VOTE: Reaction = Reaction::Reply("I would say yes.");

fn triad(quorum: Quorum, script: [Vec<Reaction>; 3]) -> (Triad, Arc<Agents>) {
    let mut settings = Settings::new(Url::parse("ws://127.0.0.1:1").unwrap());
    let names = ["alpha", "beta", "charlie"].map(str::to_owned);
    settings.triad.members = names.to_vec();
    settings.triad.quorum = quorum;
    settings.triad.deadline_ms = 300_000;
    let agents = Arc::new(Agents {
        script: Mutex::new(names.into_iter().zip(script).collect()),
        requests: Mutex::default(),
        canceled: Mutex::default(),
        stopped: tokio::sync::Notify::new(),
        gate: Semaphore::new(99),
    });
    let link = Arc::clone(&agents);
    let links: LinkProvider = Arc::new(move || {
        let link: Arc<dyn GatewayLink> = Arc::clone(&link) as _;
        Box::pin(async move { Ok(link) })
    });
    let triad = Triad::new(
        Arc::new(settings),
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
        links,
    );
    (triad, agents)
}

fn call() -> CallContext {
    CallContext::default()
}

fn proposal_message(text: &str) -> SendRequest {
    SendRequest {
        message_id: "proposal-1".into(),
        parts: vec![Part::text(text.into())],
        blocking: true,
        ..SendRequest::default()
    }
}

async fn decided(triad: &Triad) -> Value {
    let reply = triad
        .send(&call(), &proposal_message("Move the backups."))
        .await
        .unwrap();
    let Reply::Task(task) = reply else {
        panic!("no task")
    };
    assert_eq!(task.state().as_str(), "completed", "{}", task.json());
    task.json()["artifacts"][0]["parts"][0]["data"].clone()
}
