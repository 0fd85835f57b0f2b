//! A connected client, and its pending requests.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use collective::Envelope;
use http_server::serve::Connection;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

use super::access::{Authenticated, Identity};
use super::frames::RequestError;
use super::links::Link;
use super::outbox::Outbox;
use super::shares::Share;

/// The maximum number of pending requests of one client. Those of one identity are a share of it.
pub(super) const MAX_PENDING: usize = 4096;

/// The maximum number of pings of one client that wait for links.
const MAX_WAITING_PINGS: usize = 64;

/// A message that the other gateway of a link has not confirmed. The confirmation drops it.
pub(crate) type Unconfirmed = mpsc::Sender<()>;

/// A connected client: its identity, the agents it serves, its outbox and its pending requests.
pub(super) struct Client {
    id: Arc<str>,
    connected_at: Instant,
    /// The messages to send to the client.
    pub(super) outbox: Outbox,
    /// The requests to the client that have no reply yet.
    pub(super) pending: PendingRequests,
    /// The number of pending requests that the client sent to others.
    pub(super) open_requests: AtomicUsize,
    identity: OnceLock<Identity>,
    /// The link, if the client is another gateway.
    link: OnceLock<Arc<Link>>,
    /// The messages for links since the last ping: the receiver ends when all of them are confirmed.
    unconfirmed: Mutex<Option<(Unconfirmed, mpsc::Receiver<()>)>>,
    /// Permits for pings that wait for links.
    pub(super) waiting_pings: Arc<Semaphore>,
    /// The name by which the shares of the identity are counted, and the connection that it counts.
    share: OnceLock<(Arc<str>, Share)>,
    /// The address of the client; `None` for an agent in the gateway's own process.
    address: Option<IpAddr>,
    /// The unauthenticated connection; `None` after authentication. The connection counts as unauthenticated until it is
    /// dropped here.
    unauthenticated: Mutex<Option<Connection>>,
    /// The expiry of the credential.
    expires_at: Mutex<Option<SystemTime>>,
    names: Mutex<Arc<[Arc<str>]>>,
    /// The time of the last activity, in milliseconds after `connected_at`.
    last_active: AtomicU64,
    /// Whether the gateway is handling a message of the client. It reads the next message afterwards.
    busy: AtomicBool,
}

