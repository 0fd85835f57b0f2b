//! Connecting, and finding out what answers.
//!
//! Three protocols are met at the same port. The first frame distinguishes them, never the subprotocol: one
//! of the gateways repeats whatever is offered.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use collective::{Envelope, ErrorCode};
use egress::websocket::{self, Dial, Frame, Opened, WsError};
use egress::{Access, Net, NetError, NetFault, Sent};
use peer::{PeerError, PeerErrorKind};

use super::settings::{DialectChoice, Settings};

/// How long the client waits for a first frame of the gateway, if the dialect is open.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_millis(150);

/// The JavaScript gateway's close code for a wrong token.
const CLOSE_CODE_UNAUTHORIZED: u16 = 4001;

/// A connection before the handshake.
#[derive(Debug)]
pub(crate) struct DialedSocket {
    /// The connection.
    pub socket: Opened,
    /// The first frame of the gateway.
    pub greeting: Greeting,
    /// A first message of `a2a-v1`, which the handshake reads like any other.
    pub first: Option<String>,
    /// The deadline of the handshake.
    pub until: Instant,
}

/// A first frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Greeting {
    /// `connect.challenge`: the OpenClaw gateway.
    OpenClaw(Value),
    /// `welcome`: the JavaScript gateway.
    HeretekJs(Value),
    /// It waits for us: `a2a-v1`.
    Silent,
}

/// Connects to the gateway of `settings` and finds out what it is. Nothing has been said to it.
///
/// # Errors
/// Why there is no connection, or that what was met is not what was configured.
pub(crate) async fn dial(net: &dyn Net, settings: &Settings) -> Result<DialedSocket, PeerError> {
    let until = Instant::now() + settings.timeout;
    let dialed = timeout_at(until, connect(net, settings, until)).await;
    dialed.unwrap_or_else(|_| Err(handshake_timeout(settings)))
}

/// Returns the error of a handshake that timed out.
pub(crate) fn handshake_timeout(settings: &Settings) -> PeerError {
    failed(
        ErrorCode::ConnectionTimeout,
        format!(
            "the gateway at `{}` has not finished the handshake within {} ms; check the gateway, or set `gateway.timeoutMs` higher",
            settings.shown(),
            settings.timeout.as_millis()
        ),
    )
}

async fn connect(
    net: &dyn Net,
    settings: &Settings,
    until: Instant,
) -> Result<DialedSocket, PeerError> {
    let dial = Dial {
        url: address(settings)?,
        protocols: vec![settings.protocol.clone()],
        headers: HeaderMap::new(),
        access: access(settings),
        trust: settings.trust.clone(),
        frame_bytes: settings.frame_bytes,
    };
    let socket = websocket::connect(net, dial).await;
    let mut socket = socket.map_err(|error| refused(error, settings))?;
    // Who names the dialect need not guess by the clock.
    let patience = match settings.dialect {
        DialectChoice::OpenClaw | DialectChoice::HeretekJs => until,
        DialectChoice::Auto | DialectChoice::A2aV1 => {
            until.min(Instant::now() + FIRST_FRAME_TIMEOUT)
        }
    };
    let first = match timeout_at(patience, first_frame(&mut socket)).await {
        Ok(frame) => classify(frame, settings)?,
        Err(_) if settings.dialect == DialectChoice::OpenClaw => {
            return Err(silent(settings, "OpenClaw's"));
        }
        Err(_) if settings.dialect == DialectChoice::HeretekJs => {
            return Err(silent(settings, "the JavaScript gateway's"));
        }
        Err(_) => (Greeting::Silent, None),
    };
    let (greeting, first) = first;
    check_dialect(&greeting, settings)?;
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
            "`gateway.tokenInQuery` puts the token into the URL, which only `gateway.dialect: \"heretek-js\"` needs; take it away",
        ));
    }
    if let Some(token) = &settings.token {
        url.query_pairs_mut()
            .append_pair("token", token.expose_secret());
    }
    Ok(url)
}

fn access(settings: &Settings) -> Access {
    if settings.allow_remote && settings.url.scheme() == "wss" {
        Access::AnyAddress
    } else {
        Access::Loopback
    }
}

