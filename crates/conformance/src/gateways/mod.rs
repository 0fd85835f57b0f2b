//! Scripted gateways and clients of gateways over WebSockets.
//!
//! Like the scripted A2A peers, they do not use the client's types: frames are literal JSON or bytes. This module writes the
//! frames of the WebSocket, so that a script can break them anywhere. `fixtures/README.md` describes the script.
//!
//! [`Gateways`] listens, [`Member`] connects: an agent, a member of a triad, or any other client of a gateway under test.
//! The crate contains the profiles of `fixtures/gateway/` ([`PROFILES`]).

mod connection;
mod log;
mod play;
mod profiles;
mod script;
mod scripted_gateway;
#[cfg(test)]
mod tests;
mod upgrade;
mod vars;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::peers::Recorded;
use crate::http::{self, Connection as HttpConnection};
use crate::websocket::Reader;
use connection::Connection;
pub use log::{Log, LogEvent, Received};
pub use profiles::{PROFILES, profile};
use script::{Action, Profile};
use scripted_gateway::{Part, ScriptedGateway};

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
        let vars = vars::Vars {
            frame: &Value::Null,
            values: &gateway.values,
            connection: 1,
            port,
            round: 0,
        };
        let ahead =
            upgrade::request(&mut stream, &format!("{host}:{port}"), &path, reply, &vars).await?;
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
    let upgrade = upgrade::request_json(&Recorded::from(&request), number);
    gateway.log.add(number, LogEvent::Upgrade(upgrade.clone()));
    let (stream, ahead) = connection.into_parts();
    let (read, write) = stream.into_split();
    let path = upgrade["path"].as_str().unwrap_or_default().to_owned();
    let connection = Arc::new(Connection::new(number, path, false, write));
    let replies = &gateway.profile.upgrade;
    let reply = replies
        .iter()
        .position(|reply| log::matches_condition(&upgrade, &reply.when));
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
    let head = upgrade::answer(&replies[index], &upgrade, &vars);
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
