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
async fn blocking_send_returns_the_completed_task() {
    let hello = || text_message("hello");
    for (name, settings, caller, send) in [
        ("1.0 by default", Settings::default(), alice(), hello()),
        ("1.0 without async mode", sync(), alice(), hello()),
        ("0.3", Settings::default(), alice_0_3(), hello().blocking()),
        (
            "0.3 without async mode",
            sync(),
            alice_0_3(),
            hello().blocking(),
        ),
    ] {
        let mut harness = TestService::with(settings).await;
        let response = harness.spawn_send(caller, send);
        harness.run().await.done();
        let task = received(response).await;
        assert_eq!(task.status.state, TaskState::Completed, "{name}");
    }
}

#[tokio::test]
async fn immediate_send_returns_the_submitted_task() {
    let hello = || text_message("hello");
    let immediate = || hello().returning_immediately();
    let configured = hello().with_configuration(SendMessageConfiguration {
        return_immediately: Some(true),
        ..history(1)
    });
    for (name, settings, caller, send) in [
        ("1.0", Settings::default(), alice(), immediate()),
        (
            "1.0 in the configuration",
            Settings::default(),
            alice(),
            configured,
        ),
        (
            "0.3 in async mode",
            Settings::default(),
            alice_0_3(),
            hello(),
        ),
        ("0.3 without async mode", sync(), alice_0_3(), immediate()),
    ] {
        let harness = TestService::with(settings).await;
        let answer = harness.service.send(&caller, send).await;
        let task = task(answer.unwrap());
        assert_eq!(task.status.state, TaskState::Submitted, "{name}");
    }
}

#[tokio::test]
async fn v0_3_without_async_mode_returns_message() {
    let mut harness = TestService::with(sync()).await;
    let response = harness.spawn_send(alice_0_3(), text_message("hello"));
    let run = harness.run().await;
    run.report(artifact("a", "forty")).await;
    run.end(Outcome::Completed(Some(vec![Part::text("two")])));
    let message = message(response.await.unwrap().unwrap());
    assert_eq!(message.parts, [Part::text("forty"), Part::text("two")]);
    let id = message.task_id.unwrap();
    assert_eq!(harness.state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn v0_3_without_async_mode_returns_failed_task() {
    let mut harness = TestService::with(sync()).await;
    let response = harness.spawn_send(alice_0_3(), text_message("hello"));
    harness.run().await.end(Outcome::Rejected("no".to_owned()));
    let task = received(response).await;
    assert_eq!(task.status.state, TaskState::Rejected);
}

#[tokio::test]
async fn blocking_send_ends_at_question() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    harness.run().await.ask();
    assert_eq!(
        received(response).await.status.state,
        TaskState::InputRequired
    );
}

#[tokio::test(start_paused = true)]
async fn blocking_send_returns_task_at_timeout() {
    let settings = Settings {
        timeout: 10 * SECOND,
        ..Settings::default()
    };
    let mut harness = TestService::with(settings).await;
    // The earlier run of the context occupies most of the timeout.
    let first = harness.send_in_context("one").await;
    let run = harness.run().await;
    tokio::time::sleep(5 * SECOND).await;
    let response = harness.spawn_send(alice(), text_message("two").with_context_id("c"));
    tokio::time::sleep(SECOND).await;
    run.done();
    harness.ended(&first.id).await;
    let _second = harness.run().await;
    let answer = received(response).await;
    assert_eq!(answer.status.state, TaskState::Working);
}

#[tokio::test]
async fn direct_message_leaves_no_task() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello").with_context_id("c"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let message = message(response.await.unwrap().unwrap());
    assert_eq!(text(&message), "hi");
    assert_eq!(message.role, Role::Agent);
    assert_eq!(message.task_id, None);
    assert_eq!(message.context_id.as_deref(), Some("c"));
    assert_eq!(harness.store.load(&id).await.unwrap(), None);
}

#[tokio::test]
async fn direct_message_completes_returned_task() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(status_text(&task), "hi");
}

#[tokio::test]
async fn direct_message_completes_a_task_that_was_read() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    harness.get(&run.input.task_id).await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let task = received(response).await;
    assert_eq!(status_text(&task), "hi");
}

#[tokio::test]
async fn message_after_report_completes_task() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    run.report(artifact("a", "one")).await;
    run.end(Outcome::Message(vec![Part::text("hi")]));
    let task = received(response).await;
    assert_eq!(task.artifacts.as_ref().unwrap().len(), 1);
    assert_eq!(status_text(&task), "hi");
}

#[tokio::test]
async fn disconnect_does_not_stop_task() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    response.abort();
    assert!(response.await.unwrap_err().is_cancelled());
    assert!(!run.cancel.is_cancelled());
    run.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn answer_has_requested_history() {
    let mut harness = harness().await;
    let response = harness.spawn_send(
        alice(),
        text_message("hello").with_configuration(history(0)),
    );
    harness.run().await.done();
    assert_eq!(received(response).await.history, None);
}

#[tokio::test]
async fn incomplete_message_is_rejected() {
    let harness = harness().await;
    let empty = text_message("hello").with_message_id("");
    let mut nothing = text_message("hello");
    nothing.request.message.parts.clear();
    let mut agent = text_message("hello");
    agent.request.message.role = Role::Agent;
    for (send, field) in [
        (empty, "message.messageId"),
        (nothing, "message.parts"),
        (agent, "message.role"),
    ] {
        let error = harness.refusal(send).await;
        assert_eq!(error.reason, ErrorReason::InvalidParams);
        assert_eq!(error.field.as_deref(), Some(field));
    }
}

#[tokio::test]
async fn message_with_too_many_parts_is_rejected() {
    let harness = harness().await;
    let mut send = text_message("hello");
    send.request.message.parts = vec![Part::text("x"); ServiceLimits::default().parts + 1];
    let error = harness.refusal(send).await;
    assert_eq!(error.reason, ErrorReason::InvalidParams);
    assert!(
        error
            .text
            .contains("101 parts, more than the maximum of 100"),
        "{error}"
    );
}

#[tokio::test]
async fn negative_history_length_is_rejected() {
    let harness = harness().await;
    let send = text_message("hello").with_configuration(history(-1));
    let error = harness.refusal(send).await;
    assert_eq!(error.reason, ErrorReason::InvalidParams);
    assert_eq!(harness.service.active_task_count(), 0);
}

#[tokio::test]
async fn unfinished_tasks_of_a_client_are_bounded() {
    let mut harness = TestService::limited(|limits| limits.tasks_per_client = 2).await;
    harness.send_immediate(text_message("one")).await;
    harness.send_immediate(text_message("two")).await;
    let error = harness.refusal(text_message("three")).await;
    assert_eq!(error.reason, ErrorReason::ResourceExhausted);
    // Tasks of other clients and terminal tasks do not count.
    harness
        .send_immediate_as(&bob(), text_message("of bob"))
        .await;
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    run.done();
    harness.ended(&id).await;
    harness.send_immediate(text_message("three")).await;
}

#[tokio::test]
async fn rejected_message_does_not_count() {
    let harness = TestService::limited(|limits| limits.tasks_per_client = 1).await;
    harness
        .send_immediate_as(&bob(), text_message("his").with_context_id("c"))
        .await;
    for _ in 0..3 {
        let send = text_message("hers").with_context_id("c");
        let refused = harness.service.send(&alice(), send).await;
        assert_eq!(refused.unwrap_err().reason, ErrorReason::TaskNotFound);
    }
    harness.send_immediate(text_message("hers")).await;
}
