//! Misbehaviour of an agent, or of the gateway in its name, after a message.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use testkit::conformance::gateways;
use tokio::time::Instant;

use crate::gateway::{
    rig::reason,
    support::{and, at, named, state, text, to},
};

/// The deadline of a call that should end long before.
const FAR: u64 = 15_000;

/// The deadline of a call without a reply.
const NEAR: u64 = 700;

/// The outcome of a message to an agent.
enum Comes {
    /// A result with this text.
    Answer(&'static str),
    /// An error with this reason, and whether the message was delivered.
    Error(&'static str, &'static str),
    /// The end of the wait.
    Nothing,
}

use Comes::{Answer, Error, Nothing};

async fn call_agent(agent: &str, comes: Comes) {
    let gateway = named("hostile").await;
    let rig = at(&gateway.url(), json!({}));
    let deadline = if matches!(comes, Nothing) { NEAR } else { FAR };
    let begun = Instant::now();
    let request = and(to(agent, "Hello?"), json!({"timeout_ms": deadline}));
    let envelope = rig.call(&request).await;
    let took = begun.elapsed();
    match comes {
        Answer(expected) => {
            assert_eq!(envelope["ok"], true, "{envelope}");
            assert_eq!(text(&envelope), expected, "{envelope}");
        }
        Error(expected, delivered) => {
            assert_eq!(reason(&envelope), expected, "{envelope}");
            let reported = &envelope["error"]["details"]["delivered"];
            assert_eq!(reported, delivered, "{envelope}");
            clear(&envelope);
        }
        Nothing => assert_eq!(state(&envelope), "working", "{envelope}"),
    }
    let bound = if matches!(comes, Nothing) {
        FAR
    } else {
        FAR / 2
    };
    assert!(took < Duration::from_millis(bound), "{agent} took {took:?}");
    // The next call always has a working connection.
    let envelope = rig.call(&to("honest", "Hello?")).await;
    assert_eq!(
        text(&envelope),
        "the genuine answer",
        "after {agent}: {envelope}"
    );
}

/// Checks that the error has a message and a hint.
fn clear(envelope: &Value) {
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!((15..600).contains(&message.len()), "{message}");
    assert!(
        !message.contains('\n') && !message.contains('\u{1b}'),
        "{message}"
    );
    let hint = envelope["error"]["details"]["hint"]
        .as_str()
        .unwrap_or_default();
    assert!(hint.ends_with('.'), "{envelope}");
}

macro_rules! asked {
    ($($test:ident: $agent:literal => $comes:expr;)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            call_agent($agent, $comes).await;
        })+

        const ASKED: &[&str] = &[$($agent),+];
    };
}

