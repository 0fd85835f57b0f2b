//! The operations of requests.

use testkit::http;

/// The header that identifies the case of a request.
pub(crate) const CUT: &str = "x-cut";

/// The operation that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
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
    pub(crate) kind: RequestKind,
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
            kind: request_kind(&request.method, &request.target, rpc),
            cut: request.header(CUT).map(|cut| cut.parse().unwrap()),
            reported: format!("{line} {rpc}"),
        }
    }
}

fn request_kind(method: &str, target: &str, rpc: &str) -> RequestKind {
    let path = target.split('?').next().unwrap_or_default();
    if path == "/.well-known/agent-card.json" {
        return RequestKind::Card;
    }
    if path == "/rpc" {
        return match rpc {
            "message/send" | "SendMessage" => RequestKind::Send,
            "message/stream" | "SendStreamingMessage" => RequestKind::Stream,
            "tasks/get" | "GetTask" => RequestKind::Task,
            "tasks/resubscribe" | "SubscribeToTask" => RequestKind::Subscription { post: true },
            _ => RequestKind::Else,
        };
    }
    let path = path.strip_prefix("/rest").unwrap_or_default();
    match (method, path.strip_prefix("/v1").unwrap_or(path)) {
        ("POST", "/message:send") => RequestKind::Send,
        ("POST", "/message:stream") => RequestKind::Stream,
        ("POST" | "GET", path) if path.ends_with(":subscribe") => RequestKind::Subscription {
            post: method == "POST",
        },
        ("GET", path) if path.starts_with("/tasks/") => RequestKind::Task,
        _ => RequestKind::Else,
    }
}
