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
mod listing;
mod pubsub;
mod queue;
mod tasks;

#[cfg(all(test, feature = "real"))]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use a2a::v1_0::TaskPushNotificationConfig;
use async_trait::async_trait;
use base::environment::Environment;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
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
use super::{
    Budget, Context, Filter, QueueTicket, Retention, StoreError, Summary, SummaryPage, TaskStore,
    TaskSubscription,
};
use crate::call_context::Version;
use crate::store::body;
use crate::task_record::{TaskChange, TaskRecord};

/// The capacity of the channel of cancel requests in this process. Further requests wait in Redis.
const CANCELLATION_CAPACITY: usize = 64;

/// A store in Redis. Dropping it stops its background work; [`TaskStore::close`] also releases the lease.
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

#[async_trait]
impl TaskStore for RedisStore {
    async fn create(&self, record: &TaskRecord) -> Result<(), StoreError> {
        self.inner.create(record).await
    }

    async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError> {
        self.inner.append(task_id, revision, at_ms, changes).await
    }

    async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        self.inner.load(task_id).await
    }

    async fn list(&self, filter: &Filter) -> Result<SummaryPage, StoreError> {
        self.inner.list(filter).await
    }

    async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        self.inner.delete(task_id).await
    }

    async fn subscribe(&self, task_id: &str) -> Result<Option<TaskSubscription>, StoreError> {
        pubsub::subscribe(self.inner.clone(), &self.events, &self.requests, task_id).await
    }

    async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError> {
        self.inner
            .get_or_create_context(context_id, owner, session)
            .await
    }

    async fn enqueue(&self, queue: &str, _task_id: &str) -> Result<QueueTicket, StoreError> {
        queue::enqueue(
            self.inner.clone(),
            self.notifiers.clone(),
            self.released.clone(),
            queue,
        )
        .await
    }

    async fn request_cancel(&self, task_id: &str) -> Result<(), StoreError> {
        self.inner.request_cancel(task_id).await
    }

    fn cancel_requests(&self) -> BoxStream<'static, String> {
        let receiver = self.cancellations.lock().take();
        match receiver {
            Some(receiver) => stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|task_id| (task_id, receiver))
            })
            .boxed(),
            // An earlier call has taken the receiver.
            None => stream::pending().boxed(),
        }
    }

    async fn recover(&self) -> Result<Vec<Summary>, StoreError> {
        self.inner.recover(&self.recovery).await
    }

    fn recovery_interval(&self) -> Option<Duration> {
        Some(self.inner.lease / 3)
    }

    async fn put_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), StoreError> {
        self.inner.put_push(config, version).await
    }

    async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError> {
        self.inner.pushes(task_id).await
    }

    async fn delete_push(&self, task_id: &str, config_id: &str) -> Result<bool, StoreError> {
        self.inner.delete_push(task_id, config_id).await
    }

    async fn prune(&self, retention: &Retention, now: DateTime<Utc>) -> Result<usize, StoreError> {
        self.inner.prune(retention, now).await
    }

    async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.inner.unanswered(before_ms, skip, limit).await
    }

    async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError> {
        self.inner.make_room(owner, bytes, budget, forget).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        // The heartbeat is a write, so a Redis that rejects writes counts as not ready.
        self.inner.heartbeat().await?;
        if self.is_listening.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(StoreError::Failed(format!(
            "Redis at {} answers, but the subscription is not open yet; try again in a second",
            self.inner.connection.display_address()
        )))
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Stop the background tasks first, because the heartbeat would renew the lease.
        self.background.lock().abort_all();
        self.inner.release_lease().await
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
