//! Who does the work.

use std::collections::HashMap;

use a2a::v1_0::{Artifact, Message, Part};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub mod scripted;

/// What every agent answers in; a skill may have more.
pub const OUTPUT_MODES: [&str; 1] = ["text/plain"];

/// Does what messages ask for. One run is one turn of an agent.
pub trait Executor: Send + Sync + 'static {
    /// The agents that can be asked, the default one first. Their cards are made of this.
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>>;

    /// Works on a message until that ends. What happens on the way goes to `reports`, in order. When `cancel` is
    /// cancelled the run is to stop for good, with everything it started, within seconds; what it returns then is not
    /// looked at. Dropping the future must stop it as well.
    fn run(
        &self,
        job: Job,
        reports: Reports,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome>;

    /// Goes on with a run that an earlier process began and named `run`; `None` where that cannot be.
    fn reattach(
        &self,
        job: Job,
        run: String,
        reports: Reports,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>>;

    /// Whether work can be done now; says why not.
    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// Takes leave of whoever does the work, within a second or so. Called once, when no run is left.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// An agent as a card shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its id, as paths and metadata name it.
    pub name: String,
    /// What people call it, where that is something else.
    pub title: Option<String>,
    /// What it is there for.
    pub description: Option<String>,
    /// What it can do beside taking messages.
    pub skills: Vec<a2a::v1_0::AgentSkill>,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The task it belongs to.
    pub task_id: String,
    /// The conversation it belongs to.
    pub context_id: String,
    /// The session of OpenClaw that the conversation is.
    pub session: String,
    /// The agent that is asked; the executor's default where there is none.
    pub agent: Option<String>,
    /// The client that asks.
    pub client: String,
    /// What it says.
    pub message: Message,
    /// Where the message stands in a row of delegations: what its metadata says under `openclaw-remote-agent/delegation`.
    pub delegation: Option<Value>,
}

/// Something that happens while a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It has a name now; kept before anything else happens, so that a restart finds it.
    Run(String),
    /// It goes on; the agent may say so in words.
    Working(Option<Vec<Part>>),
    /// An artifact, or more of one.
    Artifact {
        /// The artifact, or what is added to it.
        artifact: Artifact,
        /// It is added to the artifact of that id.
        append: bool,
        /// Nothing more will be added.
        last_chunk: bool,
    },
    /// Facts about the run, such as usage; they become the task's metadata.
    Metadata(HashMap<String, Value>),
}

/// Where reports go. Sending waits while the task's listeners are behind, so a run cannot fill the memory.
pub type Reports = mpsc::Sender<Report>;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done. What the agent says last becomes the status's message, unless it was said in an artifact.
    Completed(Option<Vec<Part>>),
    /// Answered at once: a message, and no task.
    Message(Vec<Part>),
    /// Waits for an answer of the client.
    InputRequired(Vec<Part>),
    /// Waits for credentials of the client.
    AuthRequired(Vec<Part>),
    /// Refused.
    Rejected(String),
    /// Not done.
    Failed {
        /// One word for programs, such as `binary_not_found`.
        reason: &'static str,
        /// What failed, why, and what to do next.
        text: String,
    },
}

/// Why an executor cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ExecutorError(pub String);
