//! Looks up the webhooks of each change and delivers the notifications, except to the webhooks of removed clients. Retries
//! failed deliveries.
//!
//! The lookups of one client run one after another, which keeps the order of its notifications. They delay no other client,
//! also while a large task is loaded and encoded.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use base::backoff::Backoff;
use base::blocking;
use base::environment::Environment;
use base::keyed_budget::KeyedBudget;
use base::keyed_semaphore::KeyedSemaphore;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::delivery_queue::DeliveryQueues;
use super::notification::{ConfigKey, PushNotification, PushPayload};
use super::{PushError, PushSender};
use crate::metrics::{Metrics, PushResult};
use crate::store::{StoreError, TaskStore};
use crate::task_record::copied_bytes;
use a2a::Version;

/// The cause of a dropped notification.
const QUEUE_FULL: &str = "too many notifications wait";

/// The number of tasks that the dispatcher loads and encodes at once, each of another client.
const MAX_ENCODINGS: usize = 2;

/// A message to the dispatcher.
pub(super) enum Incoming {
    /// A change, and the token whose cancellation drops its notifications.
    Payload(Box<PushPayload>, CancellationToken),
    /// A request for a reply once the dispatcher has looked up the webhooks of all earlier changes.
    Barrier(oneshot::Sender<()>),
}

/// The shared state of all workers.
pub(super) struct PushDispatcher {
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) sender: Arc<dyn PushSender>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) retry_policy: RetryPolicy,
    pub(super) lookups: Lookups,
    pub(super) queues: DeliveryQueues,
    pub(super) metrics: Metrics,
    pub(super) clients: ClientCancellations,
    /// Cancelled when the shutdown begins: the dispatcher rejects changes and retries without delays.
    pub(super) closing: CancellationToken,
    /// Cancelled at the end of the shutdown, which drops the remaining notifications.
    pub(super) ended: CancellationToken,
    pub(super) workers: TaskTracker,
}

impl PushDispatcher {
    /// Processes messages in order until the channel is closed and empty.
    pub(super) async fn run(self: Arc<Self>, mut incoming: mpsc::Receiver<Incoming>) {
        // The receiver ends when all lookups since the last barrier have.
        let (mut lookups, mut ended) = mpsc::channel(1);
        loop {
            let message = tokio::select! {
                biased;
                () = self.ended.cancelled() => return,
                () = self.closing.cancelled(), if !incoming.is_closed() => {
                    incoming.close();
                    continue;
                }
                message = incoming.recv() => message,
            };
            match message {
                Some(Incoming::Payload(payload, removed)) => {
                    self.start_lookup(*payload, removed, lookups.clone());
                }
                Some(Incoming::Barrier(done)) => {
                    let (next, next_ended) = mpsc::channel(1);
                    let mut earlier = replace(&mut ended, next_ended);
                    lookups = next;
                    // A later barrier waits for this one.
                    let later = lookups.clone();
                    self.workers.spawn(async move {
                        earlier.recv().await;
                        // The receiver may have been dropped.
                        let _ = done.send(());
                        drop(later);
                    });
                }
                None => return,
            }
        }
    }

    /// Looks up the webhooks of a change after those of the client's earlier changes. `lookups` is held until then.
    fn start_lookup(
        self: &Arc<Self>,
        payload: PushPayload,
        removed: CancellationToken,
        lookups: mpsc::Sender<Infallible>,
    ) {
        let client = &payload.client;
        let Ok(place) = self.lookups.waiting.try_reserve(Arc::clone(client), 1) else {
            self.metrics.record_push(PushResult::Dropped);
            tracing::warn!(task = %payload.task_id, "dropped a notification: too many changes wait");
            return;
        };
        let turn = self.lookups.turns.acquire(Arc::clone(client));
        let dispatcher = Arc::clone(self);
        self.workers.spawn(async move {
            let lookup = async {
                let _turn = turn.await;
                dispatcher.look_up(&payload, &removed).await;
            };
            dispatcher.ended.run_until_cancelled(lookup).await;
            drop((place, lookups));
        });
    }

