//! The tool with a scripted gateway of `a2a-v1`. The tests of the bridge have the details of the protocol.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use testkit::conformance::gateways::LogEvent;
use tokio::time::Instant;

use crate::gateway::{
    support::{
        continue_task, decision, decision_frame, message_to, propose, start_gateway, text,
        tool_with_gateway, vote_frame, with_fields,
    },
    tool_fixture::within_timeout,
};
use crate::support::assert_has;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_08_h_09_h_13_first_frame_advertises_version_and_types() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    fixture.call(&message_to("alpha", "Hello?")).await;
    let first = &gateway.log().frames()[0];
    let capabilities = json!({"version": "1.0.0"});
    assert_has(
        first,
        json!({"type": "handshake", "content": {"action": "advertise", "capabilities": capabilities}}),
    );
    let capabilities = &first["content"]["capabilities"];
    let types = capabilities["supportedMessageTypes"].as_array().unwrap();
    for kind in ["message", "status", "error", "vote", "decision"] {
        assert!(types.contains(&json!(kind)), "{first}");
    }
    assert_eq!(capabilities.get("supportedAgents"), None, "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_17_h_21_message_has_new_ids_and_the_metadata_of_the_call() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let kept = json!({"priority": "high", "threadId": "t-1", "parentId": "p-1", "ttl": 60});
    let fields = json!({"context_id": "talk-7", "metadata": {"correlationId": "of-the-caller"}});
    let request = with_fields(message_to("alpha", "Hello?"), fields);
    let request = with_fields(request, json!({"metadata": kept}));
    let before = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let envelope = fixture.call(&request).await;
    assert_has(
        &envelope,
        json!({"ok": true, "raw": {"contextId": "talk-7"}}),
    );
    let message = gateway.log().frame(1, &json!({"/type": "message"})).await;
    assert_has(
        &message,
        json!({"agent": "alpha", "sessionId": "talk-7", "metadata": kept}),
    );
    assert_has(&message, json!({"metadata": {"requiresResponse": true}}));
    assert_eq!(
        message["content"],
        json!({"role": "user", "content": "Hello?"})
    );
    let uuid = message["id"]
        .as_str()
        .unwrap()
        .strip_prefix("msg-")
        .unwrap();
    assert_eq!(
        uuid::Uuid::parse_str(uuid).unwrap().get_version_num(),
        4,
        "{message}"
    );
    let at = message["timestamp"].as_u64().unwrap();
    assert!((before..before + 60_000).contains(&at), "{message}");
    let correlation_id = message["metadata"]["correlationId"].as_str().unwrap();
    let is_new = correlation_id != "of-the-caller" && correlation_id.len() > 20;
    assert!(is_new, "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_16_data_part_is_sent_with_the_other_parts() {
    let gateway = start_gateway(json!([])).await;
    let parts = json!([{"kind": "text", "text": "Look:"}, {"kind": "data", "data": {"a": 1}}]);
    let request = with_fields(message_to("alpha", ""), json!({"parts": parts}));
    tool_with_gateway(&gateway.url(), json!({}))
        .call(&request)
        .await;
    let message = gateway.log().frame(1, &json!({"/type": "message"})).await;
    assert_eq!(message["content"]["content"]["parts"], parts, "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_41_deadline_is_in_unix_milliseconds() {
    let decide = json!({"when": {"/type": "proposal"}, "do": [{"send": decision_frame("rejected", json!({}), false)}]});
    let gateway = start_gateway(json!([decide])).await;
    let deadline = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 + 60_000;
    let data = json!({"proposal": "Ship it?", "reasoning": "It is done.", "deadline": deadline});
    let request = with_fields(
        propose(""),
        json!({"parts": [{"kind": "data", "data": data}]}),
    );
    tool_with_gateway(&gateway.url(), json!({}))
        .call(&request)
        .await;
    let proposal = gateway.log().frame(1, &json!({"/type": "proposal"})).await;
    assert_has(&proposal, json!({"content": {"reasoning": "It is done."}}));
    let reported = proposal["content"]["deadline"].as_u64().unwrap();
    assert!(reported.abs_diff(deadline) < 10_000, "{proposal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_28_status_fetches_a_late_answer() {
    let late = json!({"when": {"/type": "message", "/agent": "alpha"}, "do": [
        {"await": "later"}, {"send": crate::gateway::support::answer_frame("late, but here")}]});
    let gateway = start_gateway(json!([late])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let request = with_fields(
        message_to("alpha", "Hello?"),
        json!({"task_requirement": "required", "blocking": false}),
    );
    let started = fixture.call(&request).await;
    assert_has(&started, json!({"raw": {"status": {"state": "working"}}}));
    gateway.release("later");
    let mut reported = fixture.call(&continue_task("status", &started)).await;
    let until = Instant::now() + Duration::from_secs(60);
    while reported["raw"]["status"]["state"] == "working" && Instant::now() < until {
        reported = fixture.call(&continue_task("status", &started)).await;
    }
    assert_has(
        &reported,
        json!({"raw": {"status": {"state": "completed"}}}),
    );
    assert!(
        reported.to_string().contains("late, but here"),
        "{reported}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_30_foreign_status_is_unknown_and_active_is_online() {
    let agents = json!([{"name": "a", "role": "r", "status": "Active"}, {"name": "b", "role": "r", "status": "sleepy"}, {"name": "c", "role": "r"}, {"name": "d", "status": "busy"}]);
    let gateway = start_gateway(json!([{"when": {"/type": "discovery"}, "do": [{"send": {"type": "discovery", "content": {"agents": agents}}}]}])).await;
    let listed = tool_with_gateway(&gateway.url(), json!({}))
        .call(&json!({"action": "list_targets"}))
        .await;
    let targets = listed["summary"]["targets"].as_array().unwrap();
    for (alias, expected) in [
        ("gateway:a", "online"),
        ("gateway:b", "unknown"),
        ("gateway:c", "unknown"),
        ("gateway:d", "busy"),
    ] {
        let target = targets
            .iter()
            .find(|target| target["target_alias"] == alias);
        assert_eq!(target.unwrap()["status"], expected, "{alias}: {listed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_43_vote_updates_have_confidence() {
    let sure = with_fields(
        vote_frame("alpha", "approve"),
        json!({"content": {"confidence": 0.9}}),
    );
    let votes = json!({"alpha": "approve", "beta": "approve"});
    let propose_rule = json!({"when": {"/type": "proposal"}, "do": [
        {"send": sure}, {"delay_ms": 100}, {"send": vote_frame("beta", "approve")}, {"delay_ms": 100}, {"send": decision_frame("approved", votes, true)}]});
    let gateway = start_gateway(json!([propose_rule])).await;
    let (envelope, updates) = tool_with_gateway(&gateway.url(), json!({}))
        .call_with_updates(&propose("Ship it?"))
        .await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    let reported = Value::from(updates).to_string();
    for part in ["alpha", "beta", "0.9"] {
        assert!(reported.contains(part), "{reported}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_47_closed_plugin_disconnects_with_1000() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
    assert_eq!(text(&envelope), "as you wish", "{envelope}");
    let plugin = Arc::clone(&fixture.plugin);
    tokio::task::spawn_blocking(move || plugin.close())
        .await
        .unwrap();
    let log = gateway.log();
    let ended = log.until(|all| all.iter().any(|entry| entry.what == LogEvent::Disconnected));
    within_timeout(ended).await;
    let leave = &log.matching(&json!({"/type": "disconnect"}))[0];
    assert_has(leave, json!({"content": {"reason": "shutdown"}}));
    let is_close = |what: &LogEvent| {
        matches!(
            what,
            LogEvent::Close {
                code: Some(1000),
                ..
            }
        )
    };
    assert!(log.received().iter().any(|entry| is_close(&entry.what)));
}
