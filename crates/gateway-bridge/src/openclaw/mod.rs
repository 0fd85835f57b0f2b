//! The protocol of OpenClaw's gateway, version 4.
//!
//! One connection carries requests, their responses by id, and events of runs. A message to an agent starts a run
//! (`agent`) whose id is the message's id. Its session is derived from the context id (`session_key.rs`). The run is
//! the task. `run_event.rs` and `stream.rs` turn the gateway's events into A2A events. `outcome.rs` and `runs.rs`
//! return its status, also after a restart. `list_agents` lists the agents with their cards. The bridge sends no request twice: a request that a lost
//! connection interrupts fails.
//!
//! An OpenClaw agent cannot wait for its caller during a run. It returns its question as the answer, and the task is
//! completed. The caller replies with another message in the same context.

mod connection;
mod handshake;
mod message;
mod outcome;
mod protocol;
mod run_event;
mod runs;
mod stream;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Part, Reply, SendRequest, Task};
use async_trait::async_trait;
use base::environment::Environment;
use base::log::Log;
use collective::{AgentStatus, ErrorCode};
use connection::OpenClawConnection;
use handshake::GatewayPolicy;
pub(crate) use handshake::handshake;
pub use message::{is_space, line_before, neutralize_image_paths, sanitize};
pub(crate) use outcome::RunCache;
use outcome::RunOutcome;
use peer::{EventStream, Member, PeerError};
use protocol::RequestError;
use runs::StartedRun;
pub use runs::{RUN_TIMEOUT_KEY, THINKING_KEY};
use serde_json::{Value, json};
use stream::{RunEventMapper, RunStream, RunSubscription};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{CallContext, GatewayLink, ListPurpose, Settings, members};
use crate::dial::failed;

/// The dialect's name in results.
const DIALECT: &str = "openclaw/4";

/// The protocol's name in messages.
const PROTOCOL: &str = "protocol 4";

/// A connected OpenClaw gateway.
pub(super) struct OpenClaw {
    connection: Arc<OpenClawConnection>,
    shutdown: CancellationToken,
    /// Closes the connection when the last user is dropped.
    _end: DropGuard,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    policy: GatewayPolicy,
}

impl OpenClaw {
    fn new(
        connection: Arc<OpenClawConnection>,
        shutdown: CancellationToken,
        settings: Arc<Settings>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        policy: GatewayPolicy,
    ) -> Self {
        Self {
            connection,
            _end: shutdown.clone().drop_guard(),
            shutdown,
            settings,
            env,
            log,
            policy,
        }
    }

    /// Returns the full answer if it arrives in time, otherwise the running task.
    async fn wait_for_answer(
        &self,
        mut started: StartedRun,
        call: &CallContext,
        blocking: bool,
    ) -> Result<Task, PeerError> {
        let until = Instant::now() + call.wait_limit(&self.settings);
        let ended = is_ended(&started.first).then(|| outcome::from_response(&started.first));
        let outcome = match ended {
            Some(outcome) => outcome,
            None if blocking => {
                let ended = timeout_at(until, wait_for_end(&mut started)).await;
                ended.unwrap_or_else(|_| RunOutcome::working())
            }
            None => RunOutcome::working(),
        };
        outcome.task(&started.run, &started.context)
    }
}

/// Renders the parts of a message as text, for callers that can pass only text to OpenClaw.
pub fn text(parts: &[Part]) -> String {
    message::to_agent_message(parts, 0).text
}

/// Reads the final response of a run: `{status, result: {payloads, meta}}`.
///
/// # Errors
/// The run or context id is invalid.
pub fn task_from_response(response: &Value, run: &str, context: &str) -> Result<Task, PeerError> {
    outcome::from_response(response).task(run, context)
}

fn is_ended(first: &Value) -> bool {
    !outcome::goes_on(first)
}

