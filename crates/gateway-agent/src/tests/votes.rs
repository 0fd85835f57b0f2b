//! Votes.

use super::*;

const APPROVE: &str =
    r#"{"vote": "approve", "reasoning": "The tests are green.", "confidence": 0.9}"#;

async fn triad(gateway: &Gateway, steps: impl IntoIterator<Item = Step>) -> Vec<Running> {
    let mut members = vec![Running::start(gateway, "alpha", steps).await];
    members.push(Running::start(gateway, "beta", []).await);
    members
}

fn proposal(id: &str, text: &str) -> Envelope {
    let content = json!({"proposal": text, "reasoning": "It is Tuesday."});
    Envelope::new(Kind::Proposal, content).with_metadata("correlationId", id)
}

/// Returns the content of the vote of `alpha`.
async fn vote_of_alpha(client: &mut Client) -> Value {
    loop {
        let vote = client.next_of(Kind::Vote).await;
        if vote.from() == Some("alpha") {
            return vote.content().clone();
        }
    }
}

#[tokio::test]
async fn vote_of_the_backend_keeps_reasoning_and_confidence() {
    let gateway = Gateway::start().await;
    let mut members = triad(&gateway, [Step::Reply(APPROVE)]).await;
    let mut client = gateway.client("steward").await;
    client.send(proposal("p-1", "Ship it")).await;
    let expected = json!({"proposalId": "p-1", "vote": "approve", "reasoning": "The tests are green.", "confidence": 0.9});
    assert_eq!(vote_of_alpha(&mut client).await, expected);
    let turn = members[0].turn().await;
    let proposal = turn.proposal.unwrap();
    assert_eq!(
        (
            &*proposal.id,
            &*proposal.text,
            proposal.reasoning.as_deref()
        ),
        ("p-1", "Ship it", Some("It is Tuesday."))
    );
    assert!(turn.text.contains("\"Ship it\"") && turn.text.contains("\"It is Tuesday.\""));
}

#[tokio::test]
async fn vote_in_a_fence_is_sent_in_the_form_of_the_protocol() {
    let gateway = Gateway::start().await;
    let answer = "I think so.\n```json\n{\"vote\": \"APPROVE\"}\n```";
    let _members = triad(&gateway, [Step::Reply(answer)]).await;
    let mut client = gateway.client("steward").await;
    client.send(proposal("p-1", "Ship it")).await;
    let expected = json!({"proposalId": "p-1", "vote": "approve", "reasoning": ""});
    assert_eq!(vote_of_alpha(&mut client).await, expected);
}

#[tokio::test]
async fn unusable_vote_is_requested_once_more() {
    let gateway = Gateway::start().await;
    let mut members = triad(&gateway, [Step::Reply("I approve!"), Step::Reply(APPROVE)]).await;
    let mut client = gateway.client("steward").await;
    client.send(proposal("p-1", "Ship it")).await;
    assert_eq!(vote_of_alpha(&mut client).await["vote"], "approve");
    members[0].turn().await;
    let again = members[0].turn().await;
    assert!(again.text.contains("was not usable"), "{}", again.text);
}

#[tokio::test]
async fn agent_abstains_after_two_unusable_answers() {
    let twice = r#"{"vote":"approve"}{"vote":"reject"}"#;
    let for_another = r#"{"vote":"approve","from":"charlie"}"#;
    for (first, second) in [("yes", "no"), (twice, twice), (for_another, for_another)] {
        let gateway = Gateway::start().await;
        let steps = [
            Step::Reply(first),
            Step::Reply(second),
            Step::Reply(APPROVE),
        ];
        let _members = triad(&gateway, steps).await;
        let mut client = gateway.client("steward").await;
        client.send(proposal("p-1", "Ship it")).await;
        let vote = vote_of_alpha(&mut client).await;
        assert_eq!(vote["vote"], "abstain", "{vote}");
        let reasoning = vote["reasoning"].as_str().unwrap();
        assert!(reasoning.starts_with("No usable vote"), "{vote}");
    }
}

#[tokio::test]
async fn silent_backend_abstains_before_the_deadline() {
    let gateway = Gateway::start().await;
    let _members = triad(&gateway, [Step::Hang]).await;
    let mut client = gateway.client("steward").await;
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let deadline = u64::try_from(now.as_millis()).unwrap() + 1500;
    let proposal = proposal("p-1", "Ship it").with_content("deadline", deadline);
    client.send(proposal).await;
    let vote = vote_of_alpha(&mut client).await;
    assert_eq!(vote["vote"], "abstain", "{vote}");
    client.next_of(Kind::Decision).await;
}

#[tokio::test]
async fn proposal_that_arrives_again_gets_the_same_vote() {
    let mut gateway = Gateway::start().await;
    let mut members = triad(
        &gateway,
        [Step::Reply(APPROVE), Step::Reply("changed my mind")],
    )
    .await;
    let mut client = gateway.client("steward").await;
    client.send(proposal("p-1", "Ship it")).await;
    assert_eq!(vote_of_alpha(&mut client).await["vote"], "approve");
    gateway.restart().await;
    for member in &mut members {
        member.connected().await;
    }
    let mut client = gateway.client("steward").await;
    client.send(proposal("p-1", "Ship it")).await;
    assert_eq!(vote_of_alpha(&mut client).await["vote"], "approve");
    members[0].turn().await;
    assert!(members[0].turns.try_recv().is_err(), "asked once");
}

#[tokio::test]
async fn messages_leave_a_slot_for_proposals() {
    let gateway = Gateway::start().await;
    let settings = AgentSettings {
        concurrency: NonZeroUsize::MIN,
        ..AgentSettings::new("alpha")
    };
    let mut alpha = Running::with(&gateway, settings, [Step::Hang, Step::Reply(APPROVE)]).await;
    let _beta = Running::start(&gateway, "beta", []).await;
    let mut client = gateway.client("steward").await;
    client
        .send(message("s-1", "work").with("agent", "alpha"))
        .await;
    alpha.turn().await;
    client.send(proposal("p-1", "Ship it")).await;
    assert_eq!(vote_of_alpha(&mut client).await["vote"], "approve");
}

#[tokio::test]
async fn message_cannot_enter_the_conversation_of_a_proposal() {
    let gateway = Gateway::start().await;
    let mut members = triad(&gateway, []).await;
    let client = gateway.client("steward").await;
    let message = message("proposal:p-1", "approve").with("agent", "alpha");
    client.send(message).await;
    let prepared = members[0].turn().await.thread;
    client.send(proposal("p-1", "Ship it")).await;
    let voted = members[0].turn().await.thread;
    assert_eq!(prepared, r#"["steward","proposal:p-1"]"#);
    assert_eq!(voted, "proposal:p-1");
}
