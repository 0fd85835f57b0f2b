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
        messages::the_card_is_read,
        messages::the_wanted_binding_and_version_are_spoken,
        messages::a_message_is_answered_by_a_message,
        messages::a_message_arrives_by_stream;
    "task, streamed artifacts":
        tasks::a_task_is_waited_for,
        tasks::a_streamed_task_arrives_chunk_by_chunk;
    "question and answer":
        questions::a_question_is_answered_after_a_restart,
        questions::a_question_is_answered_by_stream_after_a_restart;
    "auth required":
        questions::a_task_that_waits_for_authorization_says_so,
        questions::a_task_that_waits_for_authorization_ends_the_stream;
    "failure":
        ends::a_failed_task_is_an_answer,
        ends::a_failed_task_arrives_by_stream;
    "rejection":
        ends::a_rejected_task_is_an_answer,
        ends::a_rejected_task_arrives_by_stream;
    "crash":
        ends::an_agent_that_crashes_is_reported,
        ends::an_agent_that_crashes_in_a_stream_is_reported;
    "cancel while streaming":
        stops::a_streaming_task_is_cancelled_and_what_it_said_is_kept,
        stops::a_task_in_the_background_is_cancelled;
    "cancel when finished":
        stops::a_finished_task_is_not_cancelled;
    "status with history":
        lifecycle::a_status_is_asked_by_handle,
        lifecycle::a_status_is_asked_by_task_id,
        lifecycle::a_status_brings_as_much_history_as_is_asked_for;
    "status of an unknown task":
        lifecycle::an_unknown_task_is_refused;
    "watch from elsewhere":
        watching::a_second_instance_watches,
        watching::a_watcher_keeps_what_it_received_before_a_cancel,
        watching::a_finished_task_can_be_watched;
    "files and data":
        parts::binary_file_and_data_reach_the_agent,
        parts::a_text_file_reaches_the_agent,
        parts::file_and_data_come_back;
    "5 MiB artifact":
        large::a_large_artifact_arrives_in_a_reply,
        large::a_large_artifact_arrives_by_stream;
    "push config":
        push::a_callback_is_set_and_called;
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
