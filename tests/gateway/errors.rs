//! Each error of the registry (Heretek A2A appendix B), as the tool reports it.

use serde_json::{Value, json};

use crate::gateway::{
    support::{message_to, start_scripted, tool_with_gateway, with_fields},
    tool_fixture::reason,
};

/// Number, name, and the contract's code.
const REGISTRY: [(u16, &str, &str); 21] = [
    (1001, "CONNECTION_REFUSED", "A2A_SDK_ERROR"),
    (1002, "CONNECTION_TIMEOUT", "A2A_SDK_ERROR"),
    (1003, "CONNECTION_RESET", "A2A_SDK_ERROR"),
    (1004, "PROTOCOL_ERROR", "A2A_SDK_ERROR"),
    (2001, "INVALID_JSON", "A2A_SDK_ERROR"),
    (2002, "MISSING_FIELD", "A2A_SDK_ERROR"),
    (2003, "INVALID_TYPE", "A2A_SDK_ERROR"),
    (2004, "UNKNOWN_TYPE", "A2A_SDK_ERROR"),
    (2005, "INVALID_CONTENT", "A2A_SDK_ERROR"),
    (3001, "AGENT_NOT_FOUND", "TARGET_RESOLUTION_ERROR"),
    (3002, "AGENT_OFFLINE", "A2A_SDK_ERROR"),
    (3003, "AGENT_BUSY", "A2A_SDK_ERROR"),
    (3004, "AGENT_ERROR", "A2A_SDK_ERROR"),
    (4001, "SESSION_NOT_FOUND", "A2A_SDK_ERROR"),
    (4002, "SESSION_EXPIRED", "A2A_SDK_ERROR"),
    (4003, "SESSION_LOCKED", "A2A_SDK_ERROR"),
    (4004, "SESSION_CORRUPT", "A2A_SDK_ERROR"),
    (5001, "AUTH_REQUIRED", "A2A_SDK_ERROR"),
    (5002, "AUTH_FAILED", "A2A_SDK_ERROR"),
    (5003, "TOKEN_EXPIRED", "A2A_SDK_ERROR"),
    (5004, "PERMISSION_DENIED", "A2A_SDK_ERROR"),
];

/// Returns a gateway that answers every message with `answers`.
fn gateway(answers: &Value) -> Value {
    let acknowledge = json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "c", "availableAgents": ["alpha"], "protocolVersion": "1.0.0"}});
    let agents = json!({"type": "discovery", "content": {"agents": [{"name": "alpha", "role": "steward", "status": "online"}]},
        "metadata": {"correlationId": "{{/metadata/correlationId}}"}});
    json!({"upgrade": {"protocol": "echo"}, "on": [
        {"when": {"/type": "handshake"}, "do": [{"send": acknowledge}]},
        {"when": {"/type": "discovery"}, "do": [{"send": agents}]},
        {"when": {"/type": "message"}, "do": [{"send": answers}]},
    ]})
}

/// Returns the tool's result for this answer.
async fn reported(answer: Value) -> Value {
    let gateway = start_scripted(&gateway(&answer)).await;
    // With a `ttl` of a second, the bridge does not repeat a message to a busy agent.
    let request = with_fields(
        message_to("alpha", "Hello?"),
        json!({"timeout_ms": 20_000, "metadata": {"ttl": 1}}),
    );
    tool_with_gateway(&gateway.url(), json!({}))
        .call(&request)
        .await
}

fn error(content: Value) -> Value {
    json!({"type": "error", "from": "gateway", "content": content, "metadata": {"correlationId": "{{/metadata/correlationId}}", "parentId": "{{/id}}"}})
}

#[track_caller]
fn is(envelope: &Value, (number, name, code): (u16, &str, &str)) {
    assert_eq!(reason(envelope), name.to_lowercase(), "{envelope}");
    assert_eq!(envelope["error"]["code"], code, "{envelope}");
    assert_eq!(
        envelope["error"]["details"]["gateway_code"], number,
        "{envelope}"
    );
    let hint = &envelope["error"]["details"]["hint"];
    assert!(
        hint.as_str().is_some_and(|hint| hint.ends_with('.')),
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_27_registry_errors_have_name_number_and_retryable() {
    for row in REGISTRY {
        let (number, name, code) = row;
        let answer = error(json!({"error": name, "message": "it is so", "code": number}));
        let envelope = reported(answer).await;
        is(&envelope, row);
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains("it is so"), "{envelope}");
        if (2000..4000).contains(&number) {
            let retryable = envelope["error"]["retryable"] == true;
            assert_eq!(retryable, number == 3003, "{envelope}");
        }
        println!("{number} {name:20} {code} / {}", reason(&envelope));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_25_error_beside_the_content_is_read() {
    let answer = json!({
        "type": "error", "error": "AGENT_ERROR", "details": "the model is away", "correlationId": "{{/metadata/correlationId}}",
    });
    let envelope = reported(answer).await;
    is(&envelope, (3004, "AGENT_ERROR", "A2A_SDK_ERROR"));
    assert!(
        envelope.to_string().contains("the model is away"),
        "{envelope}"
    );
}
