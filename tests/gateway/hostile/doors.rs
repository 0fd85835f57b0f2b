//! Servers at the gateway's address that are not gateways, or have a faulty handshake.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::gateway::{
    rig::reason,
    support::{and, at, named, text, to},
};

/// The timeout of connecting to a gateway with an endless handshake.
const TIMEOUT_MS: u64 = 400;

/// Calls an agent through this server. The call ends long before its deadline.
async fn knock(path: &str, settings: Value) -> Value {
    let gateway = named("hostile").await;
    let rig = at(&format!("{}{path}", gateway.url()), settings);
    let begun = Instant::now();
    let request = and(to("honest", "Hello?"), json!({"timeout_ms": 15_000}));
    let envelope = rig.call(&request).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{path} took {took:?}");
    envelope
}

#[track_caller]
fn refused(envelope: &Value, expected: &str) {
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

macro_rules! doors {
    ($($test:ident: $path:literal, $settings:tt => $reason:literal;)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            refused(&knock($path, json!($settings)).await, $reason);
        })+
    };
}

doors! {
    a_head_that_drips: "/slow-head", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    a_head_without_end: "/endless-head", {"timeoutMs": 3000} => "protocol_error";
    no_answer_at_all: "/no-answer", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    h_01_the_control_page_of_a_gateway: "/html", {} => "protocol_error";
    h_01_a_path_without_a_gateway: "/not-found", {} => "protocol_error";
    h_03_a_redirect: "/redirect", {} => "redirect_refused";
    an_upgrade_that_wants_a_credential: "/unauthorized", {} => "auth_required";
    an_accept_of_another_key: "/wrong-accept", {} => "protocol_error";
    no_accept: "/no-accept", {} => "protocol_error";
    h_02_a_subprotocol_that_was_not_offered: "/other-protocol", {} => "protocol_error";
    an_extension_that_was_not_offered: "/extension", {} => "protocol_error";
    half_a_greeting: "/cut-greeting", {} => "connection_reset";
    a_greeting_of_more_than_1_mib: "/huge-greeting", {} => "protocol_error";
    h_06_a_close_with_4001_at_once: "/close-4001", {} => "auth_failed";
    a_close_with_1008_at_once: "/close-1008", {} => "connection_refused";
    h_08_no_acknowledgement: "/no-ack", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    h_08_an_acknowledgement_that_drips: "/slow-ack", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    h_09_no_version: "/version-none", {} => "protocol_error";
    h_09_another_major_version: "/version-2", {} => "protocol_error";
    an_acknowledgement_of_other_types: "/wrong-ack", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
    a_gateway_that_is_full: "/refused", {} => "connection_refused";
    h_10_a_gateway_that_wants_a_credential: "/auth-wanted", {} => "auth_required";
    h_11_a_credential_that_is_not_taken: "/auth-wanted", {"token": "wrong"} => "auth_failed";
    a_flood_instead_of_a_greeting: "/flood", {"timeoutMs": TIMEOUT_MS} => "connection_timeout";
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn something_that_is_no_http() {
    let envelope = knock("/garbage", json!({})).await;
    assert_eq!(envelope["ok"], false, "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["delivered"], "no",
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_envelope_of_other_types_before_the_greeting_does_no_harm() {
    let envelope = knock("/hostile-greeting", json!({})).await;
    assert_eq!(text(&envelope), "the genuine answer", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_07_two_missed_pongs_end_the_connection() {
    let gateway = named("hostile").await;
    let rig = at(
        &format!("{}/mute", gateway.url()),
        json!({"heartbeatMs": 60}),
    );
    let begun = Instant::now();
    let envelope = rig.call(&to("silent", "Hello?")).await;
    assert_eq!(reason(&envelope), "connection_reset", "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["delivered"], "unknown",
        "{envelope}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(gateway.log().matching(&json!({"/type": "ping"})).len() >= 2);
}
