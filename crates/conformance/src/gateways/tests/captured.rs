//! The profile of the JavaScript gateway has the answers of the captured gateway.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::super::{Gateways, Member};
use super::within_timeout;

/// Returns the frames of a client, each with the frames that it received before the next one.
fn conversation() -> Vec<(String, Vec<Value>)> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("fixtures/gateway/heretek-js.frames.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut sent: Vec<(String, Vec<Value>)> = Vec::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let data = entry["data"].as_str().unwrap_or_default();
        match (entry["who"].as_str(), entry["dir"].as_str()) {
            (Some("client"), Some("->")) => sent.push((data.to_owned(), Vec::new())),
            (Some("client"), Some("<-")) => {
                if let Some((_, received)) = sent.last_mut() {
                    received.push(serde_json::from_str(data).unwrap());
                }
            }
            _ => {}
        }
    }
    sent
}

/// The fields that differ from run to run, and those about other clients.
const OF_A_RUN: [&str; 7] = [
    "timestamp",
    "port",
    "received",
    "uptime",
    "clientId",
    "connectedAgents",
    "agents",
];

/// Returns the frame without values that differ from run to run.
fn fixed(frame: &Value) -> Value {
    match frame {
        Value::Object(fields) => {
            let values = fields.iter().map(|(name, value)| match name.as_str() {
                of_a_run if OF_A_RUN.contains(&of_a_run) => (name.clone(), json!("*")),
                _ => (name.clone(), fixed(value)),
            });
            values.collect::<BTreeMap<_, _>>().into_iter().collect()
        }
        Value::Array(items) => items.iter().map(fixed).collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn every_captured_answer_is_replayed() {
    // Frames of other clients: `alpha` answers by itself, and an impostor replaces it and disconnects.
    let by_others = ["msg-1", "corr-4", "corr-5"];
    let mut conversation = conversation();
    conversation.retain(|(sent, _)| !by_others.iter().any(|id| sent.contains(id)));
    assert!(conversation.len() >= 15, "{}", conversation.len());
    let steps = conversation.iter().map(|(sent, _)| json!({"text": sent}));
    let script = json!({"upgrade": {"protocol": "a2a-v1", "do": steps.collect::<Vec<_>>()}});
    let received = conversation.iter().flat_map(|(_, received)| received);
    let expected: Vec<Value> = received.map(fixed).collect();

    let gateway = Gateways::named("heretek-js").await.unwrap();
    let url = format!("{}/a2a", gateway.url());
    let client = Member::join(&url, &script).await.unwrap();
    within_timeout(client.log().frame(expected.len() + 1, &json!({}))).await;
    let answers: Vec<Value> = client.log().frames().iter().map(fixed).collect();
    assert_eq!(answers[0]["type"], "welcome");
    assert_eq!(answers[1..], expected);
}
