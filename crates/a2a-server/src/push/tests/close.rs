use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn what_waits_is_delivered_before_the_end() {
    let hook = Hook::that_answers([Answer::Status(200)]).await;
    let mut rig = Rig::new().await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.becomes(TaskState::Working).await;
    rig.becomes(TaskState::Canceled).await;
    assert_eq!(rig.done().await.delivered, 2);
    assert_eq!(hook.rest().await, 2);
}

#[tokio::test]
async fn what_is_not_delivered_in_time_is_given_up_and_counted() {
    let hook = Hook::that_answers([Answer::Never]).await;
    let patient = RetryPolicy {
        response_timeout: Duration::from_secs(600),
        ..FAST
    };
    let mut rig = Rig::with(Limits::default(), patient).await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.becomes(TaskState::Working).await;
    rig.becomes(TaskState::Completed).await;
    hook.next().await;
    let given_up = rig.notifier.close(Duration::from_millis(20)).await;
    let figures = rig.notifier.figures();
    assert_eq!((given_up, figures.failed, figures.waiting), (2, 2, 0));
}

#[tokio::test]
async fn nobody_waits_for_another_try_at_the_end() {
    let hook = Hook::that_answers([Answer::Status(500)]).await;
    let slow = RetryPolicy {
        max_attempts: 100,
        base_delay: Duration::from_secs(600),
        max_delay: Duration::from_secs(600),
        ..FAST
    };
    let mut rig = Rig::with(Limits::default(), slow).await;
    rig.register("w1", &hook.url, Version::V1_0).await;
    rig.becomes(TaskState::Completed).await;
    hook.next().await;
    let began = Instant::now();
    assert_eq!(rig.done().await.failed, 1);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(hook.rest().await, 1, "the last try");
}

#[tokio::test]
async fn what_happens_after_the_end_is_counted_as_dropped() {
    let mut rig = Rig::new().await;
    rig.done().await;
    rig.becomes(TaskState::Completed).await;
    assert_eq!(rig.notifier.figures().dropped, 1);
}
