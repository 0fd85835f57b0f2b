//! Notifications at the shutdown of the server, and webhooks of a removed client.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::{self, BoxFuture};
use http::{HeaderMap, Response};
use tokio::sync::Notify;
use tokio::time::Instant;
use url::Url;

use super::*;
use crate::push::PushError;

#[tokio::test]
async fn close_delivers_queued_notifications() {
    let (hook, mut fixture) = registered(Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    fixture.set_state(TaskState::Canceled).await;
    assert_eq!(fixture.drain().await.delivered, 2);
    assert_eq!(hook.pending_count().await, 2);
}

#[tokio::test]
async fn close_drops_and_counts_late_notifications() {
    let hook = TestWebhook::start([Answer::Hang]).await;
    let mut fixture = Fixture::retrying(PATIENT).await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    fixture.set_state(TaskState::Completed).await;
    hook.next().await;
    let dropped = fixture.notifier.close(Duration::from_millis(20)).await;
    let counts = fixture.notifier.counts();
    assert_eq!((dropped, counts.failed, counts.waiting), (2, 2, 0));
}

#[tokio::test]
async fn close_skips_the_delay_between_attempts() {
    let hook = TestWebhook::start([Answer::Status(500)]).await;
    let slow = RetryPolicy {
        max_attempts: 100,
        base_delay: Duration::from_secs(600),
        max_delay: Duration::from_secs(600),
        ..FAST
    };
    let mut fixture = Fixture::retrying(slow).await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Completed).await;
    hook.next().await;
    let began = Instant::now();
    assert_eq!(fixture.drain().await.failed, 1);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(hook.pending_count().await, 1, "the last try");
}

#[tokio::test]
async fn change_after_close_counts_as_dropped() {
    let hook = TestWebhook::start([]).await;
    let mut fixture = Fixture::new().await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.drain().await;
    fixture.set_state(TaskState::Completed).await;
    assert_eq!(fixture.notifier.counts().dropped, 1);
}

#[tokio::test]
async fn webhook_of_removed_client_receives_no_more_notifications() {
    let mut fixture = Fixture::retrying(PATIENT).await;
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
