//! Misbehaviour of an agent, or of the gateway in its name, after a message.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use testkit::conformance::gateways;
use tokio::time::Instant;

use crate::gateway::{
    support::{message_to, start_profile, state, text, tool_with_gateway, with_fields},
    tool_fixture::reason,
};

/// The deadline of a call that should end long before.
const LONG_TIMEOUT_MS: u64 = 60_000;

/// The deadline of a call without a reply.
const SHORT_TIMEOUT_MS: u64 = 700;

/// The outcome of a message to an agent.
enum Expected {
    /// A result with this text.
    Answer(&'static str),
    /// An error with this reason, and whether the message was delivered.
    Error(&'static str, &'static str),
    /// The end of the wait.
    Nothing,
}

use Expected::{Answer, Error, Nothing};

async fn call_agent(agent: &str, expected: Expected) {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let deadline = if matches!(expected, Nothing) {
        SHORT_TIMEOUT_MS
    } else {
        LONG_TIMEOUT_MS
    };
    let started_at = Instant::now();
    let request = with_fields(message_to(agent, "Hello?"), json!({"timeout_ms": deadline}));
    let envelope = fixture.call(&request).await;
    let elapsed = started_at.elapsed();
    match expected {
        Answer(expected) => {
            assert_eq!(envelope["ok"], true, "{envelope}");
            assert_eq!(text(&envelope), expected, "{envelope}");
        }
        Error(expected, delivered) => {
            assert_eq!(reason(&envelope), expected, "{envelope}");
            let reported = &envelope["error"]["details"]["delivered"];
            assert_eq!(reported, delivered, "{envelope}");
            check_error_text(&envelope);
        }
        Nothing => assert_eq!(state(&envelope), "working", "{envelope}"),
    }
    let bound = if matches!(expected, Nothing) {
        LONG_TIMEOUT_MS
    } else {
        LONG_TIMEOUT_MS / 2
    };
    assert!(
        elapsed < Duration::from_millis(bound),
        "{agent} took {elapsed:?}"
    );
    // The next call always has a working connection.
    let envelope = fixture.call(&message_to("honest", "Hello?")).await;
    assert_eq!(
        text(&envelope),
        "the genuine answer",
        "after {agent}: {envelope}"
    );
}

/// Checks that the error has a message and a hint.
fn check_error_text(envelope: &Value) {
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

macro_rules! agent_tests {
    ($($test:ident: $agent:literal => $expected:expr;)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            call_agent($agent, $expected).await;
        })+

        const AGENTS: &[&str] = &[$($agent),+];
    };
}

