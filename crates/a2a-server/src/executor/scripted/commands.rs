//! The commands of the scripted executor: the first word of a message.

use std::collections::HashMap;
use std::time::Duration;

use a2a::v1_0::{Part, PartContent};
use serde_json::{Value, json};

use super::super::{ExecutionEvent, Outcome, RunInput};
use super::script::{Script, Step, artifact, piece, text, working};

const ARTIFACT: &str = "answer";

/// The prefix of the name of a run that supports `reattach`. The rest is its duration in milliseconds.
const RUN: &str = "scripted-";

/// The limits of one script: events, milliseconds of one wait, and bytes.
const MAX_EVENTS: u64 = 1_000_000;
const MAX_WAIT_MS: u64 = 3_600_000;
const MAX_BYTES: u64 = 16 << 20;

/// Example messages.
pub(super) const EXAMPLES: [&str; 5] = [
    "echo hello",
    "stream 20 5",
    "ask which colour",
    "slow",
    "fail why",
];

/// Returns the script for the text of `input`. A colon may follow the command. An unknown command echoes the text, as
/// does the answer to `ask` and `auth`.
pub(super) fn script(input: &RunInput) -> Script {
    let said = message_text(input);
    let (word, rest) = said.split_once([' ', '\n']).unwrap_or((&said, ""));
    let rest = rest.trim();
    match word.strip_suffix(':').unwrap_or(word) {
        // `echo TEXT`: the text as an artifact.
        "echo" => gives(text(rest)),
        // `message TEXT`: the text as a message in place of a task.
        "message" => Script::end(Outcome::Message(text(rest))),
        // `say TEXT`: the text as the message of the last status.
        "say" => Script::end(Outcome::Completed(Some(text(rest)))),
        // `task TEXT`: an artifact in three chunks, the text as the last one.
        "task" => pieces(["alpha ".to_owned(), "beta ".to_owned(), rest.to_owned()]),
        // `chunks N`: an artifact in N chunks.
        "chunks" => stream(first(rest, 3, MAX_EVENTS), Duration::ZERO),
        // `stream N MS`: an artifact in N chunks, with MS milliseconds before each.
        "stream" => stream(first(rest, 20, MAX_EVENTS), milliseconds(second(rest), 5)),
        // `slow MS`: runs for MS milliseconds, or until the task is canceled.
        "slow" => slow(rest),
        // `begun TEXT`: an artifact at once, then runs until the task is canceled.
        "begun" => Script::new(
            [working(), artifact(ARTIFACT, text(rest)), Step::WaitForEver],
            Outcome::Completed(None),
        ),
        // `resume MS`: a run of MS milliseconds that supports `reattach`.
        "resume" => resumable(milliseconds(rest, 1000)),
        "ask" => Script::end(Outcome::InputRequired(text(rest))),
        "auth" => Script::end(Outcome::AuthRequired(text(rest))),
        "reject" => Script::end(Outcome::Rejected(rest.to_owned())),
        "fail" => Script::end(Outcome::Failed {
            reason: "scripted",
            text: rest.to_owned(),
        }),
        // `parts`: the parts of the message as JSON.
        "parts" => gives(vec![Part::data(parts(input))]),
        // `gift`: a file, a link and data.
        "gift" => gives(gift()),
        // `big N`: N bytes of text.
        "big" => gives(text("x".repeat(bytes(rest)))),
        // `who`: the client, the agent and the session as JSON.
        "who" => gives(vec![Part::data(who(input))]),
        // `usage TEXT`: metadata, and the text as an artifact.
        "usage" => Script::new(
            [
                Step::ExecutionEvent(ExecutionEvent::Metadata(usage())),
                artifact(ARTIFACT, text(rest)),
            ],
            Outcome::Completed(None),
        ),
        _ => gives(text(format!("you said {said}"))),
    }
}

/// Returns the script for the rest of the run with this name.
pub(super) fn resumed(run: &str) -> Option<Script> {
    let left = run.strip_prefix(RUN)?.parse().ok()?;
    Some(Script::new(
        [
            Step::Wait(Duration::from_millis(left)),
            artifact(ARTIFACT, text("taken up again")),
        ],
        Outcome::Completed(None),
    ))
}

fn resumable(time: Duration) -> Script {
    Script::new(
        [
            Step::ExecutionEvent(ExecutionEvent::Run(format!("{RUN}{}", time.as_millis()))),
            working(),
            Step::Wait(time),
            artifact(ARTIFACT, text("done in one go")),
        ],
        Outcome::Completed(None),
    )
}

fn slow(rest: &str) -> Script {
    let wait = match rest.parse::<u64>() {
        Ok(time) => Step::Wait(Duration::from_millis(time.min(MAX_WAIT_MS))),
        Err(_) => Step::WaitForEver,
    };
    Script::new(
        [working(), wait],
        Outcome::Completed(Some(text("slowly done"))),
    )
}

fn gives(parts: Vec<Part>) -> Script {
    Script::new([artifact(ARTIFACT, parts)], Outcome::Completed(None))
}

fn pieces<const N: usize>(all: [String; N]) -> Script {
    let steps = all
        .into_iter()
        .enumerate()
        .map(|(at, one)| piece(ARTIFACT, text(one), at > 0, at + 1 == N));
    Script::new(steps, Outcome::Completed(None))
}

/// Streams `count` numbered chunks, with a wait before each.
fn stream(count: u64, apart: Duration) -> Script {
    let steps = (0..count).flat_map(move |at| {
        let wait = (!apart.is_zero()).then_some(Step::Wait(apart));
        let said = text(format!("{at} "));
        wait.into_iter()
            .chain([piece(ARTIFACT, said, at > 0, at + 1 == count)])
    });
    Script::new(steps, Outcome::Completed(None))
}

fn message_text(input: &RunInput) -> String {
    let texts = input.message.parts.iter().filter_map(Part::as_text);
    texts.collect::<String>().trim().to_owned()
}

fn first(rest: &str, otherwise: u64, most: u64) -> u64 {
    let word = rest.split_whitespace().next().unwrap_or_default();
    word.parse().unwrap_or(otherwise).min(most)
}

fn second(rest: &str) -> &str {
    rest.split_whitespace().nth(1).unwrap_or_default()
}

fn milliseconds(word: &str, otherwise: u64) -> Duration {
    Duration::from_millis(word.parse().unwrap_or(otherwise).min(MAX_WAIT_MS))
}

fn bytes(rest: &str) -> usize {
    usize::try_from(first(rest, 1 << 20, MAX_BYTES)).unwrap_or_default()
}

fn parts(input: &RunInput) -> Value {
    let parts = input.message.parts.iter();
    // Without the text part of the command.
    let seen = parts.filter(|part| !matches!(part.content, PartContent::Text(_)));
    // 0.3 supports only objects as data, so wrap the list.
    json!({"parts": seen.map(|part| json!(part)).collect::<Vec<_>>()})
}

fn gift() -> Vec<Part> {
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

fn who(input: &RunInput) -> Value {
    json!({
        "client": input.client,
        "agent": input.agent,
        "session": input.session,
        "contextId": input.context_id,
        "taskId": input.task_id,
        "delegation": input.delegation,
    })
}

fn usage() -> HashMap<String, Value> {
    HashMap::from([("usage".to_owned(), json!({"input": 3, "output": 5}))])
}
