//! A scripted executor for conformance kits, load tests and other tests.
//!
//! If the message id has a prefix of the A2A technology compatibility kit, the executor answers as the kit expects
//! (`tck`). Otherwise the first word of the message is a command that selects the answer.

mod tck;

use std::collections::HashMap;
use std::time::Duration;

use a2a::v1_0::{AgentSkill, Artifact, Part, PartContent};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Agent, ExecutionEvent, ExecutionEvents, Executor, ExecutorError, Outcome, RunInput};

/// How long the compatibility kit waits for the events of a stream by default.
const DEFAULT_TCK_TIMEOUT: Duration = Duration::from_secs(2);

/// An executor that answers by scripts instead of agents.
#[derive(Debug, Clone)]
pub struct ScriptedExecutor {
    agents: Vec<Agent>,
    timeout: Duration,
}

impl Default for ScriptedExecutor {
    fn default() -> Self {
        Self::with_agents(["scripted"])
    }
}

impl ScriptedExecutor {
    /// Creates an executor with these agents, the default agent first. All of them behave alike.
    pub fn with_agents<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            agents: names.into_iter().map(agent).collect(),
            timeout: DEFAULT_TCK_TIMEOUT,
        }
    }

    /// Sets how long the compatibility kit waits for the events of a stream.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

