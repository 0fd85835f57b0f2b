//! Proposals, votes and decisions.

use super::*;
use crate::testing::START_UNIX_MILLIS;

fn proposal(data: Value) -> SendRequest {
    let Value::Object(data) = data else {
        panic!("an object")
    };
    SendRequest {
        parts: vec![Part::data(data)],
        ..text_message("")
    }
}

pub(super) fn vote(id: &Value, from: &str, content: Value) -> Value {
    let mut vote = json!({"type": "vote", "from": from, "content": content, "metadata": {"correlationId": id}});
    vote["content"]["proposalId"] = id.clone();
    vote
}

pub(super) fn decision(id: &Value, result: &str, consensus: bool, votes: Value) -> Value {
    json!({"type": "decision", "from": "gateway",
        "content": {"proposalId": id, "result": result, "votes": votes, "consensus": consensus}})
}

/// Returns the decision of two members to approve the proposal of `request`.
pub(super) fn approval(request: &Value) -> Value {
    let votes = json!({"alpha": "approve", "beta": "approve"});
    decision(&request["id"], "approved", true, votes)
}

/// Returns a proposal that was sent: the gateway, the frame it received, and the task.
pub(super) async fn propose(
    harness: &mut Harness,
    outgoing: SendRequest,
) -> (Connection, Value, Task) {
    let mut connection = harness.connect_with_list().await;
    let resend = harness.send("triad", as_task(outgoing));
    let request = connection.recv().await;
    let working = task(resend.await.unwrap());
    (connection, request, working)
}

async fn propose_error(outgoing: SendRequest) -> PeerError {
    let (harness, mut connection) = listed().await;
    let error = harness
        .send("triad", outgoing)
        .await
        .unwrap()
        .expect_err("no proposal");
    assert_eq!(error.delivered, Delivered::No);
    drop(harness.gateway);
    assert_eq!(connection.recv_text().await, None);
    error
}

pub(super) fn decision_data(task: &Task) -> Value {
    let artifact = task.artifacts().next().expect("a decision");
    artifact.into_json()["parts"][1]["data"].clone()
}

pub(super) async fn current_task(harness: &Harness, task: &Task) -> Task {
    wait_until_idle().await;
    harness.stored("triad", task).await
}

#[tokio::test(start_paused = true)]
async fn h_36_proposal_id_is_correlation_id_without_agent() {
    let mut harness = harness(settings());
    let (_connection, request, working) =
        propose(&mut harness, text_message("Implement feature X")).await;
    assert_eq!(
        (&request["type"], &request["content"]["proposal"]),
        (&json!("proposal"), &json!("Implement feature X"))
    );
    assert_eq!(request["id"], request["metadata"]["correlationId"]);
    assert_eq!(request["id"], json!(working.id()));
    assert_eq!(request["metadata"]["requiresResponse"], true);
    assert!(request.get("agent").is_none());
    assert_eq!(working.state(), TaskState::Working);
}

#[tokio::test(start_paused = true)]
async fn proposal_data_has_reasoning_and_deadline() {
    let mut harness = harness(settings());
    let whole =
        json!({"proposal": "X", "reasoning": "because", "deadline": START_UNIX_MILLIS + 60_000});
    let (_connection, request, _) = propose(&mut harness, proposal(whole.clone())).await;
    assert_eq!(request["content"], whole);
}

#[tokio::test(start_paused = true)]
async fn invalid_proposal_is_not_sent() {
    for data in [
        json!({}),
        json!({"proposal": ""}),
        json!({"proposal": 7}),
        json!({"proposal": "X", "deadline": "soon"}),
        json!({"proposal": "X", "reasoning": []}),
    ] {
        let error = propose_error(proposal(data)).await;
        assert_eq!(error.kind, fault(ErrorCode::InvalidContent), "{error}");
    }
    propose_error(text_message("  ")).await;
}

#[tokio::test(start_paused = true)]
async fn h_41_default_deadline_is_five_minutes() {
    let mut harness = harness(settings());
    let (_connection, request, _) = propose(&mut harness, text_message("X")).await;
    let sent = request["timestamp"].as_u64().unwrap();
    assert_eq!(
        request["content"]["deadline"].as_u64().unwrap(),
        sent + 300_000
    );
}