    async fn look_up(self: &Arc<Self>, payload: &PushPayload, removed: &CancellationToken) {
        if removed.is_cancelled() {
            return;
        }
        if let Err(error) = self.enqueue_all(payload, removed).await {
            self.metrics.record_push(PushResult::Failed);
            tracing::warn!(task = %payload.task_id, %error, "cannot load the push configurations; the notification was dropped");
        }
    }

    /// Queues a notification for every webhook of the change. Loads the task, which may be large, only for queues that
    /// may have room.
    async fn enqueue_all(
        self: &Arc<Self>,
        payload: &PushPayload,
        removed: &CancellationToken,
    ) -> Result<(), StoreError> {
        let mut deliveries = Vec::new();
        for (config, version) in self.store.pushes(&payload.task_id).await? {
            if version == Version::V0_3 && !payload.applies_to_0_3() {
                continue;
            }
            let (client, removed) = (Arc::clone(&payload.client), removed.clone());
            match PushNotification::new(&config, version, client, Bytes::new(), removed) {
                Ok(delivery) if self.queues.may_fit(&delivery) => {
                    deliveries.push((version, delivery));
                }
                Ok(delivery) => self.record_loss(PushResult::Dropped, &delivery, QUEUE_FULL),
                Err(error) => {
                    self.metrics.record_push(PushResult::Failed);
                    tracing::warn!(task = %config.task_id, %error, "cannot notify a webhook");
                }
            }
        }
        let has_version = |wanted| deliveries.iter().any(|(version, _)| *version == wanted);
        let (old, new) = (has_version(Version::V0_3), has_version(Version::V1_0));
        let (body_0_3, body_1_0) = if old || (new && !payload.is_self_contained()) {
            // Never closed.
            let _permit = self.lookups.encodings.acquire().await;
            let loaded = self.store.load(&payload.task_id).await?;
            let task = loaded.map(|record| record.task);
            let bytes = task.as_ref().map_or(0, |task| copied_bytes(task, &[]));
            blocking::run_if_large(bytes, || {
                let body_1_0 = new.then(|| payload.body_1_0(task.as_ref())).flatten();
                let body_0_3 = task.filter(|_| old).and_then(|task| payload.body_0_3(task));
                (body_0_3, body_1_0)
            })
        } else {
            (None, new.then(|| payload.body_1_0(None)).flatten())
        };
        for (version, mut delivery) in deliveries {
            let body = match version {
                Version::V0_3 => &body_0_3,
                Version::V1_0 => &body_1_0,
            };
            if let Some(body) = body {
                delivery.body = body.clone();
                self.enqueue(delivery);
            }
        }
        Ok(())
    }

    /// Queues a notification, and starts a worker for an empty queue.
    fn enqueue(self: &Arc<Self>, delivery: PushNotification) {
        let config = Arc::clone(&delivery.config);
        let put = self.queues.push(delivery);
        for delivery in put.dropped {
            let cause = match self.queues.is_too_large(&delivery) {
                true => "it is too large",
                false => QUEUE_FULL,
            };
            self.record_loss(PushResult::Dropped, &delivery, cause);
        }
        if put.is_first {
            let dispatcher = Arc::clone(self);
            self.workers
                .spawn(async move { dispatcher.drain_queue(&config).await });
        }
    }

    /// Delivers the notifications of a queue in order.
    async fn drain_queue(&self, config: &ConfigKey) {
        while !self.ended.is_cancelled() {
            let Some(delivery) = self.queues.pop(config) else {
                return;
            };
            let delivered = self.ended.run_until_cancelled(self.deliver(&delivery));
            // Without a worker, the queue would accept notifications and deliver none.
            let delivered = match base::panics::catch_async(delivered).await {
                Ok(delivered) => delivered,
                Err(panicked) => Some(Err(panicked.to_string())),
            };
            match delivered {
                Some(Ok(())) => {
                    self.metrics.record_push(PushResult::Delivered);
                    tracing::debug!(task = %config.task_id, config = %config.config_id, "notified a webhook");
                }
                Some(Err(cause)) => self.record_loss(PushResult::Failed, &delivery, &cause),
                // Back into the queue, because `give_up` counts and logs queued notifications.
                None => self.queues.push_front(delivery),
            }
        }
    }

