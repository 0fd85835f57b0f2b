//! An independent stack: the client of Heretek A2A §11.1 and the voter of §11.3 on Node.js with `ws`, against the reference gateway.

use std::path::Path;

use crate::contract::documents::blocks;
use crate::support::assert_has;
use base::jws::{KeySet, SigningKey};
use collective::{Envelope, Kind, signature};
use serde_json::json;

use crate::gateway::support::{
    decision, message_to,
    node::{self, NodeClient},
    propose,
    reference_gateway::ReferenceGateway,
    text, tool_with_gateway, voters,
};

/// Waits until the gateway has registered it.
async fn start_client(url: &str, options: serde_json::Value) -> NodeClient {
    let mut client = NodeClient::start(url, &options);
    let acknowledged = client.next_report("ready").await;
    assert_has(
        &acknowledged,
        json!({"content": {"action": "acknowledge", "protocolVersion": "1.0.0"}}),
    );
    assert!(
        acknowledged["content"]["clientId"].is_string(),
        "{acknowledged}"
    );
    client
}

#[tokio::test]
async fn javascript_client_calls_a_javascript_agent() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let mut agent = start_client(&gateway.url, json!({"role": "serve", "name": "steward"})).await;
    let options = json!({"role": "request", "agent": "steward", "text": "What is the state of the collective?"});
    let mut client = start_client(&gateway.url, options).await;
    let received = agent.next_report("received").await;
    assert_has(
        &received,
        json!({"content": {"content": "What is the state of the collective?"}}),
    );
    let answer = client.next_report("answer").await;
    assert_has(
        &answer,
        json!({"content": {"content": "steward received: What is the state of the collective?"}, "from": "steward"}),
    );
    assert_eq!(
        client.next_report("closed").await,
        1005,
        "a close without a code is answered"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bridge_calls_a_javascript_agent() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let mut agent = start_client(&gateway.url, json!({"role": "serve", "name": "steward"})).await;
    let envelope = tool_with_gateway(&gateway.url, json!({}))
        .call(&message_to("steward", "Hello from afar"))
        .await;
    assert_has(
        &envelope,
        json!({"summary": {"message_text": "steward received: Hello from afar"}}),
    );
    let received = agent.next_report("received").await;
    assert_eq!(received["metadata"]["requiresResponse"], true, "{received}");
}

#[tokio::test]
async fn javascript_client_calls_another_stack() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let rules = json!([voters::answer_rule("as you wish")]);
    let _agent = voters::start_agent(&gateway.url, "coder", rules).await;
    let options = json!({"role": "request", "agent": "coder", "text": "Fix it."});
    let mut client = start_client(&gateway.url, options).await;
    assert_eq!(
        client.next_report("answer").await["content"]["content"],
        "as you wish"
    );
}

/// Three voters of Heretek A2A §11.3, which approve with a confidence above one half.
async fn triad(url: &str, confidence: [f64; 3]) -> Vec<NodeClient> {
    let mut voters = Vec::new();
    for (name, confidence) in ["alpha", "beta", "charlie"].into_iter().zip(confidence) {
        let options = json!({"role": "vote", "name": name, "confidence": confidence});
        voters.push(start_client(url, options).await);
    }
    voters
}

