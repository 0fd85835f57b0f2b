//! State that the connections of a gateway, or of a scripted client, share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::log::{Log, matches_condition};
use super::script::{Action, Profile};
use super::vars::Vars;

#[derive(Debug)]
pub(super) struct ScriptedGateway {
    pub(super) profile: Profile,
    pub(super) port: u16,
    pub(super) log: Arc<Log>,
    pub(super) values: Mutex<BTreeMap<String, Value>>,
    /// How many times each rule was used.
    used: Mutex<Vec<u64>>,
    open: watch::Sender<BTreeSet<String>>,
    running: Mutex<HashMap<String, CancellationToken>>,
    connections: Mutex<BTreeMap<usize, Arc<Connection>>>,
}

/// The completed acts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    UpgradeReply(usize),
    Rule(usize),
    Otherwise,
}

impl ScriptedGateway {
    pub(super) fn new(profile: Profile, port: u16) -> Self {
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

    pub(super) fn vars<'a>(
        &'a self,
        connection: &Connection,
        frame: &'a Value,
        round: u64,
    ) -> Vars<'a> {
        Vars {
            frame,
            values: &self.values,
            connection: connection.number,
            port: self.port,
            round,
        }
    }

    /// Returns the response to a frame.
    pub(super) fn part(&self, connection: &Connection, frame: &Value, is_json: bool) -> Part {
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

    pub(super) fn acts(&self, part: Part) -> &[Action] {
        match part {
            Part::UpgradeReply(index) => &self.profile.upgrade[index].acts,
            Part::Rule(index) => &self.profile.on[index].acts,
            Part::Otherwise => &self.profile.otherwise,
        }
    }

    pub(super) fn release(&self, gate: &str) {
        self.open.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    pub(super) async fn wait_for_gate(&self, gate: &str) {
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self
            .open
            .subscribe()
            .wait_for(|open| open.contains(gate))
            .await;
    }

    /// Returns the token that stopping `name` cancels.
    pub(super) fn register(&self, name: String) -> CancellationToken {
        let token = CancellationToken::new();
        lock(&self.running).insert(name, token.clone());
        token
    }

    pub(super) fn stop(&self, name: &str) {
        if let Some(token) = lock(&self.running).remove(name) {
            token.cancel();
        }
    }

    pub(super) fn add_connection(&self, connection: &Arc<Connection>) {
        lock(&self.connections).insert(connection.number, Arc::clone(connection));
    }

    pub(super) fn remove_connection(&self, connection: &Connection) {
        lock(&self.connections).remove(&connection.number);
    }

    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).values().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
