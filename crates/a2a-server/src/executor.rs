//! The interface of the programs that do the work.

use std::collections::HashMap;

use a2a::v1_0::{Artifact, Message, Part};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub mod scripted;

/// The media types that every agent answers in. A skill may add others.
pub const OUTPUT_MODES: [&str; 1] = ["text/plain"];

/// Executes messages. One run is one turn of an agent.
pub trait Executor: Send + Sync + 'static {
    /// Lists the agents, the default first. Cards are built from it.
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>>;

    /// Works on a message. Sends events to `events` in order. The first poll of the future runs in the client's request and
    /// must not block. After `cancel` the run must stop within
    /// seconds, with everything it started; the server then ignores the outcome. Dropping the future has to stop the
    /// run too.
    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome>;

    /// Reattaches to the run that an earlier process named `run`; `None` if that is impossible.
    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>>;

    /// Checks that the executor can work.
    ///
    /// # Errors
    /// Why it cannot.
    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// Disconnects, within about a second. Called once, after the last run.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// An agent, as a card describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its id in paths and metadata.
    pub name: String,
    /// Its display name, if that differs.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Its own skills.
    pub skills: Vec<a2a::v1_0::AgentSkill>,
}

/// The work of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The task of the message.
    pub task_id: String,
    /// The context of the task.
    pub context_id: String,
    /// The executor's session of the context.
    pub session: String,
    /// The agent; `None` for the executor's default.
    pub agent: Option<String>,
    /// The client that sent the message.
    pub client: String,
    /// The message.
    pub message: Message,
    /// The position in a chain of delegations: the metadata `openclaw-remote-agent/delegation` of the message.
    pub delegation: Option<Value>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionEvent {
    /// The name of the run. The server stores it before anything else, for reattaching after a restart.
    Run(String),
    /// The run continues, with an optional message of the agent.
    Working(Option<Vec<Part>>),
    /// An artifact, or a chunk of one.
    Artifact {
        /// The artifact or chunk.
        artifact: Artifact,
        /// Whether the chunk is appended to the artifact of the same id.
        append: bool,
        /// Whether it is the last chunk.
        last_chunk: bool,
    },
    /// Facts such as usage, merged into the task's metadata.
    Metadata(HashMap<String, Value>),
}

/// The channel of events. It is bounded, so a run waits while the store or the subscribers are behind.
pub type ExecutionEvents = mpsc::Sender<ExecutionEvent>;

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The run completed. The parts become the status message; `None` if an artifact has the answer.
    Completed(Option<Vec<Part>>),
    /// The run answered with a message in place of a task.
    Message(Vec<Part>),
    /// The agent waits for an answer of the client.
    InputRequired(Vec<Part>),
    /// The agent waits for credentials of the client.
    AuthRequired(Vec<Part>),
    /// The agent rejected the message.
    Rejected(String),
    /// The run failed.
    Failed {
        /// The reason as one word, such as `binary_not_found`.
        reason: &'static str,
        /// What failed, why, and what to do.
        text: String,
    },
}

/// An error of an executor.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ExecutorError(pub String);
