//! Tasks in a Redis that several servers share.
//!
//! Any of them answers for a task that another one runs. Each says three times a lease that it lives; the tasks of one that
//! was not heard of for a lease are taken by exactly one of the others. What runs is fenced: a server that comes back after
//! another one took its task cannot change it any more.
//!
//! What is kept is kept as well as this Redis keeps anything. With `appendonly yes` and `appendfsync always` that is through
//! the loss of power, with `everysec` at most the last second is lost, without `appendonly` everything since the last
//! snapshot. It has to be a single Redis, or a primary with replicas; of those, a failover loses what the replica did not have
//! yet. `maxmemory-policy` has to be `noeviction`, or Redis forgets tasks by itself. Redis 6.2 or later; a cluster is not
//! supported.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a::TaskPushNotificationConfig;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::{self, Receiver, UnboundedSender};
use tokio::task::JoinSet;

use self::bells::Bells;
use self::ears::{Ears, Wish};
use self::inner::Inner;
use self::lease::Handed;
use self::link::Link;
use self::queue::Leaving;
use super::hub::Hub;
use super::{
    Budget, Context, Feed, Filter, Listed, Retention, Store, StoreError, Summary, Waiting,
};
use crate::caller::Version;
use crate::record::{Change, Record};
use common::environment::Environment;

pub use self::address::{LEASE, Options, PREFIX};

mod address;
mod bells;
mod contexts;
mod ears;
mod failure;
mod feed;
mod inner;
mod lease;
mod link;
mod listing;
mod queue;
mod scripts;
mod survey;
mod tasks;

#[cfg(all(test, feature = "real"))]
mod tests;

/// Cancellations that wait in this process; more wait in Redis.
const CANCELLATIONS: usize = 64;

/// Keeps everything in a Redis. Dropping it stops what it does beside; [`Store::close`] also tells the other servers.
pub struct Redis {
    inner: Arc<Inner>,
    hub: Hub,
    bells: Arc<Bells>,
    wishes: UnboundedSender<Wish>,
    leaving: UnboundedSender<Leaving>,
    hears: Arc<AtomicBool>,
    cancellations: Mutex<Option<Receiver<String>>>,
    handed: Mutex<Handed>,
    /// What goes on beside, until the store is closed or dropped.
    beside: Mutex<JoinSet<()>>,
}

impl Redis {
    /// Connects, and is one of the servers there from then on.
    ///
    /// # Errors
    /// The address is none, or Redis there does not answer, does not let us in, or holds something else under the prefix. No
    /// text says the password.
    pub async fn connect(options: &Options, env: &dyn Environment) -> Result<Self, StoreError> {
        let address = address::Address::read(options)?;
        let inner = Arc::new(Inner::new(
            Link::new(address.client, address.shown),
            address.prefix,
            address.channels,
            env.uuid().to_string(),
            // Shorter ones would be over before they are said to be on.
            options.lease.max(Duration::from_millis(100)),
        ));
        survey::look(&inner).await?;
        inner.heartbeat().await?;

        let hub = Hub::default();
        let bells = Arc::new(Bells::default());
        let hears = Arc::new(AtomicBool::new(true));
        let (wishes, wished) = mpsc::unbounded_channel();
        let ears = Ears {
            inner: inner.clone(),
            hub: hub.clone(),
            bells: bells.clone(),
            wishes: wished,
            open: hears.clone(),
            tasks: HashSet::new(),
        };
        let both = ears.connect().await?;
        let (leaving, left) = mpsc::unbounded_channel();
        let (asked, cancellations) = mpsc::channel(CANCELLATIONS);

        let mut beside = JoinSet::new();
        beside.spawn(ears.listen(both));
        beside.spawn(queue::leave_all(inner.clone(), left));
        beside.spawn(lease::beat(inner.clone()));
        beside.spawn(lease::pass_cancellations(
            inner.clone(),
            bells.clone(),
            asked,
        ));
        Ok(Self {
            inner,
            hub,
            bells,
            wishes,
            leaving,
            hears,
            cancellations: Mutex::new(Some(cancellations)),
            handed: Mutex::default(),
            beside: Mutex::new(beside),
        })
    }

    /// Host, port and database, for people.
    pub fn shown(&self) -> &str {
        self.inner.link.shown()
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("at", &self.inner.link.shown())
            .field("prefix", &self.inner.prefix)
            .field("server", &self.inner.server)
            .field("lease", &self.inner.lease)
            .finish_non_exhaustive()
    }
}

impl Store for Redis {
    fn create<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.create(record).boxed()
    }

    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.append(task_id, revision, at_ms, change).boxed()
    }

    fn load<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Record>, StoreError>> {
        self.inner.load(task_id).boxed()
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Listed, StoreError>> {
        self.inner.list(filter).boxed()
    }

    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.inner.delete(task_id).boxed()
    }

    fn follow<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Feed>, StoreError>> {
        feed::follow(self.inner.clone(), &self.hub, &self.wishes, task_id).boxed()
    }

    fn claim<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>> {
        self.inner.claim(context_id, owner, session).boxed()
    }

    fn enter<'a>(
        &'a self,
        queue: &'a str,
        _task_id: &'a str,
    ) -> BoxFuture<'a, Result<Waiting, StoreError>> {
        queue::enter(
            self.inner.clone(),
            self.bells.clone(),
            self.leaving.clone(),
            queue,
        )
        .boxed()
    }

    fn ask_to_cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.ask_to_cancel(task_id).boxed()
    }

    fn cancellations(&self) -> BoxStream<'static, String> {
        let receiver = self
            .cancellations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match receiver {
            Some(receiver) => stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|task_id| (task_id, receiver))
            })
            .boxed(),
            // Somebody has them already.
            None => stream::pending().boxed(),
        }
    }

    fn recover(&self) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>> {
        self.inner.recover(&self.handed).boxed()
    }

    fn recover_every(&self) -> Option<Duration> {
        Some(self.inner.lease / 3)
    }

    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.put_push(config, version).boxed()
    }

    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>> {
        self.inner.pushes(task_id).boxed()
    }

    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.inner.delete_push(task_id, config_id).boxed()
    }

    fn retire<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>> {
        self.inner.retire(retention, now).boxed()
    }

    fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.inner.unanswered(before_ms, skip, limit).boxed()
    }

    fn make_room<'a>(
        &'a self,
        owner: &'a str,
        bytes: u64,
        budget: &'a Budget,
        forget: bool,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.inner.make_room(owner, bytes, budget, forget).boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async {
            // A write, so that a Redis that takes none is not called ready.
            self.inner.heartbeat().await?;
            if self.hears.load(Ordering::Relaxed) {
                return Ok(());
            }
            Err(StoreError::Failed(format!(
                "Redis at {} answers and is not listened to yet; that takes a second at most",
                self.inner.link.shown()
            )))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // First of all the heartbeat: it would take the farewell back.
        self.beside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
        self.inner.farewell().boxed()
    }
}
