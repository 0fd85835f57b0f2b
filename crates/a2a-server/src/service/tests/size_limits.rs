//! The size limits of tasks.

use super::*;
use crate::store;
use crate::task_record::TaskChange;

fn small_artifact_limit() -> Settings {
    let mut settings = Settings::default();
    settings.limits.artifact_bytes = 1000;
    settings
}

fn appended(id: &str, text: &str) -> ExecutionEvent {
    match artifact(id, text) {
        ExecutionEvent::Artifact { artifact, .. } => ExecutionEvent::Artifact {
            artifact,
            append: true,
            last_chunk: false,
        },
        other => other,
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_artifacts_fail_their_task() {
    let mut harness = TestService::with(small_artifact_limit()).await;
    let (id, run) = harness.start().await;
    run.report(artifact("a", &"x".repeat(500))).await;
    run.report(appended("a", &"x".repeat(500))).await;
    run.cancel.cancelled().await;
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(TOO_LARGE));
    // Earlier artifacts stay.
    assert_eq!(task.artifacts.unwrap()[0].parts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn replaced_artifact_frees_its_bytes() {
    let mut harness = TestService::with(small_artifact_limit()).await;
    let (id, run) = harness.start().await;
    for _ in 0..5 {
        run.report(artifact("a", &"x".repeat(800))).await;
    }
    run.done();
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn last_message_has_the_same_limit() {
    let mut harness = TestService::with(small_artifact_limit()).await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    let much = vec![Part::text("x".repeat(2000))];
    harness.run().await.end(Outcome::Completed(Some(much)));
    let task = harness.ended(&id).await;
    assert_eq!(reason(&task), Some(TOO_LARGE));
}

#[tokio::test(start_paused = true)]
async fn artifacts_of_earlier_turns_count() {
    let mut harness = TestService::with(small_artifact_limit()).await;
    let (id, run) = harness.start().await;
    run.report(artifact("a", &"x".repeat(500))).await;
    run.ask();
    harness.ended(&id).await;
    harness.answer(&id, "this one").await;
    let run = harness.run().await;
    run.report(artifact("b", &"x".repeat(500))).await;
    run.cancel.cancelled().await;
    let task = harness.ended(&id).await;
    assert_eq!(reason(&task), Some(TOO_LARGE));
}

/// Creates a message that takes more than half of a budget of 4,000 bytes.
fn large() -> SendMessage {
    text_message(&"x".repeat(2_500))
}

fn small_budget(per_client: u64) -> Settings {
    let mut settings = Settings::default();
    settings.limits.stored_bytes.per_client = per_client;
    settings
}

#[tokio::test(start_paused = true)]
async fn full_client_is_rejected_and_others_are_not() {
    let harness = TestService::with(small_budget(4_000)).await;
    harness.send_immediate(large()).await;
    let error = harness.refusal(large()).await;
    assert_eq!(error.reason, ErrorReason::ResourceExhausted);
    assert!(error.retry_after_s.is_some());
    harness.send_immediate_as(&bob(), large()).await;
    let listed = harness
        .service
        .list(&alice(), lists::all(), Dialect::V1_0)
        .await
        .unwrap();
    assert_eq!(listed.total_size(), 1);
}

#[tokio::test(start_paused = true)]
async fn ended_tasks_make_room_for_the_next() {
    let mut harness = TestService::with(small_budget(4_000)).await;
    let first = harness.send_immediate(large()).await.id;
    harness.run().await.done();
    harness.ended(&first).await;
    let second = harness.send_immediate(large()).await.id;
    let gone = harness.service.get(&alice(), &first, None).await;
    assert_eq!(gone.unwrap_err().reason, ErrorReason::TaskNotFound);
    harness.get(&second).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_message_deletes_no_task() {
    let mut settings = small_budget(4_000);
    settings.limits.tasks_per_client = 1;
    let mut harness = TestService::with(settings).await;
    let of_bob = harness
        .send_immediate_as(&bob(), text_message("mine").with_context_id("c"))
        .await;
    harness.run().await.done();
    harness.ended(&of_bob.id).await;
    let settled = harness.send_immediate(large()).await.id;
    harness.run().await.done();
    harness.ended(&settled).await;
    for (send, reason) in [
        (large().with_task_id("none"), ErrorReason::TaskNotFound),
        (
            large().with_task_id(&settled),
            ErrorReason::UnsupportedOperation,
        ),
        (large().with_context_id("c"), ErrorReason::TaskNotFound),
    ] {
        let error = harness.refusal(send).await;
        assert_eq!(error.reason, reason);
        harness.get(&settled).await;
    }
    harness.send_immediate(text_message("small")).await;
    let error = harness.refusal(large()).await;
    assert_eq!(error.reason, ErrorReason::ResourceExhausted);
    harness.get(&settled).await;
}

#[tokio::test(start_paused = true)]
async fn run_without_room_fails_its_task() {
    let mut settings = small_budget(6_000);
    settings.limits.runs = 1;
    let mut harness = TestService::with(settings).await;
    let first = harness.send_immediate(text_message("one")).await.id;
    let second = harness.send_immediate(text_message("two")).await.id;
    let run = harness.run().await;
    run.report(artifact("a", &"x".repeat(8_000))).await;
    run.ask();
    harness.ended(&first).await;
    let task = harness.ended(&second).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(NO_ROOM));
}

/// What the last write of a task may copy is bounded by the task that results, whichever part of it is large.
#[tokio::test(start_paused = true)]
async fn large_task_ends_without_a_copy_of_it() {
    let harness = harness().await;
    let change = |text: &str| TaskChange::Artifact {
        artifact: store::tests::artifact("a", text),
        append: false,
        last_chunk: true,
    };
    let large = change(&"x".repeat(2 << 20));
    let small = change("x");
    for (id, stored, last, copied) in [
        ("t1", &small, &small, true),
        ("t2", &large, &small, false),
        ("t3", &small, &large, false),
    ] {
        let mut task = record(id);
        harness.store.create(&task).await.unwrap();
        let core = &harness.service.core;
        let stored = std::slice::from_ref(stored);
        core.append(&task, 1, stored).await.unwrap();
        task.apply(stored[0].clone(), 1);
        let mut end = task.task.status.clone();
        end.state = TaskState::Completed;
        let last = [last.clone(), TaskChange::Status(end)];
        core.append(&task, 2, &last).await.unwrap();
        let page = harness.store.page(&store::tests::all(), 0).await;
        let listed = page.unwrap().tasks;
        let listed = listed.iter().find(|listed| listed.place.task_id == id);
        assert_eq!(listed.unwrap().bytes.is_some(), copied, "{id}");
    }
}
