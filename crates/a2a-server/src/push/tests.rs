#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::{
    Artifact, AuthenticationInfo, Part, TaskPushNotificationConfig, TaskState, TaskStatus,
};
use serde_json::json;

use super::dispatcher::RetryPolicy;
use super::{Notifier, PushCounts, PushSender};
use crate::metrics::Metrics;
use crate::settings::{ServiceLimits, Settings};
use crate::store::TaskStore;
use crate::store::memory::MemoryStore;
use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;
use base::environment::SystemEnvironment;

mod close;
mod faults;
mod hook;
mod log_capture;

use hook::{Answer, TestWebhook, plain_sender};

const TASK: &str = "t1";

/// Short delays, so that tests need no paused clock, which would advance ahead of the sockets.
const FAST: RetryPolicy = RetryPolicy {
    max_attempts: 3,
    response_timeout: Duration::from_millis(250),
    base_delay: Duration::from_millis(4),
    max_delay: Duration::from_millis(20),
};

/// A policy that waits for the answers of a webhook for longer than a test lasts.
const PATIENT: RetryPolicy = RetryPolicy {
    response_timeout: Duration::from_secs(3600),
    ..FAST
};

/// A task in a store, and its notifier.
struct Fixture {
    store: MemoryStore,
    notifier: Notifier,
    record: TaskRecord,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(ServiceLimits::default(), FAST).await
    }

    async fn with(limits: ServiceLimits, retry_policy: RetryPolicy) -> Self {
        Self::with_sender(plain_sender(), limits, retry_policy).await
    }

    async fn retrying(retry_policy: RetryPolicy) -> Self {
        Self::with(ServiceLimits::default(), retry_policy).await
    }

    async fn with_sender(
        sender: Arc<dyn PushSender>,
        limits: ServiceLimits,
        retry_policy: RetryPolicy,
    ) -> Self {
        let store = MemoryStore::new();
        let record = record(TASK);
        store.create(&record).await.unwrap();
        let (task_store, env) = (Arc::new(store.clone()), Arc::new(SystemEnvironment));
        let notifier = Notifier::with_retry_policy(
            task_store,
            sender,
            &Settings {
                limits,
                several_clients: true,
                ..Settings::default()
            },
            env,
            Metrics::new(),
            retry_policy,
        );
        Self {
            store,
            notifier,
            record,
        }
    }

    async fn register(&self, id: &str, url: &str, version: Version) {
        let config = config(id, url);
        self.store.put_push(&config, version).await.unwrap();
    }

    /// Stores a change and notifies the webhooks.
    async fn apply(&mut self, change: TaskChange) {
        let revision = self.record.revision;
        let changes = std::slice::from_ref(&change);
        let stored = self.store.append(TASK, revision, 5, changes).await;
        stored.unwrap();
        self.record.apply(change.clone(), 5);
        self.notifier.changed(&self.record, &change);
    }

    async fn set_state(&mut self, state: TaskState) {
        self.apply(status(state)).await;
    }

    /// Waits until no notification is queued.
    async fn drain(&self) -> PushCounts {
        assert_eq!(self.notifier.close(Duration::from_secs(20)).await, 0);
        self.notifier.counts()
    }
}

/// Returns a webhook that accepts everything, and a task that notifies it.
async fn registered(version: Version) -> (TestWebhook, Fixture) {
    let hook = TestWebhook::start([Answer::Status(200)]).await;
    let fixture = Fixture::new().await;
    fixture.register("w1", &hook.url, version).await;
    (hook, fixture)
}

fn record(task_id: &str) -> TaskRecord {
    let mut record = crate::task_record::tests::record(task_id);
    record.task.context_id = "c1".to_owned();
    record.task.history = None;
    record
}

fn config(id: &str, url: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: url.to_owned(),
        id: Some(id.to_owned()),
        task_id: TASK.to_owned(),
        token: Some("the-token".to_owned()),
        authentication: None,
        tenant: None,
    }
}

fn status(state: TaskState) -> TaskChange {
    TaskChange::Status(TaskStatus {
        state,
        message: None,
        timestamp: None,
    })
}

fn artifact(text: &str, append: bool, last_chunk: bool) -> TaskChange {
    TaskChange::Artifact {
        artifact: Artifact {
            artifact_id: "a1".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        },
        append,
        last_chunk,
    }
}