    /// Delivers a notification, unless its client is removed in the meantime.
    async fn deliver(&self, delivery: &PushNotification) -> Result<(), String> {
        let removed = &delivery.removed;
        let delivered = removed
            .run_until_cancelled(self.deliver_with_retries(delivery))
            .await;
        delivered.unwrap_or_else(|| Err("its client was removed".to_owned()))
    }

    async fn deliver_with_retries(&self, delivery: &PushNotification) -> Result<(), String> {
        let mut tried = 0;
        loop {
            let last = self.closing.is_cancelled();
            tried += 1;
            match self.attempt(delivery).await {
                AttemptOutcome::Delivered => return Ok(()),
                AttemptOutcome::Permanent(cause) => return Err(cause),
                AttemptOutcome::Retry(cause, _)
                    if last || tried >= self.retry_policy.max_attempts =>
                {
                    return Err(format!(
                        "{cause}, {}",
                        base::text::counted(tried, "time", "times")
                    ));
                }
                AttemptOutcome::Retry(cause, retry_after) => {
                    let delay = self
                        .retry_policy
                        .delay(tried, retry_after, self.env.random());
                    tracing::debug!(
                        task = %delivery.config.task_id, webhook = %delivery.origin, %cause,
                        "retrying a notification in {} ms", delay.as_millis()
                    );
                    let delay = tokio::time::sleep(delay);
                    self.closing.run_until_cancelled(delay).await;
                }
            }
        }
    }

    async fn attempt(&self, delivery: &PushNotification) -> AttemptOutcome {
        let _permits = self
            .queues
            .acquire(&delivery.client, &delivery.origin)
            .await;
        let post = self.sender.post(
            delivery.url.clone(),
            delivery.headers.clone(),
            delivery.body.clone(),
        );
        let answer = tokio::time::timeout(self.retry_policy.response_timeout, post).await;
        classify(answer.ok(), self.env.system_time().into())
    }

    /// Logs the notifications that the server could not deliver in time, and returns their number.
    pub(super) fn give_up(&self) -> usize {
        let deliveries = self.queues.drain();
        for delivery in &deliveries {
            self.record_loss(PushResult::Failed, delivery, "the server is shutting down");
        }
        deliveries.len()
    }

    fn record_loss(&self, result: PushResult, delivery: &PushNotification, cause: &str) {
        self.metrics.record_push(result);
        tracing::warn!(
            task = %delivery.config.task_id,
            config = %delivery.config.config_id,
            webhook = %delivery.origin,
            "cannot notify a webhook: {cause}"
        );
    }
}

/// The lookups of the webhooks of changes.
pub(super) struct Lookups {
    /// One lookup of each client at a time.
    pub(super) turns: KeyedSemaphore<Arc<str>>,
    /// The lookups that wait or run.
    waiting: Arc<KeyedBudget<Arc<str>>>,
    encodings: Semaphore,
}

impl Lookups {
    /// Creates places for this number of changes, of which one of `several_clients` may use a quarter.
    pub(super) fn new(changes: usize, several_clients: bool) -> Self {
        let total = changes.max(1);
        let share = match several_clients {
            true => total.div_ceil(4),
            false => total,
        };
        Self {
            turns: KeyedSemaphore::default(),
            waiting: KeyedBudget::new(total, share),
            encodings: Semaphore::new(MAX_ENCODINGS),
        }
    }
}

/// Cancels the deliveries of removed clients.
#[derive(Debug, Default)]
pub(super) struct ClientCancellations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The names of all clients; `None` admits every name.
    all: Option<Arc<HashSet<String>>>,
    removals: HashMap<String, CancellationToken>,
}

