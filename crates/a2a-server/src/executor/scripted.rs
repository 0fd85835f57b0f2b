//! A scripted executor for conformance kits, load tests and other tests.
//!
//! If the message id has a prefix of the A2A technology compatibility kit, the executor answers as the kit expects.
//! Otherwise the first word of the message selects the answer.

use std::time::Duration;

use a2a::v1_0::AgentSkill;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Agent, ExecutionEvents, Executor, ExecutorError, Outcome, RunInput};

mod commands;
mod script;
mod tck;

#[cfg(test)]
mod tests;

use script::{Script, Step};

/// How long the compatibility kit waits for the events of a stream by default.
const DEFAULT_TCK_TIMEOUT: Duration = Duration::from_secs(2);

/// An executor that answers by scripts instead of agents.
#[derive(Debug, Clone)]
pub struct ScriptedExecutor {
    agents: Vec<Agent>,
    timeout: Duration,
}

impl Default for ScriptedExecutor {
    fn default() -> Self {
        Self::with_agents(["scripted"])
    }
}

impl ScriptedExecutor {
    /// Creates an executor with these agents, the default agent first. All of them behave alike.
    pub fn with_agents<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            agents: names.into_iter().map(agent).collect(),
            timeout: DEFAULT_TCK_TIMEOUT,
        }
    }

    /// Sets how long the compatibility kit waits for the events of a stream.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

fn agent(name: &str) -> Agent {
    Agent {
        name: name.to_owned(),
        title: None,
        description: Some("Does what the first word of a message says.".to_owned()),
        skills: vec![AgentSkill {
            id: "script".to_owned(),
            name: "Script".to_owned(),
            description:
                "Answers, streams, asks, waits or fails, as the first word of a message says."
                    .to_owned(),
            tags: vec!["test".to_owned()],
            examples: Some(commands::EXAMPLES.map(str::to_owned).to_vec()),
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
    }
}

impl Executor for ScriptedExecutor {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(async { Ok(self.agents.clone()) })
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let script = tck::script(&input.message.message_id, self.timeout)
            .unwrap_or_else(|| commands::script(&input));
        Box::pin(play(script, events, cancel))
    }

    fn reattach(
        &self,
        _input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let script = commands::resume_script(&run)?;
        Some(Box::pin(play(script, events, cancel)))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(async { Ok(()) })
    }
}

async fn play(script: Script, events: ExecutionEvents, cancel: CancellationToken) -> Outcome {
    let Script { steps, outcome } = script;
    let all = async {
        for step in steps {
            match step {
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::WaitForever => std::future::pending().await,
                Step::ExecutionEvent(report) => events.send(report).await.ok()?,
            }
        }
        Some(())
    };
    let played = cancel.run_until_cancelled(all).await;
    match played {
        Some(Some(())) => outcome,
        // The server ignores the outcome of a stopped run.
        Some(None) | None => Outcome::Failed {
            reason: "stopped",
            text: "the script was stopped".to_owned(),
        },
    }
}
