//! The scripts for the A2A technology compatibility kit, by the prefix of the message id.

use std::time::Duration;

use a2a::v1_0::Part;
use serde_json::json;

use super::super::Outcome;
use super::script::{Script, Step, artifact, piece, text, working};

const ARTIFACT: &str = "output";

/// Returns the script for a message id of the kit. `timeout` is how long the kit waits for the events of a stream.
pub(super) fn script(message_id: &str, timeout: Duration) -> Option<Script> {
    // The first match applies, so longer prefixes precede shorter ones.
    let script = match message_id {
        id if id.starts_with("tck-complete-task") => {
            Script::end(Outcome::Completed(Some(text("Hello from TCK"))))
        }
        id if id.starts_with("tck-delayed-complete") => Script::new(
            [working(), Step::Wait(timeout)],
            Outcome::Completed(Some(text("Done after delay"))),
        ),
        id if id.starts_with("tck-artifact-text") => gives(text("Generated text content")),
        id if id.starts_with("tck-artifact-file-url") => gives(vec![link()]),
        id if id.starts_with("tck-artifact-file") => gives(vec![file()]),
        id if id.starts_with("tck-artifact-data") => gives(vec![data()]),
        id if id.starts_with("tck-message-response") => {
            Script::end(Outcome::Message(text("Direct message response")))
        }
        id if id.starts_with("tck-input-required") => {
            Script::end(Outcome::InputRequired(text("Input required")))
        }
        id if id.starts_with("tck-auth-required") => {
            Script::end(Outcome::AuthRequired(text("Authorization required")))
        }
        id if id.starts_with("tck-reject-task") => {
            Script::end(Outcome::Rejected("rejected".to_owned()))
        }
        id if id.starts_with("tck-stream-001") => streams(text("Stream hello from TCK")),
        id if id.starts_with("tck-stream-002") => Script::end(Outcome::Completed(None)),
        id if id.starts_with("tck-stream-003") => streams(text("Stream task lifecycle")),
        id if id.starts_with("tck-stream-ordering-001") => streams(text("Ordered output")),
        id if id.starts_with("tck-stream-artifact-text") => streams(text("Streamed text content")),
        id if id.starts_with("tck-stream-artifact-file") => streams(vec![file()]),
        id if id.starts_with("tck-stream-artifact-chunked") => Script::new(
            [
                working(),
                piece(ARTIFACT, text("chunk-1 "), false, false),
                piece(ARTIFACT, text("chunk-2"), true, true),
            ],
            Outcome::Completed(None),
        ),
        // The kit disconnects during the wait and subscribes again.
        id if id.starts_with("test-resubscribe-message-id") => Script::new(
            [working(), Step::Wait(2 * timeout)],
            Outcome::Completed(None),
        ),
        // A message of the kit for 0.3, which has no scenarios. The kit continues the task, cancels it, and registers
        // webhooks.
        id if id.starts_with("test-") || id.contains("-message-id-") => {
            Script::end(Outcome::InputRequired(text("Input required")))
        }
        _ => return None,
    };
    Some(script)
}

fn gives(parts: Vec<Part>) -> Script {
    Script::new([artifact(ARTIFACT, parts)], Outcome::Completed(None))
}

fn streams(parts: Vec<Part>) -> Script {
    gives(parts).after(working())
}

fn file() -> Part {
    named(Part::raw(b"TCK file content".to_vec()))
}

fn link() -> Part {
    named(Part::url("https://example.com/output.txt"))
}

fn named(part: Part) -> Part {
    part.with_filename("output.txt")
        .with_media_type("text/plain")
}

fn data() -> Part {
    Part::data(json!({"key": "value", "count": 42})).with_media_type("application/json")
}