fn agent(name: &str) -> Agent {
    Agent {
        name: name.to_owned(),
        title: None,
        description: Some("Does what the first word of a message says.".to_owned()),
        skills: vec![AgentSkill {
            id: "script".to_owned(),
            name: "Script".to_owned(),
            description:
                "Answers, streams, asks, waits or fails, as the first word of a message says."
                    .to_owned(),
            tags: vec!["test".to_owned()],
            examples: Some(EXAMPLES.map(str::to_owned).to_vec()),
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
    }
}

impl Executor for ScriptedExecutor {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(async { Ok(self.agents.clone()) })
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let script =
            tck::script(&input.message.message_id, self.timeout).unwrap_or_else(|| script(&input));
        Box::pin(play(script, events, cancel))
    }

    fn reattach(
        &self,
        _input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let script = resume_script(&run)?;
        Some(Box::pin(play(script, events, cancel)))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(async { Ok(()) })
    }
}

async fn play(script: Script, events: ExecutionEvents, cancel: CancellationToken) -> Outcome {
    let Script { steps, outcome } = script;
    let all = async {
        for step in steps {
            match step {
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::WaitForever => std::future::pending().await,
                Step::ExecutionEvent(report) => events.send(report).await.ok()?,
            }
        }
        Some(())
    };
    let played = cancel.run_until_cancelled(all).await;
    match played {
        Some(Some(())) => outcome,
        // The server ignores the outcome of a stopped run.
        Some(None) | None => Outcome::Failed {
            reason: "stopped",
            text: "the script was stopped".to_owned(),
        },
    }
}

const ARTIFACT: &str = "answer";

/// The prefix of the name of a run that supports `reattach`. The rest is its duration in milliseconds.
const RUN: &str = "scripted-";

/// The limits of one script: events, milliseconds of one wait, and bytes.
const MAX_EVENTS: u64 = 1_000_000;
const MAX_WAIT_MS: u64 = 3_600_000;
const MAX_BYTES: u64 = 16 << 20;

/// Example messages.
const EXAMPLES: [&str; 5] = [
    "echo hello",
    "stream 20 5",
    "ask which colour",
    "slow",
    "fail why",
];

/// Returns the script for the text of `input`. A colon may follow the command. An unknown command echoes the text, as
/// does the answer to `ask` and `auth`.
fn script(input: &RunInput) -> Script {
    let input_text = message_text(input);
    let (command_name, rest) = input_text
        .split_once([' ', '\n'])
        .unwrap_or((&input_text, ""));
    let rest = rest.trim();
    match command_name.strip_suffix(':').unwrap_or(command_name) {
        // `echo TEXT`: the text as an artifact.
        "echo" => artifact_script(text_parts(rest)),
        // `message TEXT`: the text as a message in place of a task.
        "message" => Script::end(Outcome::Message(text_parts(rest))),
        // `say TEXT`: the text as the message of the last status.
        "say" => Script::end(Outcome::Completed(Some(text_parts(rest)))),
        // `task TEXT`: an artifact in three chunks, the text as the last one.
        "task" => chunked_script(["alpha ".to_owned(), "beta ".to_owned(), rest.to_owned()]),
        // `chunks N`: an artifact in N chunks.
        "chunks" => stream_script(first_number(rest, 3, MAX_EVENTS), Duration::ZERO),
        // `stream N MS`: an artifact in N chunks, with MS milliseconds before each.
        "stream" => stream_script(
            first_number(rest, 20, MAX_EVENTS),
            milliseconds(second_word(rest), 5),
        ),
        // `slow MS`: runs for MS milliseconds, or until the task is canceled.
        "slow" => slow_script(rest),
        // `begun TEXT`: an artifact at once, then runs until the task is canceled.
        "begun" => Script::new(
            [
                working(),
                artifact(ARTIFACT, text_parts(rest)),
                Step::WaitForever,
            ],
            Outcome::Completed(None),
        ),
        // `resume MS`: a run of MS milliseconds that supports `reattach`.
        "resume" => resumable_script(milliseconds(rest, 1000)),
        "ask" => Script::end(Outcome::InputRequired(text_parts(rest))),
        "auth" => Script::end(Outcome::AuthRequired(text_parts(rest))),
        "reject" => Script::end(Outcome::Rejected(rest.to_owned())),
        "fail" => Script::end(Outcome::Failed {
            reason: "scripted",
            text: rest.to_owned(),
        }),
        // `parts`: the parts of the message as JSON.
        "parts" => artifact_script(vec![Part::data(parts_json(input))]),
        // `gift`: a file, a link and data.
        "gift" => artifact_script(gift_command_parts()),
        // `big N`: N bytes of text.
        "big" => artifact_script(text_parts("x".repeat(byte_count(rest)))),
        // `who`: the client, the agent and the session as JSON.
        "who" => artifact_script(vec![Part::data(caller_json(input))]),
        // `usage TEXT`: metadata, and the text as an artifact.
        "usage" => Script::new(
            [
                Step::ExecutionEvent(ExecutionEvent::Metadata(usage_metadata())),
                artifact(ARTIFACT, text_parts(rest)),
            ],
            Outcome::Completed(None),
        ),
        _ => artifact_script(text_parts(format!("you said {input_text}"))),
    }
}

/// Returns the script for the rest of the run with this name.
fn resume_script(run: &str) -> Option<Script> {
    let remaining_ms = run.strip_prefix(RUN)?.parse().ok()?;
    Some(Script::new(
        [
            Step::Wait(Duration::from_millis(remaining_ms)),
            artifact(ARTIFACT, text_parts("taken up again")),
        ],
        Outcome::Completed(None),
    ))
}

fn resumable_script(time: Duration) -> Script {
    Script::new(
        [
            Step::ExecutionEvent(ExecutionEvent::Run(format!("{RUN}{}", time.as_millis()))),
            working(),
            Step::Wait(time),
            artifact(ARTIFACT, text_parts("done in one go")),
        ],
        Outcome::Completed(None),
    )
}

fn slow_script(rest: &str) -> Script {
    let wait = match rest.parse::<u64>() {
        Ok(time) => Step::Wait(Duration::from_millis(time.min(MAX_WAIT_MS))),
        Err(_) => Step::WaitForever,
    };
    Script::new(
        [working(), wait],
        Outcome::Completed(Some(text_parts("slowly done"))),
    )
}

fn artifact_script(parts: Vec<Part>) -> Script {
    Script::new([artifact(ARTIFACT, parts)], Outcome::Completed(None))
}

fn chunked_script<const N: usize>(all: [String; N]) -> Script {
    let steps = all
        .into_iter()
        .enumerate()
        .map(|(at, one)| artifact_chunk(ARTIFACT, text_parts(one), at > 0, at + 1 == N));
    Script::new(steps, Outcome::Completed(None))
}

/// Streams `count` numbered chunks, with a wait before each.
fn stream_script(count: u64, interval: Duration) -> Script {
    let steps = (0..count).flat_map(move |at| {
        let wait = (!interval.is_zero()).then_some(Step::Wait(interval));
        let text = text_parts(format!("{at} "));
        wait.into_iter()
            .chain([artifact_chunk(ARTIFACT, text, at > 0, at + 1 == count)])
    });
    Script::new(steps, Outcome::Completed(None))
}

fn message_text(input: &RunInput) -> String {
    let texts = input.message.parts.iter().filter_map(Part::as_text);
    texts.collect::<String>().trim().to_owned()
}

fn first_number(rest: &str, default: u64, max: u64) -> u64 {
    let number = rest.split_whitespace().next().unwrap_or_default();
    number.parse().unwrap_or(default).min(max)
}

fn second_word(rest: &str) -> &str {
    rest.split_whitespace().nth(1).unwrap_or_default()
}

fn milliseconds(text: &str, default: u64) -> Duration {
    Duration::from_millis(text.parse().unwrap_or(default).min(MAX_WAIT_MS))
}

fn byte_count(rest: &str) -> usize {
    usize::try_from(first_number(rest, 1 << 20, MAX_BYTES)).unwrap_or_default()
}

fn parts_json(input: &RunInput) -> Value {
    let parts = input.message.parts.iter();
    // Without the text part of the command.
    let seen = parts.filter(|part| !matches!(part.content, PartContent::Text(_)));
    // 0.3 supports only objects as data, so wrap the list.
    json!({"parts": seen.map(|part| json!(part)).collect::<Vec<_>>()})
}

fn gift_command_parts() -> Vec<Part> {
    vec![
        Part::raw(b"\0\xffhello".to_vec())
            .with_filename("a.bin")
            .with_media_type("application/octet-stream"),
        Part::url("https://files.test/b.png")
            .with_filename("b.png")
            .with_media_type("image/png"),
        Part::data(json!({"count": 2, "nested": {"list": ["x", null, true]}})),
    ]
}

fn caller_json(input: &RunInput) -> Value {
    json!({
        "client": input.client,
        "agent": input.agent,
        "session": input.session,
        "contextId": input.context_id,
        "taskId": input.task_id,
        "delegation": input.delegation,
    })
}

fn usage_metadata() -> HashMap<String, Value> {
    HashMap::from([("usage".to_owned(), json!({"input": 3, "output": 5}))])
}

/// A step of a script.
enum Step {
    /// Waits.
    Wait(Duration),
    /// Waits until the run is stopped.
    WaitForever,
    /// Sends an event.
    ExecutionEvent(ExecutionEvent),
}

/// The steps of a run and its outcome. The iterator creates steps lazily, so that a long script needs little memory.
struct Script {
    steps: Box<dyn Iterator<Item = Step> + Send>,
    outcome: Outcome,
}

impl Script {
    /// Creates a script without steps.
    fn end(outcome: Outcome) -> Self {
        Self::new([], outcome)
    }

    fn new<I>(steps: I, outcome: Outcome) -> Self
    where
        I: IntoIterator<Item = Step>,
        I::IntoIter: Send + 'static,
    {
        Self {
            steps: Box::new(steps.into_iter()),
            outcome,
        }
    }

    /// Prepends a step.
    fn after(self, first: Step) -> Self {
        Self {
            steps: Box::new(std::iter::once(first).chain(self.steps)),
            outcome: self.outcome,
        }
    }
}

/// Reports that the run continues.
fn working() -> Step {
    Step::ExecutionEvent(ExecutionEvent::Working(None))
}

/// Reports a whole artifact.
fn artifact(id: &str, parts: Vec<Part>) -> Step {
    artifact_chunk(id, parts, false, true)
}

/// Reports an artifact or a chunk.
fn artifact_chunk(id: &str, parts: Vec<Part>, append: bool, last_chunk: bool) -> Step {
    Step::ExecutionEvent(ExecutionEvent::Artifact {
        artifact: Artifact {
            artifact_id: id.to_owned(),
            name: None,
            description: None,
            parts,
            metadata: None,
            extensions: None,
        },
        append,
        last_chunk,
    })
}

/// Creates a text part.
fn text_parts(text: impl Into<String>) -> Vec<Part> {
    vec![Part::text(text)]
}

#[cfg(test)]
mod tests;
