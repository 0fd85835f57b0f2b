//! Peers behind a local gateway (its agents, and a triad that votes), and clients of a gateway of `a2a-v1`.
//!
//! The tool passes the name of an agent and a message of A2A to [`BridgedGateway`] (`directory.rs`), which implements
//! `peer::PeerProvider`. `connector.rs` keeps one connection per instance. `dial.rs` opens it and detects the dialect
//! by the gateway's first frame. `a2a_v1/`, `heretek_js.rs` and `openclaw/` write the message as a frame of their
//! dialect, read the frames that answer it, and return tasks and events of A2A. `pending_tasks/` keeps the tasks of a
//! gateway that has none, and `triad/` counts the votes if the gateway cannot. [`delegation`] records how many
//! delegations precede the work of a session, and [`session_key`] derives the id of the session.
//!
//! The command and the agents of a gateway use [`client`] instead: it speaks `a2a-v1` alone, with the handshake of
//! `a2a_v1/`, and passes whole envelopes. The crate does not check permissions of callers.
//!
//! # Examples
//!
//! The session id of a conversation, which needs no storage:
//!
//! ```
//! use openclaw_remote_agent_gateway_bridge::session_key::session_id;
//!
//! assert_eq!(session_id("user:123/session:456"), "a2a-user-123-session-456");
//! ```
//!
//! The agents of OpenClaw's gateway on this machine:
//!
//! ```no_run
//! use std::sync::Arc;
//! use openclaw_remote_agent_gateway_bridge::{BridgedGateway, Settings};
//! # async fn run(
//! #     net: Arc<dyn egress::HttpClient>,
//! #     env: Arc<dyn base::environment::Environment>,
//! #     log: Arc<dyn base::log::Log>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::new("ws://127.0.0.1:18789".parse()?);
//! let gateway = BridgedGateway::new(net, settings, env, log);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod a2a_v1;
pub mod client;
mod connector;
pub mod delegation;
mod dial;
mod directory;
mod heretek_js;
mod members;
pub mod openclaw;
mod pending_tasks;
mod proposal;
pub mod session_key;
mod settings;
mod signer;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
mod triad;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ::peer::{EventStream, Member, PeerError};
use a2a::{Reply, SendRequest, Task};
use async_trait::async_trait;
use egress::SendState;

pub use directory::BridgedGateway;
pub use settings::{DialectChoice, Settings};
pub use signer::Signer;

/// The context of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallContext {
    /// The agent's name, or [`TRIAD`].
    pub agent: String,
    /// The conversation, if the caller names one.
    pub context_id: Option<String>,
    /// The id of the session that the message continues, if it is not the session of `context_id`.
    pub session: Option<String>,
    /// The caller's own session in the host. A call to it is refused.
    pub session_key: Option<String>,
    /// The state directory of the host.
    pub state_dir: Option<PathBuf>,
    /// When the call began. The `ttl` of a message counts from then.
    pub since: Option<Instant>,
    /// When a blocking send stops waiting and returns a task.
    pub wait_until: Option<tokio::time::Instant>,
    /// Whether a message may have left.
    pub send_state: SendState,
}

impl CallContext {
    /// Returns how long a blocking call waits for the reply before it returns a task.
    pub(crate) fn wait_limit(&self, settings: &Settings) -> Duration {
        let remaining = |until: tokio::time::Instant| {
            until.saturating_duration_since(tokio::time::Instant::now())
        };
        self.wait_until.map_or(settings.default_wait, remaining)
    }
}

/// The purpose of a list of agents, which determines the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListPurpose {
    /// The caller requests the list.
    List,
    /// Before a message, to detect a wrong name early.
    Send,
}

/// The name of the triad among the agents.
pub const TRIAD: &str = "triad";

/// A connection to a gateway after the handshake, in one dialect. All calls of an instance share it.
#[async_trait]
pub(crate) trait GatewayLink: Send + Sync {
    /// Returns the dialect as results name it: `a2a-v1`, `openclaw/4` or `heretek-js`.
    fn dialect(&self) -> &'static str;

    /// Returns whether the connection is open.
    fn is_open(&self) -> bool;

    /// Lists the agents behind the gateway, without the triad.
    async fn members(&self, wait: ListPurpose) -> Result<Vec<Member>, PeerError>;

    /// Sends one message and waits for the reply.
    async fn send(&self, call: &CallContext, outgoing: &SendRequest) -> Result<Reply, PeerError>;

    /// Sends one message and returns the events that follow.
    async fn stream(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError>;

    /// Returns the task in its current state.
    async fn get_task(&self, call: &CallContext, task_id: &str) -> Result<Task, PeerError>;

    /// Cancels the task.
    async fn cancel(&self, call: &CallContext, task_id: &str) -> Result<Task, PeerError>;

    /// Subscribes to a task again.
    async fn resubscribe(
        &self,
        call: &CallContext,
        task_id: &str,
    ) -> Result<Box<dyn EventStream>, PeerError>;

    /// Returns why the connection closed.
    fn last_error(&self) -> Option<String> {
        None
    }

    /// Returns whether the gateway asked the client not to reconnect before the next call.
    fn is_dismissed(&self) -> bool {
        false
    }

    /// Returns whether the gateway has a triad. If not, the bridge counts the votes.
    fn has_triad(&self) -> bool {
        false
    }

    /// Disconnects and closes, within a second.
    async fn close(&self);
}
