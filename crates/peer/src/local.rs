//! Peers behind the local gateway.

use std::time::Duration;

use a2a::Card;
use async_trait::async_trait;

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
    /// The status.
    pub status: MemberStatus,
    /// For the triad: its members and their status.
    pub members: Vec<(String, MemberStatus)>,
    /// The card. Contains no path of a file system.
    pub card: Card,
}

/// The status of an agent (Heretek A2A §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberStatus {
    /// It accepts messages.
    Online,
    /// Not running.
    Offline,
    /// It is working.
    Busy,
    /// It accepts messages and is not working.
    Idle,
    /// It has failed.
    Error,
    /// The gateway reports no known status.
    Unknown,
}

impl MemberStatus {
    /// Parses a gateway's status. Registries write `Active` for online.
    pub fn from_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "online" | "active" => Self::Online,
            "offline" => Self::Offline,
            "busy" => Self::Busy,
            "idle" => Self::Idle,
            "error" => Self::Error,
            _ => Self::Unknown,
        }
    }

    /// Returns the word that results use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
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

/// The state of a connection (Heretek A2A §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Connecting.
    Connecting = 0,
    /// Open.
    Open = 1,
    /// Closing.
    Closing = 2,
    /// Closed, or never opened.
    Closed = 3,
}

impl ConnectionState {
    /// Returns the name of Heretek A2A §3.3.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "CONNECTING",
            Self::Open => "OPEN",
            Self::Closing => "CLOSING",
            Self::Closed => "CLOSED",
        }
    }

    /// Returns the number of Heretek A2A §3.3.
    pub fn code(self) -> u8 {
        self as u8
    }
}
