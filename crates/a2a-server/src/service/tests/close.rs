//! Shutdown of the service.

use super::*;

#[tokio::test]
async fn close_stops_and_marks_runs() {
    let mut harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let run = harness.run().await;
    let stopped = tokio::spawn(async move {
        run.cancel.cancelled().await;
        run.done();
    });
    harness.service.close(10 * SECOND).await;
    stopped.await.unwrap();
    let task = harness.store.load(&id).await.unwrap().unwrap().task;
    assert_eq!(task.status.state, TaskState::Failed);
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], INTERRUPTED);
}

#[tokio::test]
async fn close_marks_queued_tasks() {
    let mut harness = harness().await;
    harness.send_in_context("one").await;
    let second = harness.send_in_context("two").await;
    harness.run().await.done();
    harness.service.close(SECOND).await;
    let state = harness.store.load(&second.id).await.unwrap().unwrap();
    assert!(state.is_terminal());
}

#[tokio::test]
async fn close_keeps_interrupted_tasks() {
    let mut harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let question = vec![Part::text("which?")];
    harness.run().await.end(Outcome::InputRequired(question));
    harness.ended(&id).await;
    harness.service.close(SECOND).await;
    let stored = harness.store.load(&id).await.unwrap().unwrap();
    assert_eq!(stored.task.status.state, TaskState::InputRequired);
}

#[tokio::test(start_paused = true)]
async fn close_drops_stuck_run_in_time() {
    let mut harness = harness().await;
    harness.send_immediate(text_message("hello")).await;
    let run = harness.run().await;
    let before = tokio::time::Instant::now();
    harness.service.close(5 * SECOND).await;
    assert!(before.elapsed() <= 5 * SECOND);
    assert!(run.is_dropped());
}

#[tokio::test]
async fn close_rejects_messages() {
    let harness = harness().await;
    harness.service.close(SECOND).await;
    let refused = harness.service.send(&alice(), text_message("hello")).await;
    let error = refused.unwrap_err();
    assert_eq!(error.reason, ErrorReason::Unavailable);
    assert!(error.retry_after_s.is_some());
    assert!(harness.service.ready().await.is_err());
}

#[tokio::test]
async fn close_answers_waiting_sender() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let closing = harness.service.close(SECOND);
    let stopping = async {
        run.cancel.cancelled().await;
        run.done();
    };
    tokio::join!(closing, stopping);
    let task = task(response.await.unwrap().unwrap());
    assert_eq!(task.status.state, TaskState::Failed);
}

#[tokio::test]
async fn running_service_is_ready() {
    let harness = harness().await;
    assert_eq!(harness.service.ready().await, Ok(()));
}
