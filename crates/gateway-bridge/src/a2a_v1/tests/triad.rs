//! Proposals, votes and decisions.

use super::*;
use crate::scripted::START_UNIX_MILLIS;

fn proposal(data: Value) -> SendRequest {
    let Value::Object(data) = data else {
        panic!("an object")
    };
    SendRequest {
        parts: vec![Part::data(data)],
        ..text("")
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

/// Returns a proposal that was sent: the gateway, the frame it received, and the task.
pub(super) async fn proposed(rig: &mut Rig, outgoing: SendRequest) -> (Connection, Value, Task) {
    let mut connection = rig.connected().await;
    let resend = rig.send("triad", task_of(outgoing));
    let asked = connection.recv().await;
    let working = task(resend.await.unwrap());
    (connection, asked, working)
}

async fn refused(outgoing: SendRequest) -> PeerError {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let error = rig
        .send("triad", outgoing)
        .await
        .unwrap()
        .expect_err("no proposal");
    assert_eq!(error.delivered, Delivered::No);
    drop(rig.gateway);
    assert_eq!(connection.recv_text().await, None);
    error
}

pub(super) fn decided(task: &Task) -> Value {
    let artifact = task.artifacts().next().expect("a decision");
    artifact.parts()[1]["data"].clone()
}

pub(super) async fn now(rig: &Rig, task: &Task) -> Task {
    wait_until_idle().await;
    rig.peer("triad")
        .get_task(task.id().unwrap(), None)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn h_36_a_proposal_has_one_id_in_both_places_and_no_agent() {
    let mut rig = rig(settings());
    let (_connection, asked, working) = proposed(&mut rig, text("Implement feature X")).await;
    assert_eq!(
        (&asked["type"], &asked["content"]["proposal"]),
        (&json!("proposal"), &json!("Implement feature X"))
    );
    assert_eq!(asked["id"], asked["metadata"]["correlationId"]);
    assert_eq!(asked["id"], json!(working.id()));
    assert_eq!(asked["metadata"]["requiresResponse"], true);
    assert!(asked.get("agent").is_none());
    assert_eq!(working.state(), TaskState::Working);
}

#[tokio::test(start_paused = true)]
async fn a_proposal_as_data_has_reasoning_and_deadline() {
    let mut rig = rig(settings());
    let whole =
        json!({"proposal": "X", "reasoning": "because", "deadline": START_UNIX_MILLIS + 60_000});
    let (_connection, asked, _) = proposed(&mut rig, proposal(whole.clone())).await;
    assert_eq!(asked["content"], whole);
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
        let error = refused(proposal(data)).await;
        assert_eq!(
            error.kind,
            PeerErrorKind::Gateway(ErrorCode::InvalidContent),
            "{error}"
        );
    }
    refused(text("  ")).await;
}

#[tokio::test(start_paused = true)]
async fn h_41_without_a_deadline_there_is_one_in_five_minutes() {
    let mut rig = rig(settings());
    let (_connection, asked, _) = proposed(&mut rig, text("X")).await;
    let sent = asked["timestamp"].as_u64().unwrap();
    assert_eq!(
        asked["content"]["deadline"].as_u64().unwrap(),
        sent + 300_000
    );
}

#[tokio::test(start_paused = true)]
async fn h_41_a_deadline_that_has_passed_is_never_sent() {
    let error = refused(proposal(
        json!({"proposal": "X", "deadline": 1_711_843_200_000_u64}),
    ))
    .await;
    assert_eq!(
        error.kind,
        PeerErrorKind::Gateway(ErrorCode::InvalidContent)
    );
    assert!(error.message.contains("has passed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn h_37_a_decision_is_found_by_its_proposal() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    let votes = json!({"alpha": "approve", "beta": "approve", "charlie": "abstain"});
    connection
        .send(decision(&asked["id"], "approved", true, votes.clone()))
        .await;
    let done = now(&rig, &working).await;
    assert_eq!(done.state(), TaskState::Completed);
    assert_eq!(
        decided(&done),
        json!({"proposalId": asked["id"], "result": "approved", "votes": votes, "consensus": true, "missing": []})
    );
    assert_eq!(
        artifact_text(&done),
        "The triad has approved the proposal by consensus: alpha approve, beta approve, charlie abstain."
    );
}

#[tokio::test(start_paused = true)]
async fn h_38_missing_triad_is_reported_at_once() {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let resend = rig.send("triad", task_of(text("X")));
    let asked = connection.recv().await;
    connection
        .send(error(
            &asked,
            ErrorCode::AgentOffline,
            "fewer than two members are online",
        ))
        .await;
    let error = resend.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind, error.delivered),
        (
            PeerErrorKind::Gateway(ErrorCode::AgentOffline),
            Delivered::No
        )
    );
}

#[tokio::test(start_paused = true)]
async fn h_40_early_decision_lists_missing_members() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    connection
        .send(decision(
            &asked["id"],
            "rejected",
            true,
            json!({"alpha": "reject", "charlie": "reject"}),
        ))
        .await;
    let done = now(&rig, &working).await;
    assert_eq!(decided(&done)["missing"], json!(["beta"]));
    assert!(artifact_text(&done).ends_with("beta no vote."));
}

#[tokio::test(start_paused = true)]
async fn h_43_votes_are_updates_with_reasoning_and_confidence() {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let peer = rig.peer("triad");
    let streaming = tokio::spawn(async move { peer.stream(&text("X")).await });
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
    let Event::Status(end) = event(&mut stream).await else {
        panic!("the end")
    };
    assert_eq!((end.state(), end.is_final()), (TaskState::Completed, true));
}

#[tokio::test(start_paused = true)]
async fn h_42_foreign_or_invalid_votes_are_not_reported() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    connection
        .send(vote(&asked["id"], "mallory", json!({"vote": "approve"})))
        .await;
    connection
        .send(vote(&asked["id"], "alpha", json!({"vote": "yes"})))
        .await;
    assert_eq!(now(&rig, &working).await.status_text(), None);
    assert_eq!(rig.warnings().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn h_35_the_gateways_word_counts_and_a_contradiction_is_a_warning() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    let votes = json!({"alpha": "reject", "beta": "reject", "charlie": "approve"});
    connection
        .send(decision(&asked["id"], "approved", true, votes))
        .await;
    let done = now(&rig, &working).await;
    assert_eq!(decided(&done)["result"], "approved");
    let warning = done.json()["artifacts"][0]["metadata"]["warning"]
        .as_str()
        .unwrap();
    assert!(
        warning.contains("by the votes it lists it is rejected"),
        "{warning}"
    );
    assert_eq!(rig.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn h_39_all_outcomes_of_the_table_agree_with_our_own_count() {
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
        let mut rig = rig(settings());
        let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
        let listed = json!({"alpha": votes[0], "beta": votes[1], "charlie": votes[2]});
        connection
            .send(decision(&asked["id"], result, consensus, listed))
            .await;
        let done = now(&rig, &working).await;
        assert_eq!(
            (&decided(&done)["result"], &decided(&done)["consensus"]),
            (&json!(result), &json!(consensus))
        );
        assert!(rig.warnings().is_empty(), "{votes:?}: {:?}", rig.warnings());
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_gateway_decides() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    let mut forged = decision(&asked["id"], "approved", true, json!({}));
    forged["from"] = json!("alpha");
    connection.send(forged).await;
    assert_eq!(now(&rig, &working).await.state(), TaskState::Working);
    assert!(
        rig.warnings()[0].contains("not the gateway"),
        "{:?}",
        rig.warnings()
    );
}

#[tokio::test(start_paused = true)]
async fn h_45_second_decision_is_ignored() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    let votes = json!({"alpha": "approve", "beta": "approve"});
    connection
        .send(decision(&asked["id"], "approved", true, votes))
        .await;
    connection
        .send(decision(&asked["id"], "rejected", false, json!({})))
        .await;
    assert_eq!(decided(&now(&rig, &working).await)["result"], "approved");
}

#[tokio::test(start_paused = true)]
async fn h_46_a_proposal_outlives_its_connection_and_is_not_sent_again() {
    let mut rig = rig(settings());
    let (connection, asked, working) = proposed(&mut rig, text("X")).await;
    let peer = rig.peer("triad");
    let mut stream = peer.resubscribe(working.id().unwrap()).await.unwrap();
    event(&mut stream).await;
    drop(connection);
    let Some(Err(error)) = stream.next().await else {
        panic!("a cut")
    };
    assert_eq!(
        error.kind,
        PeerErrorKind::Gateway(ErrorCode::ConnectionReset)
    );
    let id = working.id().unwrap().to_owned();
    let again = tokio::spawn(async move { peer.resubscribe(&id).await });
    let mut connection = rig.greeted().await;
    // Subscribers receive the decision made meanwhile.
    assert_eq!(
        connection.recv().await["content"]["channel"],
        "triad:decision"
    );
    let mut stream = again.await.unwrap().unwrap();
    let Event::Task(still) = event(&mut stream).await else {
        panic!("a task")
    };
    assert_eq!(still.state(), TaskState::Working);
    let more = tokio::time::timeout(Duration::from_secs(5), connection.recv()).await;
    assert!(more.is_err(), "{more:?}");
    connection
        .send(decision(
            &asked["id"],
            "approved",
            true,
            json!({"alpha": "approve", "beta": "approve"}),
        ))
        .await;
    assert!(matches!(event(&mut stream).await, Event::Artifact(_)));
}

#[tokio::test(start_paused = true)]
async fn h_46_a_decision_may_come_as_an_event() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    let reported = decision(
        &asked["id"],
        "approved",
        true,
        json!({"alpha": "approve", "beta": "approve"}),
    );
    let mut content = reported["content"].clone();
    content["event"] = json!("decision");
    connection
        .send(json!({"type": "event", "from": "gateway", "content": content}))
        .await;
    assert_eq!(now(&rig, &working).await.state(), TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn h_46_after_the_deadline_it_is_unknown_and_said_so() {
    let mut rig = rig(Settings {
        heartbeat: Duration::from_secs(9999),
        ..settings()
    });
    let (_connection, _, working) = proposed(
        &mut rig,
        proposal(json!({"proposal": "X", "deadline": START_UNIX_MILLIS + 60_000})),
    )
    .await;
    let mut stream = rig
        .peer("triad")
        .resubscribe(working.id().unwrap())
        .await
        .unwrap();
    event(&mut stream).await;
    let Event::Status(end) = event(&mut stream).await else {
        panic!("the end")
    };
    assert_eq!(end.state(), TaskState::Failed);
    assert!(
        end.status_text()
            .unwrap()
            .contains("unknown - decision may have been made")
    );
}
