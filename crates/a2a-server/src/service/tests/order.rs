//! The order of runs.

use super::*;

#[tokio::test]
async fn messages_of_a_context_run_in_order() {
    let mut harness = harness().await;
    let mut sent = Vec::new();
    for text in ["one", "two", "three"] {
        sent.push(
            harness
                .send_immediate(text_message(text).with_context_id("c"))
                .await
                .id,
        );
    }
    for (place, id) in sent.iter().enumerate() {
        let run = harness.run().await;
        assert_eq!(&run.input.task_id, id);
        for later in &sent[place + 1..] {
            assert_eq!(harness.state(later).await, TaskState::Submitted);
        }
        assert!(harness.runs.try_recv().is_err());
        run.done();
        harness.ended(id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_on_all_threads() {
    let mut harness = harness().await;
    let mut sent = Vec::new();
    for place in 0..100 {
        let send = text_message(&place.to_string()).with_context_id("c");
        sent.push(harness.send_immediate(send).await.id);
    }
    for id in sent {
        let run = harness.run().await;
        assert_eq!(run.input.task_id, id);
        run.done();
    }
}

#[tokio::test]
async fn contexts_run_concurrently() {
    let mut harness = harness().await;
    harness.send_in_context("one").await;
    harness
        .send_immediate(text_message("two").with_context_id("d"))
        .await;
    let first = harness.run().await;
    let second = harness.run().await;
    assert_ne!(first.input.context_id, second.input.context_id);
}

#[tokio::test]
async fn concurrent_runs_are_bounded() {
    let mut harness = TestService::limited(|limits| limits.runs = 2).await;
    for context in ["a", "b", "c"] {
        harness
            .send_immediate(text_message("hello").with_context_id(context))
            .await;
    }
    let first = harness.run().await;
    let _second = harness.run().await;
    tokio::task::yield_now().await;
    assert!(harness.runs.try_recv().is_err());
    first.done();
    harness.run().await;
}

#[tokio::test]
async fn failed_run_admits_next_message() {
    let mut harness = harness().await;
    harness.send_in_context("one").await;
    let second = harness.send_in_context("two").await;
    harness.run().await.end(Outcome::Rejected("no".to_owned()));
    assert_eq!(harness.run().await.input.task_id, second.id);
}

#[tokio::test(start_paused = true)]
async fn next_message_waits_for_canceled_run_to_stop() {
    let mut harness = harness().await;
    let first = harness.send_in_context("one").await;
    harness.send_in_context("two").await;
    let run = harness.run().await;
    harness.service.cancel(&alice(), &first.id).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(harness.runs.try_recv().is_err());
    run.done();
    assert_eq!(text(&harness.run().await.input.message), "two");
}

#[tokio::test(start_paused = true)]
async fn stuck_run_is_dropped() {
    let mut harness = harness().await;
    let first = harness.send_in_context("one").await;
    harness.send_in_context("two").await;
    let mut run = harness.run().await;
    harness.service.cancel(&alice(), &first.id).await.unwrap();
    run.closed().await;
    assert_eq!(text(&harness.run().await.input.message), "two");
}

#[tokio::test(start_paused = true)]
async fn unloaded_message_is_complete_when_it_runs() {
    let mut harness = TestService::limited(|limits| limits.runs = 1).await;
    let first = harness.send_immediate(text_message("one")).await.id;
    let long = "x".repeat(100_000);
    let second = harness.send_immediate(text_message(&long)).await.id;
    let run = harness.run().await;
    tokio::time::sleep(SECOND).await;
    run.done();
    harness.ended(&first).await;
    let run = harness.run().await;
    assert_eq!(run.input.message.parts, [Part::text(long.clone())]);
    run.done();
    let task = harness.ended(&second).await;
    assert_eq!(task.history.unwrap()[0].parts, [Part::text(long)]);
}

#[tokio::test]
async fn other_client_starts_after_one_run_of_a_flood() {
    let mut harness = TestService::limited(|limits| limits.runs = 1).await;
    for _ in 0..10 {
        harness.send_immediate(text_message("hello")).await;
    }
    let first = harness.run().await;
    let mut send = text_message("hello");
    send.return_immediately = Some(true);
    let bob = caller("bob", Version::V1_0);
    harness.service.send(&bob, send).await.unwrap();
    first.end(Outcome::Completed(None));
    let second = harness.run().await;
    assert_eq!(second.input.client, "bob");
    second.end(Outcome::Completed(None));
    assert_eq!(harness.run().await.input.client, "alice");
}
