//! Messages from a scripted gateway of `a2a-v1` to the bridge, and the end of the connection.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::conformance::gateways::LogEvent;
use tokio::time::Instant;

use crate::gateway::{
    support::{
        answer_frame, continue_task, decision, decision_frame, message_to, propose, start_gateway,
        text, tool_with_gateway, vote_frame, with_fields,
    },
    tool_fixture::{reason, within_timeout},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_07_bridge_pings_a_silent_gateway() {
    let late = json!({"when": {"/type": "message"}, "do": [{"await": "pinged"}, {"send": answer_frame("I was busy")}]});
    let pinged = json!({"when": {"/type": "ping"}, "times": 1, "do": [{"release": "pinged"}, {"send": {"type": "pong", "content": {}, "metadata": {"parentId": "{{/id}}"}}}]});
    let gateway = start_gateway(json!([late, pinged])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"heartbeatMs": 50}));
    let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
    assert_eq!(text(&envelope), "I was busy", "{envelope}");
    let ping = &gateway.log().matching(&json!({"/type": "ping"}))[0];
    assert_eq!(ping["content"], json!({}), "{ping}");
    assert!(
        ping["id"].is_string() && ping["timestamp"].is_u64(),
        "{ping}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_07_gateway_ping_is_answered() {
    let ping = json!({"type": "ping", "id": "ping-1", "timestamp": 1});
    let late = json!({"when": {"/type": "message"}, "do": [{"send": ping}, {"await": "answered"}, {"send": answer_frame("good")}]});
    let answered = json!({"when": {"/type": "pong"}, "do": [{"release": "answered"}]});
    let gateway = start_gateway(json!([late, answered])).await;
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("alpha", "Hello?"))
        .await;
    assert_eq!(text(&envelope), "good", "{envelope}");
    let pong = &gateway.log().matching(&json!({"/type": "pong"}))[0];
    assert_eq!(pong["metadata"]["parentId"], "ping-1", "{pong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_14_discovery_replaces_acknowledged_names() {
    let acknowledge = json!({"action": "acknowledge", "clientId": "c", "availableAgents": ["gone"], "protocolVersion": "1.0.0"});
    let gateway = start_gateway(json!([{"when": {"/type": "handshake"}, "do": [{"send": {"type": "handshake", "content": acknowledge}}]}])).await;
    let listed = tool_with_gateway(&gateway.url(), json!({}))
        .call(&json!({"action": "list_targets"}))
        .await;
    let reported = listed.to_string();
    assert!(
        reported.contains("gateway:steward") && !reported.contains("gateway:gone"),
        "{listed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_23_response_is_an_answer() {
    let response = json!({"type": "response", "from": "alpha", "content": {"result": "by another type"}, "metadata": {"correlationId": "{{/metadata/correlationId}}"}});
    let gateway =
        start_gateway(json!([{"when": {"/type": "message"}, "do": [{"send": response}]}])).await;
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("alpha", "Hello?"))
        .await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert!(
        envelope.to_string().contains("by another type"),
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_23_correlation_beside_content_or_parent_suffices() {
    let mut beside = answer_frame("beside the content");
    beside["correlationId"] = beside["metadata"]["correlationId"].take();
    beside["metadata"] = json!({});
    let mut parent = answer_frame("by its parent");
    parent["metadata"] = json!({"parentId": "{{/id}}"});
    for reply in [beside, parent] {
        let expected = reply["content"]["content"].clone();
        let gateway =
            start_gateway(json!([{"when": {"/type": "message"}, "do": [{"send": reply}]}])).await;
        let envelope = tool_with_gateway(&gateway.url(), json!({}))
            .call(&message_to("alpha", "Hello?"))
            .await;
        assert_eq!(json!(text(&envelope)), expected, "{envelope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_23_uncorrelated_error_matches_neither_of_two_requests() {
    let stray = json!({"type": "error", "content": {"error": "AGENT_ERROR", "message": "about an unknown message"}});
    let first = json!({"when": {"/type": "message", "/agent": "alpha"}, "do": [{"await": "both"}, {"send": stray}, {"send": answer_frame("first")}]});
    let second = json!({"when": {"/type": "message", "/agent": "beta"}, "do": [{"release": "both"}, {"await": "later"}, {"send": answer_frame("second")}]});
    let gateway = start_gateway(json!([first, second])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let (alpha, beta) = (message_to("alpha", "Hello?"), message_to("beta", "Hello?"));
    let alpha_call = async {
        let envelope = fixture.call(&alpha).await;
        gateway.release("later");
        envelope
    };
    let (alpha, beta) = tokio::join!(alpha_call, fixture.call(&beta));
    assert_eq!(
        (text(&alpha), text(&beta)),
        ("first", "second"),
        "{alpha} {beta}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_27_busy_agent_gets_the_same_id_again() {
    let busy = json!({"type": "error", "from": "gateway", "content": {"error": "AGENT_BUSY", "message": "busy", "code": 3003}, "metadata": {"correlationId": "{{/metadata/correlationId}}"}});
    let gateway =
        start_gateway(json!([{"when": {"/type": "message"}, "times": 1, "do": [{"send": busy}]}]))
            .await;
    let started_at = Instant::now();
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("alpha", "Hello?"))
        .await;
    assert_eq!(text(&envelope), "as you wish", "{envelope}");
    let requests = gateway.log().matching(&json!({"/type": "message"}));
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0]["id"], requests[1]["id"]);
    assert!(
        started_at.elapsed() >= Duration::from_millis(900),
        "after a second: {:?}",
        started_at.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_27_offline_agent_gets_no_retry() {
    let offline = json!({"type": "error", "from": "gateway", "content": {"error": "AGENT_OFFLINE", "message": "away", "code": 3002}, "metadata": {"correlationId": "{{/metadata/correlationId}}"}});
    let gateway =
        start_gateway(json!([{"when": {"/type": "message"}, "do": [{"send": offline}]}])).await;
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("alpha", "Hello?"))
        .await;
    assert_eq!(reason(&envelope), "agent_offline", "{envelope}");
    assert_eq!(
        gateway.log().matching(&json!({"/type": "message"})).len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_28_status_fetches_a_late_answer() {
    let late = json!({"when": {"/type": "message", "/agent": "alpha"}, "do": [{"await": "later"}, {"send": answer_frame("late, but here")}, {"send": {"type": "event", "content": {"event": "sent"}}}, {"release": "sent"}]});
    let gateway = start_gateway(json!([late])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let request = with_fields(
        message_to("alpha", "Hello?"),
        json!({"task_requirement": "required", "blocking": false}),
    );
    let started = fixture.call(&request).await;
    assert_eq!(started["raw"]["status"]["state"], "working", "{started}");
    gateway.release("later");
    // The answer to another request follows the late one.
    assert_eq!(
        text(&fixture.call(&message_to("beta", "Hello?")).await),
        "as you wish"
    );
    let mut reported = fixture.call(&continue_task("status", &started)).await;
    let until = Instant::now() + Duration::from_secs(10);
    while reported["raw"]["status"]["state"] == "working" && Instant::now() < until {
        reported = fixture.call(&continue_task("status", &started)).await;
    }
    assert_eq!(
        reported["raw"]["status"]["state"], "completed",
        "{reported}"
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
    let status = |alias: &str| {
        targets
            .iter()
            .find(|target| target["target_alias"] == alias)
            .map(|target| target["status"].clone())
    };
    assert_eq!(status("gateway:a"), Some(json!("online")), "{listed}");
    assert_eq!(status("gateway:b"), Some(json!("unknown")), "{listed}");
    assert_eq!(status("gateway:c"), Some(json!("unknown")), "{listed}");
    assert_eq!(status("gateway:d"), Some(json!("busy")), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_31_workspace_paths_are_hidden() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let listed = fixture.call(&json!({"action": "list_targets"})).await;
    let reported = listed.to_string();
    assert!(
        reported.contains("gateway:steward") && !reported.contains("/home/user"),
        "{listed}"
    );
    assert!(!reported.contains("workspace"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_43_vote_updates_have_confidence() {
    let mut sure = vote_frame("alpha", "approve");
    sure["content"]["confidence"] = json!(0.9);
    let propose_rule = json!({"when": {"/type": "proposal"}, "do": [
        {"send": sure}, {"delay_ms": 100}, {"send": vote_frame("beta", "approve")}, {"delay_ms": 100}, {"send": decision_frame("approved", json!({"alpha": "approve", "beta": "approve"}), true)}]});
    let gateway = start_gateway(json!([propose_rule])).await;
    let (envelope, updates) = tool_with_gateway(&gateway.url(), json!({}))
        .call_with_updates(&propose("Ship it?"))
        .await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    let reported = Value::from(updates).to_string();
    assert!(
        reported.contains("alpha") && reported.contains("beta") && reported.contains("0.9"),
        "{reported}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_46_cut_proposal_is_not_resent() {
    let cut = json!({"when": {"/type": "proposal"}, "do": [{"end": "destroy"}]});
    let gateway = start_gateway(json!([cut])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let request = with_fields(propose("Ship it?"), json!({"timeout_ms": 2500}));
    fixture.call(&request).await;
    assert_eq!(
        gateway.log().matching(&json!({"/type": "proposal"})).len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_46_decision_after_a_reconnect_counts() {
    let cut = json!({"when": {"/type": "proposal"}, "do": [{"remember": {"id": "{{/id}}"}}, {"end": "destroy"}]});
    let content = json!({"proposalId": "{{id}}", "result": "approved", "votes": {"alpha": "approve", "beta": "approve"}, "consensus": true});
    let acknowledge = json!({"action": "acknowledge", "clientId": "c", "availableAgents": [], "protocolVersion": "1.0.0"});
    let back = json!({"when": {"/type": "handshake"}, "connection": 2, "do": [
        {"send": {"type": "handshake", "content": acknowledge}}, {"send": {"type": "decision", "from": "gateway", "content": content}}]});
    let gateway = start_gateway(json!([cut, back])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let envelope = fixture
        .call(&with_fields(
            propose("Ship it?"),
            json!({"timeout_ms": 15_000}),
        ))
        .await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_47_bridge_sends_disconnect_and_closes_with_1000() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    fixture.call(&message_to("alpha", "Hello?")).await;
    let started_at = Instant::now();
    let plugin = std::sync::Arc::clone(&fixture.plugin);
    tokio::task::spawn_blocking(move || plugin.close())
        .await
        .unwrap();
    within_timeout(
        gateway
            .log()
            .until(|all| all.iter().any(|entry| entry.what == LogEvent::Disconnected)),
    )
    .await;
    assert!(
        started_at.elapsed() < Duration::from_millis(1500),
        "{:?}",
        started_at.elapsed()
    );
    let leave = gateway.log().matching(&json!({"/type": "disconnect"}));
    assert_eq!(leave[0]["content"]["reason"], "shutdown", "{leave:?}");
    let closed = |what: &LogEvent| {
        matches!(
            what,
            LogEvent::Close {
                code: Some(1000),
                ..
            }
        )
    };
    assert!(
        gateway
            .log()
            .received()
            .iter()
            .any(|entry| closed(&entry.what))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_48_request_cut_off_is_not_repeated() {
    let cut = json!({"when": {"/type": "message"}, "do": [{"end": "destroy"}]});
    let gateway = start_gateway(json!([cut])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
    assert_eq!(reason(&envelope), "connection_reset", "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["delivered"], "unknown",
        "{envelope}"
    );
    assert_eq!(envelope["error"]["retryable"], false, "{envelope}");
    assert_eq!(
        gateway.log().matching(&json!({"/type": "message"})).len(),
        1
    );
}
