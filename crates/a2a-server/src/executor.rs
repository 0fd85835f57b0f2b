//! The interface between the server and the agents.

use std::collections::HashMap;

use a2a::v1_0::{Artifact, Message, Part};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub mod scripted;

/// The media types in which every agent can answer. A skill may add others.
pub const OUTPUT_MODES: [&str; 1] = ["text/plain"];

/// Executes messages. One run is one turn of an agent.
pub trait Executor: Send + Sync + 'static {
    /// Lists the agents, the default agent first. The agent cards contain them.
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>>;

    /// Runs an agent with a message, and sends events to `events` in order. The client's request executes the first
    /// poll of the future, which therefore must not block. After `cancel`, the run must stop within seconds, including
    /// everything it has started; the server then ignores the outcome. Dropping the future must stop the run too.
    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome>;

    /// Reattaches to the run that an earlier process named `run`; `None` if the executor cannot find it.
    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>>;

    /// Checks that the executor can run agents.
    ///
    /// # Errors
    /// The executor cannot run agents. The error contains the cause.
    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// Changes what dropping the future of a run does: the run continues, so that another process can reattach to it.
    /// The server calls this once, when it stops and another process can have its tasks. The default does nothing, for
    /// an executor whose runs end with the process.
    fn detach(&self) {}

    /// Disconnects within about a second. The server calls this once, after the last run.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// An agent in the form that agent cards need.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The id of the agent in paths and metadata.
    pub name: String,
    /// The display name, if it differs from the id.
    pub title: Option<String>,
    /// What the agent does.
    pub description: Option<String>,
    /// The skills of the agent.
    pub skills: Vec<a2a::v1_0::AgentSkill>,
}

/// The input of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The id of the task.
    pub task_id: String,
    /// The id of the context of the task.
    pub context_id: String,
    /// The executor's session of the context.
    pub session: String,
    /// The agent; `None` for the executor's default agent.
    pub agent: Option<String>,
    /// The client that sent the message.
    pub client: String,
    /// The message.
    pub message: Message,
    /// The position in a chain of delegations: `openclaw-remote-agent/delegation` in the metadata of the message.
    pub delegation: Option<Value>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionEvent {
    /// The name of the run. The server stores it before other events, so that it can reattach after a restart.
    Run(String),
    /// The run continues. Contains an optional message of the agent.
    Working(Option<Vec<Part>>),
    /// An artifact, or a chunk of one.
    Artifact {
        /// The artifact or chunk.
        artifact: Artifact,
        /// Whether the chunk is appended to the artifact of the same id.
        append: bool,
        /// Whether this is the last chunk of the artifact.
        last_chunk: bool,
    },
    /// Facts such as token usage, which the server merges into the metadata of the task.
    Metadata(HashMap<String, Value>),
}

/// The channel of events. It is bounded, so a run waits while the store or the subscribers are slow.
pub type ExecutionEvents = mpsc::Sender<ExecutionEvent>;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The run completed. The parts become the status message; `None` if an artifact contains the answer.
    Completed(Option<Vec<Part>>),
    /// The agent answered with a message in place of a task.
    Message(Vec<Part>),
    /// The agent waits for input of the client.
    InputRequired(Vec<Part>),
    /// The agent waits for credentials of the client.
    AuthRequired(Vec<Part>),
    /// The agent rejected the message.
    Rejected(String),
    /// The run failed.
    Failed {
        /// The reason in one word, such as `binary_not_found`.
        reason: &'static str,
        /// What failed, why, and what to do.
        text: String,
    },
}

/// An error of an executor.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ExecutorError(pub String);