impl Client {
    pub(super) fn new(
        id: String,
        address: Option<IpAddr>,
        outbox: Outbox,
        now: Instant,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            connected_at: now,
            outbox,
            pending: PendingRequests::default(),
            open_requests: AtomicUsize::new(0),
            identity: OnceLock::new(),
            link: OnceLock::new(),
            unconfirmed: Mutex::default(),
            waiting_pings: Arc::new(Semaphore::new(MAX_WAITING_PINGS)),
            share: OnceLock::new(),
            address,
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

    /// Returns the link, if the client is another gateway.
    pub(super) fn link(&self) -> Option<&Arc<Link>> {
        self.link.get()
    }

    /// Makes the client the other gateway of a link.
    pub(super) fn set_link(&self, link: Arc<Link>) {
        // A connection has one certificate.
        let _ = self.link.set(link);
    }

    /// Returns whether the client may know the agent `name`.
    pub(super) fn may_see(&self, name: &str) -> bool {
        self.link().is_none_or(|link| link.exports(name))
    }

    /// Returns a message as the client receives it. Another gateway receives its own names.
    ///
    /// # Errors
    /// 2005 for a message that is too large for a link.
    pub(super) fn outgoing(&self, envelope: Envelope) -> Result<Envelope, RequestError> {
        match self.link() {
            Some(link) => link.outgoing(envelope),
            None => Ok(envelope),
        }
    }

    /// Counts a message of the client for a link, until the returned value is dropped.
    pub(super) fn add_unconfirmed(&self) -> Unconfirmed {
        let mut unconfirmed = self.unconfirmed.lock();
        let (message, _) = unconfirmed.get_or_insert_with(|| mpsc::channel(1));
        message.clone()
    }

    /// Returns a receiver that ends when all earlier messages for links are confirmed, and a value that a later ping waits
    /// for; `None` if all are confirmed.
    pub(super) fn wait_for_links(&self) -> Option<(mpsc::Receiver<()>, Unconfirmed)> {
        let mut unconfirmed = self.unconfirmed.lock();
        let (message, mut confirmed) = unconfirmed.take()?;
        drop(message);
        if confirmed.try_recv() == Err(mpsc::error::TryRecvError::Disconnected) {
            return None;
        }
        let (message, _) = unconfirmed.get_or_insert_with(|| mpsc::channel(1));
        Some((confirmed, message.clone()))
    }

    /// Returns the name by which the shares of the client's identity are counted; empty before authentication.
    pub(super) fn share_key(&self) -> Arc<str> {
        let key = self.share.get().map(|(key, _)| Arc::clone(key));
        key.unwrap_or_default()
    }

    /// Returns whether the client has a share.
    pub(super) fn has_share(&self) -> bool {
        self.share.get().is_some()
    }

    /// Counts the connection towards the share of its identity.
    pub(super) fn set_share(&self, key: Arc<str>, connection: Share) {
        // Only the first identity counts.
        let _ = self.share.set((key, connection));
    }

    /// Returns the address of the client.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the time of the connection.
    pub(super) fn connected_at(&self) -> Instant {
        self.connected_at
    }

    /// Sets the identity. For a second credential of the same identity, updates only the expiry. Ignores a credential of
    /// another identity.
    pub(super) fn authenticate(&self, authenticated: Authenticated) {
        let identity = self.identity.get_or_init(|| authenticated.identity.clone());
        if *identity == authenticated.identity {
            let mut expires_at = self.expires_at.lock();
            *expires_at = authenticated.expires_at;
        }
        drop(self.unauthenticated.lock().take());
    }

    /// Stores the connection until the client is authenticated.
    pub(super) fn set_unauthenticated(&self, connection: Connection) {
        if self.identity().is_none() {
            *self.unauthenticated.lock() = Some(connection);
        }
    }

    /// Returns the certificate, in DER, of a client that is not authenticated.
    pub(super) fn unknown_certificate(&self) -> Option<Vec<u8>> {
        let connection = self.unauthenticated.lock();
        let certificate = connection.as_ref()?.client_certificate()?;
        Some(certificate.to_vec())
    }

    /// Returns whether the connection was evicted before authentication.
    pub(super) fn is_evicted(&self) -> bool {
        let connection = self.unauthenticated.lock();
        connection.as_ref().is_some_and(Connection::is_evicted)
    }

    /// Returns whether the credential has expired.
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        let expires_at = *self.expires_at.lock();
        expires_at.is_some_and(|end| end <= now)
    }

    /// Returns the agents that the client serves.
    pub(super) fn names(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.names.lock())
    }

    /// Replaces the agents that the client serves, and returns the previous ones. Only the registry calls this.
    pub(super) fn replace_names(&self, names: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
        let mut current = self.names.lock();
        std::mem::replace(&mut current, names.into())
    }

    /// Returns the agent that the client acts as: `from` if it serves that agent, else the first agent that it serves, else
    /// the agent of its credential.
    pub(super) fn speaks_as(&self, from: Option<&str>) -> Option<Arc<str>> {
        let names = self.names();
        let own = from.and_then(|from| names.iter().find(|name| ***name == *from));
        if let Some(link) = self.link() {
            return Some(own.map_or_else(|| link.gateway_name().into(), Arc::clone));
        }
        if let Some(name) = own.or(names.first()) {
            return Some(Arc::clone(name));
        }
        self.identity()?.agent.as_deref().map(Into::into)
    }

    /// Returns the sender name of the client's messages: the agent that it acts as, or else its id.
    pub(super) fn name(&self, from: Option<&str>) -> Arc<str> {
        self.speaks_as(from).unwrap_or_else(|| Arc::clone(&self.id))
    }

    /// Returns whether `name` is the client's id or one of its agents.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let agent = self
            .identity()
            .and_then(|identity| identity.agent.as_deref());
        let of_link = || self.link().is_some_and(|link| link.gateway_name() == name);
        *name == *self.id
            || agent == Some(name)
            || self.names().iter().any(|own| **own == *name)
            || of_link()
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

