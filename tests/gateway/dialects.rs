//! Real gateways, scripted from recordings.

use crate::support::assert_has;
use serde_json::{Value, json};

use crate::gateway::{
    support::{
        continue_task, decision, message_to, propose, start_profile, state, text,
        tool_with_gateway, with_fields,
    },
    tool_fixture::reason,
};

/// Returns the result of one call to a scripted gateway of this profile.
async fn call(profile: &str, settings: Value, request: &Value) -> Value {
    let gateway = start_profile(profile).await;
    let path = if profile == "heretek-js" { "/a2a" } else { "" };
    tool_with_gateway(&format!("{}{path}", gateway.url()), settings)
        .call(request)
        .await
}

fn message(envelope: &Value) -> &str {
    envelope["error"]["message"].as_str().unwrap_or("no error")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reference_of_11_2_acknowledges_and_lists_agents() {
    let list = json!({"action": "list_targets"});
    let listed = call("reference-11.2", json!({}), &list).await;
    let targets = listed["summary"]["targets"].as_array().unwrap();
    for name in ["steward", "alpha", "beta", "charlie"] {
        let alias = format!("gateway:{name}");
        let is_listed = targets
            .iter()
            .any(|target| target["target_alias"] == *alias);
        assert!(is_listed, "{alias}: {listed}");
    }
    assert!(
        !listed.to_string().contains(".openclaw"),
        "no path of a file system is shown"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_23_error_of_11_2_answers_the_only_request() {
    let request = message_to("unknown", "Hello?");
    let envelope = call("reference-11.2", json!({}), &request).await;
    assert_has(
        &envelope["error"],
        json!({"reason": "agent_not_found", "code": "TARGET_RESOLUTION_ERROR", "details": {"gateway_code": 3001}}),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triad_is_unknown_to_11_2() {
    let envelope = call("reference-11.2", json!({}), &propose("Ship it?")).await;
    assert_has(
        &envelope["error"],
        json!({"reason": "unknown_type", "details": {"gateway_code": 2004}}),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_11_2_cannot_answer() {
    let request = with_fields(message_to("alpha", "Hello?"), json!({"timeout_ms": 700}));
    let envelope = call("reference-11.2", json!({}), &request).await;
    assert_eq!(state(&envelope), "working", "{envelope}");
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
    let settings = json!({"dialect": "heretek-js"});
    let envelope = call("heretek-js", settings, &message_to("ghost", "Hello?")).await;
    assert_has(
        &envelope["error"],
        json!({"reason": "agent_offline", "details": {"delivered": "no"}}),
    );
    assert!(message(&envelope).contains("queued"), "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_12_token_in_url_is_opt_in() {
    let settings = json!({"dialect": "heretek-js", "token": "wrong", "tokenInQuery": true});
    let envelope = call("heretek-js", settings, &message_to("alpha", "Hello?")).await;
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
    let settings = json!({"token": "a-secret-of-ours"});
    let envelope = call("openclaw", settings, &message_to("helper", "Hello?")).await;
    assert_eq!(reason(&envelope), "auth_failed", "{envelope}");
    let is_shown = envelope.to_string().contains("a-secret-of-ours");
    assert!(!is_shown, "{envelope}");
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
        let decided = decision(&envelope);
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
    let decided = decision(&envelope);
    let abstained = json!({"alpha": "abstain", "beta": "abstain", "charlie": "abstain"});
    assert_eq!(decided["votes"], abstained, "{envelope}");
    assert_eq!(
        gateway.log().matching(&json!({"/method": "agent"})).len(),
        6,
        "each is asked twice"
    );
}
