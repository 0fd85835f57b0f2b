//! Answers to a task's question.

use super::*;

#[tokio::test]
async fn answer_continues_task() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let context_id = harness.get(&id).await.context_id;
    let response = harness.spawn_send(alice(), text_message("this one").with_task_id(&id));
    let run = harness.run().await;
    assert_eq!(run.input.task_id, id);
    assert_eq!(run.input.context_id, context_id);
    assert_eq!(text(&run.input.message), "this one");
    run.done();
    let task = received(response).await;
    assert_eq!(task.id, id);
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn question_is_between_message_and_answer() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let task = harness.answer(&id, "this one").await;
    let history = task.history.unwrap();
    let texts: Vec<&str> = history.iter().map(text).collect();
    assert_eq!(texts, ["hello", "this one", "which?"]);
}

#[tokio::test]
async fn task_may_ask_repeatedly() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    harness.answer(&id, "this one").await;
    let run = harness.run().await;
    run.end(Outcome::AuthRequired(vec![Part::text("log in")]));
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::AuthRequired);
    harness.answer(&id, "logged in").await;
    harness.run().await.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn repeated_answer_is_not_a_retry() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    for _ in 0..2 {
        harness
            .send_immediate(text_message("yes").with_message_id("m").with_task_id(&id))
            .await;
        let run = harness.run().await;
        run.end(Outcome::InputRequired(vec![Part::text("sure?")]));
        harness.ended(&id).await;
    }
    let history = harness.get(&id).await.history.unwrap();
    let yes = history.iter().filter(|message| text(message) == "yes");
    assert_eq!(yes.count(), 2);
}

#[tokio::test]
async fn message_to_terminal_task_is_rejected() {
    let mut harness = harness().await;
    let id = harness.complete().await;
    let error = harness
        .refusal(text_message("more").with_task_id(&id))
        .await;
    assert_eq!(error.reason, ErrorReason::UnsupportedOperation);
    assert!(error.text.contains("has ended"), "{error}");
}

#[tokio::test]
async fn message_to_working_task_is_rejected() {
    let mut harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let error = harness
        .refusal(text_message("more").with_task_id(&id))
        .await;
    assert_eq!(error.reason, ErrorReason::UnsupportedOperation);
    assert!(error.text.contains("is working"), "{error}");
    harness.run().await.done();
    let history = harness.ended(&id).await.history.unwrap();
    assert_eq!(history.len(), 1);
}

#[tokio::test]
async fn message_to_unknown_task_is_rejected() {
    let harness = harness().await;
    let error = harness
        .refusal(text_message("more").with_task_id("none"))
        .await;
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn context_of_another_task_is_rejected() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let error = harness
        .refusal(text_message("more").with_task_id(&id).with_context_id("d"))
        .await;
    assert_eq!(error.reason, ErrorReason::InvalidParams);
    assert_eq!(error.field.as_deref(), Some("message.contextId"));
}

/// Sends two answers to a task at once, and returns the responses.
async fn answer_twice(
    harness: &TestService,
    id: &str,
) -> [Result<SendMessageResponse, A2aError>; 2] {
    let [first, second] = ["this", "that"].map(|text| {
        let answer = text_message(text).with_task_id(id).returning_immediately();
        harness.spawn_send(alice(), answer)
    });
    [first.await.unwrap(), second.await.unwrap()]
}

#[tokio::test]
async fn one_of_two_concurrent_answers_is_accepted() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let taken = answer_twice(&harness, &id).await;
    assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1);
    harness.run().await.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn accepted_concurrent_answer_can_be_canceled() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let _ = answer_twice(&harness, &id).await;
    let run = harness.run().await;
    harness.service.cancel(&alice(), &id).await.unwrap();
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn usage_of_all_turns_is_that_of_the_task() {
    let mut harness = harness().await;
    let report = |total: u64| {
        let usage = serde_json::json!({"tokens": {"total": total}, "estimated": false});
        ExecutionEvent::Metadata(metadata(a2a::USAGE_KEY, usage).unwrap())
    };
    let (id, run) = harness.start().await;
    run.report(report(60)).await;
    // A later report of the same turn speaks of the whole turn.
    run.report(report(100)).await;
    run.ask();
    harness.ended(&id).await;
    harness.answer(&id, "this one").await;
    let run = harness.run().await;
    run.report(report(40)).await;
    run.done();
    let task = harness.ended(&id).await;
    let usage = &task.metadata.unwrap()[a2a::USAGE_KEY];
    assert_eq!(usage["tokens"]["total"], 140, "{usage}");
}
