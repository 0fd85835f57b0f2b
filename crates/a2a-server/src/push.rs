//! Tells webhooks what becomes of a task (1.0 §4.3.3; 0.3 §9.5).
//!
//! Nothing here can change a task or hold it up: what happened is put down and the caller goes on. A notification waits in
//! the lane of its configuration, where order is kept, and is posted until it arrives or is given up. An origin that is slow
//! or dead delays its own notifications alone, and holds at most half of the room there is for all.

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
use crate::settings::Limits;
use crate::store::TaskStore;
use crate::task_record::{TaskChange, TaskRecord};
use a2a::{A2aError, ErrorReason};
use common::environment::Environment;

mod clients;
mod delivery;
mod delivery_queue;
mod dispatcher;
mod payload;
mod retry;

#[cfg(test)]
mod tests;

use clients::ClientCancellations;
use delivery_queue::QueueCapacity;
use dispatcher::{Incoming, PushDispatcher};
use payload::PushPayload;
use retry::RetryPolicy;

/// Carries notifications. Which addresses may be reached is its business: every one is checked again when it is connected to.
pub trait PushSender: Send + Sync + 'static {
    /// Whether notifications may go to `url` at all, as far as that can be said without asking for its address.
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    fn accepts(&self, url: &Url) -> Result<(), String>;

    /// Posts `body`, follows no redirect, and answers with the status and the headers.
    ///
    /// # Errors
    /// What kept it from arriving.
    fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>>;
}

/// What kept a notification from arriving.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PushError {
    /// What failed and why, without a secret.
    pub text: String,
    /// Another try may help.
    pub retryable: bool,
}

/// Tells webhooks what happens. Cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    intake: mpsc::Sender<Incoming>,
    dispatcher: Arc<PushDispatcher>,
}

/// What became of notifications since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PushCounts {
    /// Waiting now, the ones under way among them.
    pub waiting: u64,
    /// Taken by their webhook.
    pub delivered: u64,
    /// Given up, after as many tries as there are or because another would not help.
    pub failed: u64,
    /// Thrown away unsent, because too many waited.
    pub dropped: u64,
}

impl Notifier {
    /// A notifier that finds configurations in `store`, sends with `sender` and counts in `metrics`. Has to be made inside a
    /// tokio runtime.
    pub fn new(
        store: Arc<dyn TaskStore>,
        sender: Arc<dyn PushSender>,
        limits: &Limits,
        env: Arc<dyn Environment>,
        metrics: Metrics,
    ) -> Self {
        Self::with_retry_policy(store, sender, limits, env, metrics, RetryPolicy::default())
    }

    fn with_retry_policy(
        store: Arc<dyn TaskStore>,
        sender: Arc<dyn PushSender>,
        limits: &Limits,
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

    /// Whether notifications can be sent to this configuration, as far as that can be said now.
    ///
    /// # Errors
    /// [`ErrorReason::InvalidParams`] at the field that is wrong.
    pub fn accepts(&self, config: &TaskPushNotificationConfig) -> Result<(), A2aError> {
        let (url, _) = delivery::read(config)?;
        self.dispatcher.sender.accepts(&url).map_err(|why| {
            let text = format!("notifications may not be sent to `url`: it {why}");
            A2aError::new(ErrorReason::InvalidParams, text).at("url")
        })
    }

    /// Notifies the webhooks of a task that `change` made it what `record` is. The caller has stored the change before. The
    /// webhooks of a removed client are not notified.
    pub fn changed(&self, record: &TaskRecord, change: &TaskChange) {
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
                tracing::warn!(%task, "a notification was dropped: too many changes wait to be looked at");
            }
            Err(TrySendError::Closed(_)) => {
                self.dispatcher.metrics.record_push(PushResult::Dropped);
                tracing::warn!(%task, "a notification was dropped: the server is being stopped");
            }
        }
    }

    /// Names all clients there are from now on. Nothing more is delivered to webhooks of others, not even what waits.
    pub fn retain_clients(&self, clients: &Arc<HashSet<String>>) {
        self.dispatcher.clients.retain(clients);
    }

    /// Returns once it is known who is to be told of everything that happened before. From then on a task may be deleted,
    /// and its webhooks are told all the same.
    pub async fn barrier(&self) {
        let (done, all) = oneshot::channel();
        if self.intake.send(Incoming::Barrier(done)).await.is_ok() {
            // Where it is not answered the server is being stopped.
            let _ = all.await;
        }
    }

    /// What became of notifications so far.
    pub fn figures(&self) -> PushCounts {
        let metrics = &self.dispatcher.metrics;
        PushCounts {
            waiting: self.dispatcher.queues.waiting() as u64,
            delivered: metrics.pushes(PushResult::Delivered),
            failed: metrics.pushes(PushResult::Failed),
            dropped: metrics.pushes(PushResult::Dropped),
        }
    }

    /// Takes no more, and delivers what waits: each at once, and once more at most where that fails. What is not delivered
    /// within `patience` is given up and logged. Answers how many were.
    pub async fn close(&self, patience: Duration) -> usize {
        let dispatcher = &self.dispatcher;
        dispatcher.closing.cancel();
        dispatcher.workers.close();
        if tokio::time::timeout(patience, dispatcher.workers.wait())
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
