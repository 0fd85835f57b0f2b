//! Agents of an `a2a-v1` gateway whose replies and votes come from a backend.
//!
//! An [`Agent`] connects to a gateway, keeps the conversation of each thread, and requests replies and votes from its
//! [`AgentBackend`]. A backend is a command ([`CommandBackend`]), a model endpoint ([`ModelBackend`]), or an agent that the
//! tool `remote_agent` calls ([`ToolBackend`]): an A2A agent, or an agent of a local OpenClaw.
//!
//! | module | content |
//! |---|---|
//! | [`backend`] | the trait and its types |
//! | `agent` | connection and status |
//! | `turns` | one message or proposal, from its arrival to its reply or vote, and the queues |
//! | `threads` | conversations |
//! | `supervisor` | agents that a gateway runs in its own process |
//! | `link` | the client of another gateway, which passes messages between both |
//! | `command`, `model`, `tool` | the backends |
//!
//! # Examples
//!
//! An agent with a backend of its own, behind a gateway in the same process:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use base::{environment::SystemEnvironment, log::Silent};
//! use futures_util::future::BoxFuture;
//! use gateway_bridge::client::{AgentEvent, Connector, Endpoint, Message};
//! use gateway_server::{Server, config::ServerConfig};
//! use openclaw_remote_agent_gateway_agent::{
//!     Agent, AgentBackend, AgentSettings, BackendError, ProgressSink, Turn,
//! };
//! use tokio_util::sync::CancellationToken;
//!
//! struct Uppercase;
//!
//! impl AgentBackend for Uppercase {
//!     fn answer<'a>(
//!         &'a self,
//!         turn: &'a Turn,
//!         _progress: ProgressSink<'a>,
//!         _cancel: &'a CancellationToken,
//!     ) -> BoxFuture<'a, Result<String, BackendError>> {
//!         Box::pin(async { Ok(turn.text.to_uppercase()) })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let state_dir = tempfile::tempdir()?;
//! let config = ServerConfig {
//!     listen: "127.0.0.1:0".parse()?,
//!     state_dir: state_dir.path().into(),
//!     ..ServerConfig::default()
//! };
//! let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent)).await?;
//! let endpoint = Endpoint::new(server.url().parse()?);
//! let shutdown = CancellationToken::new();
//! let gateway = tokio::spawn(server.run(shutdown.clone()));
//!
//! let (events, mut connected) = tokio::sync::mpsc::unbounded_channel();
//! let agent = Agent::new(
//!     AgentSettings::new("coder"),
//!     Arc::new(Uppercase),
//!     Arc::new(SystemEnvironment),
//!     move |event| drop(events.send(matches!(event, AgentEvent::Connected(..)))),
//! );
//! let connector = Connector::new()?;
//! let client = async {
//!     while connected.recv().await == Some(false) {}
//!     let mut requester = connector.connect(endpoint.clone()).await?;
//!     let message = Message { agent: "coder".into(), text: "hello".into(), session_id: None };
//!     let reply = requester.send_and_wait(&message, Duration::from_secs(5), |_| {}).await?;
//!     shutdown.cancel();
//!     Ok::<_, gateway_bridge::client::ClientError>(reply.text)
//! };
//! let (served, reply) = tokio::join!(agent.serve(&connector, &endpoint, &shutdown), client);
//! served?;
//! assert_eq!(reply?, "HELLO");
//! gateway.await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod agent;
pub mod backend;
mod command;
mod link;
mod model;
mod settings;
mod supervisor;
#[cfg(test)]
mod tests;
mod threads;
mod tool;
mod turns;

pub use agent::Agent;
pub use backend::{AgentBackend, BackendError, ProgressSink, Proposal, Turn, Utterance};
pub use command::{CommandBackend, DELEGATION_VARIABLE};
pub use model::{ModelBackend, ModelSettings};
pub use settings::AgentSettings;
pub use supervisor::Supervisor;
pub use tool::ToolBackend;