#[tokio::test]
async fn webhook_of_1_0_receives_states_in_order() {
    let (hook, mut fixture) = registered(Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    fixture.set_state(TaskState::Completed).await;
    let first = hook.next().await;
    let update = json!({
        "taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"},
    });
    assert_eq!(first.body, json!({"statusUpdate": update}));
    assert_eq!(first.header("content-type"), Some("application/a2a+json"));
    assert_eq!(hook.next().await.state(), Some("TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn webhook_of_0_3_receives_task_with_its_state() {
    let (hook, mut fixture) = registered(Version::V0_3).await;
    fixture.set_state(TaskState::Working).await;
    fixture.apply(artifact("all of it", false, true)).await;
    fixture.set_state(TaskState::Completed).await;
    let (working, completed) = (hook.next().await, hook.next().await);
    assert_eq!(working.body["status"]["state"], "working");
    assert_eq!(working.header("content-type"), Some("application/json"));
    let artifact = json!({"artifactId": "a1", "parts": [{"kind": "text", "text": "all of it"}]});
    let task = json!({
        "kind": "task", "id": "t1", "contextId": "c1",
        "status": {"state": "completed"}, "artifacts": [artifact],
    });
    assert_eq!(completed.body, task);
}

#[tokio::test]
async fn webhook_of_1_0_receives_whole_artifact() {
    let (hook, mut fixture) = registered(Version::V1_0).await;
    fixture.apply(artifact("one ", false, false)).await;
    fixture.apply(artifact("two", true, true)).await;
    let received = hook.next().await;
    let whole = json!({
        "taskId": "t1", "contextId": "c1",
        "artifact": {"artifactId": "a1", "parts": [{"text": "one "}, {"text": "two"}]},
        "append": false, "lastChunk": true,
    });
    assert_eq!(received.body, json!({"artifactUpdate": whole}));
    fixture.drain().await;
    assert_eq!(hook.pending_count().await, 0);
}

#[tokio::test]
async fn token_alone_is_the_bearer_credential() {
    let (hook, mut fixture) = registered(Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    let received = hook.next().await;
    assert_eq!(received.header("authorization"), Some("Bearer the-token"));
    assert_eq!(
        received.header("x-a2a-notification-token"),
        Some("the-token")
    );
}

#[tokio::test]
async fn credentials_are_sent_with_the_token() {
    let hook = TestWebhook::start([Answer::Status(200)]).await;
    let mut fixture = Fixture::new().await;
    let mut config = config("w1", &hook.url);
    config.authentication = Some(AuthenticationInfo {
        scheme: "Basic".to_owned(),
        credentials: Some("dTpw".to_owned()),
    });
    fixture
        .store
        .put_push(&config, Version::V1_0)
        .await
        .unwrap();
    fixture.set_state(TaskState::Working).await;
    let received = hook.next().await;
    assert_eq!(received.header("authorization"), Some("Basic dTpw"));
    assert_eq!(
        received.header("x-a2a-notification-token"),
        Some("the-token")
    );
}

#[tokio::test]
async fn every_webhook_is_notified_in_its_version() {
    let new = TestWebhook::start([Answer::Status(200)]).await;
    let old = TestWebhook::start([Answer::Status(200)]).await;
    let mut fixture = Fixture::new().await;
    fixture.register("w1", &new.url, Version::V1_0).await;
    fixture.register("w2", &old.url, Version::V0_3).await;
    fixture.set_state(TaskState::Working).await;
    assert_eq!(new.next().await.state(), Some("TASK_STATE_WORKING"));
    assert_eq!(old.next().await.body["kind"], "task");
}

#[tokio::test]
async fn deleted_webhook_is_not_notified() {
    let (hook, mut fixture) = registered(Version::V1_0).await;
    fixture.set_state(TaskState::Working).await;
    hook.next().await;
    fixture.store.delete_push(TASK, "w1").await.unwrap();
    fixture.set_state(TaskState::Completed).await;
    fixture.drain().await;
    assert_eq!(hook.pending_count().await, 0);
}

#[tokio::test]
async fn messages_and_metadata_are_not_notified() {
    let (_hook, mut fixture) = registered(Version::V1_0).await;
    fixture
        .apply(TaskChange::Metadata(
            [("usage".to_owned(), json!(1))].into(),
        ))
        .await;
    fixture.apply(TaskChange::Run("r1".to_owned())).await;
    assert_eq!(fixture.drain().await, PushCounts::default());
}
