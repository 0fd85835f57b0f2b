//! A task store whose operations fail on request, or that several servers share.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use tokio::sync::{Semaphore, broadcast};

use super::*;
use crate::store::{
    Budget, Context, ListedTask, Page, QueueTicket, Retention, StoreError, Summary,
    TaskSubscription,
};
use crate::task_record::TaskChange;

/// A memory store whose operations fail on request, or that several servers share.
#[derive(Clone)]
pub(super) struct FailingStore {
    pub(super) memory: MemoryStore,
    /// The number of appends so far.
    pub(super) appends: Arc<AtomicUsize>,
    /// The number of pages so far.
    pub(super) pages: Arc<AtomicUsize>,
    /// The sizes of the tasks whose JSON each call of `bodies` has requested.
    pub(super) parts: Arc<Mutex<Vec<Vec<usize>>>>,
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
            pages: Arc::default(),
            parts: Arc::default(),
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

#[async_trait]
impl TaskStore for FailingStore {
    async fn create(&self, record: &TaskRecord) -> Result<(), StoreError> {
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.memory.create(record).await?;
        self.panic_in("create");
        Ok(())
    }

    async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError> {
        let less = |remaining: usize| remaining.checked_sub(1);
        let order = Ordering::SeqCst;
        self.appends.fetch_add(1, order);
        self.panic_in("append");
        if self.failing.fetch_update(order, order, less).is_err() {
            return self.memory.append(task_id, revision, at_ms, changes).await;
        }
        if self.loses_reply {
            self.memory
                .append(task_id, revision, at_ms, changes)
                .await?;
        }
        Err(StoreError::Failed("secret place: no room".to_owned()))
    }

    async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        if let Some(error) = self.unread.lock().get(task_id) {
            return Err(error.clone());
        }
        self.memory.load(task_id).await
    }

    async fn list(&self, filter: &Filter) -> Result<crate::store::SummaryPage, StoreError> {
        self.memory.list(filter).await
    }

    async fn page(
        &self,
        filter: &Filter,
        json_bytes: usize,
    ) -> Result<Page<ListedTask>, StoreError> {
        self.pages.fetch_add(1, Ordering::SeqCst);
        self.memory.page(filter, json_bytes).await
    }

    async fn bodies(
        &self,
        owner: Option<&str>,
        tasks: &[ListedTask],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let sizes = tasks.iter().filter_map(|listed| listed.bytes);
        self.parts.lock().push(sizes.collect());
        self.memory.bodies(owner, tasks).await
    }

    async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        self.memory.delete(task_id).await
    }

    async fn subscribe(&self, task_id: &str) -> Result<Option<TaskSubscription>, StoreError> {
        if let Some(error) = self.unread.lock().get(task_id) {
            return Err(error.clone());
        }
        self.memory.subscribe(task_id).await
    }

    async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError> {
        self.memory
            .get_or_create_context(context_id, owner, session)
            .await
    }

    async fn enqueue(&self, queue: &str, task_id: &str) -> Result<QueueTicket, StoreError> {
        if self.full {
            return Err(StoreError::Failed("the queue is full".to_owned()));
        }
        self.panic_in("enqueue");
        self.memory.enqueue(queue, task_id).await
    }

    async fn request_cancel(&self, task_id: &str) -> Result<(), StoreError> {
        if let Some(cancel_requests) = &self.cancel_requests {
            let _ = cancel_requests.send(task_id.to_owned());
        }
        Ok(())
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

    async fn recover(&self) -> Result<Vec<Summary>, StoreError> {
        match self.cancel_requests {
            // The other server is alive, so there are no tasks to recover.
            Some(_) => Ok(Vec::new()),
            None => self.memory.recover().await,
        }
    }

    fn recovery_interval(&self) -> Option<Duration> {
        self.cancel_requests.as_ref().map(|_| 5 * SECOND)
    }

    async fn put_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), StoreError> {
        self.memory.put_push(config, version).await
    }

    async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError> {
        if self.no_pushes {
            return Err(StoreError::Failed("no webhooks".to_owned()));
        }
        self.memory.pushes(task_id).await
    }

    async fn delete_push(&self, task_id: &str, config_id: &str) -> Result<bool, StoreError> {
        self.memory.delete_push(task_id, config_id).await
    }

    async fn prune(&self, retention: &Retention, now: DateTime<Utc>) -> Result<usize, StoreError> {
        self.memory.prune(retention, now).await
    }

    async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.memory.unanswered(before_ms, skip, limit).await
    }

    async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError> {
        self.memory.make_room(owner, bytes, budget, forget).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Err(StoreError::Failed("no room".to_owned()))
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await
    }
}
