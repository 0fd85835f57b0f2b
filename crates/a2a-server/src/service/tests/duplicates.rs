//! Clients that send a message again because its answer was lost.

use tokio::sync::Semaphore;

use super::failing_store::FailingStore;
use super::*;

#[tokio::test]
async fn retry_of_running_message_runs_once() {
    let mut theatre = theatre().await;
    let first = theatre.ask(alice(), says("hello").named("m"));
    let run = theatre.run().await;
    let second = theatre.ask(alice(), says("hello").named("m"));
    tokio::task::yield_now().await;
    run.done();
    let first = task(first.await.unwrap().unwrap());
    let second = task(second.await.unwrap().unwrap());
    assert_eq!(first, second);
    assert!(theatre.runs.try_recv().is_err());
}

#[tokio::test]
async fn retry_after_disconnect_gets_the_answer() {
    let mut theatre = theatre().await;
    let first = theatre.ask(alice(), says("hello").named("m"));
    let run = theatre.run().await;
    let id = run.input.task_id.clone();
    first.abort();
    let _ = first.await;
    run.done();
    theatre.ended(&id).await;
    let send = says("hello").named("m");
    let again = task(theatre.service.send(&alice(), send).await.unwrap());
    assert_eq!(again.id, id);
    assert_eq!(again.status.state, TaskState::Completed);
}

#[tokio::test]
async fn retried_stream_continues() {
    let mut theatre = theatre().await;
    let send = says("hello").named("m");
    let (updates, run) = streams::streamed(&mut theatre, send.clone()).await;
    run.report(ExecutionEvent::Working(None)).await;
    drop(updates.await.unwrap());
    let mut again = theatre.service.stream(&alice(), send).await.unwrap();
    assert_eq!(next(&mut again).await, "task Working");
    run.done();
    assert_eq!(next(&mut again).await, "status Completed");
    assert!(theatre.runs.try_recv().is_err());
}

#[tokio::test]
async fn answered_message_frees_its_id() {
    let mut theatre = theatre().await;
    let one = theatre.begin(says("hello").named("1")).await;
    let two = theatre.begin(says("hello").named("1")).await;
    assert_ne!(one.id, two.id);
    theatre.run().await;
    theatre.run().await;
}

#[tokio::test]
async fn other_text_makes_another_message() {
    let mut theatre = theatre().await;
    let _first = theatre.ask(alice(), says("one").named("m"));
    let first = theatre.run().await;
    let _second = theatre.ask(alice(), says("two").named("m"));
    let second = theatre.run().await;
    assert_ne!(first.input.task_id, second.input.task_id);
}

#[tokio::test]
async fn same_id_of_other_client_is_another_message() {
    let mut theatre = theatre().await;
    let _first = theatre.ask(alice(), says("hello").named("m"));
    let first = theatre.run().await;
    let _second = theatre.ask(bob(), says("hello").named("m"));
    let second = theatre.run().await;
    assert_ne!(first.input.task_id, second.input.task_id);
}

#[tokio::test]
async fn rejected_message_may_be_sent_again() {
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let mut theatre = TestService::with(settings).await;
    let first = theatre.begin(says("one")).await;
    let send = says("two").named("m");
    let refused = theatre.service.send(&alice(), send.clone()).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
    theatre.run().await.done();
    theatre.ended(&first.id).await;
    theatre.begin(send).await;
    assert_eq!(text(&theatre.run().await.input.message), "two");
}

#[tokio::test]
async fn retry_before_storage_runs_once() {
    let gate = Arc::new(Semaphore::new(0));
    let store = FailingStore {
        gate: Some(gate.clone()),
        ..FailingStore::new()
    };
    let mut theatre = store.open().await;
    let first = theatre.ask(alice(), says("hello").named("m").at_once());
    let second = theatre.ask(alice(), says("hello").named("m").at_once());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(2);
    let first = task(first.await.unwrap().unwrap());
    let second = task(second.await.unwrap().unwrap());
    assert_eq!(first.id, second.id);
    theatre.run().await;
    assert!(theatre.runs.try_recv().is_err());
}

#[tokio::test]
async fn retry_of_answer_runs_once() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    theatre.ended(&id).await;
    let answer = says("this one").answering(&id).named("m");
    let first = theatre.ask(alice(), answer.clone());
    let run = theatre.run().await;
    let second = theatre.ask(alice(), answer);
    tokio::task::yield_now().await;
    run.done();
    let first = task(first.await.unwrap().unwrap());
    assert_eq!(first.status.state, TaskState::Completed);
    assert_eq!(first, task(second.await.unwrap().unwrap()));
}

#[tokio::test]
async fn retried_stream_ends_with_question() {
    let mut theatre = theatre().await;
    let send = says("hello").named("m");
    let (updates, run) = streams::streamed(&mut theatre, send.clone()).await;
    run.report(ExecutionEvent::Working(None)).await;
    drop(updates.await.unwrap());
    let id = run.input.task_id.clone();
    run.end(Outcome::InputRequired(vec![Part::text("which?")]));
    theatre.ended(&id).await;
    let mut again = theatre.service.stream(&alice(), send).await.unwrap();
    assert_eq!(next(&mut again).await, "task InputRequired");
    assert!(again.next().await.is_none());
}
