//! A peer that repeats all that it was sent: the worst that can happen to a credential.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The first line.
    pub(crate) line: String,
    /// The headers, with names in small letters.
    pub(crate) headers: HashMap<String, String>,
    /// The body.
    pub(crate) body: String,
    /// The client showed a certificate.
    pub(crate) certificate: bool,
}

/// A running peer.
pub(crate) struct Echo {
    /// Where it listens, without a trailing slash.
    pub(crate) origin: String,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

struct State {
    origin: String,
    /// Where its card says it is called.
    called_at: String,
    seen: Mutex<Vec<Seen>>,
}

impl Echo {
    /// A peer over plain HTTP.
    pub(crate) async fn start() -> Self {
        Self::over(None, None).await
    }

    /// A peer, over TLS where there is an acceptor, whose card says that it is called at the origin `called_at` and not here.
    pub(crate) async fn over(tls: Option<TlsAcceptor>, called_at: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            called_at: called_at.unwrap_or(&origin).to_owned(),
            origin: origin.clone(),
            seen: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    let Some(tls) = tls else {
                        return state.serve(stream, false).await;
                    };
                    // A client that is refused here finds out by itself.
                    if let Ok(stream) = tls.accept(stream).await {
                        let shown = stream.get_ref().1.peer_certificates().is_some();
                        state.serve(stream, shown).await;
                    }
                });
            }
        });
        Self {
            origin,
            state,
            task,
        }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, certificate: bool) {
        while let Some((head, body)) = read(&mut stream).await {
            let mut lines = head.lines();
            let line = lines.next().unwrap().to_owned();
            let headers = lines.filter_map(|line| line.split_once(": "));
            let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
            let seen = Seen {
                line,
                headers: headers.collect(),
                body,
                certificate,
            };
            self.seen.lock().unwrap().push(seen.clone());
            let answer = self.answer(&seen, &head);
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, seen: &Seen, head: &str) -> String {
        if seen.line.starts_with("GET ") {
            return ok("application/json", &self.card(head).to_string());
        }
        if seen.line.starts_with("POST /token") {
            let token = json!({"access_token": "token-of-echo", "token_type": "Bearer"});
            return ok("application/json", &token.to_string());
        }
        let call: Value = serde_json::from_str(&seen.body).unwrap();
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
        let message = json!({"kind": "message", "messageId": "m-1", "role": "agent",
            "parts": [{"kind": "text", "text": head}], "metadata": {head: head}});
        let state = |state: &str| json!({"state": state, "message": message});
        let said = call["params"]["message"]["parts"][0]["text"].as_str();
        match (said, call["method"].as_str().unwrap()) {
            // What was good for the first request is good no more.
            (Some("stale"), _) if seen.headers["authorization"] == self.first_authorization() => {
                plain("401 Unauthorized", "", "")
            }
            (Some("fail"), _) => plain("500 Internal Server Error", "", head),
            (Some("challenge"), _) => {
                let asks = format!(
                    "www-authenticate: Bearer realm=\"{}\"\r\n",
                    head.replace("\r\n", " ").replace('"', "'")
                );
                plain("401 Unauthorized", &asks, head)
            }
            (Some("refuse"), _) => {
                let error = json!({"code": -32000, "message": head, "data": {head: [head]}});
                let answer = json!({"jsonrpc": "2.0", "id": call["id"], "error": error});
                ok("application/json", &answer.to_string())
            }
            (_, "message/send") => ok("application/json", &result(message).to_string()),
            (_, "message/stream" | "tasks/resubscribe") => {
                let event = json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
                    "status": state("completed"), "final": true});
                let events = format!("data: {}\n\n", result(event));
                ok("text/event-stream", &events)
            }
            _ => {
                let task = json!({"kind": "task", "id": "t-1", "contextId": "c-1", "status": state("completed")});
                ok("application/json", &result(task).to_string())
            }
        }
    }

    fn first_authorization(&self) -> String {
        self.seen.lock().unwrap()[0].headers["authorization"].clone()
    }

    fn card(&self, head: &str) -> Value {
        json!({
            "protocolVersion": "0.3.0", "name": "Echo", "description": head, "version": "1.0.0",
            "url": format!("{}/rpc", self.called_at), "preferredTransport": "JSONRPC",
            "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"], "documentationUrl": self.origin,
            "skills": [{"id": head, "name": head, "description": head, "tags": [head]}],
        })
    }
}

fn ok(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn plain(status: &str, header: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\n{header}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The head and the body of the next request; nothing when there is no other.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let whole = end + 4 + length.unwrap_or(0);
    while bytes.len() < whole {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[end + 4..whole].to_vec()).unwrap();
    Some((head, body))
}
