//! The scenarios for every server. Each scenario is a separate test with each server; scenarios of one theme share a column
//! of the table.

mod ends;
mod large;
mod lifecycle;
mod messages;
mod parts;
mod push;
mod questions;
mod stops;
mod tasks;
mod watching;

use serde_json::Value;

use crate::outcome::Outcome;
use crate::peer::Peer;

/// The control flow of a scenario: it returns early if the peer refuses.
pub type Run = Result<Outcome, Outcome>;

/// A scenario, described in a sentence.
pub struct Scenario {
    /// Its column of the table.
    pub theme: &'static str,
    pub name: &'static str,
    run: fn(Peer) -> Run,
}

impl Scenario {
    pub fn run(&self, peer: Peer) -> Outcome {
        (self.run)(peer).unwrap_or_else(|refused| refused)
    }
}

macro_rules! scenarios {
    ($($theme:literal: $($room:ident::$name:ident),+ $(,)?;)+) => {
        /// Every scenario, grouped by theme.
        pub const SCENARIOS: &[Scenario] = &[$($(Scenario {
            theme: $theme,
            name: stringify!($name),
            run: $room::$name,
        }),+),+];
    };
}

scenarios! {
    "message":
        messages::card_is_read,
        messages::preferred_binding_and_version_are_used,
        messages::message_is_answered_by_a_message,
        messages::message_arrives_by_stream;
    "task, streamed artifacts":
        tasks::task_is_waited_for,
        tasks::streamed_task_arrives_chunk_by_chunk;
    "question and answer":
        questions::question_is_answered_after_a_restart,
        questions::question_is_answered_by_stream_after_a_restart;
    "auth required":
        questions::task_awaiting_authorization_reports_it,
        questions::task_awaiting_authorization_ends_stream;
    "failure":
        ends::failed_task_is_an_answer,
        ends::failed_task_arrives_by_stream;
    "rejection":
        ends::rejected_task_is_an_answer,
        ends::rejected_task_arrives_by_stream;
    "crash":
        ends::crash_of_agent_is_reported,
        ends::crash_of_agent_during_stream_is_reported;
    "cancel while streaming":
        stops::canceled_streaming_task_keeps_its_output,
        stops::task_in_the_background_is_cancelled;
    "cancel when finished":
        stops::finished_task_is_not_cancelled;
    "status with history":
        lifecycle::status_is_read_by_handle,
        lifecycle::status_is_read_by_task_id,
        lifecycle::status_has_requested_history_length;
    "status of an unknown task":
        lifecycle::unknown_task_is_refused;
    "watch from elsewhere":
        watching::second_instance_watches,
        watching::watcher_keeps_output_from_before_cancel,
        watching::finished_task_can_be_watched;
    "files and data":
        parts::binary_file_and_data_reach_the_agent,
        parts::text_file_reaches_the_agent,
        parts::file_and_data_come_back;
    "5 MiB artifact":
        large::large_artifact_arrives_in_a_reply,
        large::large_artifact_arrives_by_stream;
    "push config":
        push::callback_is_set_and_called;
}

/// Returns the task of an answer, or the refusal of the peer.
fn task(answer: &Value) -> Result<&Value, Outcome> {
    if answer["ok"] == false {
        return Err(Outcome::refused(answer));
    }
    assert_eq!(answer["summary"]["response_kind"], "task", "{answer:#}");
    Ok(&answer["summary"]["continuation"]["task"])
}

/// Returns the kinds of events.
fn kinds(events: &Value) -> Vec<&str> {
    let events = events.as_array().expect("a list of events");
    events
        .iter()
        .map(|event| event["kind"].as_str().expect("a kind"))
        .collect()
}