impl ClientCancellations {
    /// Replaces the set of clients.
    pub(super) fn retain(&self, clients: &Arc<HashSet<String>>) {
        let mut state = self.0.lock();
        state.all = Some(Arc::clone(clients));
        state.removals.retain(|name, removed| {
            let stays = clients.contains(name);
            if !stays {
                removed.cancel();
            }
            stays
        });
    }

    /// Returns a token that is cancelled when the client is removed; `None` if the client has been removed.
    pub(super) fn removal(&self, name: &str) -> Option<CancellationToken> {
        let mut state = self.0.lock();
        let known = state.all.as_ref();
        if known.is_some_and(|known| !known.contains(name)) {
            return None;
        }
        if let Some(removed) = state.removals.get(name) {
            return Some(removed.clone());
        }
        let removed = CancellationToken::new();
        state.removals.insert(name.to_owned(), removed.clone());
        Some(removed)
    }
}

/// The number of attempts and the delays between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    /// The number of attempts, including the first.
    pub(super) max_attempts: u32,
    /// How long an attempt waits for the response of the webhook.
    pub(super) response_timeout: Duration,
    /// The delay before the second attempt. It doubles with each attempt, and has jitter.
    pub(super) base_delay: Duration,
    /// The maximum delay, which also bounds `Retry-After`.
    pub(super) max_delay: Duration,
}

impl Default for RetryPolicy {
    /// Returns a policy with delays of about half a minute in total.
    fn default() -> Self {
        Self {
            max_attempts: 6,
            response_timeout: Duration::from_secs(10),
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
        }
    }
}

/// The result of one delivery attempt.
#[derive(Debug, PartialEq)]
pub(super) enum AttemptOutcome {
    /// The webhook accepted the notification.
    Delivered,
    /// The attempt failed, and a retry cannot succeed. Contains the cause.
    Permanent(String),
    /// The attempt failed, and a retry may succeed. Contains the cause and the `Retry-After` of the response.
    Retry(String, Option<Duration>),
}

/// Classifies a response. `None` means that the request timed out.
pub(super) fn classify(
    answer: Option<Result<Response<()>, PushError>>,
    now: DateTime<Utc>,
) -> AttemptOutcome {
    match answer {
        None => AttemptOutcome::Retry("the webhook does not answer".to_owned(), None),
        Some(Err(error)) if error.retryable => AttemptOutcome::Retry(error.text, None),
        Some(Err(error)) => AttemptOutcome::Permanent(error.text),
        Some(Ok(response)) => status(response.status(), response.headers(), now),
    }
}

fn status(status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> AttemptOutcome {
    let describe = || format!("the webhook answers {}", status.as_u16());
    match status {
        status if status.is_success() => AttemptOutcome::Delivered,
        status if status.is_redirection() => AttemptOutcome::Permanent(format!(
            "{}: redirects are not followed; register the target URL",
            describe()
        )),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            AttemptOutcome::Retry(describe(), parse_retry_after(headers, now))
        }
        status if status.is_server_error() => {
            AttemptOutcome::Retry(describe(), parse_retry_after(headers, now))
        }
        _ => AttemptOutcome::Permanent(describe()),
    }
}

/// Parses `Retry-After` (RFC 9110 §10.2.3): a number of seconds or a date.
fn parse_retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(
        (date.with_timezone(&Utc) - now)
            .to_std()
            .unwrap_or_default(),
    )
}

impl RetryPolicy {
    /// Returns the delay after attempt number `tried`. `random` is in `0.0..1.0`. A `Retry-After` that is shorter than
    /// the shortest delay of this attempt is ignored, because it would cause a burst of requests.
    pub(super) fn delay(&self, tried: u32, retry_after: Option<Duration>, random: f64) -> Duration {
        let backoff = Backoff::new(self.base_delay, self.max_delay);
        let own = backoff.jittered(tried.saturating_sub(1), random);
        retry_after.map_or(own, |requested| {
            requested.clamp(own.min(self.max_delay), self.max_delay)
        })
    }
}

#[cfg(test)]
mod tests;