agent_tests! {
    honest_answer_is_returned: "honest" => Answer("the genuine answer");
    message_above_1_mib_resets: "oversize" => Error("connection_reset", "unknown");
    endless_frame_resets: "endless" => Error("connection_reset", "unknown");
    endless_fragments_reset: "endless-fragments" => Error("connection_reset", "unknown");
    single_binary_frame_is_ignored: "binary-once" => Answer("the genuine answer");
    binary_frames_reset: "binary" => Error("connection_reset", "unknown");
    truncated_frame_resets: "half-frame" => Error("connection_reset", "unknown");
    reset_in_mid_reply_is_reported: "reset" => Error("connection_reset", "unknown");
    reset_without_close_is_reported: "vanish" => Error("connection_reset", "unknown");
    close_1000_is_reported: "close-1000" => Error("connection_reset", "unknown");
    close_1008_is_reported: "close-1008" => Error("connection_reset", "unknown");
    close_1011_is_reported: "close-1011" => Error("connection_reset", "unknown");
    h_06_close_4001_is_not_session_not_found: "close-4001" => Error("connection_reset", "unknown");
    close_with_invalid_code_resets: "close-code-1" => Error("connection_reset", "unknown");
    reserved_bits_reset: "reserved-bits" => Error("connection_reset", "unknown");
    masked_frame_resets: "masked" => Error("connection_reset", "unknown");
    unknown_opcode_resets: "opcode-3" => Error("connection_reset", "unknown");
    stray_continuation_resets: "stray-continuation" => Error("connection_reset", "unknown");
    oversized_ping_resets: "long-ping" => Error("connection_reset", "unknown");
    fragmented_ping_resets: "split-ping" => Error("connection_reset", "unknown");
    invalid_utf_8_resets: "bad-utf8" => Error("connection_reset", "unknown");
    fragmented_answer_is_returned: "fragments" => Answer("in three parts");
    slow_answer_is_returned: "drip" => Answer("slow");
    invalid_json_is_ignored: "not-json" => Answer("the genuine answer");
    h_04_non_object_is_ignored: "not-objects" => Answer("the genuine answer");
    deeply_nested_lists_are_ignored: "deep" => Answer("the genuine answer");
    h_20_unknown_type_is_ignored: "unknown-type" => Answer("the genuine answer");
    fields_of_invalid_types_are_ignored: "wrong-types" => Nothing;
    answer_without_content_is_empty: "no-content" => Answer("no text");
    null_answer_is_empty: "null-content" => Answer("no text");
    h_24_forged_reply_is_ignored: "forged-from" => Answer("the genuine answer");
    h_24_forged_reply_alone_times_out: "forged-only" => Nothing;
    h_23_answer_to_another_request_is_ignored: "other-correlation" => Answer("the genuine answer");
    h_23_uncorrelated_message_is_ignored: "no-correlation" => Nothing;
    first_of_two_answers_counts: "twice" => Answer("the first answer");
    error_after_the_answer_is_ignored: "answer-and-error" => Answer("the genuine answer");
    h_23_uncorrelated_error_fails_the_only_request: "bare-error" => Error("protocol_error", "unknown");
    unknown_error_is_protocol_error: "made-up-error" => Error("protocol_error", "unknown");
    error_name_precedes_its_number: "two-errors" => Error("agent_offline", "no");
    h_25_error_number_suffices: "number-only" => Error("agent_busy", "unknown");
    h_06_close_code_is_not_an_error_number: "close-code-error" => Error("protocol_error", "unknown");
    flood_before_the_answer_is_ignored: "flood" => Answer("the genuine answer");
    endless_flood_times_out: "endless-flood" => Nothing;
    endless_pings_reset: "endless-pings" => Error("connection_reset", "unknown");
    first_of_endless_answers_counts: "endless-replies" => Answer("again");
    silence: "silent" => Nothing;
    h_47_disconnect_for_shutdown_is_reported: "disconnect-shutdown" => Error("connection_reset", "unknown");
    h_47_manual_disconnect_is_reported: "disconnect-manual" => Error("connection_reset", "unknown");
}

#[test]
fn every_agent_of_the_profile_is_called() {
    let profile = gateways::profile("hostile").unwrap();
    let rules = profile["on"].as_array().unwrap().iter();
    let agents: BTreeSet<&str> = rules
        .filter_map(|rule| rule["when"]["/agent"].as_str())
        .collect();
    let called: BTreeSet<&str> = AGENTS
        .iter()
        .copied()
        .chain(["injection", "hang"])
        .collect();
    assert_eq!(agents, called);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_posing_as_system_stays_text() {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let envelope = fixture.call(&message_to("injection", "Hello?")).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert_eq!(
        envelope["raw"]["role"], "agent",
        "its own role is not taken over"
    );
    let read = fixture.plugin.render(&envelope.to_string());
    assert!(
        !read.contains('\u{1b}') && !read.contains('\u{202e}'),
        "{read}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_gateway_is_closed_after_two_heartbeats() {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"heartbeatMs": 300}));
    let envelope = fixture.call(&message_to("hang", "Hello?")).await;
    assert_eq!(reason(&envelope), "connection_reset", "{envelope}");
    let envelope = fixture.call(&message_to("honest", "Hello?")).await;
    assert_eq!(text(&envelope), "the genuine answer", "{envelope}");
}
