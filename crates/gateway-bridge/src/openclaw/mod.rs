//! The OpenClaw gateway's own protocol, version 4: what users run.
//!
//! One connection carries everything: requests that are answered by id, and events about runs. A message to an agent is a
//! run (`agent`) whose id is the message's, in a session that `session_key.rs` derives from the context id; the run is the
//! task. `said.rs` and `narrator.rs` make events of A2A out of what the gateway says of it, `outcome.rs` and `ledger.rs`
//! tell where it stands, also after a restart. Nothing is sent twice: a request that a cut caught fails.
//!
//! An agent there cannot wait for its caller in the middle of a run. What it wants to know is its answer, the task is
//! completed, and who answers sends another message with the same context id.

mod begin;
mod cancel;
mod carry;
mod frames;
mod greet;
mod ledger;
mod line;
mod listening;
mod media;
mod members;
mod message;
mod narrator;
mod outcome;
mod refusal;
mod runs;
mod said;
mod stream;

use std::sync::Arc;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use a2a::Part;
use a2a::{Reply, SendRequest, Task};
use common::environment::Environment;
use common::log::Log;
use peer::{BoxFuture, EventStream, Member, PeerError};

use super::{About, Link, Settings, Wait};
use begin::Begun;
use greet::Policy;
use line::Line;
use narrator::Narrator;
use outcome::Outcome;
use stream::RunStream;

pub use begin::THINKING;
pub use begin::TIME_LIMIT;
pub(crate) use greet::greet;
pub use message::is_space;

/// The dialect's name in results.
const DIALECT: &str = "openclaw/4";

/// A gateway that has let us in.
pub(super) struct OpenClaw {
    line: Arc<Line>,
    leave: CancellationToken,
    /// Takes leave when the last user is gone.
    _end: DropGuard,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    policy: Policy,
}

impl OpenClaw {
    fn new(
        line: Arc<Line>,
        leave: CancellationToken,
        settings: Arc<Settings>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        policy: Policy,
    ) -> Self {
        Self {
            line,
            _end: leave.clone().drop_guard(),
            leave,
            settings,
            env,
            log,
            policy,
        }
    }

    /// The answer in full where it comes in time; otherwise the task as it stands, which goes on.
    async fn answer(
        &self,
        mut begun: Begun,
        about: &About,
        blocking: bool,
    ) -> Result<Task, PeerError> {
        let until = Instant::now() + about.patience(&self.settings);
        let over = is_over(&begun.first).then(|| outcome::of_response(&begun.first));
        let outcome = match over {
            Some(outcome) => outcome,
            None if blocking => {
                let ended = timeout_at(until, ended(&mut begun)).await;
                ended.unwrap_or_else(|_| Outcome::working())
            }
            None => Outcome::working(),
        };
        outcome.task(&begun.run, &begun.context)
    }
}

/// The parts of a message as an agent of OpenClaw reads them where only text can be handed over.
pub fn text(parts: &[Part]) -> String {
    message::carried(parts, 0).text
}

/// What came of a run, by the response that ended it: `{status, result: {payloads, meta}}`.
///
/// # Errors
/// An id that is no id.
pub fn answered(response: &Value, run: &str, context: &str) -> Result<Task, PeerError> {
    outcome::of_response(response).task(run, context)
}

fn is_over(first: &Value) -> bool {
    first["status"] != "accepted"
}

/// How a run ends. A cut says nothing about it: the gateway has taken it up, and can be asked later.
async fn ended(begun: &mut Begun) -> Outcome {
    loop {
        match begun.listening.next().await {
            Ok((said::Said::Over(response), _)) => return outcome::of_response(&response),
            Ok((said::Said::GivenUp(why), _)) => return Outcome::failed(&why),
            Ok(_) => {}
            Err(error) => {
                let mut outcome = Outcome::working();
                outcome.text = Some(format!("{error}; ask for the task's status"));
                return outcome;
            }
        }
    }
}

impl Link for OpenClaw {
    fn dialect(&self) -> &'static str {
        DIALECT
    }

    fn is_open(&self) -> bool {
        self.line.is_open()
    }

    fn last_error(&self) -> Option<String> {
        self.line.ended()
    }

    fn members(&self, wait: Wait) -> BoxFuture<'_, Result<Vec<Member>, PeerError>> {
        Box::pin(async move {
            let listed = self.listed(wait).await;
            listed.map_err(|failure| failure.about("agents.list", "*"))
        })
    }

    fn send<'a>(
        &'a self,
        about: &'a About,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async {
            let begun = self.begin(about, outgoing).await?;
            let task = self.answer(begun, about, outgoing.blocking).await?;
            Ok(Reply::Task(task))
        })
    }

    fn stream<'a>(
        &'a self,
        about: &'a About,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async {
            let begun = self.begin(about, outgoing).await?;
            let narrator = Narrator::new(&begun.run, &begun.context);
            let over = is_over(&begun.first);
            let outcome = if over {
                outcome::of_response(&begun.first)
            } else {
                Outcome::submitted()
            };
            let first = narrator.snapshot(&outcome)?;
            let stream = RunStream::new(narrator, [first]);
            Ok(if over {
                Box::new(stream) as Box<dyn EventStream>
            } else {
                Box::new(stream.listening(begun.listening))
            })
        })
    }

    fn get_task<'a>(
        &'a self,
        about: &'a About,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let known = ledger::stands(&self.line, about, task_id).await?;
            known.outcome.task(task_id, &known.context)
        })
    }

    fn cancel<'a>(
        &'a self,
        about: &'a About,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let known = self.abort(about, task_id).await?;
            known.outcome.task(task_id, &known.context)
        })
    }

    fn resubscribe<'a>(
        &'a self,
        about: &'a About,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            // Listened to first, so that nothing falls between the snapshot and what follows it.
            let listening = self.line.listen(task_id)?;
            let known = ledger::stands(&self.line, about, task_id).await?;
            let narrator = Narrator::new(task_id, &known.context);
            let first = narrator.snapshot(&known.outcome)?;
            let stream = RunStream::new(narrator, [first]);
            if known.outcome.is_over() {
                return Ok(Box::new(stream) as Box<dyn EventStream>);
            }
            let end = ledger::end_of(Arc::clone(&self.line), about.clone(), task_id.to_owned());
            Ok(Box::new(stream.listening(listening).ending(Box::pin(end))))
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.leave.cancel();
            self.line.over().await;
        })
    }
}

#[cfg(test)]
mod tests;
