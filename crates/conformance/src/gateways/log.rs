//! A log of incoming frames, with ways to wait for them.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::script::Condition;
use crate::compare::check_at;

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
