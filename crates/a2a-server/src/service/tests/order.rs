//! The order of runs.

use super::*;

#[tokio::test]
async fn messages_of_a_context_run_in_order() {
    let mut theatre = theatre().await;
    let mut sent = Vec::new();
    for text in ["one", "two", "three"] {
        sent.push(theatre.begin(says(text).in_context("c")).await.id);
    }
    for (place, id) in sent.iter().enumerate() {
        let run = theatre.run().await;
        assert_eq!(&run.input.task_id, id);
        for later in &sent[place + 1..] {
            assert_eq!(theatre.state(later).await, TaskState::Submitted);
        }
        assert!(theatre.runs.try_recv().is_err());
        run.done();
        theatre.ended(id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_on_all_threads() {
    let mut theatre = theatre().await;
    let mut sent = Vec::new();
    for place in 0..100 {
        let send = says(&place.to_string()).in_context("c");
        sent.push(theatre.begin(send).await.id);
    }
    for id in sent {
        let run = theatre.run().await;
        assert_eq!(run.input.task_id, id);
        run.done();
    }
}

#[tokio::test]
async fn contexts_run_concurrently() {
    let mut theatre = theatre().await;
    theatre.begin(says("one").in_context("c")).await;
    theatre.begin(says("two").in_context("d")).await;
    let first = theatre.run().await;
    let second = theatre.run().await;
    assert_ne!(first.input.context_id, second.input.context_id);
}

#[tokio::test]
async fn concurrent_runs_are_bounded() {
    let mut settings = Settings::default();
    settings.limits.runs = 2;
    let mut theatre = TestService::with(settings).await;
    for context in ["a", "b", "c"] {
        theatre.begin(says("hello").in_context(context)).await;
    }
    let first = theatre.run().await;
    let _second = theatre.run().await;
    tokio::task::yield_now().await;
    assert!(theatre.runs.try_recv().is_err());
    first.done();
    theatre.run().await;
}

#[tokio::test]
async fn failed_run_admits_next_message() {
    let mut theatre = theatre().await;
    theatre.begin(says("one").in_context("c")).await;
    let second = theatre.begin(says("two").in_context("c")).await;
    theatre.run().await.end(Outcome::Rejected("no".to_owned()));
    assert_eq!(theatre.run().await.input.task_id, second.id);
}

#[tokio::test(start_paused = true)]
async fn next_message_waits_for_canceled_run_to_stop() {
    let mut theatre = theatre().await;
    let first = theatre.begin(says("one").in_context("c")).await;
    theatre.begin(says("two").in_context("c")).await;
    let run = theatre.run().await;
    theatre.service.cancel(&alice(), &first.id).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(theatre.runs.try_recv().is_err());
    run.done();
    assert_eq!(text(&theatre.run().await.input.message), "two");
}

#[tokio::test(start_paused = true)]
async fn stuck_run_is_dropped() {
    let mut theatre = theatre().await;
    let first = theatre.begin(says("one").in_context("c")).await;
    theatre.begin(says("two").in_context("c")).await;
    let mut run = theatre.run().await;
    theatre.service.cancel(&alice(), &first.id).await.unwrap();
    run.dropped().await;
    assert_eq!(text(&theatre.run().await.input.message), "two");
}

#[tokio::test(start_paused = true)]
async fn unloaded_message_is_complete_when_it_runs() {
    let mut settings = Settings::default();
    settings.limits.runs = 1;
    let mut theatre = TestService::with(settings).await;
    let first = theatre.begin(says("one")).await.id;
    let long = "x".repeat(100_000);
    let second = theatre.begin(says(&long)).await.id;
    let run = theatre.run().await;
    tokio::time::sleep(SECOND).await;
    run.done();
    theatre.ended(&first).await;
    let run = theatre.run().await;
    assert_eq!(run.input.message.parts, [Part::text(long.clone())]);
    run.done();
    let task = theatre.ended(&second).await;
    assert_eq!(task.history.unwrap()[0].parts, [Part::text(long)]);
}
