//! A triad behind a gateway of `a2a-v1`.

use serde_json::{Value, json};

use gateway_bridge::testing::{Arrivals, Connection};

use super::cuts::{send_and_follow, tool_with_gateway};

/// Accepts the next connection, greets it and answers queries for members. Returns the first frame of another kind.
async fn handshake(arrivals: &mut Arrivals) -> (Connection, Value) {
    let mut connection = arrivals.next().await;
    loop {
        let frame = connection.recv().await;
        match frame["type"].as_str() {
            Some("handshake") => {
                connection.send(json!({"type": "handshake", "content": {"action": "acknowledge", "protocolVersion": "1.0.0"}})).await;
            }
            Some("discovery") => {
                let agents = ["alpha", "beta", "charlie"]
                    .map(|name| json!({"name": name, "status": "online"}));
                connection
                    .send(json!({"type": "discovery", "content": {"agents": agents}}))
                    .await;
            }
            // Subscriptions need no answer. The last subscription ends the handshake of a second connection.
            Some("subscribe") if frame["content"]["channel"] != "triad:decision" => {}
            _ => return (connection, frame),
        }
    }
}

async fn send_vote(connection: &mut Connection, id: &Value, member: &str) {
    connection
        .send(json!({"type": "vote", "from": member, "content": {"proposalId": id, "vote": "approve"}}))
        .await;
}

async fn send_decision(connection: &mut Connection, id: &Value) {
    connection
        .send(json!({"type": "decision", "from": "gateway", "content": {"proposalId": id, "result": "approved",
            "votes": {"alpha": "approve", "beta": "approve"}, "consensus": true}}))
        .await;
}

fn texts(updates: &[Value]) -> Vec<&str> {
    updates
        .iter()
        .filter_map(|raw| raw.pointer("/status/message/parts/0/text")?.as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn early_votes_are_updates_by_stream_and_by_task() {
    for more in [json!({}), json!({"task_requirement": "required"})] {
        let (tool, _net, mut arrivals) = tool_with_gateway("a2a-v1");
        let gateway = async {
            let (mut connection, proposal) = handshake(&mut arrivals).await;
            send_vote(&mut connection, &proposal["id"], "alpha").await;
            send_vote(&mut connection, &proposal["id"], "beta").await;
            send_decision(&mut connection, &proposal["id"]).await;
            connection
        };
        let call = send_and_follow(&tool, "gateway:triad", more);
        let ((result, updates), _connection) = tokio::join!(call, gateway);
        assert_eq!(
            result["summary"]["continuation"]["task"]["status"], "completed",
            "{result}"
        );
        assert_eq!(
            texts(&updates),
            ["alpha votes approve", "beta votes approve"],
            "{updates:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h_46_proposal_is_followed_over_a_cut() {
    let (tool, _net, mut arrivals) = tool_with_gateway("a2a-v1");
    let gateway = async {
        let (mut connection, proposal) = handshake(&mut arrivals).await;
        assert_eq!(proposal["type"], "proposal");
        send_vote(&mut connection, &proposal["id"], "alpha").await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        drop(connection);
        let (mut connection, subscribe) = handshake(&mut arrivals).await;
        assert_eq!(subscribe["type"], "subscribe", "{subscribe}");
        send_vote(&mut connection, &proposal["id"], "beta").await;
        send_decision(&mut connection, &proposal["id"]).await;
        connection
    };
    let call = send_and_follow(&tool, "gateway:triad", json!({}));
    let ((result, updates), _connection) = tokio::join!(call, gateway);
    assert_eq!(
        result["summary"]["continuation"]["task"]["status"], "completed",
        "{result}"
    );
    assert_eq!(
        texts(&updates),
        ["alpha votes approve", "beta votes approve"],
        "{updates:?}"
    );
}
