//! ClientErrorKind a client of a gateway cannot go on.

use std::fmt;

use http::StatusCode;

use super::Endpoint;
use collective::{CloseCode, Envelope, ErrorCode};
use egress::{NetError, NetFault, websocket::WsError};

/// ClientErrorKind a client of a gateway cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError {
    /// What kind of trouble it is.
    pub why: ClientErrorKind,
    /// What failed, why, and what to do: a sentence without a full stop.
    pub message: String,
}

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// Nobody can be reached there, or the connection broke.
    Unreachable,
    /// Something else answers there: a gateway of this dialect, where that is known.
    Stranger(Option<&'static str>),
    /// The gateway did not answer in time.
    Late,
    /// The gateway answered with an error of the registry.
    Refused(ErrorCode),
}

impl ClientError {
    pub(super) fn new(why: ClientErrorKind, message: impl Into<String>) -> Self {
        Self {
            why,
            message: message.into(),
        }
    }

    /// Another attempt may end otherwise.
    pub fn may_pass(&self) -> bool {
        match self.why {
            ClientErrorKind::Unreachable | ClientErrorKind::Late => true,
            ClientErrorKind::Stranger(_) => false,
            ClientErrorKind::Refused(code) => code == ErrorCode::AgentBusy,
        }
    }

    pub(super) fn late(door: &Endpoint, what: &str) -> Self {
        let (place, millis) = (door.shown(), door.timeout.as_millis());
        Self::new(
            ClientErrorKind::Late,
            format!("the gateway at `{place}` has not {what} within {millis} ms"),
        )
    }

    /// The gateway's own word.
    pub(super) fn of_error(error: &Envelope) -> Self {
        let content = error.content();
        let name = error
            .said("error")
            .or_else(|| error.field("error")?.as_str())
            .unwrap_or_default();
        let number = content["code"].as_u64().and_then(ErrorCode::from_number);
        let code = number
            .or_else(|| ErrorCode::from_name(name))
            .unwrap_or(ErrorCode::ProtocolError);
        let said = error.said("message").unwrap_or(name);
        Self::new(
            ClientErrorKind::Refused(code),
            format!("the gateway answers {code}: {said}"),
        )
    }

    pub(super) fn of_net(error: &NetError, door: &Endpoint) -> Self {
        let next = match error.fault() {
            NetFault::AddressRefused if door.url.scheme() == "wss" => {
                "; a gateway on another machine has to be allowed"
            }
            NetFault::AddressRefused => {
                "; a gateway on another machine has to be allowed, and needs a `wss` URL"
            }
            NetFault::Unreachable => {
                "; is this the gateway's address? `remote-agent gateway` starts one"
            }
            _ => "",
        };
        let why = match error.fault() {
            NetFault::AddressRefused | NetFault::Tls => ClientErrorKind::Stranger(None),
            _ => ClientErrorKind::Unreachable,
        };
        Self::new(why, format!("{error}{next}"))
    }

    /// What a close frame says.
    pub(super) fn of_close(code: Option<u16>, reason: &str, door: &Endpoint) -> Self {
        let place = door.shown();
        let known = code.and_then(CloseCode::from_number);
        let code = code.map_or_else(|| "no code".to_owned(), |code| code.to_string());
        let reason = match reason {
            "" => String::new(),
            said => format!(", \"{said}\""),
        };
        let message = format!("the gateway at `{place}` closed the connection ({code}{reason})");
        match known {
            Some(CloseCode::Policy | CloseCode::Unauthorized) => Self::new(
                ClientErrorKind::Refused(ErrorCode::PermissionDenied),
                format!("{message}: it does not allow what was done, or wants another credential"),
            ),
            _ => Self::new(ClientErrorKind::Unreachable, message),
        }
    }

    /// ClientErrorKind there is no WebSocket.
    pub(super) fn of_upgrade(error: WsError, door: &Endpoint) -> Self {
        let place = door.shown();
        match error {
            WsError::Net(error) => Self::of_net(&error, door),
            WsError::Handshake(why) => Self::new(
                ClientErrorKind::Stranger(None),
                format!("`{place}` answers with an upgrade that cannot be used: {why}"),
            ),
            WsError::NoUpgrade {
                status,
                content_type,
            } => {
                let page = status.is_success() && content_type.as_deref() == Some("text/html");
                let message = match status {
                    _ if page => format!(
                        "`{place}` answers with a web page, as OpenClaw's Control UI does, and not with a gateway: wrong path or port"
                    ),
                    StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                        format!(
                            "`{place}` lets nobody connect without a credential (HTTP {status})"
                        )
                    }
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                        let message =
                            format!("`{place}` takes no connection just now (HTTP {status})");
                        return Self::new(ClientErrorKind::Unreachable, message);
                    }
                    status => format!(
                        "`{place}` answers HTTP {} and no WebSocket: wrong path or port",
                        status.as_u16()
                    ),
                };
                Self::new(ClientErrorKind::Stranger(None), message)
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
