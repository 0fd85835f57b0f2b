//! Invalid decisions, decisions that contradict the votes, and decisions lost by a disconnect.

use super::triad::{approval, current_task, decision, decision_data, propose, vote};
use super::*;

async fn decide_with_votes(reported: &str, listed: Value) -> (Harness, Task) {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    let id = &request["id"];
    connection
        .send(vote(id, "alpha", json!({"vote": reported})))
        .await;
    connection
        .send(decision(id, "approved", true, listed))
        .await;
    let done = current_task(&harness, &working).await;
    (harness, done)
}

fn warning(task: &Task) -> Option<&str> {
    task.json()["artifacts"][0]["metadata"]["warning"].as_str()
}

#[tokio::test(start_paused = true)]
async fn unreadable_decision_fails_at_once() {
    for invalid in [
        json!({"result": 7}),
        json!({"result": "maybe"}),
        json!({"votes": {}}),
        json!({"result": "approved", "votes": ["approve"]}),
        json!({"result": "approved", "consensus": "yes"}),
    ] {
        let mut harness = harness(settings());
        let mut connection = harness.connect_with_list().await;
        let resend = harness.send("triad", text_message("X"));
        let request = connection.recv().await;
        let mut content = invalid.clone();
        content["proposalId"] = request["id"].clone();
        let began = tokio::time::Instant::now();
        connection
            .send(json!({"type": "decision", "from": "gateway", "content": content}))
            .await;
        let error = resend.await.unwrap().expect_err("no decision");
        assert_eq!(
            (error.kind, error.delivered),
            (fault(ErrorCode::ProtocolError), Delivered::Unknown),
            "{invalid}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(harness.warnings().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn readable_decision_counts_after_unreadable_one() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    connection
        .send(decision(&request["id"], "maybe", true, json!({})))
        .await;
    let failed = current_task(&harness, &working).await;
    assert_eq!(failed.state(), TaskState::Failed);
    assert!(failed.status_text().unwrap().contains("PROTOCOL_ERROR"));
    connection.send(approval(&request)).await;
    assert_eq!(
        decision_data(&current_task(&harness, &working).await)["result"],
        "approved"
    );
}

#[tokio::test(start_paused = true)]
async fn event_without_decision_keeps_the_vote_open() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    connection
        .send(json!({"type": "event", "from": "gateway", "content": {"event": "triad:decision", "proposalId": request["id"], "state": "counting"}}))
        .await;
    let task = current_task(&harness, &working).await;
    assert_eq!(task.state(), TaskState::Working);
}

#[tokio::test(start_paused = true)]
async fn h_35_decision_with_other_votes_is_logged() {
    for (listed, contradiction) in [
        (
            json!({"alpha": "approve", "beta": "approve"}),
            "alpha reject before and approve now",
        ),
        (
            json!({"beta": "approve", "charlie": "approve"}),
            "alpha reject before and no vote now",
        ),
    ] {
        let (harness, done) = decide_with_votes("reject", listed).await;
        assert_eq!(decision_data(&done)["result"], "approved");
        let warning = warning(&done).unwrap();
        assert!(warning.contains(contradiction), "{warning}");
        assert_eq!(harness.warnings().len(), 1);
        assert!(harness.warnings()[0].contains(contradiction));
    }
}

#[tokio::test(start_paused = true)]
async fn h_35_missing_votes_are_not_a_contradiction() {
    let listed = json!({"alpha": "approve", "beta": "approve", "charlie": "reject"});
    let (harness, done) = decide_with_votes("approve", listed).await;
    assert_eq!(warning(&done), None);
    assert_eq!(harness.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn words_of_a_decision_count_by_their_value() {
    let listed = json!({"alpha": "APPROVE", "beta": {"vote": " Approve "}, "charlie": "Reject"});
    for consensus in [json!(true), Value::Null] {
        let mut harness = harness(settings());
        let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
        let mut decision = decision(&request["id"], "APPROVED", true, listed.clone());
        decision["content"]["consensus"] = consensus;
        connection.send(decision).await;
        let data = decision_data(&current_task(&harness, &working).await);
        assert_eq!(
            (&data["result"], &data["consensus"]),
            (&json!("approved"), &json!(true))
        );
        let votes = json!({"alpha": "approve", "beta": "approve", "charlie": "reject"});
        assert_eq!((&data["votes"], &data["missing"]), (&votes, &json!([])));
        assert_eq!(harness.warnings(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn decision_without_a_list_takes_the_votes_that_were_sent() {
    for list in [
        None,
        Some(Value::Null),
        Some(json!({})),
        Some(json!({"approve": 2})),
    ] {
        let mut harness = harness(settings());
        let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
        let id = &request["id"];
        for (member, word) in [("alpha", "APPROVE"), ("beta", "approve")] {
            connection
                .send(vote(id, member, json!({"vote": word})))
                .await;
        }
        let mut decision = decision(id, "approved", true, json!({}));
        match list {
            Some(list) => decision["content"]["votes"] = list,
            None => drop(decision["content"].as_object_mut().unwrap().remove("votes")),
        }
        connection.send(decision).await;
        let done = current_task(&harness, &working).await;
        let data = decision_data(&done);
        let votes = json!({"alpha": "approve", "beta": "approve"});
        assert_eq!(
            (&data["votes"], &data["missing"]),
            (&votes, &json!(["charlie"]))
        );
        assert_eq!(
            artifact_text(&done),
            "The triad has approved the proposal by consensus: alpha approve, beta approve, charlie no vote."
        );
        assert_eq!(warning(&done), None);
    }
}

#[tokio::test(start_paused = true)]
async fn decision_without_any_vote_names_no_member() {
    let mut harness = harness(settings());
    let (mut connection, request, working) = propose(&mut harness, text_message("X")).await;
    let content = json!({"proposalId": request["id"], "result": "approved", "votes": null});
    connection
        .send(json!({"type": "decision", "from": "gateway", "content": content}))
        .await;
    let done = current_task(&harness, &working).await;
    assert_eq!(decision_data(&done)["missing"], json!([]));
    assert_eq!(
        artifact_text(&done),
        "The triad has approved the proposal by consensus: the gateway does not say how the members voted."
    );
    assert_eq!(warning(&done), None);
}

#[tokio::test(start_paused = true)]
async fn word_that_is_no_vote_is_shown() {
    let listed = json!({"alpha": "approve", "beta": "maybe", "charlie": "approve"});
    let (_, done) = decide_with_votes("approve", listed).await;
    let data = decision_data(&done);
    assert_eq!(
        (&data["votes"], &data["missing"]),
        (
            &json!({"alpha": "approve", "charlie": "approve"}),
            &json!([])
        )
    );
    let shown = "beta \"maybe\", which is not `approve`, `reject` or `abstain`";
    assert!(artifact_text(&done).contains(shown));
    assert!(warning(&done).unwrap().contains("beta voted \"maybe\""));
}

/// Returns a followed proposal whose gateway disconnects with the reason `manual`.
async fn dismissed(harness: &mut Harness) -> (Value, Task) {
    let (mut connection, request, working) = propose(harness, text_message("X")).await;
    let mut stream = harness.follow("triad", &working).await;
    event(&mut stream).await;
    let began = tokio::time::Instant::now();
    disconnect(&mut connection, "manual").await;
    let end = status_event(&mut stream).await;
    assert_eq!(end.state(), TaskState::Failed);
    let reason = end.status_text().unwrap();
    assert!(
        reason.contains("CONNECTION_RESET") && reason.contains("manual"),
        "{reason}"
    );
    assert!(began.elapsed() < Duration::from_millis(10));
    assert_eq!(harness.net.requests().len(), 1);
    (request, working)
}

#[tokio::test(start_paused = true)]
async fn h_47_manual_disconnect_ends_following_call_at_once() {
    let mut harness = harness(settings());
    dismissed(&mut harness).await;
}

#[tokio::test(start_paused = true)]
async fn h_47_call_after_manual_disconnect_gets_decision() {
    let mut harness = harness(settings());
    let (request, working) = dismissed(&mut harness).await;
    let peer = harness.peer("triad");
    let id = working.id().unwrap().to_owned();
    let watching = tokio::spawn(async move { peer.resubscribe(&id).await });
    let mut connection = harness.connect().await;
    assert_eq!(
        connection.recv().await["content"]["channel"],
        "triad:decision"
    );
    let mut stream = watching.await.unwrap().unwrap();
    let still = task_event(&mut stream).await;
    assert_eq!(still.state(), TaskState::Working);
    connection.send(approval(&request)).await;
    assert!(matches!(event(&mut stream).await, Event::Artifact(_)));
}

#[tokio::test(start_paused = true)]
async fn h_47_no_connection_after_the_voting_deadline() {
    let mut harness = harness(settings());
    let (_, working) = dismissed(&mut harness).await;
    tokio::time::sleep(Duration::from_secs(303)).await;
    let reported = harness
        .peer("triad")
        .get_task(working.id().unwrap(), None)
        .await;
    assert_eq!(reported.unwrap().state(), TaskState::Failed);
    assert_eq!(harness.net.requests().len(), 1);
}