base::debug_fields!(self: Client { id, names = self.names() });

/// A message whose sender waits for a reply.
#[derive(Debug, Clone)]
pub(crate) struct PendingRequest {
    /// The sender.
    pub(crate) requester: Weak<Client>,
    /// The name by which the shares of the sender's identity are counted.
    pub(crate) identity: Arc<str>,
    /// The name of the sender in the message.
    pub(crate) requester_name: Arc<str>,
    /// The sender's correlation id (`metadata.correlationId`).
    pub(crate) correlation_id: Arc<str>,
    /// The id of the message.
    pub(crate) message_id: Arc<str>,
    /// The recipient.
    pub(crate) agent: Arc<str>,
    /// The session of the message.
    pub(crate) session: Option<Arc<str>>,
    /// Whether the requester receives either a reply or an error in any case.
    pub(crate) reply_required: bool,
    /// The message for a link, until the other gateway confirms it; `None` if its sender waits for a reply.
    pub(crate) unconfirmed: Option<Unconfirmed>,
    /// The number of the message in the recipient's outbox, once it is queued.
    pub(crate) outbox_number: Option<u64>,
    /// The deadline for the reply.
    pub(crate) deadline: Instant,
}

/// Why a request cannot become pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertError {
    /// The client has too many pending requests.
    Full,
    /// The identity of the sender has its share of the client's pending requests.
    Share,
    /// The client has disconnected.
    Closed,
}

/// The pending requests of one client.
#[derive(Debug, Default)]
pub(super) struct PendingRequests(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// By the correlation id that the recipient received.
    by_correlation: HashMap<Arc<str>, PendingRequest>,
    by_message: HashMap<Arc<str>, Arc<str>>,
    /// The number of requests of each identity.
    by_identity: HashMap<Arc<str>, usize>,
    /// In order of the deadlines. May contain completed requests.
    order: VecDeque<(Instant, Arc<str>)>,
    renamed: u64,
    closed: bool,
}

impl PendingRequests {
    /// Inserts a request and returns the correlation id for the recipient. That is the requester's own id, unless another
    /// pending request already uses it. One identity has at most `share` requests. Forgets the requests of disconnected
    /// requesters if it needs their room.
    pub(crate) fn insert(
        &self,
        pending: PendingRequest,
        share: usize,
    ) -> Result<Arc<str>, InsertError> {
        let mut table = self.0.lock();
        if table.closed {
            return Err(InsertError::Closed);
        }
        let identity = &pending.identity;
        let mut refused = table.room(identity, share);
        if refused.is_err() {
            table.remove_abandoned();
            refused = table.room(identity, share);
        }
        refused?;
        *table.by_identity.entry(Arc::clone(identity)).or_default() += 1;
        let mut id = Arc::clone(&pending.correlation_id);
        while table.by_correlation.contains_key(&id) {
            table.renamed += 1;
            id = format!("{}~{}", pending.correlation_id, table.renamed).into();
        }
        table
            .by_message
            .insert(Arc::clone(&pending.message_id), Arc::clone(&id));
        table.order.push_back((pending.deadline, Arc::clone(&id)));
        table.by_correlation.insert(Arc::clone(&id), pending);
        Ok(id)
    }

    /// Stores the number of the message in the recipient's outbox.
    pub(crate) fn set_outbox_number(&self, id: &str, number: u64) {
        if let Some(pending) = self.0.lock().by_correlation.get_mut(id) {
            pending.outbox_number = Some(number);
        }
    }

