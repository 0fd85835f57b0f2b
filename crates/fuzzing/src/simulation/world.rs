//! The state that all processes of a simulation share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::random::Random;
use super::servers::Servers;
use super::webhooks::Webhooks;

/// The host that redirects point to. No client may send a request to it.
pub(super) const TRAP_HOST: &str = "trap.example";

/// The delivery of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// No byte was sent.
    NotSent,
    /// The peer refused the message without processing it.
    Refused,
    /// It may have arrived.
    Sent,
}

/// The state of one call that the network reads and writes.
#[derive(Default)]
pub(super) struct CallState {
    /// Whether the network changed a response, so that its content cannot be predicted.
    pub(super) altered: Mutex<bool>,
}

tokio::task_local! {
    pub(super) static CALL: Arc<CallState>;
}

/// The shared state.
pub(super) struct World {
    pub(super) servers: Servers,
    /// Cancelled when the simulation stops injecting faults.
    pub(super) healed: CancellationToken,
    pub(super) faults: Mutex<BTreeMap<&'static str, u64>>,
    pub(super) attempts: Mutex<BTreeMap<String, Vec<Attempt>>>,
    pub(super) violations: Mutex<Vec<String>>,
    pub(super) random: Mutex<Random>,
    /// A planned fault, which replaces random faults: the kind of exchange, the number of earlier exchanges of that kind to
    /// skip, and the fault.
    pub(super) plan: Mutex<Option<(Exchange, usize, Fault)>>,
    /// The number of bytes in the last planned exchange, with or without a fault.
    pub(super) carried: AtomicUsize,
    /// The ids of messages that arrived incompletely. A server must not process them.
    pub(super) broken: Mutex<Vec<String>>,
    /// The ids of messages that the network duplicated.
    pub(super) duplicated: Mutex<BTreeSet<String>>,
    pub(super) webhooks: Arc<Webhooks>,
}

/// A kind of exchange that planned faults apply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// A message to a server, with its response.
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

/// Records the delivery of a message on drop, even if the call is dropped earlier.
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
