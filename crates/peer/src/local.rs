//! Peers behind the local gateway.

use std::time::Duration;

use a2a::Card;
use async_trait::async_trait;
use base::named;
use collective::AgentStatus;

use super::PeerError;

/// The local gateway, through which the caller reaches other agents.
#[async_trait]
pub trait LocalGateway: Send + Sync {
    /// Returns the agents, the triad last. Connects if necessary.
    ///
    /// # Errors
    /// The gateway did not list its agents.
    async fn members(&self) -> Result<Vec<Member>, PeerError>;

    /// Returns the state of the connection.
    fn connection(&self) -> Connection;

    /// Disconnects from the gateway, within a second.
    async fn close(&self);
}

/// An agent behind the gateway, or its triad.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name, without `gateway:`.
    pub name: String,
    /// The role.
    pub role: Option<String>,
    /// The status; `None` if the gateway reports no known one.
    pub status: Option<AgentStatus>,
    /// For the triad: its members and their status.
    pub members: Vec<(String, Option<AgentStatus>)>,
    /// The card. Contains no path of a file system.
    pub card: Card,
}

/// Returns the name of an agent's status.
pub fn status_name(status: Option<AgentStatus>) -> &'static str {
    status.map_or("unknown", AgentStatus::as_str)
}

/// The connection to the gateway and its parameters (Heretek A2A §3.2, §3.3).
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// The gateway's URL, without user info and query.
    pub url: String,
    /// The state of the connection.
    pub state: ConnectionState,
    /// The dialect, once known.
    pub dialect: Option<&'static str>,
    /// The subprotocol that the client offers.
    pub protocol: String,
    /// The timeout of connecting.
    pub timeout: Duration,
    /// The silence after which the client sends a ping.
    pub heartbeat: Duration,
    /// Why the last attempt to connect failed, or the last connection ended.
    pub last_error: Option<String>,
}

named! {
    /// The state of a connection (Heretek A2A §3.3).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ConnectionState {
        /// Connecting.
        Connecting = "CONNECTING",
        /// Open.
        Open = "OPEN",
        /// Closing.
        Closing = "CLOSING",
        /// Closed, or never opened.
        Closed = "CLOSED",
    }
}

impl ConnectionState {
    /// Returns the number of Heretek A2A §3.3.
    pub fn code(self) -> u8 {
        self as u8
    }
}
