//! Clients that send a message again because its answer was lost.

use tokio::sync::Semaphore;

use super::failing_store::FailingStore;
use super::*;

#[tokio::test]
async fn retry_of_running_message_runs_once() {
    let mut harness = harness().await;
    let first = harness.spawn_send(alice(), text_message("hello").with_message_id("m"));
    let run = harness.run().await;
    let second = harness.spawn_send(alice(), text_message("hello").with_message_id("m"));
    tokio::task::yield_now().await;
    run.done();
    let first = task(first.await.unwrap().unwrap());
    let second = task(second.await.unwrap().unwrap());
    assert_eq!(first, second);
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn retry_after_disconnect_gets_the_answer() {
    let mut harness = harness().await;
    let first = harness.spawn_send(alice(), text_message("hello").with_message_id("m"));
    let run = harness.run().await;
    let id = run.input.task_id.clone();
    first.abort();
    let _ = first.await;
    run.done();
    harness.ended(&id).await;
    let send = text_message("hello").with_message_id("m");
    let again = task(harness.service.send(&alice(), send).await.unwrap());
    assert_eq!(again.id, id);
    assert_eq!(again.status.state, TaskState::Completed);
}

#[tokio::test]
async fn retried_stream_continues() {
    let mut harness = harness().await;
    let send = text_message("hello").with_message_id("m");
    let (updates, run) = streams::start_stream(&mut harness, send.clone()).await;
    run.report(ExecutionEvent::Working(None)).await;
    drop(updates.await.unwrap());
    let mut again = harness.service.stream(&alice(), send).await.unwrap();
    assert_eq!(next(&mut again).await, "task Working");
    run.done();
    assert_eq!(next(&mut again).await, "status Completed");
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn answered_message_frees_its_id() {
    let mut harness = harness().await;
    let one = harness
        .send_immediate(text_message("hello").with_message_id("1"))
        .await;
    let two = harness
        .send_immediate(text_message("hello").with_message_id("1"))
        .await;
    assert_ne!(one.id, two.id);
    harness.run().await;
    harness.run().await;
}

#[tokio::test]
async fn other_text_makes_another_message() {
    let mut harness = harness().await;
    let _first = harness.spawn_send(alice(), text_message("one").with_message_id("m"));
    let first = harness.run().await;
    let _second = harness.spawn_send(alice(), text_message("two").with_message_id("m"));
    let second = harness.run().await;
    assert_ne!(first.input.task_id, second.input.task_id);
}

#[tokio::test]
async fn same_id_of_other_client_is_another_message() {
    let mut harness = harness().await;
    let _first = harness.spawn_send(alice(), text_message("hello").with_message_id("m"));
    let first = harness.run().await;
    let _second = harness.spawn_send(bob(), text_message("hello").with_message_id("m"));
    let second = harness.run().await;
    assert_ne!(first.input.task_id, second.input.task_id);
}

#[tokio::test]
async fn rejected_message_may_be_sent_again() {
    let mut harness = TestService::limited(|limits| limits.tasks_per_client = 1).await;
    let first = harness.send_immediate(text_message("one")).await;
    let send = text_message("two").with_message_id("m");
    let refusal = harness.refusal(send.clone()).await;
    assert_eq!(refusal.reason, ErrorReason::ResourceExhausted);
    harness.run().await.done();
    harness.ended(&first.id).await;
    harness.send_immediate(send).await;
    assert_eq!(text(&harness.run().await.input.message), "two");
}

#[tokio::test]
async fn retry_before_storage_runs_once() {
    let gate = Arc::new(Semaphore::new(0));
    let store = FailingStore {
        gate: Some(gate.clone()),
        ..FailingStore::new()
    };
    let mut harness = store.open().await;
    let first = harness.spawn_send(
        alice(),
        text_message("hello")
            .with_message_id("m")
            .returning_immediately(),
    );
    let second = harness.spawn_send(
        alice(),
        text_message("hello")
            .with_message_id("m")
            .returning_immediately(),
    );
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(2);
    let first = task(first.await.unwrap().unwrap());
    let second = task(second.await.unwrap().unwrap());
    assert_eq!(first.id, second.id);
    harness.run().await;
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn retry_of_answer_runs_once() {
    let mut harness = harness().await;
    let id = harness.ask().await;
    let answer = text_message("this one")
        .with_task_id(&id)
        .with_message_id("m");
    let first = harness.spawn_send(alice(), answer.clone());
    let run = harness.run().await;
    let second = harness.spawn_send(alice(), answer);
    tokio::task::yield_now().await;
    run.done();
    let first = task(first.await.unwrap().unwrap());
    assert_eq!(first.status.state, TaskState::Completed);
    assert_eq!(first, task(second.await.unwrap().unwrap()));
}

#[tokio::test]
async fn retried_stream_ends_with_question() {
    let mut harness = harness().await;
    let send = text_message("hello").with_message_id("m");
    let (updates, run) = streams::start_stream(&mut harness, send.clone()).await;
    run.report(ExecutionEvent::Working(None)).await;
    drop(updates.await.unwrap());
    let id = run.input.task_id.clone();
    run.ask();
    harness.ended(&id).await;
    let mut again = harness.service.stream(&alice(), send).await.unwrap();
    assert_eq!(next(&mut again).await, "task InputRequired");
    assert!(again.next().await.is_none());
}
