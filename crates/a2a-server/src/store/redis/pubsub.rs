//! The subscribing connection of this process, and the subscriptions to tasks. The connection receives the changes of
//! subscribed tasks and the messages for this server.
//!
//! Redis drops messages while no connection subscribes. A subscriber therefore subscribes before it loads the task, and
//! receives a snapshot after a reconnect.

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use base::backoff::Backoff;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::Inner;
use super::connection::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT};
use super::queue::Notifiers;
use super::tasks::decode_update;
use crate::store::task_events::TaskEvents;
use crate::store::{StoreError, TaskSubscription, TaskUpdate};
use crate::task_record::TaskRecord;

/// The interval between checks of the connection.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The delays before reconnects.
const RECONNECT_DELAY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
/// The maximum number of requests in one command.
const MAX_BATCH: usize = 256;

/// A request to the listener.
pub(super) enum SubscriptionRequest {
    /// Subscribes to a task that `TaskEvents` already contains, and replies when Redis has confirmed it.
    Subscribe(String, oneshot::Sender<Result<(), StoreError>>),
    /// Unsubscribes from a task, because a subscriber was dropped.
    Unsubscribe(String),
}

/// The tokio task that owns the subscribing connection.
pub(super) struct PubSubListener {
    pub(super) inner: Arc<Inner>,
    pub(super) client: Client,
    pub(super) events: TaskEvents,
    pub(super) notifiers: Arc<Notifiers>,
    pub(super) requests: UnboundedReceiver<SubscriptionRequest>,
    /// Whether the connection is open.
    pub(super) is_open: Arc<AtomicBool>,
    /// The subscribed tasks.
    pub(super) tasks: HashSet<String>,
}

/// A connection with subscriptions.
pub(super) struct SubscribedConnection {
    connection: MultiplexedConnection,
    /// Notified when the connection breaks.
    broken: Arc<Notify>,
}

/// Handles the messages of Redis. It runs on the task that receives them, so a flood of messages waits in Redis and not
/// in this process.
struct MessageHandler {
    /// The prefix of channels.
    channels: String,
    events: TaskEvents,
    notifiers: Arc<Notifiers>,
}

/// The reason why the listener stops using a connection.
enum ListenEnd {
    /// The connection broke.
    Broken,
    /// The store was closed.
    StoreClosed,
}

impl PubSubListener {
    /// Connects and subscribes to the channels of all tasks in `tasks`.
    pub(super) async fn connect(&self) -> Result<SubscribedConnection, StoreError> {
        let broken = Arc::new(Notify::new());
        let handler = MessageHandler {
            channels: self.inner.channels.clone(),
            events: self.events.clone(),
            notifiers: self.notifiers.clone(),
        };
        let breaks = broken.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_push_sender(move |push: PushInfo| {
                match push.kind {
                    PushKind::Message => handler.handle(&push.data),
                    PushKind::Disconnection => breaks.notify_one(),
                    _ => {}
                }
                Ok::<(), Infallible>(())
            });
        let own = format!("{}server:{}", self.inner.channels, self.inner.server);
        let tasks = self.tasks.iter().map(|id| self.channel(id));
        let channels: Vec<String> = std::iter::once(own).chain(tasks).collect();
        let connected = async {
            let mut connection = self
                .client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            connection.subscribe(&channels).await?;
            Ok(connection)
        };
        let connection = connected
            .await
            .map_err(|error: RedisError| self.inner.connection.store_error(&error))?;
        Ok(SubscribedConnection { connection, broken })
    }