/// Detects the dialect of a first frame.
fn classify(frame: Frame, settings: &Settings) -> Result<(Greeting, Option<String>), PeerError> {
    let shown = settings.shown();
    let text = match frame {
        Frame::Text(text) => text,
        Frame::Closed {
            code: Some(CLOSE_CODE_UNAUTHORIZED),
            ..
        } => {
            return Err(failed(
                ErrorCode::AuthFailed,
                format!(
                    "the gateway at `{shown}` closed the connection as unauthorized (4001), as the JavaScript gateway does: it wants its token in the URL; set `gateway.dialect: \"heretek-js\"` and `gateway.tokenInQuery: true`, or see whether `gateway.token` is right"
                ),
            ));
        }
        Frame::Closed { code, .. } => {
            let code = code.map_or_else(
                || "without a code".to_owned(),
                |code| format!("with {code}"),
            );
            return Err(failed(
                ErrorCode::ConnectionRefused,
                format!(
                    "the gateway at `{shown}` took the connection and closed it {code} before a word was said"
                ),
            ));
        }
        Frame::Broken(error) => return Err(broken(&error, settings)),
        Frame::Binary(_) | Frame::Ping | Frame::Pong => return Err(unknown_protocol(settings)),
    };
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return Err(unknown_protocol(settings));
    };
    let word = |field: &str| value.get(field).and_then(Value::as_str);
    match (word("type"), word("event")) {
        (Some("event"), Some("connect.challenge")) => Ok((Greeting::OpenClaw(value), None)),
        (Some("welcome"), _) if value.get("gateway").is_some_and(Value::is_object) => {
            Ok((Greeting::HeretekJs(value), None))
        }
        _ if Envelope::parse(&text).is_ok() => Ok((Greeting::Silent, Some(text))),
        _ => Err(unknown_protocol(settings)),
    }
}

/// Holds what was met against what was configured.
fn check_dialect(greeting: &Greeting, settings: &Settings) -> Result<(), PeerError> {
    use DialectChoice as D;
    let shown = settings.shown();
    let message = match (greeting, settings.dialect) {
        (Greeting::OpenClaw(_), D::Auto | D::OpenClaw)
        | (Greeting::HeretekJs(_), D::HeretekJs)
        | (Greeting::Silent, D::Auto | D::A2aV1) => return Ok(()),
        (Greeting::OpenClaw(_), D::A2aV1) => format!(
            "`{shown}` is the OpenClaw gateway, which does not speak a2a-v1; set `gateway.dialect` to \"openclaw\" or \"auto\""
        ),
        (Greeting::OpenClaw(_), D::HeretekJs) => format!(
            "`{shown}` is the OpenClaw gateway, not the JavaScript one; set `gateway.dialect` to \"openclaw\" or \"auto\""
        ),
        (Greeting::HeretekJs(_), D::Auto | D::A2aV1 | D::OpenClaw) => format!(
            "`{shown}` is the archived JavaScript gateway, which speaks neither a2a-v1 nor OpenClaw's protocol; set `gateway.dialect` to \"heretek-js\" if that is the one you mean"
        ),
        (Greeting::Silent, D::OpenClaw | D::HeretekJs) => {
            format!("`{shown}` speaks a2a-v1; set `gateway.dialect` to \"a2a-v1\" or \"auto\"")
        }
    };
    Err(failed(ErrorCode::ProtocolError, message))
}

fn silent(settings: &Settings, whose: &str) -> PeerError {
    failed(
        ErrorCode::ConnectionTimeout,
        format!(
            "`{}` takes the connection and says nothing within {} ms, which is not {whose} way; set `gateway.dialect` to \"auto\", or see whether that gateway is well",
            settings.shown(),
            settings.timeout.as_millis()
        ),
    )
}

fn unknown_protocol(settings: &Settings) -> PeerError {
    failed(
        ErrorCode::ProtocolError,
        format!(
            "what answers at `{}` is a WebSocket, but it begins with something that no gateway known here says; see `gateway.url`",
            settings.shown()
        ),
    )
}

