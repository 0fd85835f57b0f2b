//! One connection: logs received frames, with ways to wait for them, and answers them by the script.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::script::{Action, Condition, Gate};
use super::{Part, ScriptedGateway};
use crate::compare::check_at;
use crate::websocket;
use crate::websocket::{Incoming, Reader};

type PlayFuture<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// Plays until the connection ends. Performs `first` at once, with the values of `upgrade`.
pub(super) async fn connection(
    gateway: Arc<ScriptedGateway>,
    connection: Arc<Connection>,
    mut reader: Reader<OwnedReadHalf>,
    first: Part,
    upgrade: Value,
) {
    let mute = matches!(first, Part::UpgradeReply(index) if gateway.profile.upgrade[index].mute);
    gateway.add_connection(&connection);
    let mut plays = JoinSet::new();
    begin(&mut plays, &gateway, &connection, first, upgrade).await;
    loop {
        let received = tokio::select! {
            () = connection.ended.cancelled() => break,
            () = connection.hung.cancelled() => {
                connection.ended.cancelled().await;
                break;
            }
            Some(_) = plays.join_next(), if !plays.is_empty() => continue,
            received = reader.next() => received,
        };
        let Ok(Some(received)) = received else { break };
        if !answer(&mut plays, &gateway, &connection, mute, received).await {
            break;
        }
    }
    gateway.remove_connection(&connection);
    gateway.log.add(connection.number, LogEvent::Disconnected);
}

/// Answers one frame. Returns false if the connection has ended.
async fn answer(
    plays: &mut JoinSet<()>,
    gateway: &Arc<ScriptedGateway>,
    connection: &Arc<Connection>,
    mute: bool,
    received: Incoming,
) -> bool {
    let log = |what| gateway.log.add(connection.number, what);
    match received {
        Incoming::Text(bytes) => {
            let json = serde_json::from_slice::<Value>(&bytes);
            let is_json = json.is_ok();
            let frame =
                json.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
            log(LogEvent::Text(frame.clone()));
            let part = gateway.part(connection, &frame, is_json);
            begin(plays, gateway, connection, part, frame).await;
        }
        Incoming::Binary(bytes) => log(LogEvent::Binary(bytes.len())),
        Incoming::Pong(_) => log(LogEvent::Pong),
        Incoming::Ping(payload) => {
            log(LogEvent::Ping);
            if !mute {
                return connection.send(websocket::PONG, &payload).await.is_ok();
            }
        }
        Incoming::Close { code, reason } => {
            log(LogEvent::Close { code, reason });
            if !connection.is_closing() {
                // A client that does not wait for the answer has closed the connection.
                let _ = connection
                    .send(websocket::CLOSE, &websocket::closing(code, ""))
                    .await;
            }
            return false;
        }
    }
    true
}

/// Performs acts up to the first pause, so that acts without one follow the order of the frames. The rest runs
/// concurrently.
async fn begin(
    plays: &mut JoinSet<()>,
    gateway: &Arc<ScriptedGateway>,
    connection: &Arc<Connection>,
    part: Part,
    frame: Value,
) {
    let (gateway, connection) = (Arc::clone(gateway), Arc::clone(connection));
    let mut play: Pin<Box<dyn Future<Output = ()> + Send>> =
        Box::pin(async move { whole(&gateway, &connection, part, &frame).await });
    let done = poll_fn(|context| Poll::Ready(play.as_mut().poll(context))).await;
    if done.is_pending() {
        plays.spawn(play);
    }
}

/// Performs acts to their end, or until they are stopped.
async fn whole(gateway: &ScriptedGateway, connection: &Connection, part: Part, frame: &Value) {
    let acts = acts(gateway, connection, gateway.acts(part), frame, 0);
    let rule = match part {
        Part::Rule(index) => Some(&gateway.profile.on[index]),
        _ => None,
    };
    // An error means that the other side or the acts have ended the connection.
    let Some((rule, name)) = rule.and_then(|rule| Some((rule, rule.name.as_deref()?))) else {
        let _ = acts.await;
        return;
    };
    let stop = gateway.register(gateway.vars(connection, frame, 0).text(name));
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        _ = acts => return,
    }
    let _ = self::acts(gateway, connection, &rule.stopped, frame, 0).await;
}

fn acts<'a>(
    gateway: &'a ScriptedGateway,
    connection: &'a Connection,
    acts: &'a [Action],
    frame: &'a Value,
    round: u64,
) -> PlayFuture<'a> {
    Box::pin(async move {
        for act in acts {
            one(gateway, connection, act, frame, round).await?;
        }
        Ok(())
    })
}