    /// Runs until the store is closed, first with `connection`.
    pub(super) async fn listen(mut self, connection: SubscribedConnection) {
        let mut connection = Some(connection);
        let mut retries = 0;
        loop {
            let error = match connection.take() {
                Some(connection) => {
                    retries = 0;
                    self.is_open.store(true, Ordering::Relaxed);
                    // Messages before this point may have been lost.
                    self.events.resync_all();
                    self.notifiers.notify_all();
                    let end = self.process_requests(connection).await;
                    self.is_open.store(false, Ordering::Relaxed);
                    if matches!(end, ListenEnd::StoreClosed) {
                        return;
                    }
                    tracing::warn!(
                        redis = self.inner.connection.display_address(),
                        "the subscribing connection to Redis broke"
                    );
                    self.unavailable()
                }
                None => match self.connect().await {
                    Ok(connected) => {
                        tracing::info!(
                            redis = self.inner.connection.display_address(),
                            "subscribed to Redis again"
                        );
                        connection = Some(connected);
                        continue;
                    }
                    Err(error) => error,
                },
            };
            let pause = RECONNECT_DELAY.delay(retries);
            if matches!(
                self.reject_requests(&error, pause).await,
                ListenEnd::StoreClosed
            ) {
                return;
            }
            retries += 1;
        }
    }

    /// Sends requests until the connection breaks.
    async fn process_requests(&mut self, connection: SubscribedConnection) -> ListenEnd {
        let SubscribedConnection {
            mut connection,
            broken,
        } = connection;
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut requests = Vec::new();
        loop {
            tokio::select! {
                () = broken.notified() => return ListenEnd::Broken,
                taken = self.requests.recv_many(&mut requests, MAX_BATCH) => {
                    if taken == 0 {
                        return ListenEnd::StoreClosed;
                    }
                    if let Err(error) = self.apply_requests(&mut connection, &mut requests).await {
                        tracing::debug!(%error, "cannot subscribe to a task");
                        return ListenEnd::Broken;
                    }
                }
                _ = ping.tick() => {
                    let pong: Result<Value, RedisError> = redis::cmd("PING").query_async(&mut connection).await;
                    if pong.is_err() {
                        return ListenEnd::Broken;
                    }
                }
            }
        }
    }

    /// Sends a batch of requests to Redis.
    async fn apply_requests(
        &mut self,
        connection: &mut MultiplexedConnection,
        requests: &mut Vec<SubscriptionRequest>,
    ) -> Result<(), StoreError> {
        let mut begin = Vec::new();
        let mut end = Vec::new();
        let mut waiting = Vec::new();
        for request in requests.drain(..) {
            match request {
                SubscriptionRequest::Subscribe(task_id, reply) => {
                    if !self.tasks.contains(&task_id) {
                        begin.push(self.channel(&task_id));
                        self.tasks.insert(task_id);
                    }
                    waiting.push(reply);
                }
                SubscriptionRequest::Unsubscribe(task_id) => {
                    // Another subscriber may have subscribed in the meantime.
                    if !self.events.has_listeners(&task_id) && self.tasks.remove(&task_id) {
                        end.push(self.channel(&task_id));
                    }
                }
            }
        }
        // A task whose subscriber came and left is in both lists, so unsubscribe last.
        let changes = async {
            if !begin.is_empty() {
                connection.subscribe(&begin).await?;
            }
            if !end.is_empty() {
                connection.unsubscribe(&end).await?;
            }
            Ok(())
        };
        let outcome = changes
            .await
            .map_err(|error: RedisError| self.inner.connection.store_error(&error));
        for reply in waiting {
            // The send fails if the caller was dropped.
            let _ = reply.send(outcome.clone());
        }
        outcome
    }

    /// Replies to all requests with `error`, for the duration `pause`.
    async fn reject_requests(&mut self, error: &StoreError, pause: Duration) -> ListenEnd {
        let end = Instant::now() + pause;
        loop {
            match tokio::time::timeout_at(end, self.requests.recv()).await {
                Ok(Some(SubscriptionRequest::Subscribe(_, reply))) => {
                    let _ = reply.send(Err(error.clone()));
                }
                Ok(Some(SubscriptionRequest::Unsubscribe(task_id))) => {
                    if !self.events.has_listeners(&task_id) {
                        self.tasks.remove(&task_id);
                    }
                }
                Ok(None) => return ListenEnd::StoreClosed,
                Err(_) => return ListenEnd::Broken,
            }
        }
    }

    fn channel(&self, task_id: &str) -> String {
        format!("{}task:{task_id}", self.inner.channels)
    }

