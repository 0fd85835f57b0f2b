//! Shutdown of the service.

use super::*;

#[tokio::test]
async fn close_stops_and_marks_runs() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    let stopped = tokio::spawn(async move {
        run.cancel.cancelled().await;
        run.done();
    });
    theatre.service.close(10 * SECOND).await;
    stopped.await.unwrap();
    let task = theatre.store.load(&id).await.unwrap().unwrap().task;
    assert_eq!(task.status.state, TaskState::Failed);
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], INTERRUPTED);
}

#[tokio::test]
async fn close_marks_queued_tasks() {
    let mut theatre = theatre().await;
    theatre.begin(says("one").in_context("c")).await;
    let second = theatre.begin(says("two").in_context("c")).await;
    theatre.run().await.done();
    theatre.service.close(SECOND).await;
    let state = theatre.store.load(&second.id).await.unwrap().unwrap();
    assert!(state.is_terminal());
}

#[tokio::test]
async fn close_keeps_interrupted_tasks() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    theatre.ended(&id).await;
    theatre.service.close(SECOND).await;
    let kept = theatre.store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.task.status.state, TaskState::InputRequired);
}

#[tokio::test(start_paused = true)]
async fn close_drops_stuck_run_in_time() {
    let mut theatre = theatre().await;
    theatre.begin(says("hello")).await;
    let run = theatre.run().await;
    let before = tokio::time::Instant::now();
    theatre.service.close(5 * SECOND).await;
    assert!(before.elapsed() <= 5 * SECOND);
    assert!(run.is_dropped());
}

#[tokio::test]
async fn close_rejects_messages() {
    let theatre = theatre().await;
    theatre.service.close(SECOND).await;
    let refused = theatre.service.send(&alice(), says("hello")).await;
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    assert!(refusal.retry_after_s.is_some());
    assert!(theatre.service.ready().await.is_err());
}

#[tokio::test]
async fn close_answers_waiting_sender() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let closing = theatre.service.close(SECOND);
    let stopping = async {
        run.cancel.cancelled().await;
        run.done();
    };
    tokio::join!(closing, stopping);
    let task = task(asked.await.unwrap().unwrap());
    assert_eq!(task.status.state, TaskState::Failed);
}

#[tokio::test]
async fn running_service_is_ready() {
    let theatre = theatre().await;
    assert_eq!(theatre.service.ready().await, Ok(()));
}
