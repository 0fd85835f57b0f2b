use super::*;

#[tokio::test]
async fn full_queue_keeps_the_newest() {
    let hook = TestWebhook::start([Answer::Hang]).await;
    let limits = ServiceLimits {
        waiting_pushes: 4,
        ..ServiceLimits::default()
    };
    let patient = RetryPolicy {
        response_timeout: Duration::from_secs(600),
        ..FAST
    };
    let mut fixture = Fixture::with(limits, patient).await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    // The first notification is in flight from here on.
    hook.next().await;
    for state in [
        TaskState::InputRequired,
        TaskState::Working,
        TaskState::Completed,
    ] {
        fixture.set_state(state).await;
        drain(&fixture).await;
    }
    let counts = fixture.notifier.counts();
    // The origin may use half of the capacity: the notification in flight and the newest one.
    assert_eq!((counts.waiting, counts.dropped), (2, 2));
}

/// Waits until the dispatcher has looked up the webhooks of every change.
async fn drain(fixture: &Fixture) {
    while fixture.notifier.intake.capacity() < fixture.notifier.intake.max_capacity() {
        tokio::task::yield_now().await;
    }
    // The dispatcher may still process the message that it received last.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn invalid_configuration_names_its_field() {
    let fixture = Fixture::new().await;
    for (url, reason) in [
        ("hook", "is not a URL"),
        ("ftp://hook.test/", "begins with `ftp:`"),
        (
            "https://me:pw@hook.test/",
            "contains a user name or password",
        ),
        ("https://hook.test:1/", "leads to a forbidden port"),
    ] {
        let refused = fixture.notifier.accepts(&config("w1", url)).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("url"), "{url}");
        assert!(refused.text.contains(reason), "{}", refused.text);
    }
    assert_eq!(
        fixture
            .notifier
            .accepts(&config("w1", "https://hook.test/")),
        Ok(())
    );
}
