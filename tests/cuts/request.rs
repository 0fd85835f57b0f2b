//! Requests off a socket.

use std::io;

use serde_json::Value;
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::cuts::recording::find;

/// Tells the calls of one client apart.
pub(crate) const CUT: &str = "x-cut";

/// The operation that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Card,
    Send,
    Stream,
    Task,
    /// By `POST`, or else by `GET`.
    Subscription {
        post: bool,
    },
    /// Nothing that a client has to do here.
    Else,
}

/// One request.
pub(crate) struct Request {
    pub(crate) wanted: Wanted,
    /// Which cut it is about.
    pub(crate) cut: Option<usize>,
    /// Its first line and its JSON-RPC method, for a report.
    pub(crate) reported: String,
}

/// Reads the next request; `None` when the client has closed the connection.
pub(crate) async fn next(
    socket: &mut TcpStream,
    seen: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    let head = loop {
        if let Some(length) = find(seen, b"\r\n\r\n") {
            break length + 4;
        }
        if socket.read_buf(seen).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&seen[..head]).into_owned();
    let length = header(&text, "content-length").map_or(0, |length| length.parse().unwrap());
    while seen.len() < head + length {
        if socket.read_buf(seen).await? == 0 {
            return Ok(None);
        }
    }
    let body = seen[head..head + length].to_vec();
    seen.drain(..head + length);
    let line = text.lines().next().unwrap_or_default();
    let rpc: Value = serde_json::from_slice(&body).unwrap_or_default();
    let rpc = rpc["method"].as_str().unwrap_or_default();
    Ok(Some(Request {
        wanted: wanted(line, rpc),
        cut: header(&text, CUT).map(|cut| cut.parse().unwrap()),
        reported: format!("{line} {rpc}"),
    }))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn wanted(line: &str, rpc: &str) -> Wanted {
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    if path == "/.well-known/agent-card.json" {
        return Wanted::Card;
    }
    if path == "/rpc" {
        return match rpc {
            "message/send" | "SendMessage" => Wanted::Send,
            "message/stream" | "SendStreamingMessage" => Wanted::Stream,
            "tasks/get" | "GetTask" => Wanted::Task,
            "tasks/resubscribe" | "SubscribeToTask" => Wanted::Subscription { post: true },
            _ => Wanted::Else,
        };
    }
    let path = path.strip_prefix("/rest").unwrap_or_default();
    match (method, path.strip_prefix("/v1").unwrap_or(path)) {
        ("POST", "/message:send") => Wanted::Send,
        ("POST", "/message:stream") => Wanted::Stream,
        ("POST" | "GET", path) if path.ends_with(":subscribe") => Wanted::Subscription {
            post: method == "POST",
        },
        ("GET", path) if path.starts_with("/tasks/") => Wanted::Task,
        _ => Wanted::Else,
    }
}
