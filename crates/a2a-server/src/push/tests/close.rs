use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn close_delivers_queued_notifications() {
    let hook = TestWebhook::start([Answer::Status(200)]).await;
    let mut fixture = Fixture::new().await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    fixture.set_state(TaskState::Canceled).await;
    assert_eq!(fixture.drain().await.delivered, 2);
    assert_eq!(hook.pending_count().await, 2);
}

#[tokio::test]
async fn close_drops_and_counts_late_notifications() {
    let hook = TestWebhook::start([Answer::Hang]).await;
    let patient = RetryPolicy {
        response_timeout: Duration::from_secs(600),
        ..FAST
    };
    let mut fixture = Fixture::with(ServiceLimits::default(), patient).await;
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
    let mut fixture = Fixture::with(ServiceLimits::default(), slow).await;
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
