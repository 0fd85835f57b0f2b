//! A connected client.

mod pending;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http_server::serve::Connection;

use super::access::{Authenticated, Identity};
use super::outbox::Outbox;

pub(super) use pending::{InsertError, PendingRequest, PendingRequests};

/// A connected client: its identity, the agents it serves, its outbox and its pending requests.
pub(super) struct Client {
    id: Arc<str>,
    connected_at: Instant,
    /// Messages for the client.
    pub(super) outbox: Outbox,
    /// Requests for the client, without their replies yet.
    pub(super) pending: PendingRequests,
    /// The number of the client's own requests that are pending at others.
    pub(super) open_requests: AtomicUsize,
    identity: OnceLock<Identity>,
    /// The connection until it is authenticated; it counts as unauthenticated as long as this holds it.
    unauthenticated: Mutex<Option<Connection>>,
    /// The end of the credential's validity.
    expires_at: Mutex<Option<SystemTime>>,
    names: Mutex<Arc<[Arc<str>]>>,
    /// The last activity, in milliseconds after `connected_at`.
    last_active: AtomicU64,
    /// Whether the gateway is handling a message of the client, and reads no other.
    busy: AtomicBool,
}

impl Client {
    pub(super) fn new(id: String, outbox: Outbox, now: Instant) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            connected_at: now,
            outbox,
            pending: PendingRequests::default(),
            open_requests: AtomicUsize::new(0),
            identity: OnceLock::new(),
            unauthenticated: Mutex::default(),
            expires_at: Mutex::default(),
            names: Mutex::new(Arc::default()),
            last_active: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        })
    }

    /// Returns the id that the gateway assigned to the connection.
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the identity of an authenticated client.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Sets the identity. A second credential of the same identity changes only the expiry; one of another is ignored.
    pub(super) fn authenticate(&self, authenticated: Authenticated) {
        let identity = self.identity.get_or_init(|| authenticated.identity.clone());
        if *identity == authenticated.identity {
            let mut expires_at = self
                .expires_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *expires_at = authenticated.expires_at;
        }
        drop(self.unauthenticated().take());
    }

    /// Holds the connection until the client is authenticated.
    pub(super) fn hold(&self, connection: Connection) {
        if self.identity().is_none() {
            *self.unauthenticated() = Some(connection);
        }
    }

    /// Returns whether the connection is unauthenticated and was evicted.
    pub(super) fn is_evicted(&self) -> bool {
        let connection = self.unauthenticated();
        connection.as_ref().is_some_and(Connection::is_evicted)
    }

    fn unauthenticated(&self) -> MutexGuard<'_, Option<Connection>> {
        self.unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the credential has expired.
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        let expires_at = *self
            .expires_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        expires_at.is_some_and(|end| end <= now)
    }

    /// Returns the agents that the client serves.
    pub(super) fn names(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the agents that the client serves, and returns the previous ones. Only the registry calls this.
    pub(super) fn replace_names(&self, names: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
        let mut current = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, names.into())
    }

    /// Returns the agent that the client speaks as: `from` if it serves that agent, else the first that it serves, else the
    /// one that its credential names.
    pub(super) fn speaks_as(&self, from: Option<&str>) -> Option<Arc<str>> {
        let names = self.names();
        let own = from.and_then(|from| names.iter().find(|name| ***name == *from));
        if let Some(name) = own.or(names.first()) {
            return Some(Arc::clone(name));
        }
        self.identity()?.agent.as_deref().map(Into::into)
    }

    /// Returns the name that others see: the agent that the client speaks as, else its id.
    pub(super) fn name(&self, from: Option<&str>) -> Arc<str> {
        self.speaks_as(from).unwrap_or_else(|| Arc::clone(&self.id))
    }

    /// Returns whether `name` is the client's id or one of its agents.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let agent = self
            .identity()
            .and_then(|identity| identity.agent.as_deref());
        *name == *self.id || agent == Some(name) || self.names().iter().any(|own| **own == *name)
    }

    /// Records activity of the client.
    pub(super) fn touch(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.connected_at).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.last_active.store(millis, Ordering::Relaxed);
    }

    /// Records whether the gateway is handling a message of the client.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Returns the time since the last activity; zero while the client waits for the gateway.
    pub(super) fn idle_time(&self, now: Instant) -> Duration {
        if self.busy.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let last_active = Duration::from_millis(self.last_active.load(Ordering::Relaxed));
        now.saturating_duration_since(self.connected_at)
            .saturating_sub(last_active)
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
