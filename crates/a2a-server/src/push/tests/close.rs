use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn close_delivers_queued_notifications() {
    let hook = Hook::that_answers([Answer::Status(200)]).await;
    let mut rig = Rig::new().await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.becomes(TaskState::Working).await;
    rig.becomes(TaskState::Canceled).await;
    assert_eq!(rig.done().await.delivered, 2);
    assert_eq!(hook.rest().await, 2);
}

#[tokio::test]
async fn close_drops_and_counts_late_notifications() {
    let hook = Hook::that_answers([Answer::Never]).await;
    let patient = RetryPolicy {
        response_timeout: Duration::from_secs(600),
        ..FAST
    };
    let mut rig = Rig::with(ServiceLimits::default(), patient).await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.becomes(TaskState::Working).await;
    rig.becomes(TaskState::Completed).await;
    hook.next().await;
    let given_up = rig.notifier.close(Duration::from_millis(20)).await;
    let figures = rig.notifier.figures();
    assert_eq!((given_up, figures.failed, figures.waiting), (2, 2, 0));
}

#[tokio::test]
async fn close_skips_the_delay_between_attempts() {
    let hook = Hook::that_answers([Answer::Status(500)]).await;
    let slow = RetryPolicy {
        max_attempts: 100,
        base_delay: Duration::from_secs(600),
        max_delay: Duration::from_secs(600),
        ..FAST
    };
    let mut rig = Rig::with(ServiceLimits::default(), slow).await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.becomes(TaskState::Completed).await;
    hook.next().await;
    let began = Instant::now();
    assert_eq!(rig.done().await.failed, 1);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(hook.rest().await, 1, "the last try");
}

#[tokio::test]
async fn change_after_close_counts_as_dropped() {
    let hook = Hook::that_answers([]).await;
    let mut rig = Rig::new().await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.done().await;
    rig.becomes(TaskState::Completed).await;
    assert_eq!(rig.notifier.figures().dropped, 1);
}