/// Returns the error of a failed WebSocket handshake.
fn refused(error: WsError, settings: &Settings) -> PeerError {
    let shown = settings.shown();
    match error {
        WsError::Net(error) => broken(&error, settings),
        WsError::Handshake(why) => failed(
            ErrorCode::ProtocolError,
            format!("`{shown}` answers with an upgrade that cannot be used: {why}"),
        ),
        WsError::NoUpgrade {
            status,
            content_type,
        } => no_upgrade(status, content_type.as_deref(), settings),
    }
}

fn no_upgrade(status: StatusCode, content_type: Option<&str>, settings: &Settings) -> PeerError {
    let shown = settings.shown();
    let number = status.as_u16();
    let (fault, message) = match number {
        200..=299 if content_type == Some("text/html") => (
            PeerErrorKind::Gateway(ErrorCode::ProtocolError),
            format!(
                "`{shown}` answers with a web page, as OpenClaw's Control UI does, and not with a WebSocket: wrong path or port in `gateway.url`"
            ),
        ),
        400 | 404 | 405 | 426 => (
            PeerErrorKind::Gateway(ErrorCode::ProtocolError),
            format!(
                "there is no WebSocket gateway at this path: `{shown}` answers HTTP {number}; see `gateway.url`"
            ),
        ),
        401 | 403 => (
            PeerErrorKind::Gateway(ErrorCode::AuthRequired),
            format!(
                "`{shown}` requires a credential (HTTP {number}): {}",
                offered_subprotocol(settings)
            ),
        ),
        429 | 502..=504 => (
            PeerErrorKind::Gateway(ErrorCode::ConnectionRefused),
            format!("`{shown}` takes no connection just now (HTTP {number})"),
        ),
        300..=399 => (
            PeerErrorKind::RedirectRefused,
            format!(
                "`{shown}` points elsewhere (HTTP {number}), and that is not followed; write the gateway's own address in `gateway.url`"
            ),
        ),
        _ => (
            PeerErrorKind::Gateway(ErrorCode::ProtocolError),
            format!("`{shown}` answers HTTP {number} and no WebSocket; see `gateway.url`"),
        ),
    };
    let mut error = PeerError::new(fault, message).undelivered();
    error.http_status = Some(number);
    error
}

/// Returns the credentials that a gateway may require.
fn offered_subprotocol(settings: &Settings) -> &'static str {
    match (&settings.token, settings.token_in_query) {
        (None, _) => "`gateway.token` is not set",
        (Some(_), true) => "it does not take `gateway.token`, which is in the URL",
        (Some(_), false) => {
            "`gateway.token` is shown once a connection stands, and something in front of the gateway, or a gateway that wants its token in the URL, asks before that"
        }
    }
}

/// Returns the error of a network failure before or during the handshake.
pub(crate) fn broken(error: &NetError, settings: &Settings) -> PeerError {
    let fault = match error.fault() {
        NetFault::Dns => PeerErrorKind::Dns,
        NetFault::Tls => PeerErrorKind::Tls,
        NetFault::AddressRefused => PeerErrorKind::AddressRefused,
        NetFault::Unreachable => PeerErrorKind::Gateway(ErrorCode::ConnectionRefused),
        NetFault::Cut => PeerErrorKind::Gateway(ErrorCode::ConnectionReset),
        _ => PeerErrorKind::Gateway(ErrorCode::ProtocolError),
    };
    let next = match error.fault() {
        NetFault::AddressRefused if !settings.allow_remote => {
            "; a gateway on another machine needs `gateway.allowRemote` and a `wss` URL"
        }
        NetFault::AddressRefused => "; a gateway on another machine needs a `wss` URL",
        NetFault::Unreachable if error.sent() == Sent::No => {
            "; is the gateway running, and is `gateway.url` its address?"
        }
        _ => "",
    };
    PeerError::new(fault, format!("{error}{next}")).undelivered()
}

/// Returns an error from before the handshake.
pub(crate) fn failed(code: ErrorCode, message: impl Into<String>) -> PeerError {
    PeerError::new(PeerErrorKind::Gateway(code), message).undelivered()
}

#[cfg(test)]
mod tests;
