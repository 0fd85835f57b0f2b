//! Cancellation and its races.

use super::*;

#[tokio::test]
async fn cancel_stops_the_run() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    let task = harness.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn canceled_task_ignores_later_reports() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    harness.service.cancel(&alice(), &id).await.unwrap();
    run.end(Outcome::Failed {
        reason: "exit",
        text: "exit code 143".to_owned(),
    });
    harness.service.close(SECOND).await;
    let stored = harness.stored(&id).await;
    assert_eq!(stored.task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn second_cancel_returns_the_task() {
    let mut harness = harness().await;
    let (id, _run) = harness.start().await;
    let first = harness.service.cancel(&alice(), &id).await.unwrap();
    let second = harness.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn terminal_task_is_not_cancelable() {
    let mut harness = harness().await;
    let id = harness.complete().await;
    let error = harness.service.cancel(&alice(), &id).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::TaskNotCancelable);
    assert_eq!(harness.state(&id).await, TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn timed_out_task_is_not_cancelable() {
    let settings = Settings {
        timeout: SECOND,
        ..Settings::default()
    };
    let mut harness = TestService::with(settings).await;
    let (id, _run) = harness.start().await;
    harness.ended(&id).await;
    let error = harness.service.cancel(&alice(), &id).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::TaskNotCancelable);
}

#[tokio::test]
async fn canceled_queued_task_never_runs() {
    let mut harness = harness().await;
    harness.send_in_context("one").await;
    let second = harness.send_in_context("two").await;
    let third = harness.send_in_context("three").await;
    let run = harness.run().await;
    let task = harness.service.cancel(&alice(), &second.id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.done();
    assert_eq!(harness.run().await.input.task_id, third.id);
}

#[tokio::test]
async fn interrupted_task_can_be_canceled() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let task = harness.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn waiting_sender_receives_canceled_task() {
    let mut harness = harness().await;
    let response = harness.spawn_send(alice(), text_message("hello"));
    let run = harness.run().await;
    let id = &run.input.task_id;
    harness.service.cancel(&alice(), id).await.unwrap();
    assert_eq!(received(response).await.status.state, TaskState::Canceled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_and_end_agree_on_the_winner() {
    let mut harness = harness().await;
    for round in 0..200 {
        let id = harness
            .send_immediate(text_message(&round.to_string()))
            .await
            .id;
        let run = harness.run().await;
        let service = harness.service.clone();
        let canceling = {
            let id = id.clone();
            tokio::spawn(async move { service.cancel(&alice(), &id).await })
        };
        run.done();
        let received = canceling.await.unwrap();
        let state = harness.state(&id).await;
        match received {
            Ok(task) => {
                assert_eq!(task.status.state, TaskState::Canceled);
                assert_eq!(state, TaskState::Canceled);
            }
            Err(error) => {
                assert_eq!(error.reason, ErrorReason::TaskNotCancelable);
                assert_eq!(state, TaskState::Completed);
            }
        }
    }
}

#[tokio::test]
async fn reports_after_cancel_are_not_stored() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    harness.service.cancel(&alice(), &id).await.unwrap();
    // The run has ended, so the server neither receives nor stores this event.
    let _ = run.events.send(artifact("late", "late")).await;
    run.done();
    harness.service.close(SECOND).await;
    let stored = harness.stored(&id).await;
    assert_eq!(stored.task.artifacts, None);
}

#[tokio::test]
async fn operator_cancels_and_deletes_any_task() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    assert_eq!(
        harness.service.stop(&id).await.unwrap().status.state,
        TaskState::Canceled
    );
    run.done();
    assert!(harness.service.delete(&id).await.unwrap());
    assert!(!harness.service.delete(&id).await.unwrap());
    let error = harness.service.get(&alice(), &id, None).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn deleting_running_task_stops_it() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
    assert!(harness.service.delete(&id).await.unwrap());
    run.cancel.cancelled().await;
    assert_eq!(harness.store.load(&id).await.unwrap(), None);
}
