//! The scripts for the A2A technology compatibility kit, by the prefix of the message id.

use std::time::Duration;

use a2a::v1_0::Part;
use serde_json::json;

use super::super::Outcome;
use super::{Script, Step, artifact, artifact_chunk, text_parts, working};

const ARTIFACT: &str = "output";

/// Returns the script for a message id of the kit. `timeout` is how long the kit waits for the events of a stream.
pub(super) fn script(message_id: &str, timeout: Duration) -> Option<Script> {
    // The first match applies, so longer prefixes precede shorter ones.
    let script = match message_id {
        id if id.starts_with("tck-complete-task") => {
            Script::end(Outcome::Completed(Some(text_parts("Hello from TCK"))))
        }
        id if id.starts_with("tck-delayed-complete") => Script::new(
            [working(), Step::Wait(timeout)],
            Outcome::Completed(Some(text_parts("Done after delay"))),
        ),
        id if id.starts_with("tck-artifact-text") => {
            artifact_script(text_parts("Generated text content"))
        }
        id if id.starts_with("tck-artifact-file-url") => artifact_script(vec![link()]),
        id if id.starts_with("tck-artifact-file") => artifact_script(vec![file()]),
        id if id.starts_with("tck-artifact-data") => artifact_script(vec![data()]),
        id if id.starts_with("tck-message-response") => {
            Script::end(Outcome::Message(text_parts("Direct message response")))
        }
        id if id.starts_with("tck-input-required") => {
            Script::end(Outcome::InputRequired(text_parts("Input required")))
        }
        id if id.starts_with("tck-auth-required") => {
            Script::end(Outcome::AuthRequired(text_parts("Authorization required")))
        }
        id if id.starts_with("tck-reject-task") => {
            Script::end(Outcome::Rejected("rejected".to_owned()))
        }
        id if id.starts_with("tck-stream-001") => {
            streaming_script(text_parts("Stream hello from TCK"))
        }
        id if id.starts_with("tck-stream-002") => Script::end(Outcome::Completed(None)),
        id if id.starts_with("tck-stream-003") => {
            streaming_script(text_parts("Stream task lifecycle"))
        }
        id if id.starts_with("tck-stream-ordering-001") => {
            streaming_script(text_parts("Ordered output"))
        }
        id if id.starts_with("tck-stream-artifact-text") => {
            streaming_script(text_parts("Streamed text content"))
        }
        id if id.starts_with("tck-stream-artifact-file") => streaming_script(vec![file()]),
        id if id.starts_with("tck-stream-artifact-chunked") => Script::new(
            [
                working(),
                artifact_chunk(ARTIFACT, text_parts("chunk-1 "), false, false),
                artifact_chunk(ARTIFACT, text_parts("chunk-2"), true, true),
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
            Script::end(Outcome::InputRequired(text_parts("Input required")))
        }
        _ => return None,
    };
    Some(script)
}

fn artifact_script(parts: Vec<Part>) -> Script {
    Script::new([artifact(ARTIFACT, parts)], Outcome::Completed(None))
}

fn streaming_script(parts: Vec<Part>) -> Script {
    artifact_script(parts).after(working())
}

fn file() -> Part {
    as_output_file(Part::raw(b"TCK file content".to_vec()))
}

fn link() -> Part {
    as_output_file(Part::url("https://example.com/output.txt"))
}

fn as_output_file(part: Part) -> Part {
    part.with_filename("output.txt")
        .with_media_type("text/plain")
}

fn data() -> Part {
    Part::data(json!({"key": "value", "count": 42})).with_media_type("application/json")
}
