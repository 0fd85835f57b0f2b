//! Registration of webhooks.

use futures_util::future::join_all;

use super::*;
use crate::store::sqlite::{self, SqliteStore};

pub(super) fn webhook(task_id: &str, id: Option<&str>) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: "https://example.com/hook".to_owned(),
        id: id.map(str::to_owned),
        task_id: task_id.to_owned(),
        token: Some("token".to_owned()),
        authentication: None,
        tenant: None,
    }
}

#[tokio::test]
async fn webhook_is_created_read_and_deleted() {
    let harness = harness().await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let created = service.create_push(&alice(), webhook(&id, Some("w"))).await;
    let created = created.unwrap();
    assert_eq!(created, webhook(&id, Some("w")));
    let read = service.get_push(&alice(), &id, Some("w")).await.unwrap();
    assert_eq!(read, created);
    service.delete_push(&alice(), &id, "w").await.unwrap();
    let error = service
        .get_push(&alice(), &id, Some("w"))
        .await
        .unwrap_err();
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn deleting_unknown_webhook_succeeds() {
    let harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let deleted = harness.service.delete_push(&alice(), &id, "w").await;
    assert_eq!(deleted, Ok(()));
}

#[tokio::test]
async fn webhook_without_id_gets_one() {
    let harness = harness().await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let one = service.create_push(&alice(), webhook(&id, None)).await;
    let two = service.create_push(&alice(), webhook(&id, None)).await;
    assert_ne!(one.as_ref().unwrap().id, None);
    assert_ne!(one.as_ref().unwrap().id, two.as_ref().unwrap().id);
    let listed = service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [one.unwrap(), two.unwrap()]);
}

#[tokio::test]
async fn get_without_id_returns_first_webhook() {
    let harness = harness().await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    for name in ["a", "b"] {
        let config = webhook(&id, Some(name));
        service.create_push(&alice(), config).await.unwrap();
    }
    let first = service.get_push(&alice(), &id, None).await.unwrap();
    assert_eq!(first.id.as_deref(), Some("a"));
}

#[tokio::test]
async fn webhook_with_same_id_is_replaced() {
    let harness = harness().await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let mut config = webhook(&id, Some("w"));
    service.create_push(&alice(), config.clone()).await.unwrap();
    config.url = "https://example.com/other".to_owned();
    service.create_push(&alice(), config.clone()).await.unwrap();
    let listed = service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [config]);
}

#[tokio::test]
async fn message_registers_webhook() {
    let harness = harness().await;
    let send = text_message("hello").with_webhook(webhook("", Some("w")));
    let id = harness.send_immediate(send).await.id;
    let listed = harness.service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [webhook(&id, Some("w"))]);
}

#[tokio::test]
async fn forbidden_webhook_rejects_its_message() {
    let harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    for url in ["http://127.0.0.1/hook", "no url"] {
        let mut config = webhook(&id, None);
        config.url = url.to_owned();
        let refused = harness.service.create_push(&alice(), config.clone()).await;
        assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
        let send = text_message("more").with_webhook(config);
        let refused = harness.service.send(&alice(), send).await;
        assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
    }
    assert_eq!(harness.service.active_task_count(), 1);
}

#[tokio::test]
async fn webhooks_of_a_task_are_bounded() {
    let harness = TestService::limited(|limits| limits.pushes_per_task = 1).await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let first = webhook(&id, Some("a"));
    service.create_push(&alice(), first.clone()).await.unwrap();
    let refused = service.create_push(&alice(), webhook(&id, Some("b"))).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
    // Replacing an existing webhook is still possible.
    service.create_push(&alice(), first).await.unwrap();
}

#[tokio::test]
async fn concurrent_registrations_respect_the_bound() {
    let mut settings = Settings::default();
    settings.limits.pushes_per_task = 2;
    let directory = tempfile::tempdir().unwrap();
    let options = sqlite::Options::new(directory.path());
    let store = Arc::new(SqliteStore::open(&options, chrono::Utc::now()).unwrap());
    let harness = TestService::with_store(settings, MemoryStore::new(), store, Vec::new()).await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let creations = (0..20).map(|_| async {
        service
            .create_push(&alice(), webhook(&id, None))
            .await
            .is_ok()
    });
    let created = join_all(creations).await;
    assert_eq!(created.into_iter().filter(|created| *created).count(), 2);
}

#[tokio::test]
async fn deleted_task_notifies_canceled() {
    let mut harness = harness().await;
    let service = harness.service.clone();
    let (id, run) = harness.start().await;
    run.report(ExecutionEvent::Working(None)).await;
    while harness.state(&id).await != TaskState::Working {
        tokio::task::yield_now().await;
    }
    service.core.notifier.barrier().await;
    let config = webhook(&id, Some("w"));
    service.create_push(&alice(), config).await.unwrap();
    assert_eq!(service.delete(&id).await, Ok(true));
    drop(run);
    service.close(SECOND).await;
    assert_eq!(service.core.notifier.counts().delivered, 1);
}

#[tokio::test]
async fn stored_webhook_is_what_was_checked() {
    let harness = harness().await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let mut config = webhook(&id, Some("w"));
    config.tenant = Some("x".repeat(100_000));
    config.authentication = Some(a2a::v1_0::AuthenticationInfo {
        scheme: format!("{}Bearer\t\n", " ".repeat(100_000)),
        credentials: None,
    });
    let created = service.create_push(&alice(), config).await.unwrap();
    assert_eq!(created.authentication.as_ref().unwrap().scheme, "Bearer");
    assert_eq!(created.tenant, None);
    let listed = service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [created]);
}

#[tokio::test]
async fn webhooks_beyond_the_storage_of_a_client_are_refused() {
    let mut settings = Settings::default();
    settings.limits.stored_bytes.per_client = 20_000;
    settings.limits.pushes_per_task = 100;
    let harness = TestService::with(settings).await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let mut config = webhook(&id, None);
    config.url = format!("https://example.com/{}", "x".repeat(4_000));
    let mut accepted = 0;
    let error = loop {
        match service.create_push(&alice(), config.clone()).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(
        (error.reason, accepted),
        (ErrorReason::ResourceExhausted, 4)
    );
}

#[tokio::test]
async fn webhook_without_id_is_found_as_default_in_0_3() {
    let harness = harness().await;
    let service = &harness.service;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let caller = CallContext {
        version: Version::V0_3,
        ..alice()
    };
    let named = webhook(&id, Some("w"));
    service.create_push(&caller, named).await.unwrap();
    let get = async |caller: &CallContext| service.get_push(caller, &id, Some("default")).await;
    assert!(get(&caller).await.is_err(), "it has another id");
    let made = service.create_push(&caller, webhook(&id, None)).await;
    let made = made.unwrap();
    assert_eq!(get(&caller).await.unwrap(), made);
    let same = service.get_push(&caller, &id, made.id.as_deref()).await;
    assert_eq!(same.unwrap(), made);
    assert!(get(&alice()).await.is_err(), "1.0 has no such id");
    service.delete_push(&caller, &id, "default").await.unwrap();
    assert!(get(&caller).await.is_err(), "it is deleted");
}
