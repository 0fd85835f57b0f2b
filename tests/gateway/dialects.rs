//! Real gateways, scripted from recordings.

use serde_json::{Value, json};

use crate::gateway::{
    support::{
        continue_task, message_to, propose, start_profile, text, tool_with_gateway, with_fields,
    },
    tool_fixture::reason,
};

fn message(envelope: &Value) -> &str {
    envelope["error"]["message"].as_str().unwrap_or("no error")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reference_of_11_2_acknowledges_and_lists_agents() {
    let gateway = start_profile("reference-11.2").await;
    let listed = tool_with_gateway(&gateway.url(), json!({}))
        .call(&json!({"action": "list_targets"}))
        .await;
    let targets = listed["summary"]["targets"].as_array().unwrap();
    let names: Vec<&str> = targets
        .iter()
        .filter_map(|target| target["target_alias"].as_str())
        .collect();
    for name in [
        "gateway:steward",
        "gateway:alpha",
        "gateway:beta",
        "gateway:charlie",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(
        !listed.to_string().contains(".openclaw"),
        "no path of a file system is shown"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_23_error_of_11_2_answers_the_only_request() {
    let gateway = start_profile("reference-11.2").await;
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&message_to("unknown", "Hello?"))
        .await;
    assert_eq!(reason(&envelope), "agent_not_found", "{envelope}");
    assert_eq!(
        envelope["error"]["code"], "TARGET_RESOLUTION_ERROR",
        "{envelope}"
    );
    assert_eq!(
        envelope["error"]["details"]["gateway_code"], 3001,
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triad_is_unknown_to_11_2() {
    let gateway = start_profile("reference-11.2").await;
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&propose("Ship it?"))
        .await;
    assert_eq!(reason(&envelope), "unknown_type", "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["gateway_code"], 2004,
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_11_2_cannot_answer() {
    let gateway = start_profile("reference-11.2").await;
    let request = with_fields(message_to("alpha", "Hello?"), json!({"timeout_ms": 700}));
    let envelope = tool_with_gateway(&gateway.url(), json!({}))
        .call(&request)
        .await;
    assert_eq!(
        crate::gateway::support::state(&envelope),
        "working",
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_dialect_requires_configuration() {
    let gateway = start_profile("heretek-js").await;
    let url = format!("{}/a2a", gateway.url());
    for dialect in ["auto", "a2a-v1", "openclaw"] {
        let envelope = tool_with_gateway(&url, json!({"dialect": dialect}))
            .call(&message_to("alpha", "Hello?"))
            .await;
        assert_eq!(reason(&envelope), "protocol_error", "{envelope}");
        assert!(message(&envelope).contains("heretek-js"), "{envelope}");
    }
    assert_eq!(
        gateway.log().frames(),
        [json!(null); 0],
        "nothing was said to it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_javascript_gateway_answers() {
    let gateway = start_profile("heretek-js").await;
    let fixture = tool_with_gateway(
        &format!("{}/a2a", gateway.url()),
        json!({"dialect": "heretek-js"}),
    );
    let envelope = fixture.call(&message_to("alpha", "How are you?")).await;
    assert_eq!(text(&envelope), "all well", "{envelope}");
    let sent = gateway.log().frame(1, &json!({"/type": "message"})).await;
    assert_eq!(
        sent["correlationId"], sent["metadata"]["correlationId"],
        "in both places: {sent}"
    );
    assert!(sent["correlationId"].is_string(), "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_26_queued_message_of_javascript_gateway_is_undelivered() {
    let gateway = start_profile("heretek-js").await;
    let fixture = tool_with_gateway(
        &format!("{}/a2a", gateway.url()),
        json!({"dialect": "heretek-js"}),
    );
    let envelope = fixture.call(&message_to("ghost", "Hello?")).await;
    assert_eq!(reason(&envelope), "agent_offline", "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["delivered"], "no",
        "{envelope}"
    );
    assert!(message(&envelope).contains("queued"), "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_12_token_in_url_is_opt_in() {
    let gateway = start_profile("heretek-js").await;
    let settings = json!({"dialect": "heretek-js", "token": "wrong", "tokenInQuery": true});
    let envelope = tool_with_gateway(&format!("{}/a2a", gateway.url()), settings)
        .call(&message_to("alpha", "Hello?"))
        .await;
    assert_eq!(reason(&envelope), "auth_failed", "{envelope}");
    assert!(!envelope.to_string().contains("token=wrong"), "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openclaw_gateway_gets_no_other_dialect() {
    let gateway = start_profile("openclaw").await;
    let envelope = tool_with_gateway(&gateway.url(), json!({"dialect": "a2a-v1"}))
        .call(&message_to("main", "Hello?"))
        .await;
    assert_eq!(reason(&envelope), "protocol_error", "{envelope}");
    assert!(message(&envelope).contains("openclaw"), "{envelope}");
    assert_eq!(
        gateway.log().frames(),
        [json!(null); 0],
        "nothing was said to it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_openclaw_answers() {
    let gateway = start_profile("openclaw").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "scripted-token"}));
    let envelope = fixture.call(&message_to("helper", "How long is it?")).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert!(
        envelope.to_string().contains("It has three lines."),
        "{envelope}"
    );
    let request = gateway.log().frame(1, &json!({"/method": "agent"})).await;
    assert_eq!(request["params"]["agentId"], "helper", "{request}");
    assert!(request["params"]["idempotencyKey"].is_string(), "{request}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openclaw_rejects_invalid_token() {
    let gateway = start_profile("openclaw").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "a-secret-of-ours"}));
    let envelope = fixture.call(&message_to("helper", "Hello?")).await;
    assert_eq!(reason(&envelope), "auth_failed", "{envelope}");
    assert!(
        !envelope.to_string().contains("a-secret-of-ours"),
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_of_openclaw_is_stopped() {
    let gateway = start_profile("openclaw").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "scripted-token"}));
    let request = with_fields(
        message_to("helper", "SLOW please"),
        json!({"task_requirement": "required", "blocking": false}),
    );
    let started = fixture.call(&request).await;
    assert_eq!(started["ok"], true, "{started}");
    let stopped = fixture.call(&continue_task("cancel", &started)).await;
    assert_eq!(stopped["raw"]["status"]["state"], "canceled", "{stopped}");
    gateway
        .log()
        .frame(
            1,
            &json!({"/method": {"$any_of": ["chat.abort", "sessions.abort"]}}),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_agents_of_openclaw_vote() {
    let gateway = start_profile("openclaw").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({"token": "scripted-token"}));
    for (vote, result, consensus) in [
        ("APPROVE", "approved", true),
        ("REJECT", "rejected", true),
        ("ABSTAIN", "rejected", false),
    ] {
        let envelope = fixture.call(&propose(&format!("Say {vote}."))).await;
        let decided = crate::gateway::support::decision(&envelope);
        assert_eq!(decided["result"], result, "{vote}: {envelope}");
        assert_eq!(decided["consensus"], consensus, "{vote}: {envelope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unclear_vote_is_requested_once_more_then_abstains() {
    let gateway = start_profile("openclaw").await;
    let fixture = tool_with_gateway(
        &gateway.url(),
        json!({"token": "scripted-token", "triad": {"quorum": "all"}}),
    );
    let envelope = fixture.call(&propose("MUMBLE")).await;
    let decided = crate::gateway::support::decision(&envelope);
    let abstained = json!({"alpha": "abstain", "beta": "abstain", "charlie": "abstain"});
    assert_eq!(decided["votes"], abstained, "{envelope}");
    assert_eq!(
        gateway.log().matching(&json!({"/method": "agent"})).len(),
        6,
        "each is asked twice"
    );
}
