#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use a2a::v1_0::{Message, Part, PartContent, Role};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{ExecutionEvent, Executor, Outcome, RunInput};
use super::ScriptedExecutor;

fn input(message_id: &str, parts: Vec<Part>) -> RunInput {
    RunInput {
        task_id: "t1".to_owned(),
        context_id: "c1".to_owned(),
        session: "s1".to_owned(),
        agent: None,
        client: "alice".to_owned(),
        message: Message {
            message_id: message_id.to_owned(),
            ..Message::new(Role::User, parts)
        },
        delegation: None,
    }
}

/// Returns the events and the outcome of a script.
async fn run(input: RunInput) -> (Vec<ExecutionEvent>, Outcome) {
    let (events, mut received) = mpsc::channel(1);
    let run = ScriptedExecutor::default().run(input, events, CancellationToken::new());
    let listen = async {
        let mut all = Vec::new();
        while let Some(report) = received.recv().await {
            all.push(report);
        }
        all
    };
    let (outcome, all) = tokio::join!(run, listen);
    (all, outcome)
}

async fn run_tck_message(message_id: &str) -> (Vec<ExecutionEvent>, Outcome) {
    run(input(message_id, vec![Part::text("anything")])).await
}

async fn run_command(command: &str) -> (Vec<ExecutionEvent>, Outcome) {
    run(input("m1", vec![Part::text(command)])).await
}

fn completed(parts: Vec<Part>) -> Outcome {
    Outcome::Completed(Some(parts))
}

/// Returns the parts of each artifact report, with `append` and `last_chunk`.
fn artifact_chunks(events: &[ExecutionEvent]) -> Vec<(Vec<Part>, bool, bool)> {
    let artifacts = events.iter().filter_map(|report| match report {
        ExecutionEvent::Artifact {
            artifact,
            append,
            last_chunk,
        } => Some((artifact.parts.clone(), *append, *last_chunk)),
        _ => None,
    });
    artifacts.collect()
}

fn one_artifact(part: Part) -> Vec<(Vec<Part>, bool, bool)> {
    vec![(vec![part], false, true)]
}

fn starts_working(events: &[ExecutionEvent]) -> bool {
    events.first() == Some(&ExecutionEvent::Working(None))
}

fn file() -> Part {
    Part::raw(b"TCK file content".to_vec())
        .with_filename("output.txt")
        .with_media_type("text/plain")
}

#[tokio::test]
async fn tck_complete_task_ends_with_message() {
    let ended = run_tck_message("tck-complete-task-1a2b").await;
    assert_eq!(
        ended,
        (vec![], completed(vec![Part::text("Hello from TCK")]))
    );
}

#[tokio::test(start_paused = true)]
async fn tck_delayed_task_lasts_for_the_timeout() {
    let began = Instant::now();
    let (events, outcome) = run_tck_message("tck-delayed-complete-1").await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert!(starts_working(&events));
    assert_eq!(outcome, completed(vec![Part::text("Done after delay")]));
}

#[tokio::test]
async fn tck_artifacts_have_every_kind_of_part() {
    let link = Part::url("https://example.com/output.txt")
        .with_filename("output.txt")
        .with_media_type("text/plain");
    let data = Part::data(json!({"key": "value", "count": 42})).with_media_type("application/json");
    for (id, part) in [
        ("tck-artifact-text-1", Part::text("Generated text content")),
        ("tck-artifact-file-1", file()),
        ("tck-artifact-file-url-1", link),
        ("tck-artifact-data-1", data),
    ] {
        let (events, outcome) = run_tck_message(id).await;
        assert_eq!(artifact_chunks(&events), one_artifact(part), "{id}");
        assert_eq!(outcome, Outcome::Completed(None), "{id}");
    }
}

#[tokio::test]
async fn tck_message_response_is_a_message() {
    let parts = vec![Part::text("Direct message response")];
    assert_eq!(
        run_tck_message("tck-message-response-1").await.1,
        Outcome::Message(parts)
    );
}

#[tokio::test]
async fn tck_input_required_repeats_its_question() {
    let (_, first) = run_tck_message("tck-input-required-1").await;
    let (_, second) = run_tck_message("tck-input-required-1").await;
    assert!(matches!(first, Outcome::InputRequired(_)));
    assert_eq!(first, second);
}

#[tokio::test]
async fn tck_auth_required_is_not_terminal() {
    let (_, outcome) = run_tck_message("tck-auth-required-1").await;
    assert!(matches!(outcome, Outcome::AuthRequired(_)));
}

#[tokio::test]
async fn tck_reject_task_is_rejected() {
    let rejected = Outcome::Rejected("rejected".to_owned());
    assert_eq!(run_tck_message("tck-reject-task-1").await.1, rejected);
}

#[tokio::test]
async fn tck_streams_work_then_send_artifact() {
    for (id, part) in [
        ("tck-stream-001-1", Part::text("Stream hello from TCK")),
        ("tck-stream-003-1", Part::text("Stream task lifecycle")),
        ("tck-stream-ordering-001-1", Part::text("Ordered output")),
        (
            "tck-stream-artifact-text-1",
            Part::text("Streamed text content"),
        ),
        ("tck-stream-artifact-file-1", file()),
    ] {
        let (events, outcome) = run_tck_message(id).await;
        assert!(starts_working(&events), "{id}");
        assert_eq!(artifact_chunks(&events), one_artifact(part), "{id}");
        assert_eq!(outcome, Outcome::Completed(None), "{id}");
    }
}

