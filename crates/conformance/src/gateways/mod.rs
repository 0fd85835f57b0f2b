//! Scripted gateways and clients of gateways over WebSockets, and the built-in profiles.
//!
//! Like the scripted A2A peers, they do not use the client's types: frames are literal JSON or bytes. This module writes the
//! frames of the WebSocket, so that a script can break them anywhere. `fixtures/README.md` describes the script.
//!
//! [`Gateways`] listens, [`Member`] connects: an agent, a member of a triad, or any other client of a gateway under test.
//! The crate contains the profiles of `fixtures/gateway/` ([`PROFILES`]).

mod connection;
mod play;
mod script;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connection::Connection;
use play::matches_condition;
pub use play::{Log, LogEvent, Received};
use script::Vars;
use script::{Action, Profile};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::peers::Recorded;
use crate::http;
use crate::http::Connection as HttpConnection;
use crate::websocket::Reader;

/// A scripted gateway. Dropping the value ends every task and closes every socket.
#[derive(Debug)]
pub struct Gateways {
    address: SocketAddr,
    gateway: Arc<ScriptedGateway>,
    /// Dropped, and so ended, with the value.
    _server: http::Server,
}

impl Gateways {
    /// Starts a gateway of this profile on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// `InvalidData` if the profile has an unknown field or invalid value, else the error of the socket.
    pub async fn start(profile: &Value) -> io::Result<Self> {
        Self::start_at(profile, (Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts one of the [`PROFILES`].
    ///
    /// # Errors
    /// `NotFound` for an unknown name, else as [`start`](Self::start).
    pub async fn named(name: &str) -> io::Result<Self> {
        Self::start(&profile(name)?).await
    }

    /// Starts a gateway like [`start`](Self::start), at this address.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_at(profile: &Value, address: SocketAddr) -> io::Result<Self> {
        let profile = Profile::read(profile)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let gateway = Arc::new(ScriptedGateway::new(profile, address.port()));
        let served = Arc::clone(&gateway);
        let server = http::Server::on(listener, move |stream, number| {
            serve_connection(Arc::clone(&served), stream, number)
        });
        Ok(Self {
            address,
            gateway,
            _server: server,
        })
    }

    /// Returns `ws://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.gateway.log
    }

    /// Opens a gate of `await` acts permanently.
    pub fn release(&self, gate: &str) {
        self.gateway.release(gate);
    }
}

/// A scripted client of a gateway. Dropping the value closes its connection.
#[derive(Debug)]
pub struct Member {
    gateway: Arc<ScriptedGateway>,
    connection: Arc<Connection>,
    /// Dropped, and so ended, with the value.
    _tasks: JoinSet<()>,
}

impl Member {
    /// Connects to `url` (`ws://HOST:PORT/PATH`) and plays `script`: a profile whose first `upgrade` has the offered `protocol`,
    /// the `headers` of the request and the first acts.
    ///
    /// # Errors
    /// `InvalidData` for an invalid script or URL, `ConnectionRefused` without an upgrade, else the error of the socket.
    pub async fn join(url: &str, script: &Value) -> io::Result<Self> {
        let profile = Profile::read(script)?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a `ws` URL with a port");
        let url = url::Url::parse(url).map_err(|_| bad())?;
        let (Some(host), Some(port), "ws") = (url.host_str(), url.port(), url.scheme()) else {
            return Err(bad());
        };
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let gateway = Arc::new(ScriptedGateway::new(profile, port));
        let reply = gateway.profile.upgrade.first().ok_or_else(bad)?;
        let vars = script::Vars {
            frame: &Value::Null,
            values: &gateway.values,
            connection: 1,
            port,
            round: 0,
        };
        let ahead =
            connection::request(&mut stream, &format!("{host}:{port}"), &path, reply, &vars)
                .await?;
        let (read, write) = stream.into_split();
        let connection = Arc::new(Connection::new(1, path, true, write));
        let reader = Reader::new(read, ahead);
        let mut tasks = JoinSet::new();
        tasks.spawn(play::connection(
            Arc::clone(&gateway),
            Arc::clone(&connection),
            reader,
            Part::UpgradeReply(0),
            Value::Null,
        ));
        Ok(Self {
            gateway,
            connection,
            _tasks: tasks,
        })
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The error of the socket.
    pub async fn send(&self, frame: &Value) -> io::Result<()> {
        self.connection.json(frame).await
    }

    /// Performs an act of a script now (`{"text": …}`, `{"frame": …}`, `{"close": …}`).
    ///
    /// # Errors
    /// `InvalidData` for an unknown act, else the error of the socket.
    pub async fn act(&self, act: &Value) -> io::Result<()> {
        let act = Action::read(act)?;
        play::one(&self.gateway, &self.connection, &act, &Value::Null, 0).await
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.gateway.log
    }

    /// Opens a gate of `await` acts permanently.
    pub fn release(&self, gate: &str) {
        self.gateway.release(gate);
    }
}

async fn serve_connection(
    gateway: Arc<ScriptedGateway>,
    stream: TcpStream,
    number: usize,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = HttpConnection::new(stream);
    let Some(request) = connection.next().await? else {
        return Ok(());
    };
    let upgrade = connection::request_json(&Recorded::from(&request), number);
    gateway.log.add(number, LogEvent::Upgrade(upgrade.clone()));
    let (stream, ahead) = connection.into_parts();
    let (read, write) = stream.into_split();
    let path = upgrade["path"].as_str().unwrap_or_default().to_owned();
    let connection = Arc::new(Connection::new(number, path, false, write));
    let replies = &gateway.profile.upgrade;
    let reply = replies
        .iter()
        .position(|reply| play::matches_condition(&upgrade, &reply.when));
    let Some(index) =
        reply.filter(|index| replies[*index].raw.is_some() || !upgrade["accept"].is_null())
    else {
        return connection
            .write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await;
    };
    let vars = gateway.vars(&connection, &upgrade, 0);
    if let Some(pieces) = &replies[index].raw {
        connection.pieces(pieces, &vars).await?;
        gateway.log.add(number, LogEvent::Disconnected);
        return Ok(());
    }
    let head = connection::answer(&replies[index], &upgrade, &vars);
    connection.write(head.as_bytes()).await?;
    let reader = Reader::new(read, ahead);
    play::connection(
        gateway,
        connection,
        reader,
        Part::UpgradeReply(index),
        upgrade,
    )
    .await;
    Ok(())
}

/// The names and scripts of the profiles: real gateways, and one that violates the protocol everywhere.
pub const PROFILES: &[(&str, &str)] = &[
    (
        "reference-11.2",
        include_str!("../../../../fixtures/gateway/reference-11.2.json"),
    ),
    (
        "heretek-js",
        include_str!("../../../../fixtures/gateway/heretek-js.json"),
    ),
    (
        "openclaw",
        include_str!("../../../../fixtures/gateway/openclaw.json"),
    ),
    (
        "hostile",
        include_str!("../../../../fixtures/gateway/hostile.json"),
    ),
];

/// Returns the profile of this name.
///
/// # Errors
/// `NotFound` for an unknown name; the message lists the known ones.
pub fn profile(name: &str) -> io::Result<Value> {
    let profile = PROFILES
        .iter()
        .find(|(profile_name, _)| *profile_name == name);
    let Some((_, text)) = profile else {
        let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("unknown profile `{name}`; use one of {}", names.join(", ")),
        ));
    };
    serde_json::from_str(text).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("profile {name}: {error}"),
        )
    })
}

