//! Messages from the bridge to a scripted gateway of `a2a-v1`.

use serde_json::{Value, json};

use crate::gateway::{
    support::{
        answer_frame, message_to, propose, start_gateway, text, tool_with_gateway, with_fields,
    },
    tool_fixture::{ToolFixture, reason, within_timeout},
};

/// Returns the first frame of this type that the bridge sends for `request`.
async fn first_frame(kind: &str, settings: Value, request: &Value) -> Value {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), settings);
    let envelope = fixture.call(request).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    within_timeout(gateway.log().frame(1, &json!({"/type": kind}))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_08_bridge_advertises_first() {
    let gateway = start_gateway(json!([])).await;
    tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("alpha", "Hello?"))
        .await;
    let frames = gateway.log().frames();
    assert_eq!(frames[0]["type"], "handshake", "{frames:?}");
    assert_eq!(frames[0]["content"]["action"], "advertise", "{frames:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_09_reported_version_is_the_protocol_version() {
    let advertised = first_frame("handshake", json!({}), &message_to("alpha", "Hello?")).await;
    let capabilities = &advertised["content"]["capabilities"];
    assert_eq!(capabilities["version"], "1.0.0", "{advertised}");
    let types = capabilities["supportedMessageTypes"].as_array().unwrap();
    for kind in ["message", "status", "error", "vote", "decision"] {
        assert!(types.contains(&json!(kind)), "{advertised}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_13_bridge_serves_no_agents() {
    let advertised = first_frame("handshake", json!({}), &message_to("alpha", "Hello?")).await;
    assert_eq!(
        advertised.pointer("/content/capabilities/supportedAgents"),
        None,
        "{advertised}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_10_credential_precedes_the_handshake() {
    let ok = json!({"when": {"/type": "auth", "/content/token": "open sesame"}, "do": [{"send": {"type": "auth-response", "content": {"status": "ok"}}}]});
    let gateway = start_gateway(json!([ok])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "open sesame"}));
    let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
    assert_eq!(text(&envelope), "as you wish", "{envelope}");
    let types: Vec<Value> = gateway
        .log()
        .frames()
        .iter()
        .map(|frame| frame["type"].clone())
        .collect();
    assert_eq!(types[..2], [json!("auth"), json!("handshake")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_11_three_statuses_accept_a_credential() {
    for status in ["ok", "success", "authenticated"] {
        let ok = json!({"when": {"/type": "auth"}, "do": [{"send": {"type": "auth-response", "content": {"status": status}}}]});
        let gateway = start_gateway(json!([ok])).await;
        let fixture = tool_with_gateway(&gateway.url(), json!({"token": "open sesame"}));
        let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
        assert_eq!(text(&envelope), "as you wish", "{status}: {envelope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_11_acknowledgement_replaces_auth_response() {
    let gateway = start_gateway(json!([{"when": {"/type": "auth"}, "do": []}])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "open sesame"}));
    let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
    assert_eq!(text(&envelope), "as you wish", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_11_expired_credential_is_reported() {
    let failed = json!({"type": "auth-response", "content": {"status": "failed", "error": "TOKEN_EXPIRED", "code": 5003}});
    let gateway = start_gateway(
        json!([{"when": {"/type": "auth"}, "do": [{"send": failed}, {"close": {"code": 1008}}]}]),
    )
    .await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "open sesame"}));
    let envelope = fixture.call(&message_to("alpha", "Hello?")).await;
    assert_eq!(reason(&envelope), "token_expired", "{envelope}");
    assert!(!envelope.to_string().contains("open sesame"), "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_15_h_16_single_text_part_is_a_string() {
    let message = first_frame("message", json!({}), &message_to("alpha", "Hello?")).await;
    assert_eq!(
        message["content"],
        json!({"role": "user", "content": "Hello?"}),
        "{message}"
    );
    assert_eq!(message["agent"], "alpha", "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_16_other_content_is_a_list_of_parts() {
    let parts = json!([{"kind": "text", "text": "Look:"}, {"kind": "data", "data": {"a": 1}}]);
    let request = with_fields(message_to("alpha", ""), json!({"parts": parts}));
    let message = first_frame("message", json!({}), &request).await;
    let content = &message["content"]["content"];
    assert_eq!(content["parts"][0]["text"], "Look:", "{message}");
    assert_eq!(content["parts"][1]["data"], json!({"a": 1}), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_16_answer_of_parts_is_read() {
    let mut reply = answer_frame("");
    reply["content"]["content"] = json!({"parts": [{"kind": "text", "text": "in parts"}]});
    let gateway =
        start_gateway(json!([{"when": {"/type": "message"}, "do": [{"send": reply}]}])).await;
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("alpha", "Hello?"))
        .await;
    assert_eq!(text(&envelope), "in parts", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_17_ids_are_uuids_with_a_prefix() {
    let message = first_frame("message", json!({}), &message_to("alpha", "Hello?")).await;
    let id = message["id"].as_str().unwrap();
    let uuid = id.strip_prefix("msg-").unwrap();
    assert_eq!(
        uuid::Uuid::parse_str(uuid).unwrap().get_version_num(),
        4,
        "{id}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_18_timestamps_are_whole_milliseconds() {
    let before = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis() as u64;
    let message = first_frame("message", json!({}), &message_to("alpha", "Hello?")).await;
    let at = message["timestamp"].as_u64().unwrap();
    assert!((before..before + 60_000).contains(&at), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_21_every_message_has_a_correlation_id() {
    let request = with_fields(
        message_to("alpha", "Hello?"),
        json!({"metadata": {
        "priority": "high", "threadId": "t-1", "parentId": "p-1", "ttl": 60, "correlationId": "of-the-caller"}}),
    );
    let message = first_frame("message", json!({}), &request).await;
    let metadata = &message["metadata"];
    assert_eq!(metadata["requiresResponse"], true, "{message}");
    for (name, value) in [
        ("priority", json!("high")),
        ("threadId", json!("t-1")),
        ("parentId", json!("p-1")),
        ("ttl", json!(60)),
    ] {
        assert_eq!(metadata[name], value, "{message}");
    }
    let correlation_id = metadata["correlationId"].as_str().unwrap();
    assert!(
        correlation_id != "of-the-caller" && correlation_id.len() > 20,
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_22_conversation_is_the_session() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let request = with_fields(
        message_to("alpha", "Hello?"),
        json!({"context_id": "talk-7"}),
    );
    let envelope = fixture.call(&request).await;
    let message = gateway.log().frame(1, &json!({"/type": "message"})).await;
    assert_eq!(message["sessionId"], "talk-7", "{message}");
    assert_eq!(envelope["raw"]["contextId"], "talk-7", "{envelope}");
}

/// Four requests at once.
async fn at_once(fixture: &ToolFixture) {
    let list = json!({"action": "list_targets"});
    let (a, b, c, d) = tokio::join!(
        fixture.call(&list),
        fixture.call(&list),
        fixture.call(&list),
        fixture.call(&list)
    );
    for envelope in [a, b, c, d] {
        assert_eq!(envelope["ok"], true, "{envelope}");
        assert!(
            envelope.to_string().contains("gateway:steward"),
            "{envelope}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_29_discoveries_run_one_at_a_time() {
    let agents = json!([{"name": "steward", "role": "orchestrator", "status": "online"}]);
    // Without a correlation id, as in the specification, so only one at a time.
    let slow = json!({"when": {"/type": "discovery"}, "do": [
        {"remember": {"most": "{{/metadata/correlationId}}"}}, {"delay_ms": 30}, {"send": {"type": "discovery", "content": {"agents": agents, "was": "{{most}}"}}},
    ]});
    let gateway = start_gateway(json!([slow])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    at_once(&fixture).await;
    for discovery in gateway.log().matching(&json!({"/type": "discovery"})) {
        assert!(
            discovery["metadata"]["correlationId"].is_string(),
            "{discovery}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_share_one_connection() {
    let gateway = start_gateway(json!([])).await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    at_once(&fixture).await;
    let advertised = gateway.log().matching(&json!({"/type": "handshake"}));
    assert_eq!(advertised.len(), 1, "one connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_36_proposal_id_is_its_correlation_id() {
    let decide = json!({"when": {"/type": "proposal"}, "do": [{"send": crate::gateway::support::decision_frame("approved", json!({"alpha": "approve", "beta": "approve"}), true)}]});
    let gateway = start_gateway(json!([decide])).await;
    tool_with_gateway(&gateway.url(), json!({}))
        .call(&propose("Ship it?"))
        .await;
    let proposal = gateway.log().frame(1, &json!({"/type": "proposal"})).await;
    assert_eq!(
        proposal["id"], proposal["metadata"]["correlationId"],
        "{proposal}"
    );
    assert_eq!(proposal["content"]["proposal"], "Ship it?", "{proposal}");
    assert_eq!(
        proposal.get("agent"),
        None,
        "proposals have no target: {proposal}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_41_deadline_is_in_unix_milliseconds() {
    let decide = json!({"when": {"/type": "proposal"}, "do": [{"send": crate::gateway::support::decision_frame("rejected", json!({}), false)}]});
    let gateway = start_gateway(json!([decide])).await;
    let deadline = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis() as u64
        + 60_000;
    let data = json!({"proposal": "Ship it?", "reasoning": "It is done.", "deadline": deadline});
    let request = with_fields(
        propose(""),
        json!({"parts": [{"kind": "data", "data": data}]}),
    );
    tool_with_gateway(&gateway.url(), json!({}))
        .call(&request)
        .await;
    let proposal = gateway.log().frame(1, &json!({"/type": "proposal"})).await;
    let reported = proposal["content"]["deadline"].as_u64().unwrap();
    assert!(reported.abs_diff(deadline) < 100, "{proposal}");
    assert_eq!(
        proposal["content"]["reasoning"], "It is done.",
        "{proposal}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_41_past_deadline_is_not_sent() {
    let gateway = start_gateway(json!([])).await;
    let data = json!({"proposal": "Ship it?", "deadline": 1_711_843_200_000_u64});
    let request = with_fields(
        propose(""),
        json!({"parts": [{"kind": "data", "data": data}]}),
    );
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&request)
        .await;
    assert_eq!(reason(&envelope), "invalid_content", "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["delivered"], "no",
        "{envelope}"
    );
    assert_eq!(
        gateway.log().matching(&json!({"/type": "proposal"})).len(),
        0
    );
}
