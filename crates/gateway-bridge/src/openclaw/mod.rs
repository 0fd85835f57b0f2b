//! The protocol of OpenClaw's gateway, version 4.
//!
//! One connection carries requests, their responses by id, and events of runs. A message to an agent starts a run
//! (`agent`) whose id is the message's id. Its session is derived from the context id (`session_key.rs`). The run is
//! the task. `run_event.rs` and `stream.rs` turn the gateway's events into A2A events. `outcome.rs` and `runs.rs`
//! return its status, also after a restart. The bridge sends no request twice: a request that a lost
//! connection interrupts fails.
//!
//! An OpenClaw agent cannot wait for its caller during a run. It returns its question as the answer, and the task is
//! completed. The caller replies with another message in the same context.

mod connection;
mod handshake;
mod members;
mod message;
mod outcome;
mod protocol;
mod run_event;
mod runs;
mod sanitize;
mod stream;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use a2a::{Part, Reply, SendRequest, Task};
use base::environment::Environment;
use base::log::Log;
use peer::{EventStream, Member, PeerError};

use super::{CallContext, GatewayLink, ListPurpose, Settings};
use connection::OpenClawConnection;
use handshake::GatewayPolicy;
use outcome::RunOutcome;
use runs::StartedRun;
use stream::{RunEventMapper, RunStream, RunSubscription};

pub(crate) use handshake::handshake;
pub use message::is_space;
pub use runs::RUN_TIMEOUT_KEY;
pub use runs::THINKING_KEY;
pub use sanitize::{line_before, neutralize_image_paths, sanitize};

/// The dialect's name in results.
const DIALECT: &str = "openclaw/4";

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
    first["status"] != "accepted"
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

#[cfg(test)]
mod tests;
