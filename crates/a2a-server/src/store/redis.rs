//! A task store in Redis that several servers share.
//!
//! Each server can answer requests for tasks that another server runs. A server renews its lease three times per lease
//! time. When the lease expires, exactly one other server takes over its tasks, and the fencing in the scripts rejects
//! later writes of the previous owner.
//!
//! Durability depends on the persistence settings of Redis. `appendonly yes` with `appendfsync always` survives a loss
//! of power, and `everysec` loses at most the last second. Without `appendonly`, Redis loses everything since the last
//! snapshot. A failover to a replica loses what the replica has not received. The store needs Redis 6.2 without cluster
//! mode. `maxmemory-policy` must be `noeviction`, so that Redis does not evict tasks.

mod address;
mod connection;
mod lease;
mod pubsub;
mod queue;
mod task_store;
mod tasks;

#[cfg(all(test, feature = "real"))]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::environment::Environment;
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, UnboundedSender};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

pub use self::address::{DEFAULT_LEASE, DEFAULT_PREFIX, Options};
use self::connection::{RedisConnection, Scripts};
use self::lease::RecoveryState;
use self::pubsub::{PubSubListener, SubscriptionRequest};
use self::queue::{Notifiers, ReleasedSlot};
use super::task_events::TaskEvents;
use super::{StoreError, body};

/// The capacity of the channel of cancel requests in this process. Further requests wait in Redis.
const CANCELLATION_CAPACITY: usize = 64;

/// A store in Redis. Dropping it stops its background work; [`close`](super::TaskStore::close) also releases the lease.
pub struct RedisStore {
    inner: Arc<Inner>,
    events: TaskEvents,
    notifiers: Arc<Notifiers>,
    requests: UnboundedSender<SubscriptionRequest>,
    released: UnboundedSender<ReleasedSlot>,
    is_listening: Arc<AtomicBool>,
    cancellations: Mutex<Option<Receiver<String>>>,
    recovery: Mutex<RecoveryState>,
    /// The background tasks, which run until the store is closed or dropped.
    background: Mutex<JoinSet<()>>,
}

impl RedisStore {
    /// Connects and registers this server.
    ///
    /// # Errors
    /// The URL is invalid, or Redis does not respond, rejects the credentials, or has other data under the prefix. The
    /// error does not contain the password.
    pub async fn connect(options: &Options, env: &dyn Environment) -> Result<Self, StoreError> {
        let address = address::Address::read(options)?;
        let inner = Arc::new(Inner::new(
            RedisConnection::new(address.client, address.display_address),
            address.prefix,
            address.channels,
            env.uuid().to_string(),
            // A shorter lease would expire before the first heartbeat renews it.
            options.lease.max(Duration::from_millis(100)),
        ));
        connection::check_server_config(&inner).await?;
        inner.heartbeat().await?;

        let events = TaskEvents::default();
        let notifiers = Arc::new(Notifiers::default());
        let is_listening = Arc::new(AtomicBool::new(true));
        let (requests, request_receiver) = mpsc::unbounded_channel();
        let listener = PubSubListener {
            inner: inner.clone(),
            client: address.subscriber,
            events: events.clone(),
            notifiers: notifiers.clone(),
            requests: request_receiver,
            is_open: is_listening.clone(),
            tasks: HashSet::new(),
        };
        let connection = listener.connect().await?;
        let (released, released_receiver) = mpsc::unbounded_channel();
        let (cancel_sender, cancellations) = mpsc::channel(CANCELLATION_CAPACITY);

        let mut background = JoinSet::new();
        background.spawn(listener.listen(connection));
        background.spawn(queue::release_slots(inner.clone(), released_receiver));
        background.spawn(lease::renew_lease(inner.clone()));
        background.spawn(lease::forward_cancellations(
            inner.clone(),
            notifiers.clone(),
            cancel_sender,
        ));
        Ok(Self {
            inner,
            events,
            notifiers,
            requests,
            released,
            is_listening,
            cancellations: Mutex::new(Some(cancellations)),
            recovery: Mutex::default(),
            background: Mutex::new(background),
        })
    }

    /// Returns host, port and database of Redis, for messages.
    pub fn display_address(&self) -> &str {
        self.inner.connection.display_address()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("at", &self.inner.connection.display_address())
            .field("prefix", &self.inner.prefix)
            .field("server", &self.inner.server)
            .field("lease", &self.inner.lease)
            .finish_non_exhaustive()
    }
}

/// The connection, the scripts and the identity of this server.
struct Inner {
    connection: RedisConnection,
    scripts: Scripts,
    /// The prefix of keys.
    prefix: String,
    /// The prefix of channels.
    channels: String,
    /// The id of this server, which is new at every start.
    server: String,
    /// How long this server counts as alive after its last heartbeat.
    lease: Duration,
    calls: AtomicU64,
    /// The tasks that this process runs. If Redis names another owner for one of them, another server has taken it
    /// over.
    running: Mutex<HashSet<String>>,
    /// The permits for loading tasks.
    loads: Semaphore,
}

impl Inner {
    fn new(
        connection: RedisConnection,
        prefix: String,
        channels: String,
        server: String,
        lease: Duration,
    ) -> Self {
        Self {
            scripts: Scripts::new(&prefix, &channels, &server),
            connection,
            prefix,
            channels,
            server,
            lease,
            calls: AtomicU64::new(0),
            running: Mutex::default(),
            loads: Semaphore::new(body::MAX_LOADS),
        }
    }

    /// Returns a token that identifies a call, so that a retry after a lost response has no second effect.
    fn token(&self) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}/{number}", self.server)
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    fn is_running(&self, task_id: &str) -> bool {
        self.running.lock().contains(task_id)
    }

    fn mark_running(&self, task_id: &str) {
        let mut running = self.running.lock();
        if !running.contains(task_id) {
            running.insert(task_id.to_owned());
        }
    }

    fn mark_ended(&self, task_id: &str) {
        self.running.lock().remove(task_id);
    }
}
