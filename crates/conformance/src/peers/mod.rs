//! A2A peers that answer by a script, each on its own port of 127.0.0.1.
//!
//! Peers share no types with the client: responses are literal JSON and bytes, so that an error in the client's reader
//! cannot hide one in its writer. `fixtures/README.md` describes the script. Beside plain responses, it has
//!
//! * `unreachable: true` (a port that refuses) and `accept_only: true` (connections are accepted and never answered);
//! * `end: "destroy"` (a TCP reset), `end: "hang"` (silence), `truncate_at: n` (fewer bytes than announced);
//! * `close: "half"` (the sending side closes after the response, and reading continues; a body of unknown length, and
//!   one with `truncate_at`, stays unfinished);
//! * `body_repeat` without `count` and `repeat` without `count`: bodies that never end;
//! * `raw_response`: text, `{"hex": …}`, `{"delay_ms": n}` and `{"repeat": {chunk, count}}`, written unchanged in place of
//!   head and body. The connection then closes, unless there is `end` or `close`.

mod reply;
mod script;
mod serve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpSocket;

use script::Script;
pub(crate) use script::lookup_origin;
pub(crate) use script::{Padding, Piece, one_or_more};
use serve::Log;
pub use serve::Recorded;
use serve::Server;

use crate::http;

/// Running peers. Dropping the value ends every task and closes every socket.
#[derive(Debug)]
pub struct Peers {
    origins: Arc<BTreeMap<String, String>>,
    logs: BTreeMap<String, Arc<Log>>,
    /// Ports of unreachable peers: bound without a listener, so that no other process gets them.
    refusing: Vec<TcpSocket>,
    servers: Vec<http::Server>,
}

impl Peers {
    /// Starts every peer of `script` (`{"peers": {NAME: …}}`) on the current tokio runtime.
    ///
    /// # Errors
    /// `InvalidData` if the script has an unknown field or invalid value, else the error of a socket.
    pub async fn start(script: &Value) -> io::Result<Self> {
        let script = Script::read(script)?;
        let mut origins = BTreeMap::new();
        let mut sockets = BTreeMap::new();
        for name in script.peers.keys() {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            origins.insert(name.clone(), format!("http://{}", socket.local_addr()?));
            sockets.insert(name.clone(), socket);
        }
        let origins = Arc::new(origins);
        let mut peers = Self {
            origins: Arc::clone(&origins),
            logs: BTreeMap::new(),
            refusing: Vec::new(),
            servers: Vec::new(),
        };
        for ((name, peer), (_, socket)) in script.peers.into_iter().zip(sockets) {
            let log = Arc::new(Log::new());
            peers.logs.insert(name.clone(), Arc::clone(&log));
            if peer.unreachable {
                peers.refusing.push(socket);
                continue;
            }
            let listener = socket.listen(1024)?;
            let server = Server::new(peer, origins[&name].clone(), Arc::clone(&origins), log);
            peers.servers.push(server.run(listener));
        }
        Ok(peers)
    }

    /// Returns `http://127.0.0.1:PORT` of a peer, or an empty string for an unknown name.
    pub fn origin(&self, name: &str) -> &str {
        self.origins.get(name).map_or("", String::as_str)
    }

    /// Returns every peer's name and origin.
    pub fn origins(&self) -> &BTreeMap<String, String> {
        &self.origins
    }

    /// Returns the requests that a peer has received, oldest first.
    pub fn log(&self, name: &str) -> Vec<Recorded> {
        self.logs
            .get(name)
            .map(|log| log.requests())
            .unwrap_or_default()
    }

    /// Returns the number of connections that a peer accepted.
    pub fn connections(&self, name: &str) -> usize {
        self.logs.get(name).map_or(0, |log| log.connections())
    }

    /// Returns once a peer has received `count` requests in all; at once for a name that no peer has.
    pub async fn wait_for(&self, name: &str, count: usize) {
        if let Some(log) = self.logs.get(name) {
            log.wait_for_requests(count).await;
        }
    }

    /// Returns once a peer has accepted `count` connections in all; at once for a name that no peer has.
    pub async fn wait_for_connections(&self, name: &str, count: usize) {
        if let Some(log) = self.logs.get(name) {
            log.wait_for_connections(count).await;
        }
    }
}
