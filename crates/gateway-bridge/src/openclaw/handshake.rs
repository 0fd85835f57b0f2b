//! The handshake: `connect` after the gateway's challenge (OpenClaw gateway protocol 4).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use crate::dial::{self, DialedSocket, failed};
use crate::settings::without_token;
use crate::{GatewayLink, Settings};
use base::environment::Environment;
use base::log::Log;
use collective::{ErrorCode, FRAME_LIMITS};
use egress::websocket::{Frame, Opened};
use peer::PeerError;

use super::connection::OpenClawConnection;
use super::protocol::Incoming;
use super::{OpenClaw, PROTOCOL, RunCache, connection, protocol};

/// The version of the protocol.
const PROTOCOL_VERSION: u64 = 4;

/// The required scopes: read access, and starting and aborting runs.
const REQUIRED_SCOPES: [&str; 2] = ["operator.read", "operator.write"];

/// The id of the handshake's only request.
const CONNECT_ID: &str = "connect";

/// The limits of the gateway.
#[derive(Debug, Clone, Copy)]
pub(super) struct GatewayPolicy {
    /// The interval of the gateway's ticks.
    pub tick: Duration,
    /// The maximum size of a message that the gateway accepts, in bytes.
    pub largest: usize,
    /// The maximum size of an image that the gateway accepts, in bytes.
    pub image_bytes: usize,
}

/// Performs the handshake after the gateway's challenge.
///
/// # Errors
/// The gateway refused the connection.
pub(crate) async fn handshake(
    mut dialed: DialedSocket,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    runs: Arc<Mutex<RunCache>>,
) -> Result<Arc<dyn GatewayLink>, PeerError> {
    let connect = connect(&mut dialed.socket, &settings);
    let hello = timeout_at(dialed.until, connect).await;
    let hello = hello.unwrap_or_else(|_| Err(dial::handshake_timeout(&settings)))?;
    let policy = policy(&hello)?;
    let Opened {
        sender, receiver, ..
    } = dialed.socket;
    let connection = Arc::new(OpenClawConnection::new(
        sender,
        settings.timeout,
        policy.largest,
        runs,
    ));
    let shutdown = CancellationToken::new();
    let period = policy.tick.min(settings.heartbeat);
    tokio::spawn(connection::run_reader(
        Arc::clone(&connection),
        receiver,
        Arc::clone(&settings),
        period,
        shutdown.clone(),
        Arc::clone(&log),
    ));
    Ok(Arc::new(OpenClaw::new(
        connection, shutdown, settings, env, log, policy,
    )))
}

/// The minimum interval of ticks. With a shorter one, a busy machine would end the connection.
const MIN_TICK: Duration = Duration::from_secs(1);

async fn connect(socket: &mut Opened, settings: &Settings) -> Result<Value, PeerError> {
    let token = settings.token.as_ref();
    let mut params = json!({
        "minProtocol": PROTOCOL_VERSION,
        "maxProtocol": PROTOCOL_VERSION,
        // The gateway accepts only known client names. This one needs no device identity on loopback.
        "client": { "id": "gateway-client", "version": env!("CARGO_PKG_VERSION"), "platform": std::env::consts::OS, "mode": "backend" },
        "role": "operator",
        "scopes": REQUIRED_SCOPES,
        "caps": ["tool-events"],
    });
    if let Some(token) = token {
        params["auth"] = json!({ "token": token.expose_secret() });
    }
    let frame = protocol::request(CONNECT_ID, CONNECT_ID, &params);
    let sent = socket.sender.text(frame).await;
    sent.map_err(|error| dial::broken(&error, settings))?;
    loop {
        let text = match socket.receiver.next().await {
            Frame::Text(text) => text,
            Frame::Closed { code, reason } => {
                let reason = without_token(&reason, settings);
                let why = dial::explain_close(code, &reason, PROTOCOL);
                let next = match dial::is_temporary_close(code) {
                    true => "try again later",
                    false => "the address or the token may be wrong",
                };
                let message = format!("{why}; {next}");
                return Err(failed(ErrorCode::ConnectionRefused, message));
            }
            Frame::Broken(error) => return Err(dial::broken(&error, settings)),
            Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
        };
        let text = without_token(&text, settings);
        let Ok(text) = base::json::text(text.as_bytes()) else {
            continue;
        };
        let Some(Incoming::Response { id, answer }) = protocol::read(&text) else {
            // Events may arrive before the response.
            continue;
        };
        if id == CONNECT_ID {
            let answer =
                answer.map_err(|rpc_error| protocol::connect_error(&rpc_error, token.is_some()))?;
            return Ok(base::json::from_str(answer.get(), FRAME_LIMITS).unwrap_or_default());
        }
    }
}

fn policy(hello: &Value) -> Result<GatewayPolicy, PeerError> {
    if hello["type"] != "hello-ok" || hello["protocol"] != PROTOCOL_VERSION {
        let message = "the gateway's answer to `connect` is not a `hello-ok` of protocol 4";
        return Err(failed(ErrorCode::ProtocolError, message));
    }
    if let Some(granted) = hello["auth"]["scopes"].as_array()
        && let Some(missing) = REQUIRED_SCOPES
            .iter()
            .find(|scope| !granted.iter().any(|granted| granted == **scope))
    {
        let message = format!(
            "the gateway did not grant `{missing}`, which is required to call agents; use the gateway's own token over loopback"
        );
        return Err(failed(ErrorCode::PermissionDenied, message));
    }
    let number = |pointer: &str, default: u64| {
        hello
            .pointer(pointer)
            .and_then(Value::as_u64)
            .filter(|number| *number > 0)
            .unwrap_or(default)
    };
    let bytes = |pointer, default| usize::try_from(number(pointer, default)).unwrap_or(usize::MAX);
    Ok(GatewayPolicy {
        tick: Duration::from_millis(number("/policy/tickIntervalMs", 30_000)).max(MIN_TICK),
        largest: bytes("/policy/maxPayload", 25 * 1024 * 1024),
        image_bytes: bytes("/policy/attachments/maxImageBytes", 6 * 1024 * 1024),
    })
}
