//! Peers beside the caller, found through the gateway that they share.

use std::time::Duration;

use a2a::Card;

use super::{BoxFuture, PeerError};

/// The gateway that the caller and other agents are behind.
pub trait LocalGateway: Send + Sync {
    /// Who is behind it now, the triad last where it has one. Connects where no connection is open.
    ///
    /// # Errors
    /// Why the agents are unknown.
    fn members(&self) -> BoxFuture<'_, Result<Vec<Member>, PeerError>>;

    /// How the connection is.
    fn connection(&self) -> Connection;

    /// Disconnects from the gateway, within a second.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// An agent behind the gateway, or its triad.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name, without `gateway:`.
    pub name: String,
    /// What it is there for, in its gateway's words.
    pub role: Option<String>,
    /// How it is.
    pub status: MemberStatus,
    /// For the triad: its members and how each is.
    pub members: Vec<(String, MemberStatus)>,
    /// What there is to know for calling it. Holds no path of a file system.
    pub card: Card,
}

/// How an agent is (Heretek A2A §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberStatus {
    /// It takes messages.
    Online,
    /// It is not running.
    Offline,
    /// It works on something.
    Busy,
    /// It takes messages and has nothing to do.
    Idle,
    /// It has failed.
    Error,
    /// Its gateway does not say, or not in a word that is known.
    Unknown,
}

impl MemberStatus {
    /// The status that a gateway's word stands for. `Active` is how registries write online.
    pub fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "online" | "active" => Self::Online,
            "offline" => Self::Offline,
            "busy" => Self::Busy,
            "idle" => Self::Idle,
            "error" => Self::Error,
            _ => Self::Unknown,
        }
    }

    /// The word that results use.
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

/// The connection to the gateway, and the parameters it is made with (Heretek A2A §3.2, §3.3).
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// The gateway's URL, without user info and query.
    pub url: String,
    /// Where the connection is in its life.
    pub state: ConnectionState,
    /// What the gateway speaks, once that is known.
    pub dialect: Option<&'static str>,
    /// The subprotocol that is offered.
    pub protocol: String,
    /// How long connecting may take.
    pub timeout: Duration,
    /// How long the connection may be silent before the gateway is asked whether it is there.
    pub heartbeat: Duration,
    /// Why the last attempt to connect failed, or the last connection ended.
    pub last_error: Option<String>,
}

/// Where a connection is in its life (Heretek A2A §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// It is being made.
    Connecting = 0,
    /// It stands.
    Open = 1,
    /// It is being ended.
    Closing = 2,
    /// There is none.
    Closed = 3,
}

impl ConnectionState {
    /// The name of Heretek A2A §3.3.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "CONNECTING",
            Self::Open => "OPEN",
            Self::Closing => "CLOSING",
            Self::Closed => "CLOSED",
        }
    }

    /// The number of Heretek A2A §3.3.
    pub fn code(self) -> u8 {
        self as u8
    }
}
