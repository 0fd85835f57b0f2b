#![allow(clippy::unwrap_used)]
use a2a::v1_0::{Message, Role};
use serde_json::json;

use super::*;

const SECRET: &str = "s3cret-one";

/// An executor that reports these events and returns this outcome.
struct FixedExecutor(Vec<ExecutionEvent>, Outcome);

impl Executor for FixedExecutor {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(std::future::ready(Err(ExecutorError(format!(
            "no {SECRET}"
        )))))
    }

    fn run(
        &self,
        _: RunInput,
        events: ExecutionEvents,
        _: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let (all, outcome) = (self.0.clone(), self.1.clone());
        Box::pin(async move {
            for report in all {
                events.send(report).await.unwrap();
            }
            outcome
        })
    }

    fn reattach(
        &self,
        input: RunInput,
        _: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        Some(self.run(input, events, cancel))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(std::future::ready(Err(ExecutorError(format!(
            "no {SECRET}"
        )))))
    }
}

fn redacted(events: Vec<ExecutionEvent>, outcome: Outcome) -> Redacted {
    let secrets = Secrets::new([SECRET.into()]);
    Redacted::new(Arc::new(FixedExecutor(events, outcome)), secrets)
}

fn input() -> RunInput {
    RunInput {
        task_id: "task".into(),
        context_id: "context".into(),
        session: "a2a-context".into(),
        agent: None,
        client: "client".into(),
        message: Message::new(Role::User, vec![Part::text("hello")]),
        delegation: None,
    }
}

async fn received(
    run: BoxFuture<'static, Outcome>,
    mut receiver: mpsc::Receiver<ExecutionEvent>,
) -> (Vec<ExecutionEvent>, Outcome) {
    let outcome = run.await;
    let mut all = Vec::new();
    while let Some(report) = receiver.recv().await {
        all.push(report);
    }
    (all, outcome)
}

/// Returns the redacted events and the redacted outcome.
async fn redacted_events(
    events: Vec<ExecutionEvent>,
    outcome: Outcome,
) -> (Vec<ExecutionEvent>, Outcome) {
    let (sender, receiver) = mpsc::channel(16);
    let run = redacted(events, outcome).run(input(), sender, CancellationToken::new());
    received(run, receiver).await
}

fn artifact(parts: Vec<Part>) -> Artifact {
    Artifact {
        artifact_id: "reply".into(),
        parts,
        ..empty_artifact()
    }
}

fn text_chunk(text: &str, append: bool, last: bool) -> ExecutionEvent {
    artifact_event(artifact(vec![Part::text(text)]), append, last)
}

fn text_chunks(events: &[ExecutionEvent]) -> Vec<(String, bool, bool)> {
    let all = events.iter().map(|report| match report {
        ExecutionEvent::Artifact {
            artifact,
            append,
            last_chunk,
        } => {
            let text = artifact.parts.iter().filter_map(Part::as_text).collect();
            (text, *append, *last_chunk)
        }
        other => unreachable!("{other:?}"),
    });
    all.collect()
}

fn completed() -> Outcome {
    Outcome::Completed(None)
}

#[tokio::test]
async fn every_part_of_an_answer_is_redacted() {
    let metadata = HashMap::from([(SECRET.to_owned(), json!([SECRET]))]);
    let part = Part {
        metadata: Some(metadata.clone()),
        ..Part::text(format!("x {SECRET}"))
    };
    let parts = vec![
        part,
        Part::data(json!({SECRET: SECRET}))
            .with_filename(SECRET)
            .with_media_type(SECRET),
        Part::raw(SECRET.as_bytes().to_vec()),
        Part::url(format!("https://e.com/{SECRET}")),
    ];
    let whole = Artifact {
        name: Some(SECRET.into()),
        description: Some(SECRET.into()),
        metadata: Some(metadata.clone()),
        ..artifact(parts.clone())
    };
    let events = vec![
        ExecutionEvent::Working(Some(parts.clone())),
        ExecutionEvent::Metadata(metadata),
        artifact_event(whole, false, true),
    ];
    let outcomes = [
        Outcome::Completed(Some(parts.clone())),
        Outcome::Message(parts.clone()),
        Outcome::InputRequired(parts.clone()),
        Outcome::AuthRequired(parts),
        Outcome::Rejected(format!("no {SECRET}")),
        Outcome::Failed {
            reason: "agent_failed",
            text: format!("no {SECRET}"),
        },
    ];
    for outcome in outcomes {
        let redacted_events = redacted_events(events.clone(), outcome).await;
        assert_eq!(redacted_events.0.len(), 3);
        assert!(
            !format!("{redacted_events:?}").contains(SECRET),
            "{redacted_events:?}"
        );
        let bytes = format!("{:?}", SECRET.as_bytes());
        assert!(
            !format!("{redacted_events:?}").contains(bytes.trim_matches(['[', ']'])),
            "{redacted_events:?}"
        );
    }
}

#[tokio::test]
async fn secret_cut_between_pieces_is_redacted() {
    let events = vec![
        text_chunk("it is s3c", false, false),
        text_chunk("ret-", true, false),
        text_chunk("one. Bye", true, false),
        text_chunk("!", true, true),
    ];
    let (events, _) = redacted_events(events, completed()).await;
    assert_eq!(
        text_chunks(&events),
        [
            ("it is ".into(), false, false),
            ("[redacted]. ".into(), true, false),
            ("Bye!".into(), true, true),
        ]
    );
}

#[tokio::test]
async fn secret_that_streams_by_characters_is_redacted() {
    let events = SECRET.char_indices();
    let events = events.map(|(at, c)| text_chunk(&c.to_string(), at > 0, false));
    let (events, _) = redacted_events(events.collect(), completed()).await;
    assert_eq!(text_chunks(&events), [("[redacted]".into(), false, false)]);
}

#[tokio::test]
async fn secret_in_two_texts_of_a_message_is_redacted() {
    let parts = vec![
        Part::text("a s3cret"),
        Part::data(json!(1)),
        Part::text("-one b"),
    ];
    let (_, outcome) = redacted_events(Vec::new(), Outcome::Message(parts)).await;
    let parts = vec![
        Part::text("a [redacted]"),
        Part::data(json!(1)),
        Part::text(" b"),
    ];
    assert_eq!(outcome, Outcome::Message(parts));
}

#[tokio::test]
async fn text_before_a_file_comes_before_it() {
    let file = Part::raw(vec![1]);
    let events = vec![
        text_chunk("see", false, false),
        artifact_event(artifact(vec![file.clone(), Part::text("and")]), true, true),
    ];
    let (events, _) = redacted_events(events, completed()).await;
    let parts = vec![Part::text("see"), file, Part::text("and")];
    assert_eq!(events, [artifact_event(artifact(parts), false, true)]);
}

#[tokio::test]
async fn run_that_is_found_again_is_redacted() {
    let events = vec![text_chunk(SECRET, false, true)];
    let (sender, receiver) = mpsc::channel(16);
    let executor = redacted(events, completed());
    let run = executor.reattach(input(), "run".into(), sender, CancellationToken::new());
    let (events, _) = received(run.unwrap(), receiver).await;
    assert_eq!(text_chunks(&events), [("[redacted]".into(), false, true)]);
}

#[tokio::test]
async fn executor_errors_are_redacted() {
    let executor = redacted(Vec::new(), completed());
    let redacted = Err(ExecutorError("no [redacted]".into()));
    assert_eq!(executor.ready().await, redacted);
    assert_eq!(executor.agents().await.map(drop), redacted);
}
