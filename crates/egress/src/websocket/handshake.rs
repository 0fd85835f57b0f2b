//! The upgrade from HTTP to a WebSocket (RFC 6455 §4).

use base::text::essence;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::{Duplex, HttpClient, NetError, NetFault, Request, Sent, Upgrade};

use super::{Dial, WsError};

/// The text that a server appends to the key before it hashes it (RFC 6455 §1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Requests the upgrade and checks the response. Returns the connection and the selected subprotocol.
pub(super) async fn handshake(
    net: &dyn HttpClient,
    dial: Dial,
) -> Result<(Box<dyn Duplex>, Option<String>), WsError> {
    let key = key()?;
    let mut headers = dial.headers;
    for (name, value) in [
        (CONNECTION, "Upgrade"),
        (UPGRADE, "websocket"),
        (SEC_WEBSOCKET_VERSION, "13"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(SEC_WEBSOCKET_KEY, header_text(&key)?);
    if !dial.protocols.is_empty() {
        headers.insert(
            SEC_WEBSOCKET_PROTOCOL,
            header_text(&dial.protocols.join(", "))?,
        );
    }
    let answer = net.upgrade(Request {
        headers,
        trust: dial.trust,
        repeatable: false,
        ..Request::get(dial.url, dial.access)
    });
    let Upgrade {
        status,
        headers,
        stream,
        ..
    } = answer.await?;
    let Some(stream) = stream else {
        return Err(WsError::NoUpgrade {
            status,
            content_type: media_type(&headers),
        });
    };
    let protocol = check(&headers, &accept(&key), &dial.protocols).map_err(WsError::Handshake)?;
    Ok((stream, protocol))
}

/// Creates a key of sixteen random bytes, which binds the response to the request.
fn key() -> Result<String, NetError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        NetError::new(
            NetFault::Protocol,
            Sent::No,
            "the system provides no random bytes",
        )
    })?;
    Ok(STANDARD.encode(bytes))
}

/// Returns the required `sec-websocket-accept` for `key`.
pub fn accept(key: &str) -> String {
    let hashed = format!("{key}{GUID}");
    STANDARD.encode(digest::digest(
        &digest::SHA1_FOR_LEGACY_USE_ONLY,
        hashed.as_bytes(),
    ))
}

/// Checks the response (RFC 6455 §4.1), and returns the subprotocol.
fn check(
    headers: &HeaderMap,
    accept: &str,
    offered: &[String],
) -> Result<Option<String>, &'static str> {
    if !has_token(headers, &UPGRADE, "websocket") {
        return Err("its `upgrade` header is not `websocket`");
    }
    if !has_token(headers, &CONNECTION, "upgrade") {
        return Err("its `connection` header is not `upgrade`");
    }
    let received = headers.get(SEC_WEBSOCKET_ACCEPT);
    if received.is_none_or(|received| received.as_bytes().trim_ascii() != accept.as_bytes()) {
        return Err("its `sec-websocket-accept` does not match the key");
    }
    let extensions = headers.get_all(SEC_WEBSOCKET_EXTENSIONS);
    if extensions
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().is_empty())
    {
        return Err("it uses an extension that was not offered");
    }
    let mut chosen = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    match (chosen.next(), chosen.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => {
            let one = one.to_str().unwrap_or_default().trim();
            let is_offered = offered.iter().any(|offered| offered == one);
            is_offered
                .then(|| Some(one.to_owned()))
                .ok_or("it chose a subprotocol that was not offered")
        }
        (Some(_), Some(_)) => Err("it chose several subprotocols"),
    }
}

/// Returns whether a header has `token` in its comma-separated list.
pub fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(token))
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let named = essence(value);
    (!named.is_empty()).then(|| named.to_ascii_lowercase())
}

fn header_text(value: &str) -> Result<HeaderValue, NetError> {
    HeaderValue::from_str(value).map_err(|_| {
        NetError::new(
            NetFault::Protocol,
            Sent::No,
            "a subprotocol has characters that an HTTP header cannot contain",
        )
    })
}
