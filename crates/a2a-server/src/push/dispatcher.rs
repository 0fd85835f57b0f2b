//! Finds out who is to be told, and delivers.

use std::sync::Arc;

use a2a::v1_0::TaskPushNotificationConfig;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call_context::Version;
use crate::metrics::{Metrics, PushResult};
use crate::store::{StoreError, TaskStore};
use common::environment::Environment;

use super::PushSender;
use super::clients::ClientCancellations;
use super::delivery::{ConfigKey, PushDelivery};
use super::delivery_queue::{DeliveryQueues, NextDelivery};
use super::payload::PushPayload;
use super::retry::{AttemptOutcome, RetryPolicy, classify};

/// What comes in.
pub(super) enum Incoming {
    /// A change that webhooks are notified of, until the client that owns it is removed.
    Payload(Box<PushPayload>, CancellationToken),
    /// Somebody who waits until everything before is addressed.
    Barrier(oneshot::Sender<()>),
}

/// What all workers share.
pub(super) struct PushDispatcher {
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) sender: Arc<dyn PushSender>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) retry_policy: RetryPolicy,
    pub(super) queues: DeliveryQueues,
    pub(super) metrics: Metrics,
    pub(super) clients: ClientCancellations,
    /// Nothing more is taken in, and nothing is waited for.
    pub(super) closing: CancellationToken,
    /// There is no time left.
    pub(super) ended: CancellationToken,
    pub(super) workers: TaskTracker,
}

impl PushDispatcher {
    /// Addresses what comes in, one after another, until it is closed and nothing is left.
    pub(super) async fn run(self: Arc<Self>, mut incoming: mpsc::Receiver<Incoming>) {
        loop {
            let payload = tokio::select! {
                biased;
                () = self.ended.cancelled() => return,
                () = self.closing.cancelled(), if !incoming.is_closed() => {
                    incoming.close();
                    continue;
                }
                payload = incoming.recv() => payload,
            };
            let (payload, removed) = match payload {
                Some(Incoming::Payload(payload, removed)) => (payload, removed),
                Some(Incoming::Barrier(done)) => {
                    // Who does not wait any more need not know.
                    let _ = done.send(());
                    continue;
                }
                None => return,
            };
            if removed.is_cancelled() {
                continue;
            }
            if let Err(error) = self.address(&payload, &removed).await {
                self.metrics.record_push(PushResult::Failed);
                tracing::warn!(task = %payload.task_id, %error, "nobody was told of a change: the webhooks cannot be read");
            }
        }
    }

    /// Puts a letter into the lane of everybody who is to be told.
    async fn address(
        self: &Arc<Self>,
        payload: &PushPayload,
        removed: &CancellationToken,
    ) -> Result<(), StoreError> {
        let configs = self.store.pushes(&payload.task_id).await?;
        if configs.is_empty() {
            return Ok(());
        }
        let asks_for = |version| configs.iter().any(|(_, theirs)| *theirs == version);
        let old = asks_for(Version::V0_3) && payload.applies_to_0_3();
        let new = asks_for(Version::V1_0);
        let task = if old || (new && !payload.is_self_contained()) {
            self.store.load(&payload.task_id).await?
        } else {
            None
        }
        .map(|record| record.task);
        let body_1_0 = new.then(|| payload.body_1_0(task.as_ref())).flatten();
        let body_0_3 = task.filter(|_| old).and_then(|task| payload.body_0_3(task));
        for (config, version) in &configs {
            let body = match version {
                Version::V0_3 => &body_0_3,
                Version::V1_0 => &body_1_0,
            };
            if let Some(body) = body {
                self.post(config, *version, body.clone(), removed.clone());
            }
        }
        Ok(())
    }

