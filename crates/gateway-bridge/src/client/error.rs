//! Errors of gateway clients.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::Endpoint;
use collective::{CloseCode, Envelope, ErrorCode};
use egress::{NetError, NetFault, websocket::WsError};

/// An error of a gateway client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError {
    /// The kind.
    pub kind: ClientErrorKind,
    /// The failed action, the cause and a hint, as a sentence without a full stop.
    pub message: String,
}

/// The kind of a [`ClientError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// The client cannot connect, or the connection was lost.
    Unreachable,
    /// The server is not an `a2a-v1` gateway. Contains its dialect, if known.
    WrongServer(Option<&'static str>),
    /// The gateway did not respond in time.
    Timeout,
    /// The gateway responded with this error code.
    Refused(ErrorCode),
}

impl ClientError {
    /// Returns the event of a connection that this error ended, as JSON. The client reconnects after `wait`.
    pub(super) fn lost_json(&self, wait: Duration) -> Value {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        json!({"happened": "lost", "message": self.message, "againInMs": wait})
    }

    pub(super) fn new(kind: ClientErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Returns whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ClientErrorKind::Unreachable | ClientErrorKind::Timeout => true,
            ClientErrorKind::WrongServer(_) => false,
            ClientErrorKind::Refused(code) => code == ErrorCode::AgentBusy,
        }
    }

    pub(super) fn timeout(endpoint: &Endpoint, action: &str) -> Self {
        let (place, millis) = (endpoint.display_url(), endpoint.timeout.as_millis());
        Self::new(
            ClientErrorKind::Timeout,
            format!("the gateway at `{place}` did not {action} within {millis} ms"),
        )
    }

    /// Converts an error message of the gateway.
    pub fn from_error(error: &Envelope) -> Self {
        let name = error
            .content_str("error")
            .or_else(|| error.field("error")?.as_str())
            .unwrap_or_default();
        let code = error.error_code().unwrap_or(ErrorCode::ProtocolError);
        let text = error.content_str("message").unwrap_or(name);
        Self::new(
            ClientErrorKind::Refused(code),
            format!("the gateway responded with {code}: {text}"),
        )
    }

    pub(super) fn from_net(error: &NetError, endpoint: &Endpoint) -> Self {
        let next = match error.fault() {
            NetFault::AddressRefused if endpoint.url.scheme() == "wss" => {
                "; allow gateways on other machines first"
            }
            NetFault::AddressRefused => {
                "; allow gateways on other machines first, and use a `wss` URL"
            }
            NetFault::Unreachable => {
                "; check the address, or start a gateway with `remote-agent gateway`"
            }
            _ => "",
        };
        let kind = match error.fault() {
            NetFault::AddressRefused | NetFault::Tls => ClientErrorKind::WrongServer(None),
            _ => ClientErrorKind::Unreachable,
        };
        Self::new(kind, format!("{error}{next}"))
    }

    /// Converts a close frame.
    pub(super) fn from_close(code: Option<u16>, reason: &str, endpoint: &Endpoint) -> Self {
        let place = endpoint.display_url();
        let known = code.and_then(CloseCode::from_number);
        let code = code.map_or_else(|| "no code".to_owned(), |code| code.to_string());
        let reason = match reason {
            "" => String::new(),
            reason => format!(", \"{reason}\""),
        };
        let message = format!("the gateway at `{place}` closed the connection ({code}{reason})");
        match known {
            Some(CloseCode::Policy | CloseCode::Unauthorized) => Self::new(
                ClientErrorKind::Refused(ErrorCode::PermissionDenied),
                format!("{message}: it refused the operation or the credential; check both"),
            ),
            _ => Self::new(ClientErrorKind::Unreachable, message),
        }
    }

    /// Converts the error of a failed upgrade.
    pub(super) fn from_upgrade(error: WsError, endpoint: &Endpoint) -> Self {
        let place = endpoint.display_url();
        match error {
            WsError::Net(error) => Self::from_net(&error, endpoint),
            WsError::Handshake(error) => Self::new(
                ClientErrorKind::WrongServer(None),
                format!("`{place}` sent an invalid upgrade response: {error}"),
            ),
            WsError::NoUpgrade {
                status,
                content_type,
            } => {
                let page = status.is_success() && content_type.as_deref() == Some("text/html");
                let message = match status {
                    _ if page => format!(
                        "`{place}` is a web page, such as OpenClaw's Control UI, not a gateway; check path and port"
                    ),
                    StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                        format!("`{place}` requires a credential (HTTP {})", status.as_u16())
                    }
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                        let message = format!(
                            "`{place}` accepts no connection at the moment (HTTP {}); try again later",
                            status.as_u16()
                        );
                        return Self::new(ClientErrorKind::Unreachable, message);
                    }
                    status => format!(
                        "`{place}` responds with HTTP {} and no WebSocket; check path and port",
                        status.as_u16()
                    ),
                };
                Self::new(ClientErrorKind::WrongServer(None), message)
            }
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}
