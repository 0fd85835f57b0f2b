//! The size limits of tasks.

use super::*;

fn narrow() -> Settings {
    let mut settings = Settings::default();
    settings.limits.artifact_bytes = 1000;
    settings
}

fn reason(task: &Task) -> Option<String> {
    let metadata = task.status.message.as_ref()?.metadata.as_ref()?;
    Some(metadata.get(REASON)?.as_str()?.to_owned())
}

fn more(id: &str, text: &str) -> ExecutionEvent {
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
    let mut theatre = TestService::with(narrow()).await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.report(artifact("a", &"x".repeat(500))).await;
    run.report(more("a", &"x".repeat(500))).await;
    run.cancel.cancelled().await;
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task).as_deref(), Some(TOO_LARGE));
    // Earlier artifacts stay.
    assert_eq!(task.artifacts.unwrap()[0].parts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn replaced_artifact_frees_its_bytes() {
    let mut theatre = TestService::with(narrow()).await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    for _ in 0..5 {
        run.report(artifact("a", &"x".repeat(800))).await;
    }
    run.done();
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn last_message_has_the_same_limit() {
    let mut theatre = TestService::with(narrow()).await;
    let id = theatre.begin(says("hello")).await.id;
    let much = vec![Part::text("x".repeat(2000))];
    theatre.run().await.end(Outcome::Completed(Some(much)));
    let task = theatre.ended(&id).await;
    assert_eq!(reason(&task).as_deref(), Some(TOO_LARGE));
}

#[tokio::test(start_paused = true)]
async fn artifacts_of_earlier_turns_count() {
    let mut theatre = TestService::with(narrow()).await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.report(artifact("a", &"x".repeat(500))).await;
    run.end(Outcome::InputRequired(vec![Part::text("which?")]));
    theatre.ended(&id).await;
    theatre.begin(says("this one").answering(&id)).await;
    let run = theatre.run().await;
    run.report(artifact("b", &"x".repeat(500))).await;
    run.cancel.cancelled().await;
    let task = theatre.ended(&id).await;
    assert_eq!(reason(&task).as_deref(), Some(TOO_LARGE));
}

fn poor(per_client: u64) -> Settings {
    let mut settings = Settings::default();
    settings.limits.kept.per_client = per_client;
    settings
}

#[tokio::test(start_paused = true)]
async fn full_client_is_rejected_and_others_are_not() {
    let theatre = TestService::with(poor(4_000)).await;
    theatre.begin(says(&"x".repeat(2_500))).await;
    let more = || says(&"x".repeat(2_500));
    let refusal = theatre.service.send(&alice(), more()).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::ResourceExhausted);
    assert!(refusal.retry_after_s.is_some());
    theatre.begin_as(&bob(), more()).await;
    let listed = theatre.service.list(&alice(), lists::all()).await.unwrap();
    assert_eq!(listed.total_size(), 1);
}

#[tokio::test(start_paused = true)]
async fn ended_tasks_make_room_for_the_next() {
    let mut theatre = TestService::with(poor(4_000)).await;
    let first = theatre.begin(says(&"x".repeat(2_500))).await.id;
    theatre.run().await.done();
    theatre.ended(&first).await;
    let second = theatre.begin(says(&"x".repeat(2_500))).await.id;
    let gone = theatre.service.get(&alice(), &first, None).await;
    assert_eq!(gone.unwrap_err().reason, ErrorReason::TaskNotFound);
    theatre.get(&second).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_message_deletes_no_task() {
    let mut settings = poor(4_000);
    settings.limits.tasks_per_client = 1;
    let mut theatre = TestService::with(settings).await;
    let of_bob = theatre.begin_as(&bob(), says("mine").in_context("c")).await;
    theatre.run().await.done();
    theatre.ended(&of_bob.id).await;
    let settled = theatre.begin(says(&"x".repeat(2_500))).await.id;
    theatre.run().await.done();
    theatre.ended(&settled).await;
    let large = || says(&"x".repeat(2_500));
    for (send, reason) in [
        (large().answering("none"), ErrorReason::TaskNotFound),
        (
            large().answering(&settled),
            ErrorReason::UnsupportedOperation,
        ),
        (large().in_context("c"), ErrorReason::TaskNotFound),
    ] {
        let refusal = theatre.service.send(&alice(), send).await.unwrap_err();
        assert_eq!(refusal.reason, reason);
        theatre.get(&settled).await;
    }
    theatre.begin(says("small")).await;
    let refusal = theatre.service.send(&alice(), large()).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::ResourceExhausted);
    theatre.get(&settled).await;
}

#[tokio::test(start_paused = true)]
async fn run_without_room_fails_its_task() {
    let mut settings = poor(6_000);
    settings.limits.runs = 1;
    let mut theatre = TestService::with(settings).await;
    let first = theatre.begin(says("one")).await.id;
    let second = theatre.begin(says("two")).await.id;
    let run = theatre.run().await;
    run.report(artifact("a", &"x".repeat(8_000))).await;
    run.end(Outcome::InputRequired(vec![Part::text("which?")]));
    theatre.ended(&first).await;
    let task = theatre.ended(&second).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task).as_deref(), Some(NO_ROOM));
}