#[tokio::test]
async fn tck_shortest_stream_only_completes() {
    let ended = run_tck_message("tck-stream-002-1").await;
    assert_eq!(ended, (vec![], Outcome::Completed(None)));
}

#[tokio::test]
async fn tck_chunks_extend_one_artifact() {
    let (events, _) = run_tck_message("tck-stream-artifact-chunked-1").await;
    let chunks = [
        (vec![Part::text("chunk-1 ")], false, false),
        (vec![Part::text("chunk-2")], true, true),
    ];
    assert_eq!(artifact_chunks(&events), chunks);
}

#[tokio::test(start_paused = true)]
async fn tck_resubscribe_task_lasts_twice_the_timeout() {
    let began = Instant::now();
    let (events, outcome) = run_tck_message("test-resubscribe-message-id-1").await;
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    assert!(starts_working(&events));
    assert_eq!(outcome, Outcome::Completed(None));
}

#[tokio::test]
async fn unknown_command_echoes_text() {
    let (events, outcome) = run_command("blue, please").await;
    assert_eq!(
        artifact_chunks(&events),
        one_artifact(Part::text("you said blue, please"))
    );
    assert_eq!(outcome, Outcome::Completed(None));
}

#[tokio::test]
async fn command_may_end_with_colon() {
    assert_eq!(
        run_command("ask: which?").await,
        run_command("ask which?").await
    );
}

#[tokio::test(start_paused = true)]
async fn stream_sends_requested_chunks_and_waits() {
    let began = Instant::now();
    let (events, _) = run_command("stream 20 5").await;
    assert_eq!(began.elapsed(), Duration::from_millis(100));
    let artifact_chunks = artifact_chunks(&events);
    assert_eq!(artifact_chunks.len(), 20);
    assert_eq!(artifact_chunks[0], (vec![Part::text("0 ")], false, false));
    assert_eq!(artifact_chunks[19], (vec![Part::text("19 ")], true, true));
}

#[tokio::test]
async fn every_outcome_has_a_command() {
    let reason = || vec![Part::text("why")];
    let failed = Outcome::Failed {
        reason: "scripted",
        text: "why".to_owned(),
    };
    for (command, outcome) in [
        ("say why", completed(reason())),
        ("message why", Outcome::Message(reason())),
        ("ask why", Outcome::InputRequired(reason())),
        ("auth why", Outcome::AuthRequired(reason())),
        ("reject why", Outcome::Rejected("why".to_owned())),
        ("fail why", failed),
    ] {
        assert_eq!(run_command(command).await, (vec![], outcome), "{command}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_command_waits() {
    let began = Instant::now();
    run_command("slow 1500").await;
    assert_eq!(began.elapsed(), Duration::from_millis(1500));
}

#[tokio::test(start_paused = true)]
async fn endless_script_stops_on_cancel() {
    let (events, mut received) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let slow = input("m1", vec![Part::text("slow")]);
    let run = tokio::spawn(ScriptedExecutor::default().run(slow, events, cancel.clone()));
    assert_eq!(received.recv().await, Some(ExecutionEvent::Working(None)));
    cancel.cancel();
    assert!(run.await.is_ok());
}

#[tokio::test]
async fn script_stops_when_receiver_is_dropped() {
    let (events, received) = mpsc::channel(1);
    drop(received);
    let endless = input("m1", vec![Part::text("chunks 1000000")]);
    let outcome = ScriptedExecutor::default()
        .run(endless, events, CancellationToken::new())
        .await;
    assert!(matches!(
        outcome,
        Outcome::Failed {
            reason: "stopped",
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn named_run_can_be_reattached() {
    let (events, _) = run_command("resume 700").await;
    let Some(ExecutionEvent::Run(name)) = events.first() else {
        panic!("the run has no name: {events:?}");
    };
    let (events, mut received) = mpsc::channel(8);
    let began = Instant::now();
    let again = input("m1", vec![Part::text("resume 700")]);
    let outcome = ScriptedExecutor::default()
        .reattach(again, name.clone(), events, CancellationToken::new())
        .expect("the run is one of its own")
        .await;
    assert_eq!(began.elapsed(), Duration::from_millis(700));
    assert_eq!(outcome, Outcome::Completed(None));
    let received = received.recv().await.into_iter().collect::<Vec<_>>();
    assert_eq!(
        artifact_chunks(&received),
        one_artifact(Part::text("taken up again"))
    );
}

#[tokio::test]
async fn foreign_run_is_not_reattached() {
    let (events, _received) = mpsc::channel(1);
    let input = input("m1", vec![]);
    let run = "agent-run-17".to_owned();
    let taken = ScriptedExecutor::default().reattach(input, run, events, CancellationToken::new());
    assert!(taken.is_none());
}

#[tokio::test]
async fn parts_command_returns_parts_unchanged() {
    let link = Part::url("https://files.test/b.png").with_media_type("image/png");
    let (events, _) = run(input("m1", vec![Part::text("parts"), link])).await;
    let seen = json!({"parts": [{"url": "https://files.test/b.png", "mediaType": "image/png"}]});
    assert_eq!(artifact_chunks(&events), one_artifact(Part::data(seen)));
}

#[tokio::test]
async fn whoami_command_returns_the_client() {
    let (events, _) = run_command("who").await;
    let received = &artifact_chunks(&events)[0].0[0].content;
    let PartContent::Data(Value::Object(received)) = received else {
        panic!("no object: {received:?}");
    };
    assert_eq!(received["client"], "alice");
    assert_eq!(received["session"], "s1");
}
