//! Webhooks that fail, full queues, and invalid configurations.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use url::Url;

use super::log_capture::CapturedLog;
use super::*;
use crate::push::PushError;

/// Notifies a webhook that gives these answers, and returns the webhook and the counts.
async fn notify_once(answers: impl Into<Vec<Answer>>) -> (TestWebhook, PushCounts) {
    let hook = TestWebhook::start(answers).await;
    let mut fixture = Fixture::new().await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Completed).await;
    // Wait for all attempts first, because `close` would shorten the delays.
    let settled = async {
        loop {
            let counts = fixture.notifier.counts();
            if counts.delivered + counts.failed > 0 && counts.waiting == 0 {
                return counts;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let counts = tokio::time::timeout(Duration::from_secs(20), settled).await;
    let stored = fixture.store.load(TASK).await.unwrap().unwrap();
    assert_eq!(stored, fixture.record, "the task has changed");
    (hook, counts.expect("it is delivered or given up"))
}

const DELIVERED: PushCounts = PushCounts {
    waiting: 0,
    delivered: 1,
    failed: 0,
    dropped: 0,
};

const FAILED: PushCounts = PushCounts {
    delivered: 0,
    failed: 1,
    ..DELIVERED
};

#[tokio::test]
async fn failed_attempt_is_retried_unless_the_webhook_rejects() {
    use Answer::{Close, Hang, Status, StatusWithHeader};
    let busy = StatusWithHeader(429, "retry-after", "0".to_owned());
    for (name, answers, attempts, expected) in [
        (
            "failing",
            vec![Status(500), Status(503), Status(200)],
            3,
            DELIVERED,
        ),
        ("closed connection", vec![Close, Status(204)], 2, DELIVERED),
        ("silent", vec![Hang, Status(200)], 2, DELIVERED),
        ("busy", vec![busy, Status(200)], 2, DELIVERED),
        ("missing", vec![Close], 3, FAILED),
        ("rejecting", vec![Status(404)], 1, FAILED),
    ] {
        let (hook, counts) = notify_once(answers).await;
        assert_eq!(
            (hook.pending_count().await, counts),
            (attempts, expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let other = TestWebhook::start([Answer::Status(200)]).await;
    let elsewhere = Answer::StatusWithHeader(307, "location", other.url.clone());
    let (hook, counts) = notify_once([elsewhere]).await;
    assert_eq!(
        (hook.pending_count().await, other.pending_count().await),
        (1, 0)
    );
    assert_eq!(counts, FAILED);
}

#[tokio::test]
async fn later_notification_waits_for_failed_one() {
    let hook = TestWebhook::start([Answer::Status(500), Answer::Status(200)]).await;
    let mut fixture = Fixture::new().await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    fixture.set_state(TaskState::Completed).await;
    let mut states = Vec::new();
    for _ in 0..3 {
        states.push(hook.next().await.state().unwrap().to_owned());
    }
    let working = "TASK_STATE_WORKING";
    assert_eq!(states, [working, working, "TASK_STATE_COMPLETED"]);
}

#[tokio::test]
async fn silent_webhook_delays_no_other() {
    let dead = TestWebhook::start([Answer::Hang]).await;
    let live = TestWebhook::start([Answer::Status(200)]).await;
    let mut fixture = Fixture::retrying(PATIENT).await;
    for id in ["d1", "d2", "d3", "d4", "d5", "d6"] {
        fixture.register(id, &dead.url, Version::V1_0).await;
    }
    fixture.register("w1", &live.url, Version::V1_0).await;
    fixture.set_state(TaskState::Completed).await;
    assert_eq!(live.next().await.state(), Some("TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn long_lookup_of_one_client_delays_no_other() {
    let (hook, mut fixture) = registered(Version::V1_0).await;
    let other_hook = TestWebhook::start([Answer::Status(200)]).await;
    let mut other = TaskRecord {
        owner: "bob".to_owned(),
        ..record("t2")
    };
    fixture.store.create(&other).await.unwrap();
    let config = TaskPushNotificationConfig {
        task_id: "t2".to_owned(),
        ..config("w2", &other_hook.url)
    };
    let registered = fixture.store.put_push(&config, Version::V1_0).await;
    registered.unwrap();
    // Its task is being encoded.
    let turns = fixture.notifier.dispatcher.lookups.turns.clone();
    let turn = turns.acquire(fixture.record.owner.as_str().into()).await;
    for state in [TaskState::Working, TaskState::Completed] {
        fixture.set_state(state).await;
    }
    let change = status(TaskState::Working);
    other.apply(change.clone(), 5);
    fixture.notifier.changed(&other, &change);
    assert_eq!(other_hook.next().await.state(), Some("TASK_STATE_WORKING"));
    assert_eq!(hook.pending_count().await, 0);
    drop(turn);
    for state in ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"] {
        assert_eq!(hook.next().await.state(), Some(state));
    }
}

#[tokio::test]
async fn log_contains_no_secret() {
    let received = CapturedLog::default();
    // With one subscriber only, tracing asks that of the thread that reaches a line first: a thread of another test has none, and then
    // the line stays off.
    let _second = tracing::Dispatch::new(CapturedLog::default());
    let _guard = tracing::subscriber::set_default(received.clone());
    notify_once([Answer::Status(500), Answer::Status(404)]).await;
    let text = received.text();
    assert!(text.contains("the webhook answers 404"), "{text}");
    assert!(text.contains("http://127.0.0.1:"), "{text}");
    assert!(!text.contains("the-token"), "{text}");
    assert!(!text.contains("in-the-query"), "{text}");
}

#[tokio::test]
async fn full_queue_keeps_the_newest() {
    let hook = TestWebhook::start([Answer::Hang]).await;
    let limits = ServiceLimits {
        waiting_pushes: 8,
        ..ServiceLimits::default()
    };
    let mut fixture = Fixture::with(limits, PATIENT).await;
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
        fixture.notifier.barrier().await;
    }
    let counts = fixture.notifier.counts();
    // The client may use a quarter of the capacity for one origin: the notification in flight and the newest one.
    assert_eq!((counts.waiting, counts.dropped), (2, 2));
}

#[tokio::test]
async fn full_queue_drops_a_change_before_it_loads_the_task() {
    let hook = TestWebhook::start([Answer::Hang]).await;
    let limits = ServiceLimits {
        waiting_pushes: 1,
        ..ServiceLimits::default()
    };
    let mut fixture = Fixture::with(limits, PATIENT).await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    hook.next().await;
    // The stored task lacks this artifact. If the dispatcher loaded it, there would be no notification to drop.
    let change = artifact("not stored", false, true);
    fixture.notifier.changed(&fixture.record, &change);
    fixture.notifier.barrier().await;
    assert_eq!(fixture.notifier.counts().dropped, 1);
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

/// A sender whose first post panics.
struct OncePanicking {
    sender: Arc<dyn PushSender>,
    has_panicked: AtomicBool,
}

impl PushSender for OncePanicking {
    fn accepts(&self, url: &Url) -> Result<(), String> {
        self.sender.accepts(url)
    }

    fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>> {
        assert!(
            self.has_panicked.swap(true, Ordering::Relaxed),
            "a defect of the sender"
        );
        self.sender.post(url, headers, body)
    }
}

#[tokio::test]
async fn delivery_that_panics_leaves_its_queue_a_worker() {
    let hook = TestWebhook::start([Answer::Status(200)]).await;
    let sender = OncePanicking {
        sender: plain_sender(),
        has_panicked: AtomicBool::new(false),
    };
    let (sender, limits) = (Arc::new(sender), ServiceLimits::default());
    let mut fixture = Fixture::with_sender(sender, limits, FAST).await;
    fixture.register("w1", &hook.url, Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    fixture.set_state(TaskState::Completed).await;
    let counts = fixture.drain().await;
    assert_eq!((counts.delivered, counts.failed), (1, 1), "{counts:?}");
}
