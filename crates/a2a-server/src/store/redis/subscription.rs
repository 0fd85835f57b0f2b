//! Subscriptions to tasks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::inner::Inner;
use super::pubsub::SubscriptionRequest;
use crate::store::task_events::TaskEvents;
use crate::store::{StoreError, TaskSubscription, TaskUpdate};
use crate::task_record::TaskRecord;

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
