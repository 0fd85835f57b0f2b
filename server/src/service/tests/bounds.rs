//! How much of what an agent says a task holds.

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

fn more(id: &str, text: &str) -> Report {
    match artifact(id, text) {
        Report::Artifact { artifact, .. } => Report::Artifact {
            artifact,
            append: true,
            last_chunk: false,
        },
        other => other,
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_artifacts_grow_without_end_is_stopped_and_its_task_has_failed() {
    let mut theatre = Theatre::with(narrow()).await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.report(artifact("a", &"x".repeat(500))).await;
    run.report(more("a", &"x".repeat(500))).await;
    run.cancel.cancelled().await;
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task).as_deref(), Some(TOO_LARGE));
    // What came before stays.
    assert_eq!(task.artifacts.unwrap()[0].parts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_artifact_that_replaces_another_takes_its_room() {
    let mut theatre = Theatre::with(narrow()).await;
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
async fn what_the_agent_says_at_the_end_is_held_to_the_same_bound() {
    let mut theatre = Theatre::with(narrow()).await;
    let id = theatre.begin(says("hello")).await.id;
    let much = vec![Part::text("x".repeat(2000))];
    theatre.run().await.end(Outcome::Completed(Some(much)));
    let task = theatre.ended(&id).await;
    assert_eq!(reason(&task).as_deref(), Some(TOO_LARGE));
}

#[tokio::test(start_paused = true)]
async fn artifacts_of_an_earlier_turn_count() {
    let mut theatre = Theatre::with(narrow()).await;
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
