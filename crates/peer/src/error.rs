//! Errors of calls to peers.

use std::fmt;

use serde_json::Value;

use base::named;
use collective::ErrorCode;
use egress::NetFault;

/// The kind of a [`PeerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerErrorKind {
    /// The HTTP client failed: name, connection, TLS, address policy, proxy, access token or size. A violation of HTTP is
    /// [`InvalidResponse`](Self::InvalidResponse).
    Net(NetFault),
    /// The peer redirected the request, and the client does not follow the redirect.
    RedirectRefused,
    /// The HTTP status is not a success.
    HttpStatus,
    /// The peer requires credentials, or rejected them (401, 403).
    AuthRequired,
    /// The peer answered with a JSON-RPC error, or its equivalent in HTTP+JSON.
    Rpc,
    /// The answer has the wrong shape.
    InvalidResponse,
    /// The peer offers no supported transport, or the request asked for an unsupported one.
    UnsupportedTransport,
    /// The peer offers no supported version of the protocol.
    UnsupportedVersion,
    /// The peer requires an extension that the client does not support.
    ExtensionRequired,
    /// The request cannot be expressed in this transport.
    Unaddressable,
    /// There is no usable agent card.
    CardUnavailable,
    /// The agent card cannot be read.
    CardMalformed,
    /// The agent card must be signed, and it has no valid signature.
    CardSignature,
    /// An error of the gateway protocol's registry.
    Gateway(ErrorCode),
    /// The gateway no longer knows the task.
    TaskForgotten,
    /// The target is the session that the call comes from.
    OwnSession,
}

impl From<NetFault> for PeerErrorKind {
    /// A violation of HTTP is an invalid response, like one of A2A.
    fn from(fault: NetFault) -> Self {
        match fault {
            NetFault::Protocol => Self::InvalidResponse,
            fault => Self::Net(fault),
        }
    }
}

impl PeerErrorKind {
    /// Returns whether the peer was unreachable or lost. It has not refused anything and may be back in a moment.
    pub fn is_unreachable(self) -> bool {
        use ErrorCode as E;
        matches!(
            self,
            Self::Net(NetFault::Unreachable | NetFault::Dns | NetFault::Cut)
                | Self::Gateway(E::ConnectionRefused | E::ConnectionTimeout | E::ConnectionReset)
        )
    }

    /// Returns whether the connection broke during an operation.
    pub fn is_cut(self) -> bool {
        matches!(
            self,
            Self::Net(NetFault::Cut) | Self::Gateway(ErrorCode::ConnectionReset)
        )
    }
}

named! {
    /// Whether the peer's agent received a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Delivered {
        /// Certainly not: no byte left, or a gateway refused the request before it forwarded it.
        No = "no",
        /// Unknown.
        Unknown = "unknown",
        /// Yes: the agent answered.
        Yes = "yes",
    }
}

impl Delivered {
    /// Returns whether a message was delivered, as far as the kind shows. An HTTP status may come from an intermediary.
    fn for_kind(kind: PeerErrorKind) -> Self {
        match kind {
            PeerErrorKind::Unaddressable
            | PeerErrorKind::UnsupportedTransport
            | PeerErrorKind::UnsupportedVersion
            | PeerErrorKind::ExtensionRequired
            | PeerErrorKind::Net(NetFault::TokenUnavailable | NetFault::ProxyAuth)
            | PeerErrorKind::OwnSession => Self::No,
            PeerErrorKind::Rpc
            | PeerErrorKind::InvalidResponse
            | PeerErrorKind::Net(
                NetFault::Protocol | NetFault::TooLarge | NetFault::EventTooLarge,
            ) => Self::Yes,
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

/// The error of a call to a peer. Contains no credential and no query string.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct PeerError {
    /// The kind.
    pub kind: PeerErrorKind,
    /// What failed and why, as a sentence without a full stop.
    pub message: String,
    /// The peer's JSON-RPC error code, if any.
    pub rpc_code: Option<i64>,
    /// The peer's error data, if any.
    pub rpc_data: Option<Value>,
    /// The HTTP status, if that caused the error.
    pub http_status: Option<u16>,
    /// The authentication schemes that the peer accepts, for [`PeerErrorKind::AuthRequired`]: those of its response
    /// (RFC 9110 §11), else those of its card.
    pub auth_schemes: Vec<String>,
    /// Whether the peer has seen the request.
    pub delivered: Delivered,
    /// The transports, for [`PeerErrorKind::UnsupportedTransport`].
    pub transports: Option<Box<Transports>>,
}

/// The names of unsupported and supported transports.
#[derive(Debug, Clone)]
pub struct Transports {
    /// The requested or offered transports without support.
    pub unsupported: Vec<String>,
    /// The supported transports.
    pub supported: Vec<String>,
}

impl PeerError {
    /// Creates an error without further details.
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

    /// Marks the request as certainly not received.
    #[must_use]
    pub fn undelivered(mut self) -> Self {
        self.delivered = Delivered::No;
        self
    }

    /// Prefixes the message with the operation that failed.
    #[must_use]
    pub fn during(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}