#[tokio::test(start_paused = true)]
async fn h_41_past_deadline_is_not_sent() {
    let error = propose_error(proposal(
        json!({"proposal": "X", "deadline": 1_711_843_200_000_u64}),
    ))
    .await;
    assert_eq!(error.kind, fault(ErrorCode::InvalidContent));
    assert!(error.message.contains("has passed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn h_37_decision_is_matched_by_proposal_id() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    let votes = json!({"alpha": "approve", "beta": "approve", "charlie": "abstain"});
    connection
        .send(decision(&request["id"], "approved", true, votes.clone()))
        .await;
    let done = current_task(&harness, &working).await;
    assert_eq!(done.state(), TaskState::Completed);
    assert_eq!(
        decision_data(&done),
        json!({"proposalId": request["id"], "result": "approved", "votes": votes, "consensus": true, "missing": []})
    );
    assert_eq!(
        artifact_text(&done),
        "The triad has approved the proposal by consensus: alpha approve, beta approve, charlie abstain."
    );
}

#[tokio::test(start_paused = true)]
async fn h_38_missing_triad_is_reported_at_once() {
    let (harness, mut connection) = listed().await;
    let resend = harness.send("triad", as_task(text_message("X")));
    let request = connection.recv().await;
    connection
        .send(error(
            &request,
            ErrorCode::AgentOffline,
            "fewer than two members are online",
        ))
        .await;
    let error = resend.await.unwrap().unwrap_err();
    assert_fault(&error, ErrorCode::AgentOffline, Delivered::No);
}

#[tokio::test(start_paused = true)]
async fn h_40_early_decision_lists_missing_members() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    connection
        .send(decision(
            &request["id"],
            "rejected",
            true,
            json!({"alpha": "reject", "charlie": "reject"}),
        ))
        .await;
    let done = current_task(&harness, &working).await;
    assert_eq!(decision_data(&done)["missing"], json!(["beta"]));
    assert!(artifact_text(&done).ends_with("beta no vote."));
}

#[tokio::test(start_paused = true)]
async fn h_43_votes_are_updates_with_reasoning_and_confidence() {
    let (harness, mut connection) = listed().await;
    let streaming = harness.stream("triad", "X");
    let id = connection.recv().await["id"].clone();
    let mut stream = streaming.await.unwrap().unwrap();
    event(&mut stream).await;
    let content = json!({"vote": "approve", "reasoning": "fits the roadmap", "confidence": 0.8});
    connection.send(vote(&id, "alpha", content)).await;
    let step = event(&mut stream).await;
    let parts = &step.json()["status"]["message"]["parts"];
    assert_eq!(
        parts[0]["text"],
        "alpha votes approve (confidence 0.8): fits the roadmap"
    );
    assert_eq!(
        parts[1]["data"],
        json!({"proposalId": id, "member": "alpha", "vote": "approve", "reasoning": "fits the roadmap", "confidence": 0.8})
    );
    connection
        .send(decision(
            &id,
            "rejected",
            false,
            json!({"alpha": "approve"}),
        ))
        .await;
    assert!(matches!(event(&mut stream).await, Event::Artifact(_)));
    let end = status_event(&mut stream).await;
    assert_eq!((end.state(), end.is_final()), (TaskState::Completed, true));
}

#[tokio::test(start_paused = true)]
async fn h_42_foreign_vote_is_not_reported() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    connection
        .send(vote(&request["id"], "mallory", json!({"vote": "approve"})))
        .await;
    assert_eq!(current_task(&harness, &working).await.status_text(), None);
    assert_eq!(harness.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn h_35_gateway_decides_and_contradiction_is_a_warning() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    let votes = json!({"alpha": "reject", "beta": "reject", "charlie": "approve"});
    connection
        .send(decision(&request["id"], "approved", true, votes))
        .await;
    let done = current_task(&harness, &working).await;
    assert_eq!(decision_data(&done)["result"], "approved");
    let warning = done.json()["artifacts"][0]["metadata"]["warning"]
        .as_str()
        .unwrap();
    assert!(
        warning.contains("by the votes it lists it is rejected"),
        "{warning}"
    );
    assert_eq!(harness.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn h_39_outcomes_of_the_table_match_the_tally() {
    for (votes, result, consensus) in [
        (["approve", "approve", "approve"], "approved", true),
        (["approve", "approve", "reject"], "approved", true),
        (["approve", "approve", "abstain"], "approved", true),
        (["approve", "reject", "reject"], "rejected", true),
        (["reject", "reject", "reject"], "rejected", true),
        (["approve", "abstain", "abstain"], "rejected", false),
        (["reject", "reject", "abstain"], "rejected", true),
        (["reject", "abstain", "abstain"], "rejected", false),
        (["abstain", "abstain", "abstain"], "rejected", false),
        (["approve", "reject", "abstain"], "rejected", false),
    ] {
        let mut harness = harness(settings());
        let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
        let listed = json!({"alpha": votes[0], "beta": votes[1], "charlie": votes[2]});
        connection
            .send(decision(&request["id"], result, consensus, listed))
            .await;
        let done = current_task(&harness, &working).await;
        assert_eq!(
            (
                &decision_data(&done)["result"],
                &decision_data(&done)["consensus"]
            ),
            (&json!(result), &json!(consensus))
        );
        assert!(
            harness.warnings().is_empty(),
            "{votes:?}: {:?}",
            harness.warnings()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_gateway_decides() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    let mut forged = decision(&request["id"], "approved", true, json!({}));
    forged["from"] = json!("alpha");
    connection.send(forged).await;
    let task = current_task(&harness, &working).await;
    assert_eq!(task.state(), TaskState::Working);
    harness.assert_warned("not the gateway");
}

#[tokio::test(start_paused = true)]
async fn h_45_second_decision_is_ignored() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    connection.send(approval(&request)).await;
    connection
        .send(decision(&request["id"], "rejected", false, json!({})))
        .await;
    assert_eq!(
        decision_data(&current_task(&harness, &working).await)["result"],
        "approved"
    );
}

#[tokio::test(start_paused = true)]
async fn h_46_proposal_outlives_connection_without_resend() {
    let mut harness = harness(settings());
    let (connection, request, working) = propose(&mut harness, text_message("X")).await;
    let peer = harness.peer("triad");
    let mut stream = peer.resubscribe(working.id().unwrap()).await.unwrap();
    event(&mut stream).await;
    drop(connection);
    let Some(Err(error)) = stream.next().await else {
        panic!("a cut")
    };
    assert_eq!(error.kind, fault(ErrorCode::ConnectionReset));
    let id = working.id().unwrap().to_owned();
    let again = tokio::spawn(async move { peer.resubscribe(&id).await });
    let mut connection = harness.connect().await;
    // Subscribers receive the decision made meanwhile.
    assert_eq!(
        connection.recv().await["content"]["channel"],
        "triad:decision"
    );
    let mut stream = again.await.unwrap().unwrap();
    let still = task_event(&mut stream).await;
    assert_eq!(still.state(), TaskState::Working);
    let more = tokio::time::timeout(Duration::from_secs(5), connection.recv()).await;
    assert!(more.is_err(), "{more:?}");
    connection.send(approval(&request)).await;
    assert!(matches!(event(&mut stream).await, Event::Artifact(_)));
}

#[tokio::test(start_paused = true)]
async fn h_46_decision_event_is_accepted() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    let reported = approval(&request);
    let mut content = reported["content"].clone();
    content["event"] = json!("decision");
    connection
        .send(json!({"type": "event", "from": "gateway", "content": content}))
        .await;
    let task = current_task(&harness, &working).await;
    assert_eq!(task.state(), TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn h_46_missed_deadline_is_reported_as_unknown() {
    let mut harness = harness(Settings {
        heartbeat: Duration::from_secs(9999),
        ..settings()
    });
    let (_connection, _, working) = propose(
        &mut harness,
        proposal(json!({"proposal": "X", "deadline": START_UNIX_MILLIS + 60_000})),
    )
    .await;
    let mut stream = harness.follow("triad", &working).await;
    event(&mut stream).await;
    let end = status_event(&mut stream).await;
    assert_eq!(end.state(), TaskState::Failed);
    assert!(
        end.status_text()
            .unwrap()
            .contains("unknown - decision may have been made")
    );
}
