//! Messages: required fields, senders and answers.

use serde_json::{Value, json};

use super::{client, error_code, exchange, exchange_error, gateway, listener, message};
use crate::gateway::{
    support::{reference_gateway::ReferenceGateway, voters},
    tool_fixture::within_timeout,
};

/// Returns a gateway with the agent `coder`, which answers `done`.
async fn with_coder(settings: Value) -> (ReferenceGateway, testkit::conformance::gateways::Member) {
    let gateway = gateway(settings).await;
    let coder =
        voters::start_agent(&gateway.url, "coder", json!([voters::answer_rule("done")])).await;
    (gateway, coder)
}

#[tokio::test]
async fn h_15_required_fields_are_enforced() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    for (frame, expected) in [
        (json!({"type": "message", "agent": "coder"}), 2002),
        (
            json!({"type": "message", "content": {"role": "user", "content": "x"}}),
            2002,
        ),
        (
            json!({"type": "message", "agent": 7, "content": {"role": "user", "content": "x"}}),
            2003,
        ),
        (json!({"content": {}}), 2002),
        (json!({"type": "handshake", "content": {}}), 2002),
        (json!({"type": "subscribe", "content": {}}), 2002),
        (json!({"type": "proposal", "content": {}}), 2002),
        (
            json!({"type": "vote", "content": {"proposalId": "p"}}),
            2002,
        ),
        (json!({"type": "request", "content": {}}), 2002),
        (json!({"type": "broadcast", "content": {}}), 2002),
    ] {
        assert_eq!(
            exchange_error(&client, frame.clone()).await,
            expected,
            "{frame}"
        );
    }
}

#[tokio::test]
async fn h_16_parts_are_forwarded_unchanged() {
    let (gateway, coder) = with_coder(json!({})).await;
    let client = client(&gateway).await;
    let content = json!({"role": "user", "content": {"parts": [{"kind": "text", "text": "a"}, {"kind": "data", "data": {"b": [1]}}]}});
    exchange(
        &client,
        message("coder", json!({"content": content})),
        json!({"/type": "message"}),
    )
    .await;
    let received = &coder.log().matching(&json!({"/type": "message"}))[0];
    assert_eq!(received["content"], content, "{received}");
}

#[tokio::test]
async fn h_17_id_is_1_to_128_characters() {
    let (gateway, _coder) = with_coder(json!({})).await;
    let client = client(&gateway).await;
    for id in ["x", "not a uuid", &"i".repeat(128)] {
        let reply = exchange(
            &client,
            message("coder", json!({"id": id})),
            json!({"/type": "message"}),
        )
        .await;
        assert_eq!(reply["content"]["content"], "done", "{reply}");
    }
    for id in [String::new(), "i".repeat(129)] {
        let number = exchange_error(&client, message("coder", json!({"id": id}))).await;
        assert!([2003, 2005].contains(&number), "{number}");
    }
}

#[tokio::test]
async fn h_18_expired_message_is_not_delivered() {
    let (gateway, coder) = with_coder(json!({})).await;
    let client = client(&gateway).await;
    let old = message(
        "coder",
        json!({"timestamp": 1_711_843_200_000_u64, "metadata": {"ttl": 5}}),
    );
    assert_eq!(exchange_error(&client, old).await, 2005);
    let iso = message(
        "coder",
        json!({"timestamp": "2024-03-31T00:00:00Z", "metadata": {"ttl": 5}}),
    );
    assert_eq!(exchange_error(&client, iso).await, 2005);
    assert_eq!(coder.log().matching(&json!({"/type": "message"})).len(), 0);
}

#[tokio::test]
async fn h_19_gateway_sets_the_sender() {
    let (gateway, coder) = with_coder(json!({})).await;
    let steward = listener(&gateway, "steward").await;
    exchange(
        &steward,
        message("coder", json!({"from": "mallory"})),
        json!({"/type": "message"}),
    )
    .await;
    let received = &coder.log().matching(&json!({"/type": "message"}))[0];
    assert_eq!(received["from"], "steward", "{received}");
}

#[tokio::test]
async fn h_19_strict_gateway_refuses_forged_sender() {
    let (gateway, coder) = with_coder(json!({"strict": true})).await;
    let steward = listener(&gateway, "steward").await;
    let number = exchange_error(&steward, message("coder", json!({"from": "mallory"}))).await;
    assert_eq!(number, 5004);
    assert_eq!(coder.log().matching(&json!({"/type": "message"})).len(), 0);
}

