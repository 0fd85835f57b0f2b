//! Messages for a task that is working.

use super::active_task::{ActiveTask, Steering};
use super::failing_store::FailingStore;
use super::task_runner::TaskRunner;
use super::*;
use crate::settings::WhileWorking;

async fn steerable() -> TestService {
    TestService::with(settings()).await
}

fn settings() -> Settings {
    Settings {
        while_working: WhileWorking::NextTurn,
        ..Settings::default()
    }
}

/// Returns what became of the messages of a task.
fn states(task: &Task) -> serde_json::Value {
    let metadata = task.metadata.as_ref();
    let states = metadata.and_then(|all| all.get(a2a::MESSAGES_KEY));
    states.cloned().unwrap_or_default()
}

impl TestService {
    /// Sends a message to a task, under its text as the id.
    async fn steer(&self, id: &str, text: &str) -> Task {
        let message = text_message(text).with_message_id(text).with_task_id(id);
        self.send_immediate(message).await
    }
}

#[tokio::test]
async fn message_to_working_task_starts_the_next_turn() {
    let mut harness = steerable().await;
    let (id, run) = harness.start().await;
    let queued = harness.steer(&id, "more").await;
    assert_eq!(queued.id, id);
    assert_eq!(queued.status.state, TaskState::Working);
    assert_eq!(states(&queued), serde_json::json!({"more": "queued"}));
    run.report(artifact("one", "first")).await;
    run.end(Outcome::Completed(Some(vec![Part::text("half")])));

    let run = harness.run().await;
    assert_eq!(run.input.task_id, id);
    assert_eq!(text(&run.input.message), "more");
    let task = harness.get(&id).await;
    assert_eq!(task.status.state, TaskState::Working);
    assert_eq!(status_text(&task), "half");
    assert_eq!(states(&task), serde_json::json!({"more": "started"}));
    run.report(artifact("two", "second")).await;
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.unwrap().len(), 2);
    assert_eq!(task.history.unwrap().len(), 2);
}

#[tokio::test]
async fn messages_have_their_turns_in_order() {
    let mut harness = steerable().await;
    let (id, mut run) = harness.start().await;
    for text in ["a", "b"] {
        harness.steer(&id, text).await;
    }
    for expected in ["a", "b"] {
        run.done();
        run = harness.run().await;
        assert_eq!(text(&run.input.message), expected);
    }
    let task = harness.steer(&id, "c").await;
    assert_eq!(
        states(&task),
        serde_json::json!({"a": "started", "b": "started", "c": "queued"})
    );
    run.done();
    harness.run().await.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn large_messages_have_their_turns_too() {
    let mut harness = steerable().await;
    let (id, run) = harness.start().await;
    let long = "x".repeat(10_000);
    let message = text_message(&long).with_task_id(&id);
    harness.send_immediate(message).await;
    harness.steer(&id, "short").await;
    run.done();
    let run = harness.run().await;
    assert_eq!(text(&run.input.message), long);
    run.done();
    let run = harness.run().await;
    assert_eq!(text(&run.input.message), "short");
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.history.unwrap().len(), 3);
}

#[tokio::test]
async fn message_that_is_sent_again_has_one_turn() {
    let mut harness = steerable().await;
    let (id, run) = harness.start().await;
    for _ in 0..2 {
        let task = harness.steer(&id, "more").await;
        assert_eq!(states(&task), serde_json::json!({"more": "queued"}));
    }
    run.done();
    let run = harness.run().await;
    assert_eq!(text(&run.input.message), "more");
    let task = harness.steer(&id, "more").await;
    assert_eq!(states(&task), serde_json::json!({"more": "started"}));
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.history.unwrap().len(), 2);
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn another_message_with_the_same_id_is_refused() {
    let mut harness = steerable().await;
    let first = text_message("hello").with_message_id("first");
    let id = harness.send_immediate(first).await.id;
    let run = harness.run().await;
    harness.steer(&id, "more").await;
    for (message_id, text) in [("more", "other"), ("first", "other"), ("first", "hello")] {
        let message = text_message(text).with_task_id(&id);
        let error = harness.refusal(message.with_message_id(message_id)).await;
        assert_eq!(error.reason, ErrorReason::UnsupportedOperation, "{text}");
        assert!(error.text.contains("another id"), "{}", error.text);
    }
    run.done();
    let run = harness.run().await;
    assert_eq!(text(&run.input.message), "more");
    run.done();
    assert_eq!(harness.ended(&id).await.history.unwrap().len(), 2);
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn waiting_messages_take_no_memory() {
    let mut harness = steerable().await;
    let (id, _run) = harness.start().await;
    let core = &harness.service.core;
    let record = harness.stored(&id).await;
    let mut runner = TaskRunner::new(core.clone(), Arc::new(ActiveTask::new()), record);
    let mut accept = async |text: &str| {
        let place = core.steering_quota.try_reserve("alice".to_owned(), 1);
        let (reply, accepted) = oneshot::channel();
        let message = text_message(text).with_message_id("more").request.message;
        let place = place.unwrap();
        let steering = Steering {
            message,
            place,
            reply,
        };
        runner.accept(steering).await.unwrap();
        (
            accepted.await.unwrap(),
            runner.record.task.history.is_none(),
        )
    };
    assert_eq!(accept("one").await, (Ok(()), true));
    // The service did not see the first one yet.
    let (accepted, _) = accept("two").await;
    let refusal = accepted.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::UnsupportedOperation);
    assert_eq!(harness.get(&id).await.history.unwrap().len(), 2);
}

