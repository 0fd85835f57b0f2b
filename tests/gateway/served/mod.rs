//! The reference gateway, seen by clients that know nothing of its types: literal frames in, literal frames out.

mod connecting;
mod envelopes;
mod rooms;
mod serving;
mod votes;

use serde_json::{Value, json};
use testkit::conformance::gateways::{LogEvent, Member};

use crate::gateway::{
    rig::soon,
    support::{reference::Reference, voters},
};

/// Returns a gateway with these settings.
async fn gateway(settings: Value) -> Reference {
    Reference::start(settings).await
}

/// Returns a client that says nothing by itself.
async fn client(gateway: &Reference) -> Member {
    Member::join(&gateway.url, &json!({"upgrade": {"protocol": "a2a-v1"}}))
        .await
        .unwrap()
}

/// Returns an agent of this name that only listens.
async fn listener(gateway: &Reference, name: &str) -> Member {
    voters::agent(&gateway.url, name, json!([])).await
}

/// Says this and waits for the first frame that fits `when` after what fitted before.
async fn say(client: &Member, frame: Value, when: Value) -> Value {
    let before = client.log().matching(&when).len();
    client.say(&frame).await.unwrap();
    soon(client.log().frame(before + 1, &when)).await
}

/// Says this and waits for the error that comes of it; gives its number.
async fn error(client: &Member, frame: Value) -> u64 {
    let reported = say(client, frame, json!({"/type": "error"})).await;
    number(&reported)
}

/// Returns the number of an error, once its form was looked at (001 "Error Message Format").
#[track_caller]
fn number(error: &Value) -> u64 {
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(error["from"], "gateway", "{error}");
    assert!(
        error["content"]["error"].is_string() && error["content"]["message"].is_string(),
        "{error}"
    );
    assert!(error["timestamp"].is_u64(), "{error}");
    error["content"]["code"].as_u64().unwrap()
}

/// Waits for the end of the connection; gives the code it was closed with.
async fn closed(client: &Member) -> Option<u16> {
    soon(
        client
            .log()
            .until(|all| all.iter().any(|entry| entry.what == LogEvent::Gone)),
    )
    .await;
    let mut received = client.log().received().into_iter();
    received.find_map(|entry| match entry.what {
        LogEvent::Close { code, .. } => code,
        _ => None,
    })
}

/// The connection still works.
async fn alive(client: &Member) {
    let pong = say(
        client,
        json!({"type": "ping", "id": "alive"}),
        json!({"/type": "pong"}),
    )
    .await;
    assert_eq!(pong["metadata"]["parentId"], "alive", "{pong}");
}

fn message(agent: &str, more: Value) -> Value {
    let mut message = json!({"type": "message", "id": "m-1", "agent": agent, "content": {"role": "user", "content": "Hello?"},
        "metadata": {"requiresResponse": true, "correlationId": "c-1"}});
    crate::gateway::support::lay_over(&mut message, more);
    message
}

fn proposal(more: Value) -> Value {
    let mut proposal = json!({"type": "proposal", "id": "p-1", "content": {"proposal": "Ship it?"}, "metadata": {"requiresResponse": true, "correlationId": "p-1"}});
    crate::gateway::support::lay_over(&mut proposal, more);
    proposal
}

fn vote(id: &str, word: &str) -> Value {
    json!({"type": "vote", "content": {"proposalId": id, "vote": word}, "metadata": {"correlationId": id}})
}
