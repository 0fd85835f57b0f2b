//! Answers to a task's question.

use super::*;

/// Creates a task that waits for the answer to the question "which?".
async fn asking(theatre: &mut TestService) -> Task {
    let id = theatre.begin(says("hello").in_context("c")).await.id;
    let run = theatre.run().await;
    run.end(Outcome::InputRequired(vec![Part::text("which?")]));
    theatre.ended(&id).await
}

#[tokio::test]
async fn answer_continues_task() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    let asked = theatre.ask(alice(), says("this one").answering(&id));
    let run = theatre.run().await;
    assert_eq!(run.input.task_id, id);
    assert_eq!(run.input.context_id, "c");
    assert_eq!(text(&run.input.message), "this one");
    run.done();
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(task.id, id);
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn question_is_between_message_and_answer() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    let task = theatre.begin(says("this one").answering(&id)).await;
    let history = task.history.unwrap();
    let texts: Vec<&str> = history.iter().map(text).collect();
    assert_eq!(texts, ["hello", "this one", "which?"]);
}

#[tokio::test]
async fn task_may_ask_repeatedly() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    theatre.begin(says("this one").answering(&id)).await;
    let run = theatre.run().await;
    run.end(Outcome::AuthRequired(vec![Part::text("log in")]));
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::AuthRequired);
    theatre.begin(says("logged in").answering(&id)).await;
    theatre.run().await.done();
    assert_eq!(theatre.ended(&id).await.status.state, TaskState::Completed);
}

#[tokio::test]
async fn repeated_answer_is_not_a_retry() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    for _ in 0..2 {
        theatre.begin(says("yes").named("m").answering(&id)).await;
        let run = theatre.run().await;
        run.end(Outcome::InputRequired(vec![Part::text("sure?")]));
        theatre.ended(&id).await;
    }
    let history = theatre.get(&id).await.history.unwrap();
    let yes = history.iter().filter(|message| text(message) == "yes");
    assert_eq!(yes.count(), 2);
}

async fn refusal(theatre: &TestService, send: SendMessage) -> A2aError {
    theatre.service.send(&alice(), send).await.unwrap_err()
}

#[tokio::test]
async fn message_to_terminal_task_is_rejected() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    theatre.run().await.done();
    theatre.ended(&id).await;
    let refusal = refusal(&theatre, says("more").answering(&id)).await;
    assert_eq!(refusal.reason, ErrorReason::UnsupportedOperation);
    assert!(refusal.text.contains("has ended"), "{refusal}");
}

#[tokio::test]
async fn message_to_working_task_is_rejected() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let refusal = refusal(&theatre, says("more").answering(&id)).await;
    assert_eq!(refusal.reason, ErrorReason::UnsupportedOperation);
    assert!(refusal.text.contains("is working"), "{refusal}");
    theatre.run().await.done();
    let history = theatre.ended(&id).await.history.unwrap();
    assert_eq!(history.len(), 1);
}

#[tokio::test]
async fn message_to_unknown_task_is_rejected() {
    let theatre = theatre().await;
    let refusal = refusal(&theatre, says("more").answering("none")).await;
    assert_eq!(refusal.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn context_of_another_task_is_rejected() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    let refusal = refusal(&theatre, says("more").answering(&id).in_context("d")).await;
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    assert_eq!(refusal.field.as_deref(), Some("message.contextId"));
}

#[tokio::test]
async fn one_of_two_concurrent_answers_is_accepted() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    let first = theatre.ask(alice(), says("this").answering(&id).at_once());
    let second = theatre.ask(alice(), says("that").answering(&id).at_once());
    let taken = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1);
    theatre.run().await.done();
    assert_eq!(theatre.ended(&id).await.status.state, TaskState::Completed);
    assert!(theatre.runs.try_recv().is_err());
}

#[tokio::test]
async fn accepted_concurrent_answer_can_be_canceled() {
    let mut theatre = theatre().await;
    let id = asking(&mut theatre).await.id;
    let first = theatre.ask(alice(), says("this").answering(&id).at_once());
    let second = theatre.ask(alice(), says("that").answering(&id).at_once());
    let _ = (first.await.unwrap(), second.await.unwrap());
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &id).await.unwrap();
    run.cancel.cancelled().await;
}
