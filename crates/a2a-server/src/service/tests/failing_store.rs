//! A task store whose operations fail on request, or that several servers share.

use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use tokio::sync::{Semaphore, broadcast};

use super::*;
use crate::store::{
    Budget, Context, QueueTicket, Retention, StoreError, Summary, TaskSubscription,
};
use crate::task_record::TaskChange;

/// A memory store whose operations fail on request, or that several servers share.
#[derive(Clone)]
pub(super) struct FailingStore {
    pub(super) memory: MemoryStore,
    /// The number of appends so far.
    pub(super) appends: Arc<AtomicUsize>,
    /// The number of further appends that fail.
    pub(super) failing: Arc<AtomicUsize>,
    /// The errors of `load`, by task id.
    pub(super) unread: Arc<Mutex<HashMap<String, StoreError>>>,
    /// Whether `pushes` fails.
    pub(super) no_pushes: bool,
    /// Whether `enqueue` fails.
    pub(super) full: bool,
    /// Whether a failing append still stores its change.
    pub(super) loses_reply: bool,
    /// The names of the operations whose next call panics.
    pub(super) panics: Arc<Mutex<Vec<&'static str>>>,
    /// If set, each `create` waits for a permit.
    pub(super) gate: Option<Arc<Semaphore>>,
    /// Receives the cancel requests to another server.
    pub(super) cancel_requests: Option<broadcast::Sender<String>>,
}

impl FailingStore {
    pub(super) fn new() -> Self {
        Self {
            memory: MemoryStore::new(),
            appends: Arc::default(),
            failing: Arc::default(),
            unread: Arc::default(),
            no_pushes: false,
            full: false,
            loses_reply: false,
            panics: Arc::default(),
            gate: None,
            cancel_requests: None,
        }
    }

    pub(super) fn shared() -> Self {
        Self {
            cancel_requests: Some(broadcast::Sender::new(16)),
            ..Self::new()
        }
    }

    pub(super) fn fail(&self, appends: usize) {
        self.failing.store(appends, Ordering::SeqCst);
    }

    /// Panics if `operation` is one of the operations that panic.
    fn panic_in(&self, operation: &str) {
        let mut panics = self.panics.lock();
        let known = panics.len();
        panics.retain(|panicking| *panicking != operation);
        assert_eq!(panics.len(), known, "the store panics in `{operation}`");
    }

    pub(super) async fn open(&self) -> TestService {
        self.open_with(Settings::default()).await
    }

    pub(super) async fn open_with(&self, settings: Settings) -> TestService {
        TestService::with_store(
            settings,
            self.memory.clone(),
            Arc::new(self.clone()),
            Vec::new(),
        )
        .await
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

impl TaskStore for FailingStore {
    fn create<'a>(&'a self, record: &'a TaskRecord) -> Answer<'a, ()> {
        Box::pin(async move {
            if let Some(gate) = &self.gate {
                gate.acquire().await.unwrap().forget();
            }
            self.memory.create(record).await?;
            self.panic_in("create");
            Ok(())
        })
    }

    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        changes: &'a [TaskChange],
    ) -> Answer<'a, ()> {
        let less = |remaining: usize| remaining.checked_sub(1);
        let order = Ordering::SeqCst;
        self.appends.fetch_add(1, order);
        self.panic_in("append");
        if self.failing.fetch_update(order, order, less).is_err() {
            return self.memory.append(task_id, revision, at_ms, changes);
        }
        Box::pin(async move {
            if self.loses_reply {
                self.memory
                    .append(task_id, revision, at_ms, changes)
                    .await?;
            }
            Err(StoreError::Failed("secret place: no room".to_owned()))
        })
    }

    fn load<'a>(&'a self, task_id: &'a str) -> Answer<'a, Option<TaskRecord>> {
        if let Some(error) = self.unread.lock().get(task_id) {
            return Box::pin(std::future::ready(Err(error.clone())));
        }
        self.memory.load(task_id)
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Answer<'a, crate::store::SummaryPage> {
        self.memory.list(filter)
    }

    fn delete<'a>(&'a self, task_id: &'a str) -> Answer<'a, bool> {
        self.memory.delete(task_id)
    }

    fn subscribe<'a>(&'a self, task_id: &'a str) -> Answer<'a, Option<TaskSubscription>> {
        self.memory.subscribe(task_id)
    }

    fn get_or_create_context<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> Answer<'a, Context> {
        self.memory
            .get_or_create_context(context_id, owner, session)
    }

    fn enqueue<'a>(&'a self, queue: &'a str, task_id: &'a str) -> Answer<'a, QueueTicket> {
        if self.full {
            let full = StoreError::Failed("the queue is full".to_owned());
            return Box::pin(std::future::ready(Err(full)));
        }
        self.panic_in("enqueue");
        self.memory.enqueue(queue, task_id)
    }

    fn request_cancel<'a>(&'a self, task_id: &'a str) -> Answer<'a, ()> {
        if let Some(cancel_requests) = &self.cancel_requests {
            let _ = cancel_requests.send(task_id.to_owned());
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn cancel_requests(&self) -> BoxStream<'static, String> {
        let Some(cancel_requests) = &self.cancel_requests else {
            return self.memory.cancel_requests();
        };
        futures_util::stream::unfold(
            cancel_requests.subscribe(),
            |mut cancel_requests| async move {
                let id = cancel_requests.recv().await.ok()?;
                Some((id, cancel_requests))
            },
        )
        .boxed()
    }

    fn recover(&self) -> Answer<'_, Vec<Summary>> {
        match self.cancel_requests {
            // The other server is alive, so there are no tasks to recover.
            Some(_) => Box::pin(std::future::ready(Ok(Vec::new()))),
            None => self.memory.recover(),
        }
    }

    fn recovery_interval(&self) -> Option<Duration> {
        self.cancel_requests.as_ref().map(|_| 5 * SECOND)
    }

    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> Answer<'a, ()> {
        self.memory.put_push(config, version)
    }

    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> Answer<'a, Vec<(TaskPushNotificationConfig, Version)>> {
        if self.no_pushes {
            let failed = StoreError::Failed("no webhooks".to_owned());
            return Box::pin(std::future::ready(Err(failed)));
        }
        self.memory.pushes(task_id)
    }

    fn delete_push<'a>(&'a self, task_id: &'a str, config_id: &'a str) -> Answer<'a, bool> {
        self.memory.delete_push(task_id, config_id)
    }

    fn prune<'a>(&'a self, retention: &'a Retention, now: DateTime<Utc>) -> Answer<'a, usize> {
        self.memory.prune(retention, now)
    }

    fn unanswered(&self, before_ms: i64, skip: usize, limit: usize) -> Answer<'_, Vec<String>> {
        self.memory.unanswered(before_ms, skip, limit)
    }

    fn make_room<'a>(
        &'a self,
        owner: &'a str,
        bytes: u64,
        budget: &'a Budget,
        forget: bool,
    ) -> Answer<'a, bool> {
        self.memory.make_room(owner, bytes, budget, forget)
    }

    fn ready(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Err(StoreError::Failed(
            "no room".to_owned(),
        ))))
    }

    fn close(&self) -> Answer<'_, ()> {
        self.memory.close()
    }
}
