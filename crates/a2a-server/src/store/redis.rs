//! A task store in Redis that several servers share, with its address and options.
//!
//! Each server can answer requests for tasks that another server runs. A server renews its lease three times per lease
//! time. When the lease expires, exactly one other server takes over its tasks, and the fencing in the scripts rejects
//! later writes of the previous owner.
//!
//! Durability depends on the persistence settings of Redis. `appendonly yes` with `appendfsync always` survives a loss
//! of power, and `everysec` loses at most the last second. Without `appendonly`, Redis loses everything since the last
//! snapshot. A failover to a replica loses what the replica has not received. The store needs Redis 6.2 without cluster
//! mode. `maxmemory-policy` must be `noeviction`, so that Redis does not evict tasks.

mod connection;
mod lease;
mod pubsub;
mod queue;
mod scripts;
mod task_store;
mod tasks;
#[cfg(all(test, feature = "real"))]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::environment::Environment;
use connection::RedisConnection;
use lease::RecoveryState;
use parking_lot::Mutex;
use pubsub::{PubSubListener, SubscriptionRequest};
use queue::{Notifiers, ReleasedSlot};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, TlsCertificates,
};
use scripts::Scripts;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc::{Receiver, UnboundedSender};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use url::Url;

use super::finished_records::FinishedRecords;
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
        let address = Address::read(options)?;
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

base::debug_fields!(self: RedisStore {
    at = self.inner.connection.display_address(), prefix = self.inner.prefix,
    server = self.inner.server, lease = self.inner.lease,
});

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
    finished: FinishedRecords,
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
            finished: FinishedRecords::default(),
            loads: Semaphore::new(body::MAX_LOADS),
        }
    }

    /// Returns a token that identifies a call, so that a retry after a lost response has no second effect.
    fn token(&self) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}/{number}", self.server)
    }

    fn lease_ms(&self) -> u64 {
        base::environment::millis(self.lease)
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

/// The default prefix of keys.
pub const DEFAULT_PREFIX: &str = "remote-agent:";

/// The default time after which a lease expires.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// Options to connect to Redis.
#[derive(Clone)]
pub struct Options {
    /// `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?prefix=PREFIX]`, or `rediss://` for TLS. Servers that share
    /// tasks use the same database and prefix.
    pub url: SecretString,
    /// The password, unless the URL contains one.
    pub password: Option<SecretString>,
    /// Root certificates in PEM that replace those of the operating system.
    pub roots: Option<Vec<u8>>,
    /// How long a server counts as alive after its last heartbeat. Afterwards, other servers take over its tasks.
    pub lease: Duration,
}

impl Options {
    /// Creates options for `url` with the defaults for the rest.
    pub fn new(url: impl Into<SecretString>) -> Self {
        Self {
            url: url.into(),
            password: None,
            roots: None,
            lease: DEFAULT_LEASE,
        }
    }
}

base::debug_fields!(self: Options {
    password = self.password.is_some(), roots = self.roots.is_some(), lease,
});

/// A parsed address.
struct Address {
    client: Client,
    /// The client of the subscribing connection.
    subscriber: Client,
    /// The prefix of keys.
    prefix: String,
    /// The prefix of channels. It contains the database, because all databases of a Redis share channels.
    channels: String,
    /// Host, port and database, for messages.
    display_address: String,
}

impl Address {
    /// Parses `options`.
    ///
    /// # Errors
    /// The URL is invalid. The error does not contain it, because it may contain a password.
    fn read(options: &Options) -> Result<Self, StoreError> {
        let url = Url::parse(options.url.expose_secret())
            .map_err(|error| invalid_url(&format!("is not a URL ({error})")))?;
        if !matches!(url.scheme(), "redis" | "rediss") {
            return Err(invalid_url(
                "begins with neither `redis://` nor `rediss://`",
            ));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid_url("names no host"));
        }
        if url.fragment().is_some() {
            return Err(invalid_url(
                "has a fragment (`#`); certificates are always checked, and a `#` in a password is written `%23`",
            ));
        }
        let prefix = prefix(&url)?;
        let mut info: ConnectionInfo = url
            .into_connection_info()
            .map_err(|error| invalid_url(&format!("is invalid ({error})")))?;
        if let Some(password) = &options.password {
            let settings = info
                .redis_settings()
                .clone()
                .set_password(password.expose_secret());
            info = info.set_redis_settings(settings);
        }
        let database = info.redis_settings().db();
        let display_address = format!("{}/{database}", host_and_port(info.addr()));
        let channels = format!("{prefix}@{database}:");
        // Only RESP3 delivers messages on a connection that applies backpressure.
        let resp3 = info.redis_settings().clone();
        let subscriber = info
            .clone()
            .set_redis_settings(resp3.set_protocol(ProtocolVersion::RESP3));
        Ok(Self {
            client: client(info, options.roots.clone())?,
            subscriber: client(subscriber, options.roots.clone())?,
            prefix,
            channels,
            display_address,
        })
    }
}

fn client(info: ConnectionInfo, roots: Option<Vec<u8>>) -> Result<Client, StoreError> {
    let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    match roots {
        Some(_) if !encrypted => Err(invalid_url(
            "has root certificates but does not begin with `rediss://`",
        )),
        Some(roots) => Client::build_with_tls(
            info,
            TlsCertificates {
                client_tls: None,
                root_cert: Some(roots),
            },
        )
        .map_err(|error| {
            StoreError::Failed(format!(
                "cannot read the certificates for Redis: {error}; write them in PEM"
            ))
        }),
        None => Client::open(info).map_err(|error| invalid_url(&format!("is invalid ({error})"))),
    }
}

fn prefix(url: &Url) -> Result<String, StoreError> {
    let mut prefix = None;
    for (key, value) in url.query_pairs() {
        if key != "prefix" {
            return Err(invalid_url(
                "has an unknown parameter; the only one is `prefix`",
            ));
        }
        prefix = Some(value.into_owned());
    }
    match prefix {
        Some(prefix) if prefix.is_empty() || prefix.len() > 100 => Err(invalid_url(
            "has a `prefix` that is empty or longer than 100 bytes",
        )),
        Some(prefix) if prefix.contains(char::is_control) => {
            Err(invalid_url("has a `prefix` with control characters"))
        }
        Some(prefix) => Ok(prefix),
        None => Ok(DEFAULT_PREFIX.to_owned()),
    }
}

fn host_and_port(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        }
        // `read` rejects addresses of other kinds.
        _ => String::new(),
    }
}

fn invalid_url(problem: &str) -> StoreError {
    StoreError::Failed(format!(
        "the address of Redis {problem}; it is written `redis://USER:PASSWORD@HOST:PORT/DATABASE?prefix=PREFIX`, with \
         `rediss://` for TLS, and all but the host may be left out"
    ))
}
