//! Requests for votes and their count.

use super::*;

#[tokio::test(start_paused = true)]
async fn h_40_two_equal_votes_decide_without_the_third() {
    let (triad, agents) = triad(Quorum::Majority, [vec![APPROVE], vec![APPROVE], vec![HANG]]);
    assert_eq!(
        decided(&triad).await,
        json!({"proposalId": "proposal-1", "result": "approved", "consensus": true,
            "votes": {"alpha": "approve", "beta": "approve"}, "missing": ["charlie"]})
    );
    // The bridge cancels the run of the third member after the decision.
    agents.stopped.notified().await;
    assert_eq!(*agents.canceled.lock(), ["charlie"]);
}

#[tokio::test(start_paused = true)]
async fn h_40_quorum_all_decides_at_the_deadline() {
    let (triad, _) = triad(Quorum::All, [vec![APPROVE], vec![APPROVE], vec![HANG]]);
    let started_at = Instant::now();
    let vote = triad
        .propose(&call(), &proposal_message("x"))
        .await
        .unwrap();
    vote.wait_for_end().await;
    assert_eq!(started_at.elapsed(), Duration::from_secs(300));
    let task = triad.get_task("proposal-1").unwrap();
    let decision = &task.json()["artifacts"][0]["parts"][0]["data"];
    assert_eq!(
        (&decision["result"], &decision["missing"]),
        (&json!("approved"), &json!(["charlie"]))
    );
}

#[tokio::test(start_paused = true)]
async fn h_39_split_votes_reject_without_consensus() {
    let (triad, _) = triad(
        Quorum::Majority,
        [vec![APPROVE], vec![REJECT], vec![ABSTAIN]],
    );
    let decision = decided(&triad).await;
    assert_eq!(
        (&decision["result"], &decision["consensus"]),
        (&json!("rejected"), &json!(false))
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_vote_is_requested_once_more() {
    let (triad, agents) = triad(
        Quorum::All,
        [vec![INVALID_VOTE, APPROVE], vec![APPROVE], vec![APPROVE]],
    );
    assert_eq!(decided(&triad).await["votes"]["alpha"], "approve");
    let requests = agents.requests.lock();
    let alpha: Vec<_> = requests
        .iter()
        .filter(|(call, _)| call.agent == "alpha")
        .collect();
    assert_eq!(alpha.len(), 2);
    assert_eq!(alpha[0].0.context_id, alpha[1].0.context_id);
    let again = alpha[1].1.parts[0].json()["text"].as_str().unwrap();
    assert!(again.contains("no JSON object with `vote`"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn second_invalid_vote_is_an_abstention() {
    let (triad, _) = triad(
        Quorum::All,
        [
            vec![INVALID_VOTE, INVALID_VOTE],
            vec![APPROVE],
            vec![REJECT],
        ],
    );
    assert_eq!(
        decided(&triad).await["votes"],
        json!({"alpha": "abstain", "beta": "approve", "charlie": "reject"})
    );
}

#[tokio::test(start_paused = true)]
async fn absent_members_are_missing_without_wait() {
    let (triad, _) = triad(
        Quorum::Majority,
        [vec![APPROVE], vec![Reaction::Missing], vec![Reaction::Fail]],
    );
    let started_at = Instant::now();
    let decision = decided(&triad).await;
    assert_eq!(decision["missing"], json!(["beta", "charlie"]));
    assert_eq!(
        (&decision["result"], &decision["consensus"]),
        (&json!("rejected"), &json!(false))
    );
    assert_eq!(started_at.elapsed(), Duration::ZERO);
    let text = triad.get_task("proposal-1").unwrap().status_text().unwrap();
    assert!(text.contains("beta (no such agent)"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn h_43_each_vote_is_an_update_with_reason() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![REJECT], vec![APPROVE]]);
    let mut stream = triad.stream(&call(), &proposal_message("x")).await.unwrap();
    let mut reported = Vec::new();
    while let Some(Ok((event, _))) = stream.next().await {
        reported.push(event.into_json());
    }
    assert_eq!(reported[0]["kind"], "task");
    let votes: Vec<_> = reported
        .iter()
        .filter_map(|event| event.pointer("/status/message/parts/1/data"))
        .collect();
    assert_eq!(votes.len(), 3);
    assert!(votes.contains(&&json!({"proposalId": "proposal-1", "from": "alpha", "vote": "approve", "reasoning": "Good.", "confidence": 0.9})));
    assert!(votes.contains(
        &&json!({"proposalId": "proposal-1", "from": "beta", "vote": "reject", "reasoning": "Bad."})
    ));
    assert_eq!(reported.last().unwrap()["final"], true);
    drop(agents);
}

#[tokio::test(start_paused = true)]
async fn each_member_gets_own_session_and_depth() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![APPROVE], vec![APPROVE]]);
    let mut outgoing = proposal_message("x");
    let row = json!({"hop": 2, "chain": "c"});
    outgoing.metadata = Some(
        [(delegation::DELEGATION_KEY.to_owned(), row.clone())]
            .into_iter()
            .collect(),
    );
    let call = CallContext {
        session_key: Some("agent:main:main".into()),
        context_id: Some("mine".into()),
        ..CallContext::default()
    };
    triad.send(&call, &outgoing).await.unwrap();
    let requests = agents.requests.lock();
    let contexts: std::collections::HashSet<_> = requests
        .iter()
        .map(|(call, _)| call.context_id.clone())
        .collect();
    assert_eq!(contexts.len(), 3);
    for (call, outgoing) in requests.iter() {
        assert_ne!(call.context_id.as_deref(), Some("mine"));
        assert_eq!(call.session_key.as_deref(), Some("agent:main:main"));
        assert_eq!(
            outgoing.metadata.as_ref().unwrap()[delegation::DELEGATION_KEY],
            row
        );
    }
}
