//! A client as the rest of the gateway knows it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http_server::serve::Connection;

use super::access::{Identity, Known};
use super::outbox::Outbox;
use super::questions::Questions;

/// A client: what it may do, which agents it serves, and what waits for it.
pub(super) struct Client {
    id: Arc<str>,
    came: Instant,
    /// What waits to be written to it.
    pub(super) outbox: Outbox,
    /// What it was asked.
    pub(super) questions: Questions,
    /// How many of its own questions are open at others.
    pub(super) asked: AtomicUsize,
    identity: OnceLock<Identity>,
    /// Its connection, which has a place among unauthenticated ones until it is authenticated.
    unauthenticated: Mutex<Option<Connection>>,
    /// When its credential is no longer good.
    until: Mutex<Option<SystemTime>>,
    names: Mutex<Arc<[Arc<str>]>>,
    /// When it last gave a sign of life, in milliseconds since it came.
    heard: AtomicU64,
    /// The gateway is at something it said, and reads nothing else of it.
    working: AtomicBool,
}

impl Client {
    pub(super) fn new(id: String, outbox: Outbox, now: Instant) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            came: now,
            outbox,
            questions: Questions::default(),
            asked: AtomicUsize::new(0),
            identity: OnceLock::new(),
            unauthenticated: Mutex::default(),
            until: Mutex::default(),
            names: Mutex::new(Arc::default()),
            heard: AtomicU64::new(0),
            working: AtomicBool::new(false),
        })
    }

    /// What the gateway calls the connection.
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Who it is, once it has said so.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Says who it is. The first word counts; the same said again may make it last longer.
    pub(super) fn identify(&self, known: Known) {
        let identity = self.identity.get_or_init(|| known.identity.clone());
        if *identity == known.identity {
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = known.until;
        }
        drop(self.unauthenticated().take());
    }

    /// Holds its connection's place until it is authenticated.
    pub(super) fn hold(&self, connection: Connection) {
        if self.identity().is_none() {
            *self.unauthenticated() = Some(connection);
        }
    }

    /// It is not authenticated, and another connection has its place.
    pub(super) fn is_evicted(&self) -> bool {
        let connection = self.unauthenticated();
        connection.as_ref().is_some_and(Connection::is_evicted)
    }

    fn unauthenticated(&self) -> MutexGuard<'_, Option<Connection>> {
        self.unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Its credential is no longer good.
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| until <= now)
    }

    /// The agents it serves.
    pub(super) fn names(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes which agents it serves, and gives those it served before. Only the registry does that.
    pub(super) fn serve(&self, names: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
        let mut current = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, names.into())
    }

    /// The agent it speaks as: the one it says it is if it serves that one, else the first it serves, else the one its
    /// credential names.
    pub(super) fn speaks_as(&self, said: Option<&str>) -> Option<Arc<str>> {
        let names = self.names();
        let own = said.and_then(|said| names.iter().find(|name| ***name == *said));
        if let Some(name) = own.or(names.first()) {
            return Some(Arc::clone(name));
        }
        self.identity()?.agent.as_deref().map(Into::into)
    }

    /// Who it is towards others: the agent it speaks as, else its id.
    pub(super) fn name(&self, said: Option<&str>) -> Arc<str> {
        self.speaks_as(said).unwrap_or_else(|| Arc::clone(&self.id))
    }

    /// It may call itself `said` without a lie.
    pub(super) fn is(&self, said: &str) -> bool {
        let agent = self
            .identity()
            .and_then(|identity| identity.agent.as_deref());
        *said == *self.id || agent == Some(said) || self.names().iter().any(|name| **name == *said)
    }

    /// It gave a sign of life.
    pub(super) fn heard(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.came).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.heard.store(millis, Ordering::Relaxed);
    }

    /// The gateway begins or ends to work on what it said.
    pub(super) fn works(&self, working: bool) {
        self.working.store(working, Ordering::Relaxed);
    }

    /// How long it has been silent. Who waits for the gateway is not.
    pub(super) fn silent(&self, now: Instant) -> Duration {
        if self.working.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        now.saturating_duration_since(self.came)
            .saturating_sub(heard)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}
