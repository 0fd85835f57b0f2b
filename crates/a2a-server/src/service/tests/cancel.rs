//! Cancelling, and what races with it.

use super::*;

#[tokio::test]
async fn a_canceled_task_is_canceled_and_its_run_is_told() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    let task = theatre.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn a_canceled_task_stays_canceled_whatever_the_run_says_later() {
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
async fn cancelling_again_answers_with_the_task() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let _run = theatre.run().await;
    let first = theatre.service.cancel(&alice(), &id).await.unwrap();
    let second = theatre.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_settled_task_cannot_be_canceled() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    theatre.run().await.done();
    theatre.ended(&id).await;
    let refusal = theatre.service.cancel(&alice(), &id).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotCancelable);
    assert_eq!(theatre.state(&id).await, TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_took_too_long_cannot_be_canceled() {
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
async fn a_task_whose_turn_has_not_come_is_canceled_and_never_run() {
    let mut theatre = theatre().await;
    theatre.begin(says("one").in_context("c")).await;
    let second = theatre.begin(says("two").in_context("c")).await;
    let third = theatre.begin(says("three").in_context("c")).await;
    let run = theatre.run().await;
    let task = theatre.service.cancel(&alice(), &second.id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.done();
    assert_eq!(theatre.run().await.job.task_id, third.id);
}

#[tokio::test]
async fn a_task_that_waits_for_input_is_canceled() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    theatre.ended(&id).await;
    let task = theatre.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn whoever_waits_for_a_task_hears_that_it_was_canceled() {
    let mut theatre = theatre().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let id = &run.job.task_id;
    theatre.service.cancel(&alice(), id).await.unwrap();
    assert_eq!(
        task(asked.await.unwrap().unwrap()).status.state,
        TaskState::Canceled
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cancel_and_an_end_that_race_one_wins_and_both_are_told_which() {
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
        let told = canceling.await.unwrap();
        let kept = theatre.state(&id).await;
        match told {
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
async fn nothing_that_is_reported_after_a_cancel_is_kept() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &id).await.unwrap();
    // Nobody takes it any more, or nobody keeps it.
    let _ = run.reports.send(artifact("late", "late")).await;
    run.done();
    theatre.service.close(SECOND).await;
    let kept = theatre.store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.task.artifacts, None);
}

#[tokio::test]
async fn the_operator_cancels_and_deletes_whoevers_task() {
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
async fn a_task_that_is_deleted_while_it_runs_is_stopped() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    assert!(theatre.service.delete(&id).await.unwrap());
    run.cancel.cancelled().await;
    assert_eq!(theatre.store.load(&id).await.unwrap(), None);
}
