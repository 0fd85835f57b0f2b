//! Webhooks of a removed client.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::{self, BoxFuture};
use http::{HeaderMap, Response};
use tokio::sync::Notify;
use url::Url;

use super::*;
use crate::push::PushError;

/// A policy with so many attempts that a failing webhook is retried until the test stops it.
const PATIENT: RetryPolicy = RetryPolicy {
    response_timeout: Duration::from_secs(3600),
    ..FAST
};

#[tokio::test]
async fn webhook_of_removed_client_receives_no_more_notifications() {
    let mut fixture = Fixture::with(ServiceLimits::default(), PATIENT).await;
    let hook = TestWebhook::start([Answer::Hang]).await;
    fixture.register("w", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    assert_eq!(hook.next().await.state(), Some("TASK_STATE_WORKING"));
    fixture.set_state(TaskState::InputRequired).await;
    fixture.notifier.barrier().await;
    fixture.notifier.retain_clients(&Arc::new(HashSet::new()));
    fixture.set_state(TaskState::Canceled).await;
    let counts = fixture.drain().await;
    // The notification in flight and the queued one.
    assert_eq!((counts.delivered, counts.failed), (0, 2));
    assert_eq!(hook.pending_count().await, 0);
}

/// Counts requests and never answers them.
#[derive(Default)]
struct StuckSender {
    posts: AtomicUsize,
    posted: Notify,
}

impl PushSender for StuckSender {
    fn accepts(&self, _: &Url) -> Result<(), String> {
        Ok(())
    }

    fn post(
        &self,
        _: Url,
        _: HeaderMap,
        _: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>> {
        self.posts.fetch_add(1, Ordering::Relaxed);
        self.posted.notify_one();
        Box::pin(future::pending())
    }
}

#[tokio::test]
async fn removal_starts_no_queued_request() {
    let sender = Arc::new(StuckSender::default());
    let mut fixture = Fixture::with_sender(sender.clone(), ServiceLimits::default(), PATIENT).await;
    fixture
        .register("w", "http://hook.test/", Version::V1_0)
        .await;
    fixture.set_state(TaskState::Working).await;
    sender.posted.notified().await;
    fixture.set_state(TaskState::Completed).await;
    fixture.notifier.barrier().await;
    fixture.notifier.retain_clients(&Arc::new(HashSet::new()));
    assert_eq!(fixture.drain().await.failed, 2);
    assert_eq!(sender.posts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn webhook_of_client_that_stays_is_notified() {
    let mut fixture = Fixture::new().await;
    let hook = TestWebhook::start([Answer::Status(200)]).await;
    fixture.register("w", &hook.url, Version::V1_0).await;
    let all = HashSet::from([fixture.record.owner.clone()]);
    fixture.notifier.retain_clients(&Arc::new(all));
    fixture.set_state(TaskState::Working).await;
    assert_eq!(hook.next().await.state(), Some("TASK_STATE_WORKING"));
}
