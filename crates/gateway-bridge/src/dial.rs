//! Connects to a gateway and detects its dialect.
//!
//! Three protocols share one port. The first frame distinguishes them. The subprotocol does not, because one of the gateways
//! echoes any subprotocol that the client offers.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use collective::{CloseCode, Envelope, ErrorCode, FRAME_LIMITS, Greeting};
use egress::websocket::{self, Dial, Frame, Opened, WsError};
use egress::{AddressPolicy, HttpClient, NetError, NetFault};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::settings::{DialectChoice, Settings, without_token};

/// How long the client waits for the gateway's first frame while it detects the dialect.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_millis(150);

/// A connection before the handshake.
#[derive(Debug)]
pub(crate) struct DialedSocket {
    /// The open socket.
    pub socket: Opened,
    /// The greeting of the gateway; `None` from a gateway of `a2a-v1`.
    pub greeting: Option<Greeting>,
    /// A first `a2a-v1` message, which the handshake reads like any other.
    pub first: Option<String>,
    /// The deadline of the handshake.
    pub until: Instant,
}

/// Connects to the gateway of `settings` and detects its dialect. Sends no frame.
///
/// # Errors
/// Connecting failed, or the gateway speaks another dialect than configured.
pub(crate) async fn dial(
    net: &dyn HttpClient,
    settings: &Settings,
) -> Result<DialedSocket, PeerError> {
    let until = Instant::now() + settings.timeout;
    let dialed = timeout_at(until, connect(net, settings, until)).await;
    dialed.unwrap_or_else(|_| Err(handshake_timeout(settings)))
}

/// Returns the error of a handshake that timed out.
pub(crate) fn handshake_timeout(settings: &Settings) -> PeerError {
    failed(
        ErrorCode::ConnectionTimeout,
        format!(
            "the gateway at `{}` did not finish the handshake within {} ms; check the gateway, or increase `gateway.timeoutMs`",
            settings.display_url(),
            settings.timeout.as_millis()
        ),
    )
}

async fn connect(
    net: &dyn HttpClient,
    settings: &Settings,
    until: Instant,
) -> Result<DialedSocket, PeerError> {
    let dial = Dial {
        url: address(settings)?,
        protocols: vec![settings.protocol.clone()],
        headers: HeaderMap::new(),
        access: access(&settings.url, settings.allow_remote),
        trust: settings.trust.clone(),
        frame_bytes: settings.frame_bytes,
    };
    let socket = websocket::connect(net, dial).await;
    let mut socket = socket.map_err(|error| refused(error, settings))?;
    // A configured dialect needs no detection by timeout.
    let deadline = match settings.dialect {
        DialectChoice::OpenClaw | DialectChoice::HeretekJs => until,
        DialectChoice::Auto | DialectChoice::A2aV1 => {
            until.min(Instant::now() + FIRST_FRAME_TIMEOUT)
        }
    };
    let first = match timeout_at(deadline, first_frame(&mut socket)).await {
        Ok(frame) => classify(frame, settings)?,
        Err(_) if settings.dialect == DialectChoice::OpenClaw => {
            return Err(silent(settings, "OpenClaw's"));
        }
        Err(_) if settings.dialect == DialectChoice::HeretekJs => {
            return Err(silent(settings, "the JavaScript gateway's"));
        }
        Err(_) => (None, None),
    };
    let (greeting, first) = first;
    check_dialect(greeting, settings)?;
    Ok(DialedSocket {
        socket,
        greeting,
        first,
        until,
    })
}

/// Returns the first frame that is not empty.
async fn first_frame(socket: &mut Opened) -> Frame {
    loop {
        match socket.receiver.next().await {
            Frame::Ping | Frame::Pong => {}
            other => return other,
        }
    }
}

/// Adds the token to the URL, only for the dialect `heretek-js` and with `tokenInQuery`.
fn address(settings: &Settings) -> Result<Url, PeerError> {
    let mut url = settings.url.clone();
    if !settings.token_in_query {
        return Ok(url);
    }
    if settings.dialect != DialectChoice::HeretekJs {
        return Err(failed(
            ErrorCode::ProtocolError,
            "`gateway.tokenInQuery` puts the token into the URL, which only `gateway.dialect: \"heretek-js\"` needs; remove it",
        ));
    }
    if let Some(token) = &settings.token {
        url.query_pairs_mut()
            .append_pair("token", token.expose_secret());
    }
    Ok(url)
}

/// Returns the addresses that a gateway's URL may have.
pub(crate) fn access(url: &Url, allow_remote: bool) -> AddressPolicy {
    if allow_remote && url.scheme() == "wss" {
        AddressPolicy::AnyAddress
    } else {
        AddressPolicy::Loopback
    }
}