#[tokio::test]
async fn queued_message_answers_the_question_of_the_turn() {
    let mut harness = steerable().await;
    let (id, run) = harness.start().await;
    harness.steer(&id, "blue").await;
    run.ask();
    let run = harness.run().await;
    assert_eq!(text(&run.input.message), "blue");
    run.done();
    assert_eq!(harness.end_state(&id).await, TaskState::Completed);
}

#[tokio::test]
async fn sender_waits_for_the_end_of_the_task() {
    let mut harness = steerable().await;
    let (id, run) = harness.start().await;
    let message = text_message("more").with_task_id(&id).blocking();
    let response = harness.spawn_send(alice(), message);
    while states(&harness.get(&id).await).is_null() {
        tokio::task::yield_now().await;
    }
    run.done();
    harness.run().await.done();
    assert_eq!(received(response).await.status.state, TaskState::Completed);
}

#[tokio::test]
async fn failed_or_canceled_task_drops_its_messages() {
    let mut harness = steerable().await;
    let (failed, run) = harness.start().await;
    harness.steer(&failed, "more").await;
    run.end(Outcome::Failed {
        reason: "scripted",
        text: "no".to_owned(),
    });
    let task = harness.ended(&failed).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(states(&task), serde_json::json!({"more": "dropped"}));

    let (canceled, _run) = harness.start().await;
    harness.steer(&canceled, "other").await;
    harness.service.cancel(&alice(), &canceled).await.unwrap();
    let task = harness.ended(&canceled).await;
    assert_eq!(task.status.state, TaskState::Canceled);
    assert_eq!(states(&task), serde_json::json!({"other": "dropped"}));
    assert_eq!(task.history.unwrap().len(), 2);
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn queue_is_bounded() {
    let mut harness = steerable().await;
    let (id, _run) = harness.start().await;
    for number in 0..16 {
        harness.steer(&id, &number.to_string()).await;
    }
    let error = harness
        .refusal(text_message("more").with_task_id(&id))
        .await;
    assert_eq!(error.reason, ErrorReason::ResourceExhausted);
    let history = harness.get(&id).await.history.unwrap();
    assert_eq!(history.len(), 17);
}

#[tokio::test]
async fn messages_of_a_client_are_bounded() {
    let mut harness = steerable().await;
    let _held = harness
        .service
        .core
        .steering_quota
        .try_reserve("alice".to_owned(), 100);
    let (id, _run) = harness.start().await;
    let error = harness
        .refusal(text_message("more").with_task_id(&id))
        .await;
    assert_eq!(error.reason, ErrorReason::ResourceExhausted);
    assert_eq!(states(&harness.get(&id).await), serde_json::Value::Null);
}

#[tokio::test]
async fn task_of_another_client_takes_no_message() {
    let mut harness = steerable().await;
    let (id, _run) = harness.start().await;
    let message = text_message("more").with_task_id(&id);
    let error = harness.service.send(&bob(), message).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn successor_starts_the_turn_of_a_queued_message() {
    let store = FailingStore::new();
    let task_store: Arc<dyn TaskStore> = Arc::new(store.clone());
    let memory = store.memory.clone();
    let mut harness =
        TestService::with_store(settings(), memory.clone(), task_store.clone(), Vec::new()).await;
    let (id, run) = harness.start().await;
    run.report(ExecutionEvent::Run("one".to_owned())).await;
    harness.steer(&id, "more").await;
    let closed = harness.service.close(10 * SECOND).await;
    assert_eq!(closed.left, 1);
    let live = vec!["one".to_owned()];
    let mut next = TestService::with_store(settings(), memory, task_store, live).await;
    let run = next.run().await;
    assert_eq!(run.reattached.as_deref(), Some("one"));
    assert_eq!(text(&run.input.message), "hello");
    run.done();
    let run = next.run().await;
    assert_eq!(text(&run.input.message), "more");
    run.done();
    assert_eq!(next.end_state(&id).await, TaskState::Completed);
}
