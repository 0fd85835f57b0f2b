//! An instance of the tool with a gateway, and its requests.

#[cfg(feature = "real")]
pub(crate) mod node;
pub(crate) mod reference_gateway;
pub(crate) mod voters;

use serde_json::{Value, json};
use testkit::conformance::{Gateways, gateways};

use crate::gateway::tool_fixture::ToolFixture;
pub(crate) use crate::support::merge;

/// Returns a scripted gateway of this profile.
pub(crate) async fn start_scripted(profile: &Value) -> Gateways {
    Gateways::start(profile).await.unwrap()
}

/// Returns a scripted gateway of a built-in profile.
pub(crate) async fn start_profile(profile: &str) -> Gateways {
    start_scripted(&gateways::profile(profile).unwrap()).await
}

/// Returns an instance with the gateway at `url`, and these settings over those of the tests.
pub(crate) fn tool_with_gateway(url: &str, settings: Value) -> ToolFixture {
    let mut gateway = json!({"enabled": true, "url": url, "timeoutMs": 5000});
    merge(&mut gateway, settings);
    // The maximum frame size of Heretek A2A and its resolutions.
    let limits = json!({"eventBytes": 1_048_576});
    ToolFixture::new(&json!({"gateway": gateway, "limits": limits}))
}

/// Returns a message to an agent of the gateway.
pub(crate) fn message_to(agent: &str, text: &str) -> Value {
    json!({"action": "send", "target_alias": format!("gateway:{agent}"), "parts": [{"kind": "text", "text": text}]})
}

/// Returns a proposal to the triad that waits for its decision.
pub(crate) fn propose(text: &str) -> Value {
    let mut request = message_to("triad", text);
    request["follow_updates"] = json!(true);
    request
}

/// Returns the request with more fields.
pub(crate) fn with_fields(mut request: Value, fields: Value) -> Value {
    merge(&mut request, fields);
    request
}

/// Returns the call that continues the task of `envelope`.
pub(crate) fn continue_task(action: &str, envelope: &Value) -> Value {
    json!({"action": action, "continuation": envelope["summary"]["continuation"]})
}

/// Returns the text of a result.
pub(crate) fn text(envelope: &Value) -> &str {
    envelope["summary"]["message_text"]
        .as_str()
        .unwrap_or("no text")
}

/// Returns the triad's decision in the result's artifact.
#[track_caller]
pub(crate) fn decision(envelope: &Value) -> Value {
    let artifacts = artifacts(envelope);
    let artifact = artifacts
        .iter()
        .find(|artifact| artifact["artifactId"] == "decision");
    let mut parts = artifact
        .and_then(|artifact| artifact["parts"].as_array())
        .into_iter()
        .flatten();
    parts
        .find_map(|part| part.get("data"))
        .cloned()
        .unwrap_or_else(|| panic!("no decision in {envelope}"))
}

/// Returns every artifact in a result, of the task and of its events.
pub(crate) fn artifacts(envelope: &Value) -> Vec<&Value> {
    let raw = &envelope["raw"];
    let events = raw["events"].as_array().into_iter().flatten();
    let tasks = events.chain([raw]);
    tasks
        .flat_map(|task| {
            let artifacts_of_task = task["artifacts"].as_array().into_iter().flatten();
            artifacts_of_task.chain(task.get("artifact"))
        })
        .collect()
}

/// Returns the state of the task in a result.
pub(crate) fn state(envelope: &Value) -> &str {
    envelope["summary"]["continuation"]["task"]["status"]
        .as_str()
        .unwrap_or("no task")
}

/// Returns a scripted gateway of `a2a-v1` without faults. `rules` have precedence.
pub(crate) async fn start_gateway(rules: Value) -> Gateways {
    let agents: Vec<Value> = [("steward", "orchestrator"), ("alpha", "triad-member"), ("beta", "triad-member"), ("charlie", "triad-member")]
        .map(|(name, role)| json!({"name": name, "role": role, "status": "online", "workspace": format!("/home/user/.openclaw/agents/{name}")}))
        .into();
    let acknowledge = json!({"action": "acknowledge", "clientId": "client-{{connection}}", "availableAgents": ["steward", "alpha", "beta", "charlie"], "protocolVersion": "1.0.0"});
    let reply_metadata =
        json!({"correlationId": "{{/metadata/correlationId}}", "parentId": "{{/id}}"});
    let mut rules_with_defaults = rules;
    rules_with_defaults.as_array_mut().unwrap().extend([
        json!({"when": {"/type": "handshake"}, "do": [{"send": {"type": "handshake", "content": acknowledge}}]}),
        json!({"when": {"/type": "discovery"}, "do": [{"send": {"type": "discovery", "content": {"agents": agents}, "metadata": reply_metadata}}]}),
        json!({"when": {"/type": "ping"}, "do": [{"send": {"type": "pong", "content": {}, "metadata": {"parentId": "{{/id}}"}}}]}),
        json!({"when": {"/type": "subscribe"}, "do": [{"send": {"type": "subscribe", "content": {"channel": "{{/content/channel}}", "status": "subscribed"}, "metadata": reply_metadata}}]}),
        json!({"when": {"/type": "message"}, "do": [{"send": answer_frame("as you wish")}]}),
    ]);
    start_scripted(&json!({"upgrade": {"protocol": "echo"}, "on": rules_with_defaults})).await
}

/// Returns an answer to the current message, from its receiver.
pub(crate) fn answer_frame(text: &str) -> Value {
    json!({
        "type": "message", "id": "reply-{{uuid}}", "from": "{{/agent}}", "sessionId": "{{/sessionId}}",
        "content": {"role": "agent", "content": text}, "timestamp": "{{now}}",
        "metadata": {"correlationId": "{{/metadata/correlationId}}", "parentId": "{{/id}}"},
    })
}

/// Returns a decision on the current proposal.
pub(crate) fn decision_frame(result: &str, votes: Value, consensus: bool) -> Value {
    let content = json!({"proposalId": "{{/metadata/correlationId}}", "result": result, "votes": votes, "consensus": consensus, "missing": []});
    json!({"type": "decision", "from": "gateway", "content": content})
}

/// Returns a vote of a member on the current proposal, as a gateway forwards it.
pub(crate) fn vote_frame(member: &str, value: &str) -> Value {
    let content = json!({"proposalId": "{{/metadata/correlationId}}", "vote": value});
    json!({"type": "vote", "from": member, "content": content, "metadata": {"correlationId": "{{/metadata/correlationId}}"}})
}
