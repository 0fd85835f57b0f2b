//! Servers at the gateway's address that are not gateways, or have a faulty handshake.

use crate::support::assert_has;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::gateway::{
    support::{message_to, start_profile, text, tool_with_gateway, with_fields},
    tool_fixture::reason,
};

/// The timeout of connecting to a gateway with an endless handshake.
const TIMEOUT_MS: u64 = 400;

/// Calls an agent through this server. The call ends long before its deadline.
async fn call_server(path: &str, settings: Value) -> Value {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&format!("{}{path}", gateway.url()), settings);
    let started_at = Instant::now();
    let request = with_fields(
        message_to("honest", "Hello?"),
        json!({"timeout_ms": 15_000}),
    );
    let envelope = fixture.call(&request).await;
    let elapsed = started_at.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{path} took {elapsed:?}");
    envelope
}

#[track_caller]
fn check_refusal(envelope: &Value, expected: &str) {
    assert_eq!(reason(envelope), expected, "{envelope}");
    let details = &envelope["error"]["details"];
    assert_eq!(details["delivered"], "no", "{envelope}");
    assert!(
        details["hint"]
            .as_str()
            .is_some_and(|hint| hint.ends_with('.')),
        "{envelope}"
    );
}

macro_rules! handshake_tests {
    ($($test:ident: $path:literal, $settings:tt => $reason:literal;)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            check_refusal(&call_server($path, json!($settings)).await, $reason);
        })+
    };
}

handshake_tests! {
    slow_head_times_out: "/slow-head", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    endless_head_is_refused: "/endless-head", {"timeoutMs": 3000} => "protocol_error";
    missing_answer_times_out: "/no-answer", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    h_01_control_page_is_refused: "/html", {} => "protocol_error";
    h_01_path_without_gateway_is_refused: "/not-found", {} => "protocol_error";
    h_03_redirect_is_refused: "/redirect", {} => "redirect_refused";
    unauthorized_upgrade_requires_auth: "/unauthorized", {} => "auth_required";
    invalid_accept_key_is_refused: "/wrong-accept", {} => "protocol_error";
    missing_accept_key_is_refused: "/no-accept", {} => "protocol_error";
    h_02_unoffered_subprotocol_is_refused: "/other-protocol", {} => "protocol_error";
    unoffered_extension_is_refused: "/extension", {} => "protocol_error";
    truncated_first_frame_resets: "/cut-greeting", {} => "connection_reset";
    first_frame_above_1_mib_is_refused: "/huge-greeting", {} => "protocol_error";
    h_06_immediate_close_4001_is_auth_failed: "/close-4001", {} => "auth_failed";
    immediate_close_1008_is_refused: "/close-1008", {} => "connection_refused";
    h_08_missing_acknowledgement_is_a_timeout: "/no-ack", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    h_08_slow_acknowledgement_times_out: "/slow-ack", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    h_09_missing_version_is_refused: "/version-none", {} => "protocol_error";
    h_09_other_major_version_is_an_error: "/version-2", {} => "protocol_error";
    malformed_acknowledgement_times_out: "/wrong-ack", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    full_gateway_refuses_connection: "/refused", {} => "connection_refused";
    h_10_gateway_with_auth_requires_credential: "/auth-wanted", {} => "auth_required";
    h_11_rejected_credential_is_auth_failed: "/auth-wanted", {"token": "wrong"} => "auth_failed";
    flood_before_handshake_times_out: "/flood", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_http_server_is_refused() {
    let envelope = call_server("/garbage", json!({})).await;
    assert_has(
        &envelope,
        json!({"ok": false, "error": {"details": {"delivered": "no"}}}),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_envelope_before_handshake_is_ignored() {
    let envelope = call_server("/hostile-greeting", json!({})).await;
    assert_eq!(text(&envelope), "the genuine answer", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_07_two_missed_pongs_close_the_connection() {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(
        &format!("{}/mute", gateway.url()),
        json!({"heartbeatMs": 60}),
    );
    let started_at = Instant::now();
    let envelope = fixture.call(&message_to("silent", "Hello?")).await;
    assert_has(
        &envelope,
        json!({"error": {"reason": "connection_reset", "details": {"delivered": "unknown"}}}),
    );
    assert!(
        started_at.elapsed() < Duration::from_secs(5),
        "{:?}",
        started_at.elapsed()
    );
    assert!(gateway.log().matching(&json!({"/type": "ping"})).len() >= 2);
}
