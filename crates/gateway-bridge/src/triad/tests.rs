#![allow(clippy::unwrap_used, clippy::panic)]

mod lifecycle;
mod votes;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use crate::ListPurpose;
use a2a::{Event, Part};
use collective::Quorum;
use common::environment::SystemEnvironment;
use common::log::Silent;
use peer::{Delivered, Member, NextEvent};

use super::*;

/// The scripted reactions of a member, in order.
#[derive(Clone)]
enum Does {
    Says(&'static str),
    Fails,
    IsNotThere,
    Sleeps,
}

/// A gateway with scripted agents.
struct Agents {
    script: Mutex<HashMap<String, Vec<Does>>>,
    asked: Mutex<Vec<(CallContext, SendRequest)>>,
    canceled: Mutex<Vec<String>>,
    stopped: tokio::sync::Notify,
    /// Agents reply once they have a permit.
    gate: Semaphore,
}

/// The events of a stream, and whether the stream stays open after them.
struct Said(Vec<Value>, bool);

impl EventStream for Said {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(async {
            if !self.0.is_empty() {
                return Some(Ok((Event::read(self.0.remove(0)).unwrap(), 0)));
            }
            if self.1 {
                std::future::pending::<()>().await;
            }
            None
        })
    }
}

impl GatewayLink for Agents {
    fn dialect(&self) -> &'static str {
        "openclaw/4"
    }
    fn is_open(&self) -> bool {
        true
    }
    fn members(&self, _: ListPurpose) -> BoxFuture<'_, Result<Vec<Member>, PeerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn send<'a>(
        &'a self,
        _: &'a CallContext,
        _: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async { panic!("a triad listens to its members") })
    }
    fn stream<'a>(
        &'a self,
        about: &'a CallContext,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        self.asked
            .lock()
            .unwrap()
            .push((about.clone(), outgoing.clone()));
        let does = self
            .script
            .lock()
            .unwrap()
            .get_mut(&about.agent)
            .map_or(Does::IsNotThere, |all| all.remove(0));
        Box::pin(async move {
            self.gate.acquire().await.unwrap().forget();
            // A reply takes time.
            tokio::task::yield_now().await;
            let id = outgoing.message_id.as_str();
            let status = |state: &str| json!({"kind": "status-update", "taskId": id, "status": {"state": state}, "final": true});
            let (events, progress) = match does {
                Does::Says(text) => (
                    vec![
                        json!({"kind": "task", "id": id, "status": {"state": "submitted"}}),
                        json!({"kind": "artifact-update", "taskId": id, "artifact": {"artifactId": "reply", "parts": [{"kind": "text", "text": text}]}}),
                        status("completed"),
                    ],
                    false,
                ),
                Does::Fails => (vec![status("failed")], false),
                Does::IsNotThere => {
                    return Err(PeerError::new(
                        PeerErrorKind::Gateway(ErrorCode::AgentNotFound),
                        "no such agent",
                    ));
                }
                Does::Sleeps => (
                    vec![json!({"kind": "task", "id": id, "status": {"state": "working"}})],
                    true,
                ),
            };
            Ok(Box::new(Said(events, progress)) as Box<dyn EventStream>)
        })
    }
    fn get_task<'a>(
        &'a self,
        _: &'a CallContext,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async { panic!("not asked") })
    }
    fn cancel<'a>(
        &'a self,
        about: &'a CallContext,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        self.canceled.lock().unwrap().push(about.agent.clone());
        self.stopped.notify_one();
        Box::pin(async { Err(PeerError::new(PeerErrorKind::TaskForgotten, "gone")) })
    }
    fn resubscribe<'a>(
        &'a self,
        _: &'a CallContext,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async { panic!("not asked") })
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

const APPROVE: Does = Does::Says(r#"{"vote":"approve","reasoning":"Good.","confidence":0.9}"#);
const REJECT: Does = Does::Says(r#"{"vote":"reject","reasoning":"Bad."}"#);
const ABSTAIN: Does = Does::Says(r#"{"vote":"abstain","reasoning":"No view."}"#);
const NONSENSE: Does = Does::Says("I would say yes.");

fn triad(quorum: Quorum, script: [Vec<Does>; 3]) -> (Triad, Arc<Agents>) {
    let mut settings = Settings::new(Url::parse("ws://127.0.0.1:1").unwrap());
    let names = ["alpha", "beta", "charlie"].map(str::to_owned);
    settings.triad.members = names.to_vec();
    settings.triad.quorum = quorum;
    settings.triad.deadline = Duration::from_secs(300);
    let agents = Arc::new(Agents {
        script: Mutex::new(names.into_iter().zip(script).collect()),
        asked: Mutex::default(),
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

fn proposing(text: &str) -> SendRequest {
    SendRequest {
        message_id: "proposal-1".into(),
        parts: vec![Part::text(text.into())],
        blocking: true,
        ..SendRequest::default()
    }
}

async fn decided(triad: &Triad) -> Value {
    let reply = triad
        .send(&CallContext::default(), &proposing("Move the backups."))
        .await
        .unwrap();
    let Reply::Task(task) = reply else {
        panic!("no task")
    };
    assert_eq!(task.state().as_str(), "completed", "{}", task.json());
    task.json()["artifacts"][0]["parts"][0]["data"].clone()
}
