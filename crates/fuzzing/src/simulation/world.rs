//! What all processes of a simulation share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::random::Random;
use super::servers::Servers;
use super::webhooks::Webhooks;

/// A redirect leads here, and no request may follow it.
pub(super) const TRAP_HOST: &str = "trap.example";

/// How a message left, by the id of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Certainly not.
    NeverLeft,
    /// The peer refused it before it acted.
    Refused,
    /// It may have arrived.
    Left,
}

/// The state of one call that the network sees.
#[derive(Default)]
pub(super) struct CallState {
    /// Whether the network changed what a peer said, so that the content cannot be predicted.
    pub(super) altered: Mutex<bool>,
}

tokio::task_local! {
    pub(super) static CALL: Arc<CallState>;
}

/// What all processes share.
pub(super) struct World {
    pub(super) servers: Servers,
    /// No faults happen once this is cancelled.
    pub(super) healed: CancellationToken,
    pub(super) faults: Mutex<BTreeMap<&'static str, u64>>,
    pub(super) attempts: Mutex<BTreeMap<String, Vec<Attempt>>>,
    pub(super) violations: Mutex<Vec<String>>,
    pub(super) random: Mutex<Random>,
    /// The fault of an exchange of a kind, in place of chance, after so many others of that kind.
    pub(super) plan: Mutex<Option<(Exchange, usize, Fault)>>,
    /// How many bytes the last planned exchange carried, without and with a fault.
    pub(super) carried: AtomicUsize,
    /// The ids of messages that did not arrive whole, which no server may act on.
    pub(super) broken: Mutex<Vec<String>>,
    /// The ids of messages that the network duplicated.
    pub(super) duplicated: Mutex<BTreeSet<String>>,
    pub(super) webhooks: Arc<Webhooks>,
}

/// An exchange that carries work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// A message to a server, and the answer.
    Message,
    /// A connection to the gateway.
    Connection,
    /// A notification to a webhook.
    Notification,
}

impl World {
    pub(super) fn violation(&self, text: String) {
        self.violations.lock().unwrap().push(text);
    }

    pub(super) fn count(&self, fault: &'static str) {
        *self.faults.lock().unwrap().entry(fault).or_default() += 1;
    }

    pub(super) fn fork(&self) -> Random {
        self.random.lock().unwrap().fork()
    }
}

/// Records how a message left, also if the call is dropped meanwhile.
pub(super) struct Recorded<'a> {
    pub(super) world: &'a World,
    pub(super) id: Option<String>,
    pub(super) attempt: Attempt,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let mut attempts = self.world.attempts.lock().unwrap();
            attempts.entry(id).or_default().push(self.attempt);
        }
    }
}