/// Detects the dialect from a first frame.
fn classify(
    frame: Frame,
    settings: &Settings,
) -> Result<(Option<Greeting>, Option<String>), PeerError> {
    let shown = settings.display_url();
    let text = match frame {
        Frame::Text(text) => text,
        Frame::Closed { code, .. }
            if code.and_then(CloseCode::from_number) == Some(CloseCode::Unauthorized) =>
        {
            return Err(failed(
                ErrorCode::AuthFailed,
                format!(
                    "the gateway at `{shown}` closed the connection as unauthorized (4001), as the JavaScript gateway does: it expects its token in the URL; set `gateway.dialect: \"heretek-js\"` and `gateway.tokenInQuery: true`, or check the token"
                ),
            ));
        }
        Frame::Closed { code, reason } => {
            let with = code.map_or_else(
                || "without a code".to_owned(),
                |code| format!("with {code}"),
            );
            let reason = quoted(&without_token(&reason, settings));
            let next = match is_temporary_close(code) {
                true => "; it shuts down, restarts or is overloaded, so try again later",
                false => "",
            };
            return Err(failed(
                ErrorCode::ConnectionRefused,
                format!(
                    "the gateway at `{shown}` accepted the connection and closed it {with} without a frame{reason}{next}"
                ),
            ));
        }
        Frame::Broken(error) => return Err(broken(&error, settings)),
        Frame::Binary(_) | Frame::Ping | Frame::Pong => return Err(unknown_protocol(settings)),
    };
    let Ok(value) = base::json::from_str::<Value>(&text, FRAME_LIMITS) else {
        return Err(unknown_protocol(settings));
    };
    match Greeting::from_frame(&value) {
        Some(greeting) => Ok((Some(greeting), None)),
        None if Envelope::from_value(value).is_ok() => Ok((None, Some(text))),
        None => Err(unknown_protocol(settings)),
    }
}

/// Compares the detected dialect with the configured one.
fn check_dialect(greeting: Option<Greeting>, settings: &Settings) -> Result<(), PeerError> {
    use DialectChoice as D;
    let shown = settings.display_url();
    let message = match (greeting, settings.dialect) {
        (Some(Greeting::OpenClaw), D::Auto | D::OpenClaw)
        | (Some(Greeting::HeretekJs), D::HeretekJs)
        | (None, D::Auto | D::A2aV1) => return Ok(()),
        (Some(Greeting::OpenClaw), D::A2aV1) => format!(
            "`{shown}` is the OpenClaw gateway, which does not speak a2a-v1; set `gateway.dialect` to \"openclaw\" or \"auto\""
        ),
        (Some(Greeting::OpenClaw), D::HeretekJs) => format!(
            "`{shown}` is the OpenClaw gateway, not the JavaScript one; set `gateway.dialect` to \"openclaw\" or \"auto\""
        ),
        (Some(Greeting::HeretekJs), D::Auto | D::A2aV1 | D::OpenClaw) => format!(
            "`{shown}` is the archived JavaScript gateway, which speaks neither a2a-v1 nor OpenClaw's protocol; set `gateway.dialect` to \"heretek-js\" to use it"
        ),
        (None, D::OpenClaw | D::HeretekJs) => {
            format!("`{shown}` speaks a2a-v1; set `gateway.dialect` to \"a2a-v1\" or \"auto\"")
        }
    };
    Err(failed(ErrorCode::ProtocolError, message))
}

fn silent(settings: &Settings, whose: &str) -> PeerError {
    failed(
        ErrorCode::ConnectionTimeout,
        format!(
            "`{}` accepted the connection and sent nothing within {} ms, unlike {whose}; set `gateway.dialect` to \"auto\", or check the gateway",
            settings.display_url(),
            settings.timeout.as_millis()
        ),
    )
}

fn unknown_protocol(settings: &Settings) -> PeerError {
    failed(
        ErrorCode::ProtocolError,
        format!(
            "`{}` is a WebSocket, but its first frame is not one of a supported gateway",
            settings.display_url()
        ),
    )
}

/// Returns the error of a failed WebSocket handshake.
fn refused(error: WsError, settings: &Settings) -> PeerError {
    let shown = settings.display_url();
    match error {
        WsError::Net(error) => broken(&error, settings),
        WsError::Handshake(error) => failed(
            ErrorCode::ProtocolError,
            format!("`{shown}` answers with an unusable upgrade: {error}"),
        ),
        WsError::NoUpgrade {
            status,
            content_type,
        } => no_upgrade(status, content_type.as_deref(), settings),
    }
}

