//! One peer: its connections, and the selection of answers.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::log::{Log, Recorded};
use super::reply::{self, KeepAlive};
use super::script::{Peer, Response, Responses};
use super::vars::Vars;
use crate::http::{self, Connection};

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