asked! {
    an_honest_answer: "honest" => Answer("the genuine answer");
    a_message_of_more_than_1_mib: "oversize" => Error("connection_reset", "unknown");
    a_frame_without_end: "endless" => Error("connection_reset", "unknown");
    fragments_without_end: "endless-fragments" => Error("connection_reset", "unknown");
    one_binary_frame_is_passed_over: "binary-once" => Answer("the genuine answer");
    binary_frames_alone: "binary" => Error("connection_reset", "unknown");
    half_a_frame: "half-frame" => Error("connection_reset", "unknown");
    a_reset_in_mid_reply: "reset" => Error("connection_reset", "unknown");
    a_reset_without_a_word: "vanish" => Error("connection_reset", "unknown");
    a_close_with_1000: "close-1000" => Error("connection_reset", "unknown");
    a_close_with_1008: "close-1008" => Error("connection_reset", "unknown");
    a_close_with_1011: "close-1011" => Error("connection_reset", "unknown");
    h_06_a_close_with_4001_is_no_session_that_was_not_found: "close-4001" => Error("connection_reset", "unknown");
    a_close_with_a_code_that_does_not_exist: "close-code-1" => Error("connection_reset", "unknown");
    reserved_bits: "reserved-bits" => Error("connection_reset", "unknown");
    a_masked_frame: "masked" => Error("connection_reset", "unknown");
    an_opcode_that_does_not_exist: "opcode-3" => Error("connection_reset", "unknown");
    a_continuation_of_nothing: "stray-continuation" => Error("connection_reset", "unknown");
    a_ping_that_is_too_long: "long-ping" => Error("connection_reset", "unknown");
    a_ping_in_pieces: "split-ping" => Error("connection_reset", "unknown");
    a_text_that_is_no_utf_8: "bad-utf8" => Error("connection_reset", "unknown");
    fragments_are_no_misbehaviour: "fragments" => Answer("in three parts");
    an_answer_that_drips: "drip" => Answer("slow");
    what_is_not_json_is_passed_over: "not-json" => Answer("the genuine answer");
    h_04_what_is_no_object_is_passed_over: "not-objects" => Answer("the genuine answer");
    lists_in_lists_are_passed_over: "deep" => Answer("the genuine answer");
    h_20_types_that_do_not_exist_are_passed_over: "unknown-type" => Answer("the genuine answer");
    every_field_of_another_type: "wrong-types" => Nothing;
    an_answer_without_content_is_empty: "no-content" => Answer("no text");
    an_answer_of_null_is_empty: "null-content" => Answer("no text");
    h_24_forged_reply_is_ignored: "forged-from" => Answer("the genuine answer");
    h_24_forged_reply_alone_times_out: "forged-only" => Nothing;
    h_23_an_answer_to_another_request_is_not_the_answer: "other-correlation" => Answer("the genuine answer");
    h_23_a_message_without_correlation_is_not_the_answer: "no-correlation" => Nothing;
    the_first_of_two_answers_counts: "twice" => Answer("the first answer");
    an_error_after_the_answer_changes_nothing: "answer-and-error" => Answer("the genuine answer");
    h_23_an_error_without_correlation_is_about_the_one_request: "bare-error" => Error("protocol_error", "unknown");
    an_error_that_is_in_no_table: "made-up-error" => Error("protocol_error", "unknown");
    an_error_whose_name_and_number_disagree: "two-errors" => Error("agent_offline", "no");
    h_25_an_error_with_its_number_alone: "number-only" => Error("agent_busy", "no");
    h_06_an_error_with_the_number_of_a_close_code: "close-code-error" => Error("protocol_error", "unknown");
    a_flood_before_the_answer: "flood" => Answer("the genuine answer");
    a_flood_without_end: "endless-flood" => Nothing;
    pings_without_end: "endless-pings" => Nothing;
    answers_without_end: "endless-replies" => Answer("again");
    silence: "silent" => Nothing;
    h_47_a_leave_for_a_shutdown: "disconnect-shutdown" => Error("connection_reset", "unknown");
    h_47_a_leave_for_good: "disconnect-manual" => Error("connection_reset", "unknown");
}

#[test]
fn every_agent_of_the_profile_is_called() {
    let profile = gateways::profile("hostile").unwrap();
    let rules = profile["on"].as_array().unwrap().iter();
    let agents: BTreeSet<&str> = rules
        .filter_map(|rule| rule["when"]["/agent"].as_str())
        .collect();
    let asked: BTreeSet<&str> = ASKED.iter().copied().chain(["injection", "hang"]).collect();
    assert_eq!(agents, asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_posing_as_system_stays_text() {
    let gateway = named("hostile").await;
    let rig = at(&gateway.url(), json!({}));
    let envelope = rig.call(&to("injection", "Hello?")).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert_eq!(
        envelope["raw"]["role"], "agent",
        "its own role is not taken over"
    );
    let read = rig.plugin.render(&envelope.to_string());
    assert!(
        !read.contains('\u{1b}') && !read.contains('\u{202e}'),
        "{read}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_gateway_is_closed_after_two_heartbeats() {
    let gateway = named("hostile").await;
    let rig = at(&gateway.url(), json!({"heartbeatMs": 300}));
    let envelope = rig.call(&to("hang", "Hello?")).await;
    assert_eq!(reason(&envelope), "connection_reset", "{envelope}");
    let envelope = rig.call(&to("honest", "Hello?")).await;
    assert_eq!(text(&envelope), "the genuine answer", "{envelope}");
}