    /// Returns the request with this correlation id or, failing that, message id.
    pub(crate) fn get(&self, id: Option<&str>, message: Option<&str>) -> Option<PendingRequest> {
        let table = self.0.lock();
        let id = table.key(id, message)?;
        table.by_correlation.get(&id).cloned()
    }

    /// Returns the request that an envelope refers to.
    pub(crate) fn find(&self, envelope: &Envelope) -> Option<PendingRequest> {
        self.get(envelope.correlation_id(), envelope.parent_id())
    }

    /// Removes the request that [`get`](Self::get) returns.
    pub(crate) fn remove(&self, id: Option<&str>, message: Option<&str>) -> Option<PendingRequest> {
        let mut table = self.0.lock();
        let id = table.key(id, message)?;
        table.remove(&id)
    }

    /// Removes the requests whose deadline has passed.
    pub(crate) fn remove_expired(&self, now: Instant) -> Vec<PendingRequest> {
        let mut table = self.0.lock();
        let mut expired = Vec::new();
        while let Some((deadline, id)) = table.order.front() {
            // A later request may have the same id as a completed one.
            let current = table.by_correlation.get(id).map(|pending| pending.deadline);
            if current == Some(*deadline) {
                if *deadline > now {
                    break;
                }
                let id = Arc::clone(id);
                expired.extend(table.remove(&id));
            }
            table.order.pop_front();
        }
        expired
    }

    /// Removes all requests in order of their deadlines, and refuses further ones.
    pub(crate) fn close(&self) -> Vec<PendingRequest> {
        let mut table = self.0.lock();
        table.closed = true;
        table.by_message.clear();
        table.by_identity.clear();
        table.order.clear();
        let mut all: Vec<_> = table
            .by_correlation
            .drain()
            .map(|(_, pending)| pending)
            .collect();
        all.sort_by_key(|pending| pending.deadline);
        all
    }
}

impl Table {
    /// Checks whether an identity may add a request.
    fn room(&self, identity: &Arc<str>, share: usize) -> Result<(), InsertError> {
        let own = self.by_identity.get(identity).copied().unwrap_or(0);
        if own >= share {
            return Err(InsertError::Share);
        }
        match self.by_correlation.len() < MAX_PENDING {
            true => Ok(()),
            false => Err(InsertError::Full),
        }
    }

    /// Removes the requests whose requesters have disconnected.
    fn remove_abandoned(&mut self) {
        let all = self.by_correlation.iter();
        let abandoned = all.filter(|(_, pending)| {
            let requester = pending.requester.upgrade();
            requester.is_none_or(|requester| requester.outbox.is_closed())
        });
        let abandoned: Vec<_> = abandoned.map(|(id, _)| Arc::clone(id)).collect();
        for id in abandoned {
            self.remove(&id);
        }
    }

    fn key(&self, id: Option<&str>, message: Option<&str>) -> Option<Arc<str>> {
        if let Some((id, _)) = id.and_then(|id| self.by_correlation.get_key_value(id)) {
            return Some(Arc::clone(id));
        }
        self.by_message.get(message?).map(Arc::clone)
    }

    fn remove(&mut self, id: &str) -> Option<PendingRequest> {
        let pending = self.by_correlation.remove(id)?;
        if let Some(own) = self.by_identity.get_mut(&pending.identity) {
            *own -= 1;
            if *own == 0 {
                self.by_identity.remove(&pending.identity);
            }
        }
        if self
            .by_message
            .get(&pending.message_id)
            .is_some_and(|known| **known == *id)
        {
            self.by_message.remove(&pending.message_id);
        }
        // Completed requests stay in `order` until they reach its front, which this bounds.
        if self.order.len() > 2 * MAX_PENDING {
            let by_correlation = &self.by_correlation;
            self.order.retain(|(deadline, id)| {
                by_correlation
                    .get(id)
                    .is_some_and(|pending| pending.deadline == *deadline)
            });
        }
        Some(pending)
    }
}

#[cfg(test)]
mod tests;
