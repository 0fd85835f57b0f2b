//! Agents of an `a2a-v1` gateway whose replies and votes come from a backend.
//!
//! An [`Agent`] connects to a gateway, keeps the conversation of each thread, and requests replies and votes from its
//! [`AgentBackend`]. A backend is a command ([`CommandBackend`]), a model endpoint ([`ModelBackend`]), or an agent that the
//! tool `remote_agent` calls ([`ToolBackend`]): an A2A agent, or an agent of a local OpenClaw.
//!
//! | module | content |
//! |---|---|
//! | [`backend`] | the trait and its types |
//! | `agent` | connection, queue and status |
//! | `turns` | one message or proposal, from its arrival to its reply or vote, and the queues |
//! | `vote` | the request for a vote, and how its answer is parsed |
//! | `threads` | conversations |
//! | `supervisor` | agents that a gateway runs in its own process |
//! | `command`, `model`, `tool` | the backends |

#![forbid(unsafe_code)]

mod agent;
pub mod backend;
mod command;
mod model;
mod settings;
mod supervisor;
#[cfg(test)]
mod tests;
mod threads;
mod tool;
mod turns;
mod vote;

pub use agent::Agent;
pub use backend::{AgentBackend, BackendError, ProgressSink, Proposal, Turn, Utterance};
pub use command::{CommandBackend, DELEGATION_VARIABLE};
pub use model::{ModelBackend, ModelSettings};
pub use settings::AgentSettings;
pub use supervisor::Supervisor;
pub use tool::ToolBackend;