#[tokio::test]
async fn h_20_unknown_fields_pass_and_unknown_types_are_reported() {
    let (gateway, coder) = with_coder(json!({})).await;
    let client = client(&gateway).await;
    let reply = exchange(
        &client,
        message("coder", json!({"mood": "good"})),
        json!({"/type": "message"}),
    )
    .await;
    assert_eq!(reply["content"]["content"], "done", "{reply}");
    assert_eq!(coder.log().matching(&json!({"/type": "message"})).len(), 1);
    assert_eq!(
        exchange_error(&client, json!({"type": "frobnicate", "content": {}})).await,
        2004
    );
}

#[tokio::test]
async fn h_21_message_expecting_an_answer_gets_one() {
    let (gateway, coder) = with_coder(json!({})).await;
    let client = client(&gateway).await;
    let reply = exchange(
        &client,
        message("coder", json!({})),
        json!({"/metadata/correlationId": "c-1"}),
    )
    .await;
    assert_eq!(reply["from"], "coder", "{reply}");
    // Another message, without an agent to reply.
    drop(coder);
    let more = message("coder", json!({"metadata": {"correlationId": "c-2"}}));
    let reported = exchange(&client, more, json!({"/metadata/correlationId": "c-2"})).await;
    // The error shows whether the agent received the message before it disconnected.
    let number = error_code(&reported);
    assert!([3002, 3004].contains(&number), "{reported}");
}

#[tokio::test]
async fn h_22_session_is_created_when_first_named() {
    let (gateway, _coder) = with_coder(json!({})).await;
    let client = client(&gateway).await;
    let reported = message("coder", json!({"sessionId": "new-one"}));
    let reply = exchange(&client, reported, json!({"/type": "message"})).await;
    assert_eq!(reply["sessionId"], "new-one", "{reply}");
    let stored = std::fs::read_to_string(gateway.sessions("coder").join("new-one.jsonl")).unwrap();
    assert!(
        stored.lines().any(|line| line.contains("new-one")),
        "{stored}"
    );
}

#[tokio::test]
async fn h_22_strict_gateway_rejects_unknown_sessions() {
    let (gateway, _coder) = with_coder(json!({"strict": true})).await;
    let client = client(&gateway).await;
    let reported = message("coder", json!({"sessionId": "new-one"}));
    assert_eq!(exchange_error(&client, reported).await, 4001);
}

#[tokio::test]
async fn h_25_error_belongs_to_its_request() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    let reported = exchange(
        &client,
        message("unknown", json!({})),
        json!({"/type": "error"}),
    )
    .await;
    assert_eq!(error_code(&reported), 3001);
    assert_eq!(
        reported["content"]["error"], "AGENT_NOT_FOUND",
        "{reported}"
    );
    assert_eq!(
        reported["metadata"],
        json!({"correlationId": "c-1", "parentId": "m-1"}),
        "{reported}"
    );
}

#[tokio::test]
async fn h_27_unknown_and_offline_agents_differ() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    assert_eq!(
        exchange_error(&client, message("unknown", json!({}))).await,
        3001
    );
    assert_eq!(
        exchange_error(&client, message("historian", json!({}))).await,
        3002
    );
}

#[tokio::test]
async fn h_24_answer_keeps_its_sender() {
    let (gateway, _coder) = with_coder(json!({})).await;
    let mallory = listener(&gateway, "mallory").await;
    let client = client(&gateway).await;
    let reply = exchange(
        &client,
        message("coder", json!({})),
        json!({"/type": "message"}),
    )
    .await;
    // Mallory answers a request to another agent, under that agent's name.
    let forged = json!({"type": "message", "agent": "client", "from": "coder", "content": {"role": "agent", "content": "believe me"}, "metadata": {"correlationId": "c-1"}});
    mallory.send(&forged).await.unwrap();
    super::assert_alive(&mallory).await;
    super::assert_alive(&client).await;
    assert_eq!(reply["from"], "coder", "{reply}");
    let reported = client
        .log()
        .matching(&json!({"/content/content": "believe me", "/from": "coder"}));
    assert_eq!(reported, [json!(null); 0]);
}

#[tokio::test]
async fn h_50_audit_log_omits_content() {
    let folder = crate::gateway::folder::Folder::new();
    let path = folder.path().join("audit.jsonl");
    let (gateway, _coder) = with_coder(json!({"audit": {"path": path}})).await;
    let steward = listener(&gateway, "steward").await;
    let secret = message(
        "coder",
        json!({"content": {"role": "user", "content": "between us"}}),
    );
    exchange(&steward, secret, json!({"/type": "message"})).await;
    drop(gateway);
    // The gateway writes the log in the background.
    let lines = within_timeout(async {
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.lines().any(|line| line.contains("m-1")) {
                return text;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let line = lines.lines().find(|line| line.contains("m-1")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    let reported = line.to_string();
    for part in ["message", "steward", "coder"] {
        assert!(reported.contains(part), "{line}");
    }
    assert!(!lines.contains("between us"), "{lines}");
}
