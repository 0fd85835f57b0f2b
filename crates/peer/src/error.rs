//! Why a peer could not be asked, or what was wrong with its answer.

use std::fmt;

use serde_json::Value;

use collective::ErrorCode;

/// The kind of a [`PeerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerErrorKind {
    /// The host's name does not resolve.
    Dns,
    /// No connection could be made.
    Unreachable,
    /// The connection could not be secured.
    Tls,
    /// Policy does not allow a connection to that address.
    AddressRefused,
    /// The peer sent us elsewhere, and that is not followed.
    RedirectRefused,
    /// An HTTP status that is no success.
    HttpStatus,
    /// The peer wants credentials, or other ones (401, 403).
    AuthRequired,
    /// The authorization server of the peer's credential gave no access token.
    TokenUnavailable,
    /// The peer answered with a JSON-RPC error, or its HTTP+JSON equal.
    Rpc,
    /// The answer has the wrong shape.
    InvalidResponse,
    /// The answer is larger than the limits allow.
    TooLarge,
    /// One event of a stream is larger than the limits allow.
    EventTooLarge,
    /// The connection broke while an answer or a stream was under way.
    Cut,
    /// The peer offers no transport that we speak, or one was asked for that we do not speak.
    UnsupportedTransport,
    /// The peer offers no version of the protocol that we speak.
    UnsupportedVersion,
    /// The peer takes only requests that use an extension we do not have.
    ExtensionRequired,
    /// The request cannot be expressed in this transport.
    Unaddressable,
    /// There is no usable agent card.
    CardUnavailable,
    /// The agent card cannot be read.
    CardMalformed,
    /// The agent card must be signed, and no signature of it holds.
    CardSignature,
    /// An error of the registry of the gateway's protocol.
    Gateway(ErrorCode),
    /// The gateway has nothing to tell about that task any more.
    TaskForgotten,
    /// The call would have gone to the very session it comes from.
    OwnSession,
}

impl PeerErrorKind {
    /// Returns whether the peer was not there, or was lost. It refused nothing and may be back in a moment.
    pub fn is_away(self) -> bool {
        use ErrorCode as E;
        matches!(
            self,
            Self::Unreachable
                | Self::Dns
                | Self::Cut
                | Self::Gateway(E::ConnectionRefused | E::ConnectionTimeout | E::ConnectionReset)
        )
    }

    /// Returns whether the connection broke while something was under way on it.
    pub fn is_cut(self) -> bool {
        matches!(self, Self::Cut | Self::Gateway(ErrorCode::ConnectionReset))
    }
}

/// Whether a peer has seen a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// Certainly not: no byte of it left.
    No,
    /// Unknown.
    Unknown,
    /// It has: it answered.
    Yes,
}

impl Delivered {
    /// Returns the word that results use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Unknown => "unknown",
            Self::Yes => "yes",
        }
    }

    /// Returns whether a message was delivered, as far as the kind shows. An HTTP status may come from an intermediary.
    fn for_kind(kind: PeerErrorKind) -> Self {
        match kind {
            PeerErrorKind::Unaddressable
            | PeerErrorKind::UnsupportedTransport
            | PeerErrorKind::UnsupportedVersion
            | PeerErrorKind::ExtensionRequired
            | PeerErrorKind::TokenUnavailable
            | PeerErrorKind::OwnSession => Self::No,
            PeerErrorKind::Rpc
            | PeerErrorKind::InvalidResponse
            | PeerErrorKind::TooLarge
            | PeerErrorKind::EventTooLarge => Self::Yes,
            PeerErrorKind::Gateway(code) => Self::of_gateway(code),
            _ => Self::Unknown,
        }
    }

    /// Returns whether a message was delivered, by the error of the gateway. A gateway that rejects a message has not
    /// forwarded it.
    fn of_gateway(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ConnectionTimeout
            | ErrorCode::ConnectionReset
            | ErrorCode::ProtocolError => Self::Unknown,
            ErrorCode::AgentError => Self::Yes,
            ErrorCode::ConnectionRefused
            | ErrorCode::InvalidJson
            | ErrorCode::MissingField
            | ErrorCode::InvalidType
            | ErrorCode::UnknownType
            | ErrorCode::InvalidContent
            | ErrorCode::AgentNotFound
            | ErrorCode::AgentOffline
            | ErrorCode::AgentBusy
            | ErrorCode::SessionNotFound
            | ErrorCode::SessionExpired
            | ErrorCode::SessionLocked
            | ErrorCode::SessionCorrupt
            | ErrorCode::AuthRequired
            | ErrorCode::AuthFailed
            | ErrorCode::TokenExpired
            | ErrorCode::PermissionDenied => Self::No,
        }
    }
}

/// Why a peer could not be asked, or what was wrong with its answer. Holds no credential and no query string.
#[derive(Debug, Clone)]
pub struct PeerError {
    /// The kind.
    pub kind: PeerErrorKind,
    /// What failed and why, as a sentence without a full stop.
    pub message: String,
    /// The peer's JSON-RPC error code, where it gave one.
    pub rpc_code: Option<i64>,
    /// The peer's error data, where it gave any.
    pub rpc_data: Option<Value>,
    /// The HTTP status, where that is the matter.
    pub http_status: Option<u16>,
    /// The ways of proving who calls that the peer asks for, for [`PeerErrorKind::AuthRequired`]: the schemes of HTTP
    /// (RFC 9110 §11), else what its card declares.
    pub auth_schemes: Vec<String>,
    /// Whether the peer has seen the request.
    pub delivered: Delivered,
    /// The transports, for [`PeerErrorKind::UnsupportedTransport`].
    pub transports: Option<Box<Transports>>,
}

/// Transports by name: those that stand in the way, and those that would do.
#[derive(Debug, Clone)]
pub struct Transports {
    /// The requested or offered transports without support.
    pub unsupported: Vec<String>,
    /// The supported transports.
    pub supported: Vec<String>,
}

impl PeerError {
    /// Returns an error of which no more is known.
    pub fn new(kind: PeerErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            rpc_code: None,
            rpc_data: None,
            http_status: None,
            auth_schemes: Vec::new(),
            delivered: Delivered::for_kind(kind),
            transports: None,
        }
    }

    /// Returns the same error, where the request certainly never left.
    #[must_use]
    pub fn undelivered(mut self) -> Self {
        self.delivered = Delivered::No;
        self
    }

    /// Returns the same error with what was being done in front.
    #[must_use]
    pub fn during(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PeerError {}
