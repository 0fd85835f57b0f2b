//! Clients cannot see tasks of other clients.

use super::*;

fn webhook(task_id: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: "https://example.com/hook".to_owned(),
        id: Some("w".to_owned()),
        task_id: task_id.to_owned(),
        token: None,
        authentication: None,
        tenant: None,
    }
}

fn hidden<T>(answer: Result<T, A2aError>, of_nothing: Result<T, A2aError>, id: &str) {
    let (Err(error), Err(nothing)) = (answer, of_nothing) else {
        unreachable!("another client's task was shown");
    };
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
    // The text equals that for an unknown task.
    assert_eq!(error.text.replace(id, "none"), nothing.text);
}

#[tokio::test]
async fn task_of_other_client_is_unknown() {
    let harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let service = &harness.service;
    let create = service.create_push(&alice(), webhook(&id)).await;
    create.unwrap();
    let caller = bob();
    hidden(
        service.get(&caller, &id, None).await,
        service.get(&caller, "none", None).await,
        &id,
    );
    hidden(
        service.cancel(&caller, &id).await,
        service.cancel(&caller, "none").await,
        &id,
    );
    hidden(
        service.subscribe(&caller, &id).await,
        service.subscribe(&caller, "none").await,
        &id,
    );
    hidden(
        service
            .send(&caller, text_message("more").with_task_id(&id))
            .await,
        service
            .send(&caller, text_message("more").with_task_id("none"))
            .await,
        &id,
    );
    hidden(
        service.create_push(&caller, webhook(&id)).await,
        service.create_push(&caller, webhook("none")).await,
        &id,
    );
    hidden(
        service.get_push(&caller, &id, Some("w")).await,
        service.get_push(&caller, "none", Some("w")).await,
        &id,
    );
    hidden(
        service.list_pushes(&caller, &id).await,
        service.list_pushes(&caller, "none").await,
        &id,
    );
    hidden(
        service.delete_push(&caller, &id, "w").await,
        service.delete_push(&caller, "none", "w").await,
        &id,
    );
    assert_eq!(harness.state(&id).await, TaskState::Submitted);
    assert_eq!(
        service.list_pushes(&alice(), &id).await.unwrap().configs,
        [webhook(&id)]
    );
}

#[tokio::test]
async fn client_lists_own_tasks() {
    let harness = harness().await;
    let hers = harness
        .send_immediate_as(&alice(), text_message("hers"))
        .await;
    let his = harness.send_immediate_as(&bob(), text_message("his")).await;
    for (caller, own) in [(alice(), hers), (bob(), his)] {
        let listed = harness.service.list(&caller, lists::all()).await.unwrap();
        let listed = whole_page(listed).await.unwrap();
        let ids: Vec<String> = listed.tasks.into_iter().map(|task| task.id).collect();
        assert_eq!(ids, [own.id]);
        assert_eq!(listed.total_size, 1);
    }
}

#[tokio::test]
async fn operator_lists_all_tasks() {
    let harness = harness().await;
    harness
        .send_immediate_as(&alice(), text_message("hers"))
        .await;
    harness.send_immediate_as(&bob(), text_message("his")).await;
    let filter = Filter {
        owner: None,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: 10,
        after: None,
    };
    let listed = harness.service.tasks(&filter).await.unwrap();
    assert_eq!(listed.total, 2);
}
