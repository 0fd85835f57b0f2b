//! A peer that repeats its requests, credentials included.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::http::{Connection, Request, Server, response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The first line.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether the client presented a certificate.
    pub(crate) certificate: bool,
}

/// A running peer.
pub(crate) struct Echo {
    /// The listen address, without a trailing slash.
    pub(crate) origin: String,
    state: Arc<State>,
    _server: Server,
}

struct State {
    origin: String,
    /// The URL in its card.
    called_at: String,
    seen: Mutex<Vec<Seen>>,
}

impl Echo {
    /// Returns a peer over plain HTTP.
    pub(crate) async fn start() -> Self {
        Self::over(None, None).await
    }

    /// Starts a peer, over TLS if there is an acceptor, whose card has the origin `called_at` instead of its own.
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
        let server = Server::on(listener, move |stream, _| {
            let (state, tls) = (Arc::clone(&shared), tls.clone());
            async move {
                let Some(tls) = tls else {
                    return state.serve(stream, false).await;
                };
                // A refused client notices it by itself.
                let stream = tls.accept(stream).await?;
                let shown = stream.get_ref().1.peer_certificates().is_some();
                state.serve(stream, shown).await
            }
        });
        Self {
            origin,
            state,
            _server: server,
        }
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }
}

impl State {
    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        certificate: bool,
    ) -> io::Result<()> {
        let mut connection = Connection::new(stream);
        while let Some(request) = connection.next().await? {
            self.seen.lock().unwrap().push(Seen {
                line: request.head.lines().next().unwrap().to_owned(),
                headers: request.headers.clone(),
                certificate,
            });
            let answer = self.answer(&request, request.head.trim_end());
            connection.write(answer).await?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request, head: &str) -> String {
        if request.method == "GET" {
            return ok("application/json", &self.card(head).to_string());
        }
        if request.target.starts_with("/token") {
            let token = json!({"access_token": "token-of-echo", "token_type": "Bearer"});
            return ok("application/json", &token.to_string());
        }
        let call = request.json();
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
        let message = json!({"kind": "message", "messageId": "m-1", "role": "agent",
            "parts": [{"kind": "text", "text": head}], "metadata": {head: head}});
        let state = |state: &str| json!({"state": state, "message": message});
        let sent = call["params"]["message"]["parts"][0]["text"].as_str();
        match (sent, call["method"].as_str().unwrap()) {
            // The token of the first request has expired.
            (Some("stale"), _)
                if request.headers["authorization"] == self.first_authorization() =>
            {
                plain("401 Unauthorized", "", "")
            }
            (Some("fail"), _) => plain("500 Internal Server Error", "", head),
            (Some("challenge"), _) => {
                let challenge = format!(
                    "www-authenticate: Bearer realm=\"{}\"\r\n",
                    head.replace("\r\n", " ").replace('"', "'")
                );
                plain("401 Unauthorized", &challenge, head)
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
    response("200 OK", kind, "", body)
}

fn plain(status: &str, header: &str, body: &str) -> String {
    response(status, "text/plain", header, body)
}