    fn post(
        self: &Arc<Self>,
        config: &TaskPushNotificationConfig,
        version: Version,
        body: Bytes,
        removed: CancellationToken,
    ) {
        let delivery = match PushDelivery::new(config, version, body, removed) {
            Ok(delivery) => delivery,
            Err(error) => {
                self.metrics.record_push(PushResult::Failed);
                tracing::warn!(task = %config.task_id, %error, "a webhook cannot be told");
                return;
            }
        };
        let address = Arc::clone(&delivery.address);
        let put = self.queues.push(delivery);
        for delivery in put.dropped {
            self.record_loss(
                PushResult::Dropped,
                &delivery,
                "too many notifications wait",
            );
        }
        if put.is_first {
            let dispatcher = Arc::clone(self);
            self.workers
                .spawn(async move { dispatcher.drain_queue(&address).await });
        }
    }

    /// Delivers what is in a lane, in order.
    async fn drain_queue(&self, address: &ConfigKey) {
        while !self.ended.is_cancelled() {
            let Some(next) = self.queues.pop(address) else {
                return;
            };
            let delivered = self.ended.run_until_cancelled(self.deliver(&next)).await;
            match delivered {
                Some(Ok(())) => {
                    self.metrics.record_push(PushResult::Delivered);
                    tracing::debug!(task = %address.task_id, config = %address.config_id, "a webhook was told");
                }
                Some(Err(why)) => self.record_loss(PushResult::Failed, &next.delivery, &why),
                // Counted with what waits.
                None => self.queues.push_front(next.delivery),
            }
        }
    }

    /// Delivers a notification, unless its client is removed before.
    async fn deliver(&self, next: &NextDelivery) -> Result<(), String> {
        let removed = &next.delivery.removed;
        let delivered = removed
            .run_until_cancelled(self.deliver_with_retries(next))
            .await;
        delivered.unwrap_or_else(|| Err("its client was removed".to_owned()))
    }

    async fn deliver_with_retries(&self, next: &NextDelivery) -> Result<(), String> {
        let mut tried = 0;
        loop {
            let last = self.closing.is_cancelled();
            tried += 1;
            match self.attempt(next).await {
                AttemptOutcome::Delivered => return Ok(()),
                AttemptOutcome::Permanent(why) => return Err(why),
                AttemptOutcome::Retry(why, _)
                    if last || tried >= self.retry_policy.max_attempts =>
                {
                    return Err(format!("{why}, {tried} times"));
                }
                AttemptOutcome::Retry(why, wish) => {
                    let wait = self.retry_policy.wait(tried, wish, self.random());
                    tracing::debug!(
                        task = %next.delivery.address.task_id, webhook = %next.delivery.origin, %why,
                        "a webhook will be told again in {} ms", wait.as_millis()
                    );
                    let wait = tokio::time::sleep(wait);
                    self.closing.run_until_cancelled(wait).await;
                }
            }
        }
    }

    async fn attempt(&self, next: &NextDelivery) -> AttemptOutcome {
        // The semaphore is never closed. Without a turn it would still be right to try.
        let _permit = next.permits.acquire().await.ok();
        let delivery = &next.delivery;
        let post = self.sender.post(
            delivery.url.clone(),
            delivery.headers.clone(),
            delivery.body.clone(),
        );
        let answer = tokio::time::timeout(self.retry_policy.response_timeout, post).await;
        classify(answer.ok(), self.env.system_time().into())
    }

    /// Logs what was not delivered when time was up, and says how many that was.
    pub(super) fn give_up(&self) -> usize {
        let deliveries = self.queues.drain();
        for delivery in &deliveries {
            self.record_loss(PushResult::Failed, delivery, "the server is being stopped");
        }
        deliveries.len()
    }

    fn record_loss(&self, became: PushResult, delivery: &PushDelivery, why: &str) {
        self.metrics.record_push(became);
        tracing::warn!(
            task = %delivery.address.task_id,
            config = %delivery.address.config_id,
            webhook = %delivery.origin,
            "a webhook was not told: {why}"
        );
    }

    /// From 0 up to 1.
    fn random(&self) -> f64 {
        f64::from(self.env.uuid().as_fields().0) / (f64::from(u32::MAX) + 1.0)
    }
}
