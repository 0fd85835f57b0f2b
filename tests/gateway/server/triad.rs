//! Proposals, votes and decisions.

use super::*;

const MEMBERS: [&str; 3] = ["alpha", "beta", "charlie"];

async fn members(gateway: &Gateway) -> Vec<Client> {
    let mut members = Vec::new();
    for name in MEMBERS {
        members.push(gateway.serving_client(&[name]).await);
    }
    members
}

fn proposal(id: &str, content: Value) -> Value {
    json!({"type": "proposal", "id": id, "content": content, "metadata": {"correlationId": id, "requiresResponse": true}})
}

fn plain(id: &str) -> Value {
    proposal(id, json!({"proposal": "Do it", "reasoning": "why not"}))
}

fn vote(id: &str, value: &str) -> Value {
    json!({"type": "vote", "content": {"proposalId": id, "vote": value, "confidence": 0.9}, "metadata": {"correlationId": id}})
}

fn soon(millis: u64) -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::try_from(now.as_millis()).unwrap() + millis
}

/// Reads the frames of the proposer until the decision. Returns the votes and the decision.
async fn decided(client: &mut Client) -> (Vec<Value>, Value) {
    let mut votes = Vec::new();
    loop {
        let received = client.recv().await;
        match received["type"].as_str() {
            Some("vote") => votes.push(received),
            Some("decision") => return (votes, received),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn h_35_gateway_counts_and_informs_the_proposer() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    for (member, name) in members.iter_mut().zip(MEMBERS) {
        let put = member.recv().await;
        assert_eq!(
            (&put["type"], &put["agent"]),
            (&json!("proposal"), &json!(name))
        );
        assert_has(
            &put,
            json!({"id": "p-1", "metadata": {"correlationId": "p-1"}}),
        );
        assert!(put["content"]["deadline"].as_u64().unwrap() > soon(200_000));
    }
    members[0].send(vote("p-1", "approve")).await;
    let seen = client.recv().await;
    assert_eq!(
        (&seen["from"], &seen["content"]["confidence"]),
        (&json!("alpha"), &json!(0.9)),
        "h_43"
    );
    members[1].send(vote("p-1", "approve")).await;
    let (_, decision) = decided(&mut client).await;
    assert_eq!(decision["from"], "gateway");
    assert_eq!(decision["metadata"]["correlationId"], "p-1", "h_37");
    assert_eq!(
        decision["content"],
        json!({"proposalId": "p-1", "result": "approved", "consensus": true,
            "votes": {"alpha": "approve", "beta": "approve"}, "missing": ["charlie"]}),
        "h_40"
    );
    members[2].refuse(vote("p-1", "reject"), 2005).await;
}

#[tokio::test]
async fn h_36_correlation_id_names_the_proposal() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    let mut proposal = plain("by-correlation");
    proposal["id"] = "by-id".into();
    client.send(proposal).await;
    assert_eq!(members[0].recv().await["id"], "by-correlation");
    members[1].recv().await;
    let only_id = json!({"type": "proposal", "id": "only-id", "content": {"proposal": "x"}});
    client.send(only_id).await;
    let received = members[0].recv().await;
    assert_eq!(received["metadata"]["correlationId"], "only-id");
    members[1].recv().await;
    for id in ["by-correlation", "only-id"] {
        for member in &mut members[..2] {
            member.send(vote(id, "approve")).await;
        }
        let (_, decision) = decided(&mut client).await;
        assert_eq!(decision["content"]["proposalId"], id);
    }
}

#[tokio::test]
async fn h_38_proposal_needs_two_members() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut client = gateway.client().await;
    client.refuse(plain("p-1"), 3002).await;
    alpha.assert_silent().await;
}

#[tokio::test]
async fn h_40_quorum_all_awaits_every_vote() {
    let gateway = Gateway::start(json!({"triad": {"quorum": "all"}})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    for index in [0, 1, 2] {
        members[index].recv().await;
        members[index].send(vote("p-1", "reject")).await;
    }
    let (votes, decision) = decided(&mut client).await;
    assert_eq!(votes.len(), 3);
    assert_has(
        &decision,
        json!({"content": {"result": "rejected", "missing": []}}),
    );
}

#[tokio::test]
async fn h_41_deadline_decides_with_present_votes() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    client
        .send(proposal(
            "p-1",
            json!({"proposal": "x", "deadline": soon(300)}),
        ))
        .await;
    members[0].recv().await;
    members[0].send(vote("p-1", "approve")).await;
    let (votes, decision) = decided(&mut client).await;
    assert_eq!(votes.len(), 1);
    assert_eq!(decision["content"]["result"], "rejected");
    assert_eq!(decision["content"]["consensus"], false);
    assert_eq!(decision["content"]["missing"], json!(["beta", "charlie"]));
}

#[tokio::test]
async fn h_41_past_or_distant_deadline_is_refused() {
    let gateway = Gateway::start(json!({})).await;
    let _members = members(&gateway).await;
    let mut client = gateway.client().await;
    for deadline in [1_711_843_200_000, soon(90_000_000)] {
        client
            .refuse(
                proposal("p-1", json!({"proposal": "x", "deadline": deadline})),
                2005,
            )
            .await;
    }
}

