//! The reference gateway with clients that do not use its types, but literal frames.

mod connecting;
mod discovery;
mod envelopes;
mod serving;
mod votes;

use serde_json::{Value, json};
use testkit::conformance::gateways::{LogEvent, Member};

use crate::gateway::{
    support::{reference_gateway::ReferenceGateway, voters},
    tool_fixture::within_timeout,
};

/// Returns a gateway with these settings.
async fn gateway(settings: Value) -> ReferenceGateway {
    ReferenceGateway::start(settings).await
}

/// Returns a client that sends nothing by itself.
async fn client(gateway: &ReferenceGateway) -> Member {
    Member::join(&gateway.url, &json!({"upgrade": {"protocol": "a2a-v1"}}))
        .await
        .unwrap()
}

/// Returns an agent of this name that only receives.
async fn listener(gateway: &ReferenceGateway, name: &str) -> Member {
    voters::start_agent(&gateway.url, name, json!([])).await
}

/// Sends a frame and waits for the next frame that fits `when`.
async fn exchange(client: &Member, frame: Value, when: Value) -> Value {
    let count = client.log().matching(&when).len();
    client.send(&frame).await.unwrap();
    within_timeout(client.log().frame(count + 1, &when)).await
}

/// Sends a frame, waits for the resulting error and returns its number.
async fn exchange_error(client: &Member, frame: Value) -> u64 {
    let error = exchange(client, frame, json!({"/type": "error"})).await;
    error_code(&error)
}

/// Checks the form of an error (Heretek Architecture, "Error Message Format") and returns its number.
#[track_caller]
fn error_code(exchange_error: &Value) -> u64 {
    assert_eq!(exchange_error["type"], "error", "{exchange_error}");
    assert_eq!(exchange_error["from"], "gateway", "{exchange_error}");
    assert!(
        exchange_error["content"]["error"].is_string()
            && exchange_error["content"]["message"].is_string(),
        "{exchange_error}"
    );
    assert!(exchange_error["timestamp"].is_u64(), "{exchange_error}");
    exchange_error["content"]["code"].as_u64().unwrap()
}

/// Waits for the end of the connection and returns the close code.
async fn wait_for_close(client: &Member) -> Option<u16> {
    within_timeout(
        client
            .log()
            .until(|all| all.iter().any(|entry| entry.what == LogEvent::Disconnected)),
    )
    .await;
    let mut received = client.log().received().into_iter();
    received.find_map(|entry| match entry.what {
        LogEvent::Close { code, .. } => code,
        _ => None,
    })
}

/// Checks that the connection still works.
async fn assert_alive(client: &Member) {
    let pong = exchange(
        client,
        json!({"type": "ping", "id": "alive"}),
        json!({"/type": "pong"}),
    )
    .await;
    assert_eq!(pong["metadata"]["parentId"], "alive", "{pong}");
}

fn message(agent: &str, fields: Value) -> Value {
    let mut message = json!({"type": "message", "id": "m-1", "agent": agent, "content": {"role": "user", "content": "Hello?"},
        "metadata": {"requiresResponse": true, "correlationId": "c-1"}});
    crate::gateway::support::merge(&mut message, fields);
    message
}

fn proposal(fields: Value) -> Value {
    let mut proposal = json!({"type": "proposal", "id": "p-1", "content": {"proposal": "Ship it?"}, "metadata": {"requiresResponse": true, "correlationId": "p-1"}});
    crate::gateway::support::merge(&mut proposal, fields);
    proposal
}

fn vote(id: &str, value: &str) -> Value {
    json!({"type": "vote", "content": {"proposalId": id, "vote": value}, "metadata": {"correlationId": id}})
}
