//! Push notifications to webhooks (A2A 1.0 §4.3.3, A2A 0.3 §9.5).
//!
//! A notification neither changes nor delays a task: the service passes a change to [`Notifier::changed`] and
//! continues. Each push notification configuration has its own queue, which keeps the order. The notifier retries a
//! notification until the webhook accepts it or all attempts fail. A slow or unreachable origin delays only its own
//! notifications and uses at most half of the queue capacity, of which one of several clients leaves half to others.

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
use crate::settings::Settings;
use crate::store::TaskStore;
use crate::task_record::{TaskChange, TaskRecord};
use a2a::{A2aError, ErrorReason};
use base::environment::Environment;

mod delivery_queue;
mod dispatcher;
mod notification;

#[cfg(test)]
mod tests;

use delivery_queue::{DeliveryQueues, MAX_QUEUED_BYTES};
use dispatcher::RetryPolicy;
use dispatcher::{ClientCancellations, Incoming, Lookups, PushDispatcher};
use notification::PushPayload;

/// Posts notifications. The implementation checks the address policy again for every connection.
pub trait PushSender: Send + Sync + 'static {
    /// Checks whether the address policy allows `url`, before the implementation resolves its host name.
    ///
    /// # Errors
    /// The policy forbids the URL. The error is the end of a sentence.
    fn accepts(&self, url: &Url) -> Result<(), String>;

    /// Posts `body` without following redirects, and returns the status and the headers of the response.
    ///
    /// # Errors
    /// The request failed.
    fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>>;
}

/// An error of one delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PushError {
    /// What failed and why, without secrets such as the path of the URL.
    pub text: String,
    /// Whether a retry may succeed.
    pub retryable: bool,
}

/// Sends notifications about task changes to webhooks. Clones share the state.
#[derive(Clone)]
pub struct Notifier {
    intake: mpsc::Sender<Incoming>,
    dispatcher: Arc<PushDispatcher>,
}

/// The numbers of notifications since the server started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PushCounts {
    /// Notifications that are queued or in flight.
    pub waiting: u64,
    /// Notifications that a webhook accepted.
    pub delivered: u64,
    /// Notifications whose delivery failed permanently.
    pub failed: u64,
    /// Notifications that the server dropped because a queue was full.
    pub dropped: u64,
}

impl Notifier {
    /// Creates a notifier that reads configurations from `store`, posts with `sender` and counts in `metrics`. Must be
    /// called within a tokio runtime.
    pub fn new(
        store: Arc<dyn TaskStore>,
        sender: Arc<dyn PushSender>,
        settings: &Settings,
        env: Arc<dyn Environment>,
        metrics: Metrics,
    ) -> Self {
        Self::with_retry_policy(
            store,
            sender,
            settings,
            env,
            metrics,
            RetryPolicy::default(),
        )
    }

    fn with_retry_policy(
        store: Arc<dyn TaskStore>,
        sender: Arc<dyn PushSender>,
        settings: &Settings,
        env: Arc<dyn Environment>,
        metrics: Metrics,
        retry_policy: RetryPolicy,
    ) -> Self {
        let waiting = settings.limits.waiting_pushes;
        let (intake, incoming) = mpsc::channel(waiting.max(1));
        let dispatcher = Arc::new(PushDispatcher {
            store,
            sender,
            env,
            retry_policy,
            lookups: Lookups::new(waiting, settings.several_clients),
            queues: DeliveryQueues::new(waiting, MAX_QUEUED_BYTES, settings.several_clients),
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

    /// Checks whether the server can notify the webhook of this configuration.
    ///
    /// # Errors
    /// [`ErrorReason::InvalidParams`] that names the invalid field.
    pub fn accepts(&self, config: &TaskPushNotificationConfig) -> Result<(), A2aError> {
        let (url, _) = notification::parse_config(config)?;
        self.dispatcher.sender.accepts(&url).map_err(|reason| {
            let text = format!("notifications may not be sent to `url`: it {reason}");
            A2aError::new(ErrorReason::InvalidParams, text).at("url")
        })
    }

    /// Notifies the webhooks of a task about a stored `change` that resulted in `record`. Skips the webhooks of removed
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

    /// Replaces the set of clients. Drops the queued and later notifications of all other clients.
    pub fn retain_clients(&self, clients: &Arc<HashSet<String>>) {
        self.dispatcher.clients.retain(clients);
    }

    /// Returns once the dispatcher has looked up the webhooks of all earlier changes. A task that is deleted afterwards
    /// still notifies its webhooks.
    pub async fn barrier(&self) {
        let (done, all) = oneshot::channel();
        if self.intake.send(Incoming::Barrier(done)).await.is_ok() {
            // The send fails only when the server shuts down.
            let _ = all.await;
        }
    }

    /// Returns the numbers of notifications since the server started.
    pub fn counts(&self) -> PushCounts {
        let metrics = &self.dispatcher.metrics;
        PushCounts {
            waiting: self.dispatcher.queues.waiting() as u64,
            delivered: metrics.pushes(PushResult::Delivered),
            failed: metrics.pushes(PushResult::Failed),
            dropped: metrics.pushes(PushResult::Dropped),
        }
    }

    /// Rejects further changes and delivers the queued notifications without delays, each with at most one more
    /// attempt. After `timeout`, drops and logs the rest. Returns the number of dropped notifications.
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