#[tokio::test]
async fn h_42_second_foreign_or_invalid_vote_or_decision_is_refused() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let (mut client, mut steward) = (
        gateway.client().await,
        gateway.serving_client(&["steward"]).await,
    );
    client.send(plain("p-1")).await;
    members[0].recv().await;
    members[0].send(vote("p-1", "approve")).await;
    let decision =
        json!({"proposalId": "p-1", "result": "rejected", "votes": {}, "consensus": true});
    for (frame, code) in [
        (vote("p-1", "reject"), 2005),
        (vote("p-2", "approve"), 2005),
        (vote("p-1", "maybe"), 2005),
        (
            json!({"type": "decision", "from": "gateway", "content": decision}),
            5004,
        ),
    ] {
        members[0].refuse(frame, code).await;
    }
    let mut forged = vote("p-1", "approve");
    forged["from"] = "beta".into();
    steward.refuse(forged, 5004).await;
    members[1].recv().await;
    members[1].send(vote("p-1", "approve")).await;
    let (votes, decision) = decided(&mut client).await;
    assert_eq!(votes.len(), 2);
    assert_eq!(
        decision["content"]["votes"],
        json!({"alpha": "approve", "beta": "approve"})
    );
}

#[tokio::test]
async fn h_42_word_of_a_vote_counts_in_any_case() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    for (member, word) in members.iter_mut().zip(["APPROVE", " Approve "]) {
        member.recv().await;
        member.send(vote("p-1", word)).await;
    }
    let (votes, decision) = decided(&mut client).await;
    for vote in &votes {
        assert_eq!(vote["content"]["vote"], "approve");
    }
    assert_eq!(decision["content"]["result"], "approved");
}

#[tokio::test]
async fn h_43_votes_are_hidden_by_configuration() {
    let gateway = Gateway::start(json!({"voteVisibility": false})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    for member in &mut members {
        member.recv().await;
        member.send(vote("p-1", "abstain")).await;
    }
    let (votes, decision) = decided(&mut client).await;
    assert_eq!(votes.len(), 0);
    assert_eq!(decision["content"]["result"], "rejected");
}

#[tokio::test]
async fn h_45_repeated_proposal_has_the_same_outcome() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    for member in &mut members[..2] {
        member.recv().await;
        member.send(vote("p-1", "approve")).await;
    }
    let (_, first) = decided(&mut client).await;
    client.send(plain("p-1")).await;
    assert_eq!(client.recv().await, first);
    client
        .refuse(proposal("p-1", json!({"proposal": "Something else"})), 2005)
        .await;
    members[0].assert_silent().await;
}

#[tokio::test]
async fn h_46_reconnected_agent_receives_the_decision() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let mut steward = gateway.serving_client(&["steward"]).await;
    let mut watcher = gateway.client().await;
    watcher.request(json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": ["steward"]}})).await;
    watcher.recv().await;
    steward.send(plain("p-1")).await;
    members[0].recv().await;
    drop(steward);
    assert_eq!(watcher.recv().await["content"]["status"], "offline");
    let mut steward = gateway.serving_client(&["steward"]).await;
    members[0].send(vote("p-1", "reject")).await;
    members[1].recv().await;
    members[1].send(vote("p-1", "reject")).await;
    let (_, decision) = decided(&mut steward).await;
    assert_eq!(decision["content"]["result"], "rejected");
}

#[tokio::test]
async fn late_member_receives_the_proposal() {
    let gateway = Gateway::start(json!({"triad": {"quorum": "all"}})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let _beta = gateway.serving_client(&["beta"]).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    alpha.recv().await;
    let mut charlie = gateway.serving_client(&["charlie"]).await;
    assert_eq!(charlie.recv().await["id"], "p-1");
    charlie.advertise(&["charlie"]).await;
    charlie.assert_silent().await;
}

#[tokio::test]
async fn h_38_reconnected_member_gets_the_proposal_again() {
    let gateway = Gateway::start(json!({"triad": {"quorum": "all"}})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let _beta = gateway.serving_client(&["beta"]).await;
    let mut client = gateway.client().await;
    client.send(plain("p-1")).await;
    assert_eq!(alpha.recv().await["id"], "p-1");
    drop(alpha);
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    assert_eq!(alpha.recv().await["id"], "p-1");
    alpha.send(vote("p-1", "approve")).await;
    assert_eq!(client.recv().await["type"], "vote");
    drop(alpha);
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    alpha.assert_silent().await;
}

#[tokio::test]
async fn subscribers_receive_decisions() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = members(&gateway).await;
    let (mut client, mut watcher) = (gateway.client().await, gateway.client().await);
    watcher
        .request(json!({"type": "subscribe", "content": {"channel": "triad:decision"}}))
        .await;
    client.send(plain("p-1")).await;
    for member in &mut members[..2] {
        member.recv().await;
        member.send(vote("p-1", "approve")).await;
    }
    let event = watcher.recv().await;
    assert_has(
        &event,
        json!({"type": "event", "content": {"event": "triad:decision", "proposalId": "p-1", "result": "approved"}}),
    );
}
