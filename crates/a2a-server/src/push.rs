//! Push notifications to webhooks (A2A 1.0 §4.3.3, A2A 0.3 §9.5).
//!
//! Notifications neither change nor delay a task: the caller passes a change and continues. Each configuration has a
//! queue that keeps the order, and a notification is retried until it is delivered or dropped. A slow or dead origin
//! delays only its own notifications, and uses at most half of the capacity.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::TaskPushNotificationConfig;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::metrics::{Metrics, PushResult};
use crate::settings::ServiceLimits;
use crate::store::TaskStore;
use crate::task_record::{TaskChange, TaskRecord};
use a2a::{A2aError, ErrorReason};
use common::environment::Environment;

mod clients;
mod delivery_queue;
mod dispatcher;
mod notification;
mod payload;
mod retry;

#[cfg(test)]
mod tests;

use clients::ClientCancellations;
use delivery_queue::QueueCapacity;
use dispatcher::{Incoming, PushDispatcher};
use payload::PushPayload;
use retry::RetryPolicy;

/// Posts notifications. The implementation enforces the address policy, again for every connection.
pub trait PushSender: Send + Sync + 'static {
    /// Checks whether policy allows `url`, before its name is resolved.
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    fn accepts(&self, url: &Url) -> Result<(), String>;

    /// Posts `body` without following redirects, and returns status and headers.
    ///
    /// # Errors
    /// Why the request failed.
    fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>>;
}

/// An error of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PushError {
    /// What failed and why, without secrets.
    pub text: String,
    /// Whether a retry may succeed.
    pub retryable: bool,
}

/// Notifies webhooks. Clones share it.
#[derive(Clone)]
pub struct Notifier {
    intake: mpsc::Sender<Incoming>,
    dispatcher: Arc<PushDispatcher>,
}

/// The numbers of notifications since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PushCounts {
    /// Queued or in flight.
    pub waiting: u64,
    /// Accepted by their webhook.
    pub delivered: u64,
    /// Failed permanently.
    pub failed: u64,
    /// Dropped from a full queue.
    pub dropped: u64,
}

impl Notifier {
    /// Creates a notifier that reads configurations from `store`, posts with `sender` and counts in `metrics`. Needs a
    /// tokio runtime.
    pub fn new(
        store: Arc<dyn TaskStore>,
        sender: Arc<dyn PushSender>,
        limits: &ServiceLimits,
        env: Arc<dyn Environment>,
        metrics: Metrics,
    ) -> Self {
        Self::with_retry_policy(store, sender, limits, env, metrics, RetryPolicy::default())
    }

    fn with_retry_policy(
        store: Arc<dyn TaskStore>,
        sender: Arc<dyn PushSender>,
        limits: &ServiceLimits,
        env: Arc<dyn Environment>,
        metrics: Metrics,
        retry_policy: RetryPolicy,
    ) -> Self {
        let (intake, incoming) = mpsc::channel(limits.waiting_pushes.max(1));
        let dispatcher = Arc::new(PushDispatcher {
            store,
            sender,
            env,
            retry_policy,
            queues: delivery_queue::DeliveryQueues::new(QueueCapacity::new(limits.waiting_pushes)),
            metrics,
            clients: ClientCancellations::default(),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            workers: TaskTracker::new(),
        });
        dispatcher
            .workers
            .spawn(Arc::clone(&dispatcher).run(incoming));
        Self { intake, dispatcher }
    }

    /// Checks whether notifications can go to this configuration.
    ///
    /// # Errors
    /// [`ErrorReason::InvalidParams`] at the invalid field.
    pub fn accepts(&self, config: &TaskPushNotificationConfig) -> Result<(), A2aError> {
        let (url, _) = notification::parse_config(config)?;
        self.dispatcher.sender.accepts(&url).map_err(|why| {
            let text = format!("notifications may not be sent to `url`: it {why}");
            A2aError::new(ErrorReason::InvalidParams, text).at("url")
        })
    }

    /// Notifies the webhooks of a task about a stored `change` that resulted in `record`. Skips those of removed
    /// clients.
    pub fn changed(&self, record: &TaskRecord, change: &TaskChange) {
        // Most tasks have no webhook.
        if !self.dispatcher.store.may_have_pushes(&record.task.id) {
            return;
        }
        let Some(payload) = PushPayload::new(record, change) else {
            return;
        };
        let Some(removed) = self.dispatcher.clients.removal(&record.owner) else {
            return;
        };
        let task = &record.task.id;
        let incoming = Incoming::Payload(Box::new(payload), removed);
        match self.intake.try_send(incoming) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.dispatcher.metrics.record_push(PushResult::Dropped);
                tracing::warn!(%task, "dropped a notification: too many changes wait");
            }
            Err(TrySendError::Closed(_)) => {
                self.dispatcher.metrics.record_push(PushResult::Dropped);
                tracing::warn!(%task, "dropped a notification: the server is shutting down");
            }
        }
    }

    /// Replaces the set of clients. Drops the notifications of others, including queued ones.
    pub fn retain_clients(&self, clients: &Arc<HashSet<String>>) {
        self.dispatcher.clients.retain(clients);
    }

    /// Returns once all earlier changes have their recipients. A task that is deleted afterwards still notifies its
    /// webhooks.
    pub async fn barrier(&self) {
        let (done, all) = oneshot::channel();
        if self.intake.send(Incoming::Barrier(done)).await.is_ok() {
            // Without a reply, the server is shutting down.
            let _ = all.await;
        }
    }

    /// Returns the numbers of notifications so far.
    pub fn figures(&self) -> PushCounts {
        let metrics = &self.dispatcher.metrics;
        PushCounts {
            waiting: self.dispatcher.queues.waiting() as u64,
            delivered: metrics.pushes(PushResult::Delivered),
            failed: metrics.pushes(PushResult::Failed),
            dropped: metrics.pushes(PushResult::Dropped),
        }
    }

    /// Accepts no more changes, and delivers the queued notifications: at once, with at most one more attempt. Drops
    /// and logs the rest after `patience`, and returns their number.
    pub async fn close(&self, timeout: Duration) -> usize {
        let dispatcher = &self.dispatcher;
        dispatcher.closing.cancel();
        dispatcher.workers.close();
        if tokio::time::timeout(timeout, dispatcher.workers.wait())
            .await
            .is_ok()
        {
            return 0;
        }
        dispatcher.ended.cancel();
        dispatcher.workers.wait().await;
        dispatcher.give_up()
    }
}
