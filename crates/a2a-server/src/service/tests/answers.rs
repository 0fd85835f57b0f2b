//! Answers to sent messages, and how long the client waits for them.

use super::*;

fn sync() -> Settings {
    Settings {
        async_mode: false,
        ..Settings::default()
    }
}

fn history(length: i32) -> SendMessageConfiguration {
    SendMessageConfiguration {
        accepted_output_modes: None,
        task_push_notification_config: None,
        history_length: Some(length),
        return_immediately: None,
    }
}

#[tokio::test]
async fn v1_0_blocks_by_default() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    theatre.run().await.done();
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn v1_0_return_immediately_does_not_block() {
    let theatre = theatre().await;
    let answer = theatre
        .service
        .send(&alice(), says("hello").at_once())
        .await;
    assert_eq!(task(answer.unwrap()).status.state, TaskState::Submitted);
}

#[tokio::test]
async fn v1_0_reads_return_immediately_of_configuration() {
    let theatre = theatre().await;
    let send = says("hello").configured(SendMessageConfiguration {
        return_immediately: Some(true),
        ..history(1)
    });
    let answer = theatre.service.send(&alice(), send).await;
    assert_eq!(task(answer.unwrap()).status.state, TaskState::Submitted);
}

#[tokio::test]
async fn v0_3_does_not_block_in_async_mode() {
    let theatre = theatre().await;
    let answer = theatre.service.send(&old_alice(), says("hello")).await;
    assert_eq!(task(answer.unwrap()).status.state, TaskState::Submitted);
}

#[tokio::test]
async fn v0_3_blocking_returns_the_task() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(old_alice(), says("hello").waiting());
    theatre.run().await.done();
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn v0_3_without_async_mode_returns_message() {
    let mut theatre = TestService::with(sync()).await;
    let asked = theatre.ask(old_alice(), says("hello"));
    let run = theatre.run().await;
    run.report(artifact("a", "forty")).await;
    run.end(Outcome::Completed(Some(vec![Part::text("two")])));
    let message = message(asked.await.unwrap().unwrap());
    assert_eq!(message.parts, [Part::text("forty"), Part::text("two")]);
    let id = message.task_id.unwrap();
    assert_eq!(theatre.state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn v0_3_without_async_mode_returns_failed_task() {
    let mut theatre = TestService::with(sync()).await;
    let asked = theatre.ask(old_alice(), says("hello"));
    theatre.run().await.end(Outcome::Rejected("no".to_owned()));
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(task.status.state, TaskState::Rejected);
}

#[tokio::test]
async fn v0_3_blocking_overrides_async_mode() {
    let mut theatre = TestService::with(sync()).await;
    let answer = theatre
        .service
        .send(&old_alice(), says("one").at_once())
        .await;
    assert_eq!(task(answer.unwrap()).status.state, TaskState::Submitted);
    let _first = theatre.run().await;
    let asked = theatre.ask(old_alice(), says("two").waiting());
    theatre.run().await.done();
    assert_eq!(
        task(asked.await.unwrap().unwrap()).status.state,
        TaskState::Completed
    );
}

#[tokio::test]
async fn v1_0_ignores_async_mode() {
    let mut theatre = TestService::with(sync()).await;
    let asked = theatre.ask(alice(), says("hello"));
    theatre.run().await.done();
    assert_eq!(
        task(asked.await.unwrap().unwrap()).status.state,
        TaskState::Completed
    );
}

#[tokio::test]
async fn blocking_send_ends_at_question() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    assert_eq!(
        task(asked.await.unwrap().unwrap()).status.state,
        TaskState::InputRequired
    );
}

#[tokio::test(start_paused = true)]
async fn blocking_send_returns_task_at_timeout() {
    let settings = Settings {
        timeout: 10 * SECOND,
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    // The earlier run of the context occupies most of the timeout.
    let first = theatre.begin(says("one").in_context("c")).await;
    let run = theatre.run().await;
    tokio::time::sleep(5 * SECOND).await;
    let asked = theatre.ask(alice(), says("two").in_context("c"));
    tokio::time::sleep(SECOND).await;
    run.done();
    theatre.ended(&first.id).await;
    let _second = theatre.run().await;
    let answer = task(asked.await.unwrap().unwrap());
    assert_eq!(answer.status.state, TaskState::Working);
}

#[tokio::test]
async fn direct_message_leaves_no_task() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello").in_context("c"));
    let run = theatre.run().await;
    let id = run.input.task_id.clone();
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let message = message(asked.await.unwrap().unwrap());
    assert_eq!(text(&message), "hi");
    assert_eq!(message.role, Role::Agent);
    assert_eq!(message.task_id, None);
    assert_eq!(message.context_id.as_deref(), Some("c"));
    assert_eq!(theatre.store.load(&id).await.unwrap(), None);
}

#[tokio::test]
async fn direct_message_completes_returned_task() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(said(&task), "hi");
}