#[tokio::test]
async fn javascript_triad_decides_for_javascript_client() {
    let gateway = ReferenceGateway::start(json!({"triad": {"quorum": "all"}})).await;
    let _voters = triad(&gateway.url, [0.9, 0.2, 0.8]).await;
    let options = json!({"role": "propose", "proposal": "Ship it", "reasoning": "It is done."});
    let mut client = start_client(&gateway.url, options).await;
    for _ in 0..3 {
        let vote = client.next_report("received").await;
        assert!(vote["content"]["confidence"].is_number(), "{vote}");
    }
    let decided = client.next_report("answer").await;
    assert_has(
        &decided,
        json!({"from": "gateway", "content": {"result": "approved"}}),
    );
    let votes = json!({"alpha": "approve", "beta": "reject", "charlie": "approve"});
    assert_eq!(decided["content"]["votes"], votes, "{decided}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_36_javascript_triad_votes_by_message_id() {
    let gateway = ReferenceGateway::start(json!({"triad": {"quorum": "all"}})).await;
    let _voters = triad(&gateway.url, [0.1, 0.2, 0.8]).await;
    let envelope = tool_with_gateway(&gateway.url, json!({}))
        .call(&propose("Drop the table"))
        .await;
    let decided = decision(&envelope);
    assert_eq!(decided["result"], "rejected", "{envelope}");
    assert_eq!(decided["consensus"], true, "{envelope}");
}

#[tokio::test]
async fn error_has_the_format_of_the_javascript_client() {
    let gateway = ReferenceGateway::start(json!({})).await;
    let message = json!({"type": "message", "agent": "unknown", "content": {"role": "user", "content": "x"}, "metadata": {"correlationId": "c-1"}});
    let options = json!({"role": "send", "types": ["error"], "messages": [message, {"type": "frobnicate", "content": {}}]});
    let mut client = start_client(&gateway.url, options).await;
    let error = client.next_report("received").await;
    assert_eq!(error["content"]["error"], "AGENT_NOT_FOUND", "{error}");
    assert_eq!(error["content"]["code"], 3001, "{error}");
    assert_eq!(error["metadata"]["correlationId"], "c-1", "{error}");
    assert_eq!(
        client.next_report("received").await["content"]["error"],
        "UNKNOWN_TYPE"
    );
}

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Writes the documented module, with the documented method in a client, and returns its path.
fn documented_module(folder: &Path) -> String {
    let root = Path::new(ROOT);
    let page = std::fs::read_to_string(root.join("docs/reference/a2a-v1.md")).unwrap();
    let [module, method] = &blocks(&page, "js")[..] else {
        panic!("a module and a method");
    };
    let client = root
        .join("tests/gateway/client.mjs")
        .canonicalize()
        .unwrap();
    let text = format!(
        "import {{ Client }} from {client:?};\n{}\nexport class SigningClient extends Client {{\n{}\n}}\n",
        module.1, method.1
    );
    let file = folder.join("signing_client.mjs");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn new_key() -> (String, SigningKey) {
    let pem = SigningKey::generate_pem().unwrap();
    let key = SigningKey::parse(pem.as_bytes()).unwrap();
    (pem, key)
}

#[test]
fn h_51_documented_module_and_gateway_verify_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (pem, key) = new_key();
    let message = Envelope::new(Kind::Broadcast, json!({"message": "Grüße", "n": 1e21}))
        .with("id", "msg-rust")
        .with("from", "alpha")
        .with("timestamp", 1_711_843_200_000_u64)
        .with_metadata("ttl", 0.5);
    let message = signature::sign(message, &key).unwrap().into_json();
    let foreign =
        json!({"message": message, "publicKey": key.public_key(), "pem": pem}).to_string();
    let vectors = format!("{ROOT}/docs/reference/a2a-v1-signatures.json");
    let module = documented_module(folder.path());
    let printed = node::run(
        "tests/gateway/run_signatures.mjs",
        &[&module, &vectors, &foreign],
    );
    let signed = Envelope::parse(&printed).unwrap();
    let keys = KeySet::of_messages(&[key.public_key()]).unwrap();
    signature::verify(&signed, Some(&keys)).unwrap();
    assert_eq!(signed.id(), Some("msg-node"));
}

#[tokio::test]
async fn h_57_javascript_client_signs_with_a_pinned_key() {
    let folder = tempfile::tempdir().unwrap();
    let agents = json!([{"name": "steward", "role": "r", "signing": "require"}, {"name": "coder", "role": "r"}]);
    let gateway =
        ReferenceGateway::start(json!({"agents": agents, "signing": {"pinFirstUse": true}})).await;
    let rules = json!([voters::answer_rule("as you wish")]);
    let _agent = voters::start_agent(&gateway.url, "coder", rules).await;
    let module = documented_module(folder.path());
    let options = json!({"role": "sign", "module": module, "name": "steward", "pem": new_key().0, "agent": "coder", "text": "Fix it."});
    let mut client = start_client(&gateway.url, options).await;
    assert_eq!(
        client.next_report("answer").await["content"]["content"],
        "as you wish"
    );
}