fn no_upgrade(status: StatusCode, content_type: Option<&str>, settings: &Settings) -> PeerError {
    let shown = settings.display_url();
    let number = status.as_u16();
    let (fault, message) = match number {
        200..=299 if content_type == Some("text/html") => (
            PeerErrorKind::Gateway(ErrorCode::ProtocolError),
            format!(
                "`{shown}` answers with a web page, as OpenClaw's Control UI does, not with a WebSocket; check path and port"
            ),
        ),
        400 | 404 | 405 | 426 => (
            PeerErrorKind::Gateway(ErrorCode::ProtocolError),
            format!("there is no WebSocket gateway at this path: `{shown}` answers HTTP {number}"),
        ),
        401 | 403 => (
            PeerErrorKind::Gateway(ErrorCode::AuthRequired),
            format!(
                "`{shown}` requires a credential (HTTP {number}): {}",
                token_problem(settings)
            ),
        ),
        429 | 502..=504 => (
            PeerErrorKind::Gateway(ErrorCode::ConnectionRefused),
            format!("`{shown}` refuses connections at the moment (HTTP {number})"),
        ),
        300..=399 => (
            PeerErrorKind::RedirectRefused,
            format!("`{shown}` redirects (HTTP {number}), and the client follows no redirect"),
        ),
        _ => (
            PeerErrorKind::Gateway(ErrorCode::ProtocolError),
            format!("`{shown}` answers HTTP {number}, not with a WebSocket"),
        ),
    };
    let mut error = PeerError::new(fault, message).undelivered();
    error.http_status = Some(number);
    error
}

/// Returns why a gateway that requires a credential may have refused the connection: the token is missing, wrong, or not
/// where the gateway looks for it.
fn token_problem(settings: &Settings) -> &'static str {
    match (&settings.token, settings.token_in_query) {
        (None, _) => "no token is set",
        (Some(_), true) => "it refuses the token in the URL",
        (Some(_), false) => {
            "the client sends the token after the upgrade, but a proxy, or a gateway that expects the token in the URL, requires it before"
        }
    }
}

/// Returns the error of a network failure before or during the handshake.
pub(crate) fn broken(error: &NetError, settings: &Settings) -> PeerError {
    let fault = match error.fault() {
        fault
        @ (NetFault::Dns | NetFault::Tls | NetFault::AddressRefused | NetFault::ProxyAuth) => {
            PeerErrorKind::Net(fault)
        }
        NetFault::Unreachable => PeerErrorKind::Gateway(ErrorCode::ConnectionRefused),
        NetFault::Cut => PeerErrorKind::Gateway(ErrorCode::ConnectionReset),
        _ => PeerErrorKind::Gateway(ErrorCode::ProtocolError),
    };
    let next = match error.fault() {
        NetFault::AddressRefused if !settings.allow_remote => {
            "; a gateway on another machine needs `gateway.allowRemote` and a `wss` URL"
        }
        NetFault::AddressRefused => "; a gateway on another machine needs a `wss` URL",
        _ => "",
    };
    PeerError::new(fault, format!("{error}{next}")).undelivered()
}

/// Explains why the gateway closed the connection. `protocol` is the one that the client speaks, and `reason` the gateway's
/// text without credentials.
pub(crate) fn explain_close(code: Option<u16>, reason: &str, protocol: &str) -> String {
    use CloseCode as C;
    let suffix = quoted(reason);
    match (code.and_then(C::from_number), code) {
        (Some(C::Normal), _) => format!("the gateway closed the connection{suffix}"),
        (Some(C::GoingAway | C::Restart), _) => {
            format!("the gateway shut down or restarts{suffix}")
        }
        (Some(C::ProtocolError), _) => format!("the gateway does not speak {protocol}{suffix}"),
        (Some(C::Policy), _) => format!("the gateway does not allow the connection{suffix}"),
        (Some(C::TooLarge), _) => format!("a message was too large for the gateway{suffix}"),
        (Some(C::TryLater), _) => format!("the gateway is overloaded{suffix}"),
        (_, Some(code)) => format!("the gateway closed the connection with code {code}{suffix}"),
        (_, None) => format!("the gateway closed the connection without a code{suffix}"),
    }
}

/// Returns whether a gateway that closes with this code may accept the connection later (RFC 6455 §7.4.1, and the registry
/// of WebSocket close codes).
pub(crate) fn is_temporary_close(code: Option<u16>) -> bool {
    matches!(
        code.and_then(CloseCode::from_number),
        Some(CloseCode::GoingAway | CloseCode::Restart | CloseCode::TryLater)
    )
}

/// Returns the gateway's text in parentheses, if there is any.
fn quoted(reason: &str) -> String {
    match &*excerpt(reason) {
        "" => String::new(),
        reason => format!(" (`{reason}`)"),
    }
}

/// Returns an error from before the handshake.
pub(crate) fn failed(code: ErrorCode, message: impl Into<String>) -> PeerError {
    PeerError::new(PeerErrorKind::Gateway(code), message).undelivered()
}

#[cfg(test)]
mod tests;
