//! The subscribing connection of this process. It receives the changes of subscribed tasks and the messages for this
//! server.
//!
//! Redis drops messages while no connection subscribes. A subscriber therefore subscribes before it loads the task, and
//! receives a snapshot after a reconnect.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::connection::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT};
use super::inner::Inner;
use super::notifiers::Notifiers;
use super::tasks::decode_update;
use crate::store::StoreError;
use crate::store::task_events::TaskEvents;

/// The interval between checks of the connection.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The delay before the first reconnect. It doubles with each attempt.
const RECONNECT_BASE_DELAY: Duration = Duration::from_millis(50);
/// The maximum delay between two reconnects.
const RECONNECT_MAX_DELAY: Duration = Duration::from_secs(1);
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
    pub(super) events: TaskEvents,
    pub(super) notifiers: Arc<Notifiers>,
    pub(super) requests: UnboundedReceiver<SubscriptionRequest>,
    /// Whether the connection is open.
    pub(super) is_open: Arc<AtomicBool>,
    /// The subscribed tasks.
    pub(super) tasks: HashSet<String>,
}

type PubSubHalves = (PubSubSink, PubSubStream);

/// The reason why the listener stops using a connection.
enum ListenEnd {
    /// The connection broke.
    Broken,
    /// The store was closed.
    StoreClosed,
}

impl PubSubListener {
    /// Connects and subscribes to the channels of all tasks in `tasks`.
    pub(super) async fn connect(&self) -> Result<PubSubHalves, StoreError> {
        let connected = async {
            let pubsub = self.inner.connection.client().get_async_pubsub().await?;
            let (mut sink, stream) = pubsub.split();
            let own = format!("{}server:{}", self.inner.channels, self.inner.server);
            let tasks = self.tasks.iter().map(|id| self.channel(id));
            let channels: Vec<String> = std::iter::once(own).chain(tasks).collect();
            sink.subscribe(&channels).await?;
            Ok((sink, stream))
        };
        match timeout(CONNECT_TIMEOUT + RESPONSE_TIMEOUT, connected).await {
            Ok(connected) => connected.map_err(|error| self.inner.connection.store_error(&error)),
            Err(_) => Err(self.unavailable()),
        }
    }

    /// Runs until the store is closed, first with the connection `halves`.
    pub(super) async fn listen(mut self, halves: PubSubHalves) {
        let mut halves = Some(halves);
        let mut pause = RECONNECT_BASE_DELAY;
        loop {
            let error = match halves.take() {
                Some(halves) => {
                    pause = RECONNECT_BASE_DELAY;
                    self.is_open.store(true, Ordering::Relaxed);
                    // Messages before this point may have been lost.
                    self.events.resync_all();
                    self.notifiers.notify_all();
                    let end = self.process_messages(halves).await;
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
                        halves = Some(connected);
                        continue;
                    }
                    Err(error) => error,
                },
            };
            if matches!(
                self.reject_requests(&error, pause).await,
                ListenEnd::StoreClosed
            ) {
                return;
            }
            pause = (pause * 2).min(RECONNECT_MAX_DELAY);
        }
    }

    async fn process_messages(&mut self, (mut sink, mut stream): PubSubHalves) -> ListenEnd {
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut requests = Vec::new();
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => self.handle_message(&message),
                    None => return ListenEnd::Broken,
                },
                taken = self.requests.recv_many(&mut requests, MAX_BATCH) => {
                    if taken == 0 {
                        return ListenEnd::StoreClosed;
                    }
                    if let Err(error) = self.apply_requests(&mut sink, &mut requests).await {
                        tracing::debug!(%error, "cannot subscribe to a task");
                        return ListenEnd::Broken;
                    }
                }
                _ = ping.tick() => {
                    if !matches!(timeout(RESPONSE_TIMEOUT, sink.ping::<Value>()).await, Ok(Ok(_))) {
                        return ListenEnd::Broken;
                    }
                }
            }
        }
    }

    fn handle_message(&self, message: &Msg) {
        let Some(name) = message
            .get_channel_name()
            .strip_prefix(self.inner.channels.as_str())
        else {
            return;
        };
        let payload = message.get_payload_bytes();
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

    /// Sends a batch of requests to Redis.
    async fn apply_requests(
        &mut self,
        sink: &mut PubSubSink,
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
                sink.subscribe(&begin).await?;
            }
            if !end.is_empty() {
                sink.unsubscribe(&end).await?;
            }
            Ok(())
        };
        let outcome = match timeout(RESPONSE_TIMEOUT, changes).await {
            Ok(outcome) => outcome.map_err(|error| self.inner.connection.store_error(&error)),
            Err(_) => Err(self.unavailable()),
        };
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