    fn unavailable(&self) -> StoreError {
        StoreError::Failed(format!(
            "Redis at {} does not answer; the server reconnects by itself",
            self.inner.connection.display_address()
        ))
    }
}

impl MessageHandler {
    /// Handles a message: its channel and its payload.
    fn handle(&self, message: &[Value]) {
        let [Value::BulkString(channel), Value::BulkString(payload)] = message else {
            return;
        };
        let Some(name) = channel
            .strip_prefix(self.channels.as_bytes())
            .and_then(|name| std::str::from_utf8(name).ok())
        else {
            return;
        };
        if let Some(task_id) = name.strip_prefix("task:") {
            if !self.events.has_listeners(task_id) {
                return;
            }
            match decode_update(payload) {
                Some((revision, change)) => self.events.publish(task_id, revision, &change),
                None if payload == b"gone" => self.events.forget(task_id),
                // Written by another program, or by a later version of this one.
                None => self.events.resync(task_id),
            }
        } else if let Some(place) = payload.strip_prefix(b"turn ") {
            if let Ok(place) = std::str::from_utf8(place) {
                self.notifiers.notify_slot(place);
            }
        } else {
            self.notifiers.cancels.notify_one();
        }
    }
}

/// The delay before a load is retried.
const RECONNECT_BASE_DELAY: Duration = Duration::from_millis(200);

/// Unsubscribes when it is dropped.
struct UnsubscribeGuard {
    task_id: String,
    requests: UnboundedSender<SubscriptionRequest>,
}

impl Drop for UnsubscribeGuard {
    fn drop(&mut self) {
        let task_id = std::mem::take(&mut self.task_id);
        // The send fails after the store is closed.
        let _ = self
            .requests
            .send(SubscriptionRequest::Unsubscribe(task_id));
    }
}

/// The updates of a task. The fields drop in this order, so that the subscriber leaves `TaskEvents` before the listener
/// receives the request to unsubscribe.
struct RedisUpdates {
    updates: BoxStream<'static, TaskUpdate>,
    _unsubscribe: UnsubscribeGuard,
}

impl Stream for RedisUpdates {
    type Item = TaskUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        self.updates.poll_next_unpin(cx)
    }
}

/// Subscribes to a task.
pub(super) async fn subscribe(
    inner: Arc<Inner>,
    events: &TaskEvents,
    requests: &UnboundedSender<SubscriptionRequest>,
    task_id: &str,
) -> Result<Option<TaskSubscription>, StoreError> {
    // Declared before the listener, so that it is dropped after the listener.
    let unsubscribe = UnsubscribeGuard {
        task_id: task_id.to_owned(),
        requests: requests.clone(),
    };
    let listener = events.subscribe(task_id);
    let (reply, listening) = oneshot::channel();
    let store_closed = || StoreError::Failed("the store is closed".to_owned());
    requests
        .send(SubscriptionRequest::Subscribe(task_id.to_owned(), reply))
        .map_err(|_| store_closed())?;
    listening.await.map_err(|_| store_closed())??;
    let Some(record) = inner.load(task_id).await? else {
        return Ok(None);
    };
    let subscription = listener.subscription(record, move |id| reload(inner.clone(), id).boxed());
    Ok(Some(TaskSubscription {
        record: subscription.record,
        updates: RedisUpdates {
            updates: subscription.updates,
            _unsubscribe: unsubscribe,
        }
        .boxed(),
    }))
}

/// Loads a task for a subscriber that fell behind. Retries until Redis responds. An unreadable task ends the subscription.
fn reload(inner: Arc<Inner>, task_id: String) -> BoxFuture<'static, Option<TaskRecord>> {
    async move {
        loop {
            match inner.load(&task_id).await {
                Ok(found) => return found,
                Err(StoreError::Damaged(cause)) => {
                    tracing::warn!(task_id, cause, "a subscription to a damaged task ends");
                    return None;
                }
                Err(_) => tokio::time::sleep(RECONNECT_BASE_DELAY).await,
            }
        }
    }
    .boxed()
}