/// Waits for the end of a run. After a lost connection, the run continues at the gateway and can be queried.
async fn wait_for_end(started: &mut StartedRun) -> RunOutcome {
    loop {
        match started.subscription.next().await {
            Ok((run_event::RunEvent::Ended(response), _)) => {
                return outcome::from_response(&response);
            }
            Ok((run_event::RunEvent::Abandoned(reason), _)) => return RunOutcome::failed(&reason),
            Ok(_) => {}
            Err(error) => {
                let mut outcome = RunOutcome::working();
                outcome.text = Some(format!("{error}; query the task for its status"));
                return outcome;
            }
        }
    }
}

#[async_trait]
impl GatewayLink for OpenClaw {
    fn dialect(&self) -> &'static str {
        DIALECT
    }

    fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    fn last_error(&self) -> Option<String> {
        self.connection.close_reason()
    }

    async fn members(&self, wait: ListPurpose) -> Result<Vec<Member>, PeerError> {
        let listed = self.list_agents(wait).await;
        listed.map_err(|failure| failure.into_peer_error("agents.list", "*"))
    }

    async fn send(&self, call: &CallContext, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        let started = self.start(call, outgoing).await?;
        let task = self
            .wait_for_answer(started, call, outgoing.blocking)
            .await?;
        Ok(Reply::Task(task))
    }

    async fn stream(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let started = self.start(call, outgoing).await?;
        let mapper = RunEventMapper::new(&started.run, &started.context);
        let ended = is_ended(&started.first);
        let outcome = if ended {
            outcome::from_response(&started.first)
        } else {
            RunOutcome::submitted()
        };
        let first = mapper.snapshot(&outcome)?;
        let stream = RunStream::new(mapper, [first]);
        Ok(if ended {
            Box::new(stream) as Box<dyn EventStream>
        } else {
            Box::new(stream.with_subscription(started.subscription))
        })
    }

    async fn get_task(&self, call: &CallContext, task_id: &str) -> Result<Task, PeerError> {
        let known = runs::status(&self.connection, call, task_id).await?;
        known.outcome.task(task_id, &known.context)
    }

    async fn cancel(&self, call: &CallContext, task_id: &str) -> Result<Task, PeerError> {
        let known = self.abort(call, task_id).await?;
        known.outcome.task(task_id, &known.context)
    }

    async fn resubscribe(
        &self,
        call: &CallContext,
        task_id: &str,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        // Subscribe first, so that no event falls between the snapshot and the stream.
        let subscription = RunSubscription::open(&self.connection, task_id)?;
        let known = runs::status(&self.connection, call, task_id).await?;
        let mapper = RunEventMapper::new(task_id, &known.context);
        let first = mapper.snapshot(&known.outcome)?;
        let stream = RunStream::new(mapper, [first]);
        if known.outcome.is_terminal() {
            return Ok(Box::new(stream) as Box<dyn EventStream>);
        }
        let end = runs::wait_for_end(
            Arc::clone(&self.connection),
            call.clone(),
            task_id.to_owned(),
        );
        Ok(Box::new(
            stream
                .with_subscription(subscription)
                .with_end(Box::pin(end)),
        ))
    }

    async fn close(&self) {
        self.shutdown.cancel();
        self.connection.closed().await;
    }
}

/// The timeout of the list of busy sessions. After it, all agents count as online.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The media types that agents accept (see `message.rs`).
const INPUT_MODES: [&str; 6] = [
    "text/plain",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
];

/// The size of a page of busy sessions.
const SESSION_PAGE_LEN: u64 = 200;