#[derive(Debug)]
struct ScriptedGateway {
    profile: Profile,
    port: u16,
    log: Arc<Log>,
    values: Mutex<BTreeMap<String, Value>>,
    /// How many times each rule was used.
    used: Mutex<Vec<u64>>,
    open: watch::Sender<BTreeSet<String>>,
    running: Mutex<HashMap<String, CancellationToken>>,
    connections: Mutex<BTreeMap<usize, Arc<Connection>>>,
}

/// The completed acts.
#[derive(Debug, Clone, Copy)]
enum Part {
    UpgradeReply(usize),
    Rule(usize),
    Otherwise,
}

impl ScriptedGateway {
    fn new(profile: Profile, port: u16) -> Self {
        let used = Mutex::new(vec![0; profile.on.len()]);
        Self {
            profile,
            port,
            log: Arc::default(),
            values: Mutex::default(),
            used,
            open: watch::Sender::default(),
            running: Mutex::default(),
            connections: Mutex::default(),
        }
    }

    fn vars<'a>(&'a self, connection: &Connection, frame: &'a Value, round: u64) -> Vars<'a> {
        Vars {
            frame,
            values: &self.values,
            connection: connection.number,
            port: self.port,
            round,
        }
    }

    /// Returns the response to a frame.
    fn part(&self, connection: &Connection, frame: &Value, is_json: bool) -> Part {
        let vars = self.vars(connection, frame, 0);
        let values = |name: &String| lock(&self.values).contains_key(&vars.text(name));
        let mut used = lock(&self.used);
        for (index, rule) in self.profile.on.iter().enumerate() {
            if rule.times.is_none_or(|times| used[index] < times)
                && rule.connection.is_none_or(|only| only == connection.number)
                && rule
                    .path
                    .as_ref()
                    .is_none_or(|only| *only == connection.path)
                && rule.json.is_none_or(|json| json == is_json)
                && rule.given.as_ref().is_none_or(values)
                && !rule.unless.as_ref().is_some_and(values)
                && matches_condition(frame, &rule.when)
            {
                used[index] += 1;
                return Part::Rule(index);
            }
        }
        Part::Otherwise
    }

    fn acts(&self, part: Part) -> &[Action] {
        match part {
            Part::UpgradeReply(index) => &self.profile.upgrade[index].acts,
            Part::Rule(index) => &self.profile.on[index].acts,
            Part::Otherwise => &self.profile.otherwise,
        }
    }

    fn release(&self, gate: &str) {
        self.open.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    async fn wait_for_gate(&self, gate: &str) {
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self
            .open
            .subscribe()
            .wait_for(|open| open.contains(gate))
            .await;
    }

    /// Returns the token that stopping `name` cancels.
    fn register(&self, name: String) -> CancellationToken {
        let token = CancellationToken::new();
        lock(&self.running).insert(name, token.clone());
        token
    }

    fn stop(&self, name: &str) {
        if let Some(token) = lock(&self.running).remove(name) {
            token.cancel();
        }
    }

    fn add_connection(&self, connection: &Arc<Connection>) {
        lock(&self.connections).insert(connection.number, Arc::clone(connection));
    }

    fn remove_connection(&self, connection: &Connection) {
        lock(&self.connections).remove(&connection.number);
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).values().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
