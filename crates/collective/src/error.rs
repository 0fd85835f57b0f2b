//! The registry of errors (Heretek A2A, "Appendix B"; Heretek Architecture, "Error Code Registry").

macro_rules! errors {
    ($($(#[doc = $meaning:literal])+ $error:ident = $number:literal, $name:literal, $reason:literal;)+) => {
        /// An error of the registry. Its number is no close code of a WebSocket, though some look alike.
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

            /// Returns its name in lower case, as results of the tool have it.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$error => $reason,)+ }
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
    ConnectionRefused = 1001, "CONNECTION_REFUSED", "connection_refused";
    /// The gateway did not answer in time.
    ConnectionTimeout = 1002, "CONNECTION_TIMEOUT", "connection_timeout";
    /// The connection to the gateway broke.
    ConnectionReset = 1003, "CONNECTION_RESET", "connection_reset";
    /// The other side does not keep to the protocol.
    ProtocolError = 1004, "PROTOCOL_ERROR", "protocol_error";
    /// The message is not JSON.
    InvalidJson = 2001, "INVALID_JSON", "invalid_json";
    /// A field that must be there is missing.
    MissingField = 2002, "MISSING_FIELD", "missing_field";
    /// A field has the wrong type.
    InvalidType = 2003, "INVALID_TYPE", "invalid_type";
    /// The type of the message is not known.
    UnknownType = 2004, "UNKNOWN_TYPE", "unknown_type";
    /// The content of the message is not usable.
    InvalidContent = 2005, "INVALID_CONTENT", "invalid_content";
    /// There is no agent of that name.
    AgentNotFound = 3001, "AGENT_NOT_FOUND", "agent_not_found";
    /// The agent is not connected.
    AgentOffline = 3002, "AGENT_OFFLINE", "agent_offline";
    /// The agent or the gateway is overloaded.
    AgentBusy = 3003, "AGENT_BUSY", "agent_busy";
    /// The agent failed.
    AgentError = 3004, "AGENT_ERROR", "agent_error";
    /// There is no session of that id.
    SessionNotFound = 4001, "SESSION_NOT_FOUND", "session_not_found";
    /// The session is over.
    SessionExpired = 4002, "SESSION_EXPIRED", "session_expired";
    /// Another process holds the session.
    SessionLocked = 4003, "SESSION_LOCKED", "session_locked";
    /// The stored session cannot be read.
    SessionCorrupt = 4004, "SESSION_CORRUPT", "session_corrupt";
    /// The gateway requires a credential.
    AuthRequired = 5001, "AUTH_REQUIRED", "auth_required";
    /// The gateway does not take the credential.
    AuthFailed = 5002, "AUTH_FAILED", "auth_failed";
    /// The credential has expired.
    TokenExpired = 5003, "TOKEN_EXPIRED", "token_expired";
    /// The credential does not allow that.
    PermissionDenied = 5004, "PERMISSION_DENIED", "permission_denied";
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

#[cfg(test)]
mod tests;
