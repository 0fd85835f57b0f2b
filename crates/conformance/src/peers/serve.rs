//! One peer: its connections, the selection of answers, and its requests, with a way to wait for them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::reply;
use super::reply::KeepAlive;
use super::script::Vars;
use super::script::{Peer, Response, Responses};
use crate::http;
use crate::http::{Connection, Request};

pub(super) struct Server {
    pub(super) script: Peer,
    pub(super) origin: String,
    pub(super) origins: Arc<BTreeMap<String, String>>,
    pub(super) log: Arc<Log>,
    /// How many times each list of responses was used.
    used: Mutex<HashMap<String, usize>>,
}

/// An answer of the script, or a default one.
enum PeerAnswer<'a> {
    Scripted(&'a Response),
    Made(Box<Response>),
}

impl Server {
    pub(super) fn new(
        script: Peer,
        origin: String,
        origins: Arc<BTreeMap<String, String>>,
        log: Arc<Log>,
    ) -> Self {
        Self {
            script,
            origin,
            origins,
            log,
            used: Mutex::default(),
        }
    }

    /// Serves until the value is dropped, and all connections with it.
    pub(super) fn run(self, listener: TcpListener) -> http::Server {
        let server = Arc::new(self);
        http::Server::on(listener, move |stream, _| {
            server.log.connected();
            Arc::clone(&server).connection(stream)
        })
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        if self.script.accept_only {
            let _open = stream;
            return std::future::pending().await;
        }
        stream.set_nodelay(true)?;
        let mut connection = Connection::new(stream);
        loop {
            let request = match connection.next().await {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return connection
                        .write("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
                        .await;
                }
                Err(error) => return Err(error),
            };
            let recorded = Recorded::from(&request);
            self.log.record(recorded.clone());
            let rpc_id = recorded.body.as_ref().and_then(|body| body.get("id"));
            let vars = Vars {
                own_origin: &self.origin,
                origins: &self.origins,
                rpc_id,
            };
            let answer = self.answer(&recorded);
            let response = match &answer {
                PeerAnswer::Scripted(response) => response,
                PeerAnswer::Made(response) => response.as_ref(),
            };
            let after =
                reply::send(&mut connection, response, &vars, recorded.method == "HEAD").await?;
            if after == KeepAlive::Close || request.is_last() {
                return Ok(());
            }
        }
    }

    fn answer(&self, request: &Recorded) -> PeerAnswer<'_> {
        let path = request.path.split('?').next().unwrap_or_default();
        let route = format!("{} {path}", request.method);
        if let Some(answers) = self.script.routes.get(&route) {
            return PeerAnswer::Scripted(self.take(&route, answers));
        }
        if let Some(card) = &self.script.card
            && request.method == "GET"
            && path == self.script.card_path
        {
            return PeerAnswer::made(Response {
                json: Some(card.clone()),
                ..Response::default()
            });
        }
        if request.method == "POST"
            && path == self.script.rpc_path
            && request.body.as_ref().is_some_and(Value::is_object)
        {
            let method = request.rpc_method().unwrap_or_default();
            return match self.script.rpc.get(method) {
                Some(answers) => PeerAnswer::Scripted(self.take(&format!("rpc {method}"), answers)),
                None => PeerAnswer::made(Response {
                    error: Some(json!({"code": -32601, "message": "Method not found"})),
                    ..Response::default()
                }),
            };
        }
        PeerAnswer::made(Response {
            status: Some(404),
            body: Some("not found".to_owned()),
            ..Response::default()
        })
    }

    fn take<'a>(&self, key: &str, answers: &'a Responses) -> &'a Response {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let count = used.entry(key.to_owned()).or_default();
        let index = (*count).min(answers.0.len() - 1);
        *count += 1;
        &answers.0[index]
    }
}

impl PeerAnswer<'_> {
    fn made(response: Response) -> Self {
        Self::Made(Box::new(response))
    }
}

/// One request as a peer received it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Upper-case method.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
    /// Header names in lower case; values of repeated headers joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The body: parsed when it is JSON, else its text; `None` when it is empty.
    pub body: Option<Value>,
}

impl From<&Request> for Recorded {
    fn from(request: &Request) -> Self {
        let text = || Value::String(String::from_utf8_lossy(&request.body).into_owned());
        let body = (!request.body.is_empty())
            .then(|| serde_json::from_slice(&request.body).unwrap_or_else(|_| text()));
        Self {
            method: request.method.clone(),
            path: request.target.clone(),
            headers: request.headers.clone(),
            body,
        }
    }
}

impl Recorded {
    /// Returns `{method, path, headers, body}`.
    pub fn to_json(&self) -> Value {
        let mut entry = json!({"method": self.method, "path": self.path, "headers": self.headers});
        if let Some(body) = &self.body {
            entry["body"] = body.clone();
        }
        entry
    }

    /// Returns the JSON-RPC method of the body, if it has one.
    pub fn rpc_method(&self) -> Option<&str> {
        self.body.as_ref()?.get("method")?.as_str()
    }
}

#[derive(Debug)]
pub(super) struct Log {
    requests: Mutex<Vec<Recorded>>,
    counted: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            requests: Mutex::new(Vec::new()),
            counted: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        }
    }

    pub(super) fn record(&self, request: Recorded) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
        self.counted.send_replace(requests.len());
    }

    pub(super) fn connected(&self) {
        self.connections.send_modify(|count| *count += 1);
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    pub(super) async fn wait_for_requests(&self, count: usize) {
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self
            .counted
            .subscribe()
            .wait_for(|seen| *seen >= count)
            .await;
    }

    pub(super) async fn wait_for_connections(&self, count: usize) {
        let _ = self
            .connections
            .subscribe()
            .wait_for(|seen| *seen >= count)
            .await;
    }
}
