//! The registry of errors (Heretek A2A, "Appendix B"; Heretek Architecture, "Error Code Registry"), and the close codes
//! of WebSocket (RFC 6455 §7.4.1).
//!
//! The close codes are a table of their own: 1001 to 1004 are errors of the protocol as well, with other meanings. As a
//! close code, 4001 is one gateway's code for a wrong credential; in the registry, it is an unknown session. The place
//! of a number decides which table applies.

macro_rules! errors {
    ($($(#[doc = $meaning:literal])+ $error:ident = $number:literal, $name:literal;)+) => {
        /// An error of the registry. Its number is not a close code of WebSocket, although some are equal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $($(#[doc = $meaning])+ $error,)+
        }

        impl ErrorCode {
            /// Every error, by number.
            pub const ALL: &'static [Self] = &[$(Self::$error),+];

            /// Returns its number (`content.code`).
            pub fn number(self) -> u16 {
                match self { $(Self::$error => $number,)+ }
            }

            /// Returns its name (`content.error`).
            pub fn name(self) -> &'static str {
                match self { $(Self::$error => $name,)+ }
            }

            /// Returns its meaning, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$error => concat!($($meaning),+),)+ }.trim_ascii()
            }
        }
    };
}

errors! {
    /// The gateway refused the connection.
    ConnectionRefused = 1001, "CONNECTION_REFUSED";
    /// The gateway did not answer in time.
    ConnectionTimeout = 1002, "CONNECTION_TIMEOUT";
    /// The connection to the gateway broke.
    ConnectionReset = 1003, "CONNECTION_RESET";
    /// The other side does not keep to the protocol.
    ProtocolError = 1004, "PROTOCOL_ERROR";
    /// The message is not JSON.
    InvalidJson = 2001, "INVALID_JSON";
    /// A field that must be there is missing.
    MissingField = 2002, "MISSING_FIELD";
    /// A field has the wrong type.
    InvalidType = 2003, "INVALID_TYPE";
    /// The type of the message is not known.
    UnknownType = 2004, "UNKNOWN_TYPE";
    /// The content of the message is not usable.
    InvalidContent = 2005, "INVALID_CONTENT";
    /// There is no agent of that name.
    AgentNotFound = 3001, "AGENT_NOT_FOUND";
    /// The agent is not connected.
    AgentOffline = 3002, "AGENT_OFFLINE";
    /// The agent or the gateway is overloaded.
    AgentBusy = 3003, "AGENT_BUSY";
    /// The agent failed.
    AgentError = 3004, "AGENT_ERROR";
    /// There is no session of that id.
    SessionNotFound = 4001, "SESSION_NOT_FOUND";
    /// The session is over.
    SessionExpired = 4002, "SESSION_EXPIRED";
    /// Another process holds the session.
    SessionLocked = 4003, "SESSION_LOCKED";
    /// The stored session cannot be read.
    SessionCorrupt = 4004, "SESSION_CORRUPT";
    /// The gateway requires a credential.
    AuthRequired = 5001, "AUTH_REQUIRED";
    /// The gateway does not take the credential.
    AuthFailed = 5002, "AUTH_FAILED";
    /// The credential has expired.
    TokenExpired = 5003, "TOKEN_EXPIRED";
    /// The credential does not allow that.
    PermissionDenied = 5004, "PERMISSION_DENIED";
}

impl ErrorCode {
    /// Returns the error of this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|error| u64::from(error.number()) == number)
    }

    /// Returns the error of this name; case does not count.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|error| error.name().eq_ignore_ascii_case(name))
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.number(), self.name())
    }
}

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $code:ident = $number:literal;)+) => {
        /// The reason for the end of a connection. Its number is no error of the registry, although some are equal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CloseCode {
            $($(#[doc = $meaning])+ $code,)+
        }

        impl CloseCode {
            /// Every code, by number.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            /// Returns its number.
            pub fn number(self) -> u16 {
                match self { $(Self::$code => $number,)+ }
            }

            /// Returns its meaning, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$code => concat!($($meaning),+),)+ }.trim_ascii()
            }
        }
    };
}

codes! {
    /// All is said.
    Normal = 1000;
    /// The other side goes away: it shuts down, or has left.
    GoingAway = 1001;
    /// The other side does not keep to the rules of WebSockets.
    ProtocolError = 1002;
    /// The other side does not take such data.
    Unsupported = 1003;
    /// No code was given. Never sent.
    NoCode = 1005;
    /// The connection broke without a word. Never sent.
    Abnormal = 1006;
    /// A text was not UTF-8.
    NotUtf8 = 1007;
    /// The other side does not allow what was done.
    Policy = 1008;
    /// A frame was too large.
    TooLarge = 1009;
    /// An extension is missing.
    ExtensionMissing = 1010;
    /// The other side failed.
    Internal = 1011;
    /// The other side starts anew.
    Restart = 1012;
    /// The other side is overloaded.
    TryLater = 1013;
    /// A gateway behind the other side answers badly.
    BadGateway = 1014;
    /// TLS failed. Never sent.
    Tls = 1015;
    /// The JavaScript gateway does not take the credential. Its own; no gateway of `a2a-v1` sends it.
    Unauthorized = 4001;
}

impl CloseCode {
    /// Returns the code of this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.number() == number)
    }
}

#[cfg(test)]
mod tests;
