//! The expected outcome of every scenario that does not simply pass.

use std::collections::HashSet;

use crate::outcome::Expected::{self, Deviates, NotOffered, Refused};
use crate::scenarios::{SCENARIOS, Scenario};
use crate::servers::{Column, columns};

/// A scenario with the columns whose names have this prefix.
type Row = (&'static str, &'static str, Expected);

const FINISHED: Expected = Refused("-32002", "Task cannot be canceled");
const FINISHED_JS: Expected = Refused("-32002", "Task not cancelable");
const UNKNOWN: Expected = Refused("-32001", "Task not found");
const UNHANDLED: Expected = Refused("HTTP 500", "unknown exception");
const CRASHED: Expected = Refused("-32603", "boom");
const STREAM_CUT: Expected = Refused("connection_cut", "broke off");
const ONLY_TWO: Expected = Refused("-32004", "supported methods are SendMessage and GetTask");
const NEW_TASK: Expected = Deviates("starts a new task");
const IN_COMPLETED_TASK: Expected = Deviates("said in a completed task");
const TOO_LARGE: Expected = Refused("-32000", "exceeds the 1 MiB limit");
const RECODED: Expected = Deviates("bytes are recoded");
const FILE_NAMES_LOST: Expected = Deviates("file names are lost");

/// The expectations. The first matching row applies.
const ROWS: &[Row] = &[
    // A crash: JSON-RPC reports the cause, HTTP+JSON does not, and a stream of 0.3 breaks off.
    (
        "py13 hybrid HTTP+JSON 0.3",
        "crash_of_agent_during_stream_is_reported",
        STREAM_CUT,
    ),
    ("py13 HTTP+JSON", "crash_of_agent_is_reported", UNHANDLED),
    (
        "py13 HTTP+JSON",
        "crash_of_agent_during_stream_is_reported",
        UNHANDLED,
    ),
    (
        "py13 hybrid HTTP+JSON",
        "crash_of_agent_is_reported",
        UNHANDLED,
    ),
    (
        "py13 hybrid HTTP+JSON",
        "crash_of_agent_during_stream_is_reported",
        UNHANDLED,
    ),
    ("py13", "crash_of_agent_is_reported", CRASHED),
    ("py13", "crash_of_agent_during_stream_is_reported", CRASHED),
    ("py03 HTTP+JSON", "crash_of_agent_is_reported", UNHANDLED),
    ("py03", "crash_of_agent_is_reported", CRASHED),
    (
        "py03",
        "crash_of_agent_during_stream_is_reported",
        STREAM_CUT,
    ),
    (
        "rs05 HTTP+JSON",
        "crash_of_agent_is_reported",
        Refused("HTTP 500", "boom"),
    ),
    ("rs05", "crash_of_agent_is_reported", CRASHED),
    ("rs05", "crash_of_agent_during_stream_is_reported", CRASHED),
    // The cancellation of a finished task.
    ("py", "finished_task_is_not_cancelled", FINISHED),
    ("js", "finished_task_is_not_cancelled", FINISHED_JS),
    (
        "rs05",
        "finished_task_is_not_cancelled",
        Refused("-32002", "task cannot be canceled"),
    ),
    // An unknown task.
    (
        "rs05",
        "unknown_task_is_refused",
        Refused("-32001", "task not found"),
    ),
    ("", "unknown_task_is_refused", UNKNOWN),
    // The official servers lose files over HTTP+JSON 0.3.
    (
        "py13 hybrid HTTP+JSON 0.3",
        "binary_file_and_data_reach_the_agent",
        UNHANDLED,
    ),
    (
        "py13 hybrid HTTP+JSON 0.3",
        "text_file_reaches_the_agent",
        UNHANDLED,
    ),
    (
        "py13 hybrid HTTP+JSON 0.3",
        "file_and_data_come_back",
        RECODED,
    ),
    (
        "py03 HTTP+JSON",
        "binary_file_and_data_reach_the_agent",
        UNHANDLED,
    ),
    ("py03 HTTP+JSON", "text_file_reaches_the_agent", RECODED),
    ("py03 HTTP+JSON", "file_and_data_come_back", RECODED),
    (
        "js13 hybrid HTTP+JSON 0.3",
        "binary_file_and_data_reach_the_agent",
        FILE_NAMES_LOST,
    ),
    (
        "js13 hybrid HTTP+JSON 0.3",
        "text_file_reaches_the_agent",
        FILE_NAMES_LOST,
    ),
    (
        "js13 hybrid HTTP+JSON 0.3",
        "file_and_data_come_back",
        FILE_NAMES_LOST,
    ),
    (
        "js03 HTTP+JSON",
        "binary_file_and_data_reach_the_agent",
        FILE_NAMES_LOST,
    ),
    (
        "js03 HTTP+JSON",
        "text_file_reaches_the_agent",
        FILE_NAMES_LOST,
    ),
    ("js03 HTTP+JSON", "file_and_data_come_back", FILE_NAMES_LOST),
    // OpenClaw's channel only sends and gets. Its agent is OpenClaw's, so only the model can fail.
    (
        "openclaw",
        "message_is_answered_by_a_message",
        Deviates("a task, not a message"),
    ),
    (
        "openclaw",
        "message_arrives_by_stream",
        Deviates("a task, not a message"),
    ),
    (
        "openclaw",
        "streamed_task_arrives_chunk_by_chunk",
        Deviates("whole, not streamed"),
    ),
    ("openclaw", "question_is_answered_after_a_restart", NEW_TASK),
    (
        "openclaw",
        "question_is_answered_by_stream_after_a_restart",
        NEW_TASK,
    ),
    (
        "openclaw",
        "task_awaiting_authorization_reports_it",
        NotOffered,
    ),
    (
        "openclaw",
        "task_awaiting_authorization_ends_stream",
        NotOffered,
    ),
    ("openclaw", "failed_task_is_an_answer", IN_COMPLETED_TASK),
    (
        "openclaw",
        "failed_task_arrives_by_stream",
        IN_COMPLETED_TASK,
    ),
    ("openclaw", "crash_of_agent_is_reported", NotOffered),
    (
        "openclaw",
        "crash_of_agent_during_stream_is_reported",
        NotOffered,
    ),
    ("openclaw", "large_artifact_arrives_in_a_reply", TOO_LARGE),
    ("openclaw", "large_artifact_arrives_by_stream", TOO_LARGE),
    (
        "openclaw",
        "canceled_streaming_task_keeps_its_output",
        ONLY_TWO,
    ),
    ("openclaw", "task_in_the_background_is_cancelled", ONLY_TWO),
    ("openclaw", "finished_task_is_not_cancelled", ONLY_TWO),
    (
        "openclaw",
        "status_has_requested_history_length",
        Deviates("no history"),
    ),
    (
        "openclaw",
        "second_instance_watches",
        Deviates("asked again and again"),
    ),
    (
        "openclaw",
        "watcher_keeps_output_from_before_cancel",
        ONLY_TWO,
    ),
    (
        "openclaw",
        "binary_file_and_data_reach_the_agent",
        Deviates("data only"),
    ),
    (
        "openclaw",
        "text_file_reaches_the_agent",
        Deviates("data only"),
    ),
    ("openclaw", "file_and_data_come_back", NotOffered),
    (
        "openclaw",
        "callback_is_set_and_called",
        Deviates("no callback: the wish is ignored"),
    ),
];

/// Returns the expected outcome of a cell.
pub fn expected(column: Column, scenario: &Scenario) -> Expected {
    let name = column.to_string();
    let fits = |(begin, expected, _): &&Row| *expected == scenario.name && name.starts_with(begin);
    ROWS.iter()
        .find(fits)
        .map_or(Expected::Green, |(_, _, expected)| *expected)
}

/// Every row applies to a cell.
pub fn check() {
    let names: Vec<String> = columns().iter().map(ToString::to_string).collect();
    let scenarios: HashSet<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    for (begin, scenario, _) in ROWS {
        assert!(
            scenarios.contains(scenario),
            "there is no scenario `{scenario}`"
        );
        let fits = names.iter().any(|name| name.starts_with(begin));
        assert!(fits, "no column begins with `{begin}`");
    }
}