#[tokio::test]
async fn direct_message_completes_a_task_that_was_read() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    theatre.get(&run.input.task_id).await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(said(&task), "hi");
}

#[tokio::test]
async fn message_after_report_completes_task() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    run.report(artifact("a", "one")).await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(task.artifacts.as_ref().unwrap().len(), 1);
    assert_eq!(said(&task), "hi");
}

#[tokio::test]
async fn disconnect_does_not_stop_task() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let id = run.input.task_id.clone();
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    assert!(!run.cancel.is_cancelled());
    run.done();
    assert_eq!(theatre.ended(&id).await.status.state, TaskState::Completed);
}

#[tokio::test]
async fn answer_has_requested_history() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello").configured(history(0)));
    theatre.run().await.done();
    assert_eq!(task(asked.await.unwrap().unwrap()).history, None);
}

#[tokio::test]
async fn incomplete_message_is_rejected() {
    let theatre = theatre().await;
    let empty = says("hello").named("");
    let mut nothing = says("hello");
    nothing.request.message.parts.clear();
    let mut agent = says("hello");
    agent.request.message.role = Role::Agent;
    for (send, field) in [
        (empty, "message.messageId"),
        (nothing, "message.parts"),
        (agent, "message.role"),
    ] {
        let refusal = theatre.service.send(&alice(), send).await.unwrap_err();
        assert_eq!(refusal.reason, ErrorReason::InvalidParams);
        assert_eq!(refusal.field.as_deref(), Some(field));
    }
}

#[tokio::test]
async fn message_with_too_many_parts_is_rejected() {
    let theatre = theatre().await;
    let mut send = says("hello");
    send.request.message.parts = vec![Part::text("x"); ServiceLimits::default().parts + 1];
    let refusal = theatre.service.send(&alice(), send).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    assert!(
        refusal
            .text
            .contains("101 parts, more than the maximum of 100"),
        "{refusal}"
    );
}

#[tokio::test]
async fn negative_history_length_is_rejected() {
    let theatre = theatre().await;
    let send = says("hello").configured(history(-1));
    let refusal = theatre.service.send(&alice(), send).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    assert_eq!(theatre.service.under_way(), 0);
}

#[tokio::test]
async fn unfinished_tasks_of_a_client_are_bounded() {
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 2;
    let mut theatre = TestService::with(settings).await;
    theatre.begin(says("one")).await;
    theatre.begin(says("two")).await;
    let refusal = theatre
        .service
        .send(&alice(), says("three"))
        .await
        .unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::ResourceExhausted);
    // Tasks of other clients and terminal tasks do not count.
    theatre.begin_as(&bob(), says("of bob")).await;
    let run = theatre.run().await;
    let id = run.input.task_id.clone();
    run.done();
    theatre.ended(&id).await;
    theatre.begin(says("three")).await;
}

#[tokio::test]
async fn rejected_message_does_not_count() {
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let theatre = TestService::with(settings).await;
    theatre.begin_as(&bob(), says("his").in_context("c")).await;
    for _ in 0..3 {
        let send = says("hers").in_context("c");
        let refused = theatre.service.send(&alice(), send).await;
        assert_eq!(refused.unwrap_err().reason, ErrorReason::TaskNotFound);
    }
    theatre.begin(says("hers")).await;
}
