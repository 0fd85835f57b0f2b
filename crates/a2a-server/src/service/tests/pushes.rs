//! Registration of webhooks.

use super::*;

fn webhook(task_id: &str, id: Option<&str>) -> TaskPushNotificationConfig {
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
    let theatre = theatre().await;
    let service = &theatre.service;
    let id = theatre.begin(says("hello")).await.id;
    let kept = service
        .create_push(&alice(), webhook(&id, Some("w")))
        .await
        .unwrap();
    assert_eq!(kept, webhook(&id, Some("w")));
    let read = service.get_push(&alice(), &id, Some("w")).await.unwrap();
    assert_eq!(read, kept);
    service.delete_push(&alice(), &id, "w").await.unwrap();
    let refusal = service
        .get_push(&alice(), &id, Some("w"))
        .await
        .unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn deleting_unknown_webhook_succeeds() {
    let theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let deleted = theatre.service.delete_push(&alice(), &id, "w").await;
    assert_eq!(deleted, Ok(()));
}

#[tokio::test]
async fn webhook_without_id_gets_one() {
    let theatre = theatre().await;
    let service = &theatre.service;
    let id = theatre.begin(says("hello")).await.id;
    let one = service.create_push(&alice(), webhook(&id, None)).await;
    let two = service.create_push(&alice(), webhook(&id, None)).await;
    assert_ne!(one.as_ref().unwrap().id, None);
    assert_ne!(one.as_ref().unwrap().id, two.as_ref().unwrap().id);
    let listed = service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [one.unwrap(), two.unwrap()]);
}

#[tokio::test]
async fn get_without_id_returns_first_webhook() {
    let theatre = theatre().await;
    let service = &theatre.service;
    let id = theatre.begin(says("hello")).await.id;
    for name in ["a", "b"] {
        let config = webhook(&id, Some(name));
        service.create_push(&alice(), config).await.unwrap();
    }
    let first = service.get_push(&alice(), &id, None).await.unwrap();
    assert_eq!(first.id.as_deref(), Some("a"));
}

#[tokio::test]
async fn webhook_with_same_id_is_replaced() {
    let theatre = theatre().await;
    let service = &theatre.service;
    let id = theatre.begin(says("hello")).await.id;
    let mut config = webhook(&id, Some("w"));
    service.create_push(&alice(), config.clone()).await.unwrap();
    config.url = "https://example.com/other".to_owned();
    service.create_push(&alice(), config.clone()).await.unwrap();
    let listed = service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [config]);
}

#[tokio::test]
async fn message_registers_webhook() {
    let theatre = theatre().await;
    let send = says("hello").configured(SendMessageConfiguration {
        accepted_output_modes: None,
        task_push_notification_config: Some(webhook("", Some("w"))),
        history_length: None,
        return_immediately: None,
    });
    let id = theatre.begin(send).await.id;
    let listed = theatre.service.list_pushes(&alice(), &id).await.unwrap();
    assert_eq!(listed.configs, [webhook(&id, Some("w"))]);
}

#[tokio::test]
async fn forbidden_webhook_rejects_its_message() {
    let theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    for url in ["http://127.0.0.1/hook", "no url"] {
        let mut config = webhook(&id, None);
        config.url = url.to_owned();
        let refused = theatre.service.create_push(&alice(), config.clone()).await;
        assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
        let send = says("more").configured(SendMessageConfiguration {
            accepted_output_modes: None,
            task_push_notification_config: Some(config),
            history_length: None,
            return_immediately: None,
        });
        let refused = theatre.service.send(&alice(), send).await;
        assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
    }
    assert_eq!(theatre.service.under_way(), 1);
}

#[tokio::test]
async fn webhooks_of_a_task_are_bounded() {
    let mut settings = Settings::default();
    settings.limits.pushes_per_task = 1;
    let theatre = TestService::with(settings).await;
    let service = &theatre.service;
    let id = theatre.begin(says("hello")).await.id;
    let first = webhook(&id, Some("a"));
    service.create_push(&alice(), first.clone()).await.unwrap();
    let refused = service.create_push(&alice(), webhook(&id, Some("b"))).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
    // Replacing an existing webhook is still possible.
    service.create_push(&alice(), first).await.unwrap();
}

#[tokio::test]
async fn deleted_task_notifies_canceled() {
    let mut theatre = theatre().await;
    let service = theatre.service.clone();
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.report(ExecutionEvent::Working(None)).await;
    while theatre.state(&id).await != TaskState::Working {
        tokio::task::yield_now().await;
    }
    service.core.notifier.barrier().await;
    let config = webhook(&id, Some("w"));
    service.create_push(&alice(), config).await.unwrap();
    assert_eq!(service.delete(&id).await, Ok(true));
    drop(run);
    service.close(SECOND).await;
    assert_eq!(service.core.notifier.figures().delivered, 1);
}
