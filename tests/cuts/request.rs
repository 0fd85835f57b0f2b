//! The operations of requests.

use testkit::http;

/// The header that identifies the case of a request.
pub(crate) const CUT: &str = "x-cut";

/// The operation that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Card,
    Send,
    Stream,
    Task,
    /// By `POST`, else by `GET`.
    Subscription {
        post: bool,
    },
    /// An unexpected operation.
    Else,
}

/// One request.
pub(crate) struct Request {
    pub(crate) wanted: Wanted,
    /// The cut of the request.
    pub(crate) cut: Option<usize>,
    /// Its first line and its JSON-RPC method, for reports.
    pub(crate) reported: String,
}

impl From<&http::Request> for Request {
    fn from(request: &http::Request) -> Self {
        let rpc = request.json();
        let rpc = rpc["method"].as_str().unwrap_or_default();
        let line = request.head.lines().next().unwrap_or_default();
        Self {
            wanted: wanted(&request.method, &request.target, rpc),
            cut: request.header(CUT).map(|cut| cut.parse().unwrap()),
            reported: format!("{line} {rpc}"),
        }
    }
}

fn wanted(method: &str, target: &str, rpc: &str) -> Wanted {
    let path = target.split('?').next().unwrap_or_default();
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
