//! Scripted agents of a gateway that answer or vote. They do not use the client's types.

use serde_json::{Value, json};
use testkit::conformance::gateways::Member;

use crate::gateway::tool_fixture::within_timeout;

/// Returns an agent of this name with these rules, once the gateway has registered it.
pub(crate) async fn start_agent(url: &str, name: &str, rules: Value) -> Member {
    let capabilities = json!({"supportedMessageTypes": ["message", "status", "error", "proposal", "vote"], "supportedAgents": [name], "version": "1.0.0"});
    let advertise = json!({"type": "handshake", "content": {"action": "advertise", "capabilities": capabilities}});
    let mut rules_with_pong = rules;
    let pong = json!({"when": {"/type": "ping"}, "do": [{"send": {"type": "pong", "content": {}, "metadata": {"parentId": "{{/id}}"}}}]});
    rules_with_pong.as_array_mut().unwrap().push(pong);
    let script = json!({"upgrade": {"protocol": "a2a-v1", "do": [{"send": advertise}]}, "on": rules_with_pong});
    let member = Member::join(url, &script).await.unwrap();
    let acknowledged = json!({"/type": "handshake", "/content/action": "acknowledge"});
    within_timeout(member.log().frame(1, &acknowledged)).await;
    member
}

/// Returns a rule that answers messages with this text.
pub(crate) fn answer_rule(text: &str) -> Value {
    json!({"when": {"/type": "message"}, "do": [{"send": reply(text)}]})
}

/// Returns an answer to the current message.
pub(crate) fn reply(text: &str) -> Value {
    json!({
        "type": "message", "agent": "{{/from}}", "sessionId": "{{/sessionId}}", "content": {"role": "agent", "content": text},
        "metadata": {"correlationId": "{{/metadata/correlationId}}", "parentId": "{{/id}}"},
    })
}

/// Returns a vote on the current proposal.
pub(crate) fn vote(value: &str, fields: Value) -> Value {
    let mut content = json!({"proposalId": "{{/metadata/correlationId}}", "vote": value});
    super::merge(&mut content, fields);
    json!({"type": "vote", "content": content, "metadata": {"correlationId": "{{/metadata/correlationId}}"}})
}

/// Returns a triad whose members vote by the text of the proposal: `alpha=approve beta=silent charlie=abstain`.
pub(crate) async fn start_triad(url: &str) -> Vec<Member> {
    let mut members = Vec::new();
    for name in ["alpha", "beta", "charlie"] {
        let rules: Value = ["approve", "reject", "abstain"]
            .into_iter()
            .map(|vote_name| {
                let pattern = format!("{name}={vote_name}");
                json!({"when": {"/type": "proposal", "/content/proposal": {"$matches": pattern}}, "do": [{"send": vote(vote_name, json!({}))}]})
            })
            .collect();
        members.push(start_agent(url, name, rules).await);
    }
    members
}
