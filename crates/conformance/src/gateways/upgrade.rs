//! The upgrade from HTTP to a WebSocket (RFC 6455 §4), on both sides.

use std::collections::BTreeMap;
use std::io;

use bytes::BytesMut;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::script::UpgradeReply;
use super::vars::Vars;
use crate::peers::Recorded;
use crate::websocket::accept;

/// The client's key. It is fixed, because tests need no protection against attacks on caches.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The maximum size of a head, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Returns the request in the form that `when` of an upgrade matches.
pub(super) fn request_json(request: &Recorded, connection: usize) -> Value {
    let (path, query) = match request.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (request.path.as_str(), None),
    };
    let key = request.headers.get("sec-websocket-key");
    json!({
        "method": request.method, "path": path, "query": query, "headers": request.headers, "connection": connection,
        "accept": key.map(|key| accept(key)),
    })
}

/// Returns the head of a successful upgrade.
pub(super) fn answer(reply: &UpgradeReply, upgrade: &Value, vars: &Vars<'_>) -> String {
    let mut headers = BTreeMap::from([
        ("connection".to_owned(), "Upgrade".to_owned()),
        ("upgrade".to_owned(), "websocket".to_owned()),
    ]);
    if let Some(accept) = upgrade["accept"].as_str() {
        headers.insert("sec-websocket-accept".to_owned(), accept.to_owned());
    }
    let offered = upgrade["headers"]["sec-websocket-protocol"].as_str();
    let chosen = match reply.protocol.as_deref() {
        Some("echo") => offered
            .and_then(|offered| offered.split(',').next())
            .map(str::trim),
        chosen => chosen,
    };
    if let Some(chosen) = chosen {
        headers.insert("sec-websocket-protocol".to_owned(), chosen.to_owned());
    }
    override_headers(&mut headers, &reply.headers, vars);
    head("HTTP/1.1 101 Switching Protocols", &headers)
}

/// Requests a WebSocket, and returns the bytes after the head of the answer.
pub(super) async fn request(
    stream: &mut TcpStream,
    host: &str,
    path: &str,
    reply: &UpgradeReply,
    vars: &Vars<'_>,
) -> io::Result<BytesMut> {
    let mut headers = BTreeMap::from(
        [
            ("host", host),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", KEY),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if let Some(protocol) = &reply.protocol {
        headers.insert("sec-websocket-protocol".to_owned(), protocol.clone());
    }
    override_headers(&mut headers, &reply.headers, vars);
    let request = head(&format!("GET {path} HTTP/1.1"), &headers);
    stream.write_all(request.as_bytes()).await?;
    let mut read = BytesMut::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if read.len() > MAX_HEAD_BYTES || stream.read_buf(&mut read).await? == 0 {
            return Err(refused(&read));
        }
    };
    let head = read.split_to(end);
    let is_accepted =
        head.starts_with(b"HTTP/1.1 101 ") && String::from_utf8_lossy(&head).contains(&accept(KEY));
    if is_accepted {
        Ok(read)
    } else {
        Err(refused(&head))
    }
}

fn head(first: &str, headers: &BTreeMap<String, String>) -> String {
    let mut text = format!("{first}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

/// Replaces headers by those of the script; `null` removes one.
fn override_headers(
    headers: &mut BTreeMap<String, String>,
    scripted: &Map<String, Value>,
    vars: &Vars<'_>,
) {
    for (name, value) in scripted {
        let name = name.to_ascii_lowercase();
        match value {
            Value::Null => drop(headers.remove(&name)),
            Value::String(text) => drop(headers.insert(name, vars.text(text))),
            other => drop(headers.insert(name, other.to_string())),
        }
    }
}

fn refused(answer: &[u8]) -> io::Error {
    let answer = String::from_utf8_lossy(answer);
    let first = answer.lines().next().unwrap_or("nothing");
    io::Error::new(
        io::ErrorKind::ConnectionRefused,
        format!("expected an upgrade to a WebSocket, got `{first}`"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_is_accepted() {
        assert_eq!(accept(KEY), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
