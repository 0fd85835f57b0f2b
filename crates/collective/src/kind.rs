//! The types of messages (Heretek A2A §9, "Appendix A"; Heretek Architecture, "Message Types"), the channels, and the status of
//! an agent.

use base::named;
use serde_json::Value;

macro_rules! kinds {
    ($($(#[doc = $meaning:literal])+ $kind:ident = $name:literal, $code:expr, [$($required:literal),*];)+) => {
        /// The type of a message. The wire has its name. Only documents use the numbers of Heretek A2A, "Appendix A".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $meaning])+ $kind,)+
        }

        impl Kind {
            /// Every type, in the order of Heretek A2A, "Appendix A".
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// Returns its name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// Returns the number in Heretek A2A, "Appendix A"; `workspace` has none.
            pub fn code(self) -> Option<u8> {
                match self { $(Self::$kind => $code,)+ }
            }

            /// Returns the required fields of a client's message of this type, as paths separated by dots.
            pub fn required(self) -> &'static [&'static str] {
                match self { $(Self::$kind => &[$($required),*],)+ }
            }
        }
    };
}

kinds! {
    /// A message to an agent.
    Message = "message", Some(0x01), ["content", "agent"];
    /// The status of an agent.
    Status = "status", Some(0x02), ["content"];
    /// An error.
    Error = "error", Some(0x03), ["content", "content.error"];
    /// An event at the gateway.
    Event = "event", Some(0x04), ["content", "content.event"];
    /// The handshake: identity and capabilities.
    Handshake = "handshake", Some(0x10), ["content.action"];
    /// Discovery of agents and services.
    Discovery = "discovery", Some(0x11), ["content.action"];
    /// Subscribes to a channel.
    Subscribe = "subscribe", Some(0x12), ["content.channel"];
    /// Ends a subscription.
    Unsubscribe = "unsubscribe", Some(0x13), ["content.channel"];
    /// Asks whether the other side responds.
    Ping = "ping", Some(0x14), [];
    /// The answer to a ping.
    Pong = "pong", Some(0x15), [];
    /// A credential.
    Auth = "auth", Some(0x20), ["content.token"];
    /// Whether the credential is accepted.
    AuthResponse = "auth-response", Some(0x21), ["content.status"];
    /// The connection is about to end.
    Disconnect = "disconnect", Some(0x22), ["content.reason"];
    /// A proposal to the triad.
    Proposal = "proposal", Some(0x30), ["content.proposal"];
    /// A decision of the triad.
    Decision = "decision", Some(0x31), ["content.result"];
    /// The vote of a member of the triad.
    Vote = "vote", Some(0x32), ["content.vote"];
    /// A request to a service.
    Request = "request", Some(0x33), ["content.service"];
    /// The response of a service.
    Response = "response", Some(0x34), ["content.result"];
    /// A message to all.
    Broadcast = "broadcast", Some(0x35), ["content.message"];
    /// The query of workspaces and its answer (Heretek A2A §6.3); in no registry.
    Workspace = "workspace", None, ["content.action"];
}

impl Kind {
    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

named! {
    /// A channel that clients subscribe to (Heretek A2A §6.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Channel {
        /// Status changes of agents.
        Status = "agent:status",
        /// Decisions of the triad.
        Decisions = "triad:decision",
        /// Events of the gateway, for its operator.
        Events = "gateway:events",
    }
}

named! {
    /// The status of an agent (Heretek A2A §8.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum AgentStatus {
        /// Connected and accepting messages.
        Online = "online",
        /// Not connected.
        Offline = "offline",
        /// Connected, but working and not accepting messages.
        Busy = "busy",
        /// Connected and accepting messages, without work.
        Idle = "idle",
        /// Failed, and not accepting messages.
        Error = "error",
    }
}

impl AgentStatus {
    /// Parses a status as agents and registries report it. `active` (Heretek A2A §8.1) is the same as `online`.
    pub fn reported(name: &str) -> Option<Self> {
        match name.eq_ignore_ascii_case("active") {
            true => Some(Self::Online),
            false => Self::from_name(name),
        }
    }
}

/// A gateway that greets its client, by its first frame. A gateway of `a2a-v1` waits for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// `connect.challenge` of OpenClaw's own gateway.
    OpenClaw,
    /// `welcome` of the archived JavaScript gateway.
    HeretekJs,
}

impl Greeting {
    /// Returns the greeting in a frame.
    pub fn from_frame(frame: &Value) -> Option<Self> {
        match frame["type"].as_str()? {
            "event" if frame["event"] == "connect.challenge" => Some(Self::OpenClaw),
            "welcome" if frame["gateway"].is_object() => Some(Self::HeretekJs),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
