//! Cancellation and its races.

use super::*;

#[tokio::test]
async fn cancel_stops_the_run() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    let task = theatre.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn canceled_task_ignores_later_reports() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &id).await.unwrap();
    run.end(Outcome::Failed {
        reason: "exit",
        text: "exit code 143".to_owned(),
    });
    theatre.service.close(SECOND).await;
    let kept = theatre.store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn second_cancel_returns_the_task() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let _run = theatre.run().await;
    let first = theatre.service.cancel(&alice(), &id).await.unwrap();
    let second = theatre.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn terminal_task_is_not_cancelable() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    theatre.run().await.done();
    theatre.ended(&id).await;
    let refusal = theatre.service.cancel(&alice(), &id).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotCancelable);
    assert_eq!(theatre.state(&id).await, TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn timed_out_task_is_not_cancelable() {
    let settings = Settings {
        timeout: SECOND,
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    let id = theatre.begin(says("hello")).await.id;
    let _run = theatre.run().await;
    theatre.ended(&id).await;
    let refusal = theatre.service.cancel(&alice(), &id).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotCancelable);
}

#[tokio::test]
async fn canceled_queued_task_never_runs() {
    let mut theatre = theatre().await;
    theatre.begin(says("one").in_context("c")).await;
    let second = theatre.begin(says("two").in_context("c")).await;
    let third = theatre.begin(says("three").in_context("c")).await;
    let run = theatre.run().await;
    let task = theatre.service.cancel(&alice(), &second.id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.done();
    assert_eq!(theatre.run().await.input.task_id, third.id);
}

#[tokio::test]
async fn interrupted_task_can_be_canceled() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    theatre.ended(&id).await;
    let task = theatre.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn waiting_sender_receives_canceled_task() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let id = &run.input.task_id;
    theatre.service.cancel(&alice(), id).await.unwrap();
    assert_eq!(
        task(asked.await.unwrap().unwrap()).status.state,
        TaskState::Canceled
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_and_end_agree_on_the_winner() {
    let mut theatre = theatre().await;
    for round in 0..200 {
        let id = theatre.begin(says(&round.to_string())).await.id;
        let run = theatre.run().await;
        let service = theatre.service.clone();
        let canceling = {
            let id = id.clone();
            tokio::spawn(async move { service.cancel(&alice(), &id).await })
        };
        run.done();
        let received = canceling.await.unwrap();
        let kept = theatre.state(&id).await;
        match received {
            Ok(task) => {
                assert_eq!(task.status.state, TaskState::Canceled);
                assert_eq!(kept, TaskState::Canceled);
            }
            Err(refusal) => {
                assert_eq!(refusal.reason, ErrorReason::TaskNotCancelable);
                assert_eq!(kept, TaskState::Completed);
            }
        }
    }
}

#[tokio::test]
async fn reports_after_cancel_are_not_stored() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &id).await.unwrap();
    // The run has ended, so the server neither receives nor stores this event.
    let _ = run.events.send(artifact("late", "late")).await;
    run.done();
    theatre.service.close(SECOND).await;
    let kept = theatre.store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.task.artifacts, None);
}

#[tokio::test]
async fn operator_cancels_and_deletes_any_task() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    assert_eq!(
        theatre.service.stop(&id).await.unwrap().status.state,
        TaskState::Canceled
    );
    run.done();
    assert!(theatre.service.delete(&id).await.unwrap());
    assert!(!theatre.service.delete(&id).await.unwrap());
    let refusal = theatre.service.get(&alice(), &id, None).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotFound);
}

#[tokio::test]
async fn deleting_running_task_stops_it() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    assert!(theatre.service.delete(&id).await.unwrap());
    run.cancel.cancelled().await;
    assert_eq!(theatre.store.load(&id).await.unwrap(), None);
}