/// Performs one act.
pub(super) async fn one(
    gateway: &ScriptedGateway,
    connection: &Connection,
    act: &Action,
    frame: &Value,
    round: u64,
) -> io::Result<()> {
    let vars = gateway.vars(connection, frame, round);
    match act {
        Action::Send(value) => connection.json(&vars.value(value)).await,
        Action::SendAll(value) => {
            let text = vars.value(value).to_string();
            for connection in gateway.connections() {
                // A closed connection does not affect the others.
                let _ = connection.text(&text).await;
            }
            Ok(())
        }
        Action::Text(text) => connection.text(&vars.text(text)).await,
        Action::Frame(shape) => connection.frame(shape, &vars).await,
        Action::Raw(pieces) => connection.pieces(pieces, &vars).await,
        Action::DelayMs(ms) => {
            sleep(Duration::from_millis(*ms)).await;
            Ok(())
        }
        Action::Await(Gate::Named(gate)) => {
            gateway.wait_for_gate(&vars.text(gate)).await;
            Ok(())
        }
        Action::Await(Gate::Bounded {
            gate,
            within_ms,
            late,
        }) => {
            let within = Duration::from_millis(vars.value(within_ms).as_u64().unwrap_or(0));
            match timeout(within, gateway.wait_for_gate(&vars.text(gate))).await {
                Ok(()) => Ok(()),
                Err(_) => {
                    acts(gateway, connection, late, frame, round).await?;
                    Err(finish())
                }
            }
        }
        Action::Release(gate) => {
            gateway.release(&vars.text(gate));
            Ok(())
        }
        Action::Remember(values) => {
            for (name, value) in values {
                let (name, value) = (vars.text(name), vars.value(value));
                let mut values = gateway.values.lock().unwrap_or_else(|bad| bad.into_inner());
                values.insert(name, value);
            }
            Ok(())
        }
        Action::Stop(name) => {
            gateway.stop(&vars.text(name));
            Ok(())
        }
        Action::Repeat(repeat) => {
            for round in 0..repeat.count.unwrap_or(u64::MAX) {
                acts(gateway, connection, &repeat.each, frame, round).await?;
                if repeat.gap_ms > 0 {
                    sleep(Duration::from_millis(repeat.gap_ms)).await;
                }
            }
            Ok(())
        }
        Action::Close(closing) => {
            connection
                .close(closing.code, &vars.text(&closing.reason))
                .await?;
            Err(finish())
        }
        Action::End(end) => {
            connection.end(*end).await?;
            Err(finish())
        }
    }
}

/// Returns the error that ends the following acts.
fn finish() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

/// One received event.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The number of its connection, from 1.
    pub connection: usize,
    /// The event.
    pub what: LogEvent,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEvent {
    /// A request for a WebSocket, as `{method, path, query, headers, connection, accept}`.
    Upgrade(Value),
    /// A text frame: parsed when it is JSON, else its text.
    Text(Value),
    /// A binary frame; contains its length in bytes.
    Binary(usize),
    /// A ping of the WebSocket.
    Ping,
    /// A pong of the WebSocket.
    Pong,
    /// A close frame.
    Close {
        /// Its code.
        code: Option<u16>,
        /// Its reason.
        reason: String,
    },
    /// The connection is over.
    Disconnected,
}

/// All received events, oldest first.
#[derive(Debug, Default)]
pub struct Log {
    entries: Mutex<Vec<Received>>,
    counted: watch::Sender<usize>,
}

impl Log {
    pub(super) fn add(&self, connection: usize, what: LogEvent) {
        let count = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push(Received { connection, what });
            entries.len()
        };
        // After the lock of the entries is released, because a waiting thread holds the count while it reads them.
        self.counted.send_replace(count);
    }

    /// Returns the events so far.
    pub fn received(&self) -> Vec<Received> {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the text frames so far.
    pub fn frames(&self) -> Vec<Value> {
        let texts = self.received().into_iter();
        texts
            .filter_map(|entry| match entry.what {
                LogEvent::Text(frame) => Some(frame),
                _ => None,
            })
            .collect()
    }

    /// Returns the text frames so far that fit `when`: an object of matchers by JSON Pointer (`{"/type": "message"}`).
    pub fn matching(&self, when: &Value) -> Vec<Value> {
        let when = places(when);
        let mut frames = self.frames();
        frames.retain(|frame| matches_condition(frame, &when));
        frames
    }

    /// Returns once `enough` is true for the events so far.
    pub async fn until(&self, enough: impl Fn(&[Received]) -> bool) {
        let is_enough = |_: &usize| {
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            enough(&entries)
        };
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self.counted.subscribe().wait_for(is_enough).await;
    }

    /// Waits for the `count`th text frame that fits `when`, and returns it.
    pub async fn frame(&self, count: usize, when: &Value) -> Value {
        let places = places(when);
        let fit = |entry: &&Received| matches!(&entry.what, LogEvent::Text(frame) if matches_condition(frame, &places));
        self.until(|entries| entries.iter().filter(fit).count() >= count.max(1))
            .await;
        let found = self.matching(when).into_iter().nth(count.max(1) - 1);
        found.unwrap_or_default()
    }
}

/// Returns whether a frame satisfies every matcher.
pub(super) fn matches_condition(frame: &Value, when: &Condition) -> bool {
    when.iter()
        .all(|(pointer, matcher)| check_at(frame, pointer, matcher).is_ok())
}

fn places(when: &Value) -> Condition {
    match when {
        Value::Object(places) => places.clone().into_iter().collect(),
        // Fits no frame, so that the test fails at once.
        _ => Condition::from([(String::new(), json!({"$absent": true}))]),
    }
}