impl OpenClaw {
    /// Returns the gateway's agents. For [`ListPurpose::List`], includes whether each agent is busy.
    async fn list_agents(&self, wait: ListPurpose) -> Result<Vec<Member>, RequestError> {
        let params = json!({});
        let request = self
            .connection
            .request("agents.list", &params, Duration::ZERO);
        let (listed, busy) = match wait {
            ListPurpose::List => (request.await?, self.busy_agents().await),
            ListPurpose::Send => {
                let listed = timeout(self.settings.list_wait(), request).await;
                (listed.unwrap_or_else(|_| Err(self.list_timeout()))?, None)
            }
        };
        let agents = listed["agents"].as_array().map_or(&[][..], Vec::as_slice);
        let mut agents: Vec<_> = agents.iter().collect();
        // The gateway's default agent comes first.
        agents.sort_by_key(|agent| agent["id"] != listed["defaultId"]);
        Ok(agents
            .into_iter()
            .filter(|agent| agent["kind"] != "system")
            .filter_map(|agent| member(agent, busy.as_ref()))
            .collect())
    }

    fn list_timeout(&self) -> RequestError {
        let message = format!(
            "the gateway at `{}` does not list its agents",
            self.settings.display_url()
        );
        RequestError::Connection(failed(ErrorCode::ConnectionTimeout, message))
    }

    /// Returns the agents with a running session, if the gateway answers in time.
    async fn busy_agents(&self) -> Option<HashSet<String>> {
        let params = json!({ "activeOnly": true, "limit": SESSION_PAGE_LEN });
        let request = self
            .connection
            .request("sessions.list", &params, Duration::ZERO);
        let listed = timeout(BUSY_TIMEOUT, request).await.ok()?.ok()?;
        let sessions = listed["sessions"].as_array()?.iter();
        Some(
            sessions
                .filter_map(|session| session["agentId"].as_str().map(str::to_owned))
                .collect(),
        )
    }
}

/// Reads an agent of the list, without its workspace and model, which are private.
fn member(agent: &Value, busy: Option<&HashSet<String>>) -> Option<Member> {
    let text = |pointer: &str| {
        let text = agent.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
    };
    let name = text("/id")?;
    let role = text("/identity/theme");
    let status = match busy {
        _ if agent["status"] == "degraded" => Some(AgentStatus::Error),
        Some(busy) if busy.contains(&name) => Some(AgentStatus::Busy),
        Some(_) => Some(AgentStatus::Idle),
        None => Some(AgentStatus::Online),
    };
    let shown = text("/identity/name").or_else(|| text("/name"));
    let card = members::card_at(
        format!("/agents/{name}"),
        shown.as_deref().unwrap_or(&name),
        role.as_deref(),
        [&INPUT_MODES, &["text/plain"]],
    );
    Some(Member {
        name,
        role,
        status,
        members: Vec::new(),
        card,
    })
}

#[cfg(test)]
mod members_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn agent() -> Value {
        json!({"id": "alpha", "name": "Alpha the careful", "identity": {"name": "Alpha", "theme": "steward of safety"},
            "workspace": "/home/user1/alpha", "model": {"primary": "fake/scripted"}})
    }

    #[test]
    fn agent_has_name_and_role_without_paths() {
        let member = member(&agent(), None).unwrap();
        assert_eq!(
            (member.name.as_str(), member.role.as_deref()),
            ("alpha", Some("steward of safety"))
        );
        assert_eq!(
            member.card.view.as_ref().unwrap().name.as_deref(),
            Some("Alpha")
        );
        let all = format!("{member:?}");
        assert!(!all.contains("user1") && !all.contains("scripted"), "{all}");
    }

    #[test]
    fn agent_with_running_session_is_busy() {
        let busy: HashSet<String> = ["alpha".to_owned()].into();
        let status = |busy: Option<&HashSet<String>>| member(&agent(), busy).unwrap().status;
        assert_eq!(status(Some(&busy)), Some(AgentStatus::Busy));
        assert_eq!(status(Some(&HashSet::new())), Some(AgentStatus::Idle));
        assert_eq!(status(None), Some(AgentStatus::Online));
    }

    #[test]
    fn degraded_agent_has_error_status() {
        let mut agent = agent();
        agent["status"] = "degraded".into();
        assert_eq!(
            member(&agent, Some(&HashSet::new())).unwrap().status,
            Some(AgentStatus::Error)
        );
    }
}

#[cfg(test)]
mod tests;
