//! Invalid decisions, decisions that contradict the votes, and decisions lost by a disconnect.

use super::triad::{decided, decision, now, proposed, vote};
use super::*;

async fn said_of_votes(reported: &str, listed: Value) -> (Rig, Task) {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    let id = &asked["id"];
    connection
        .send(vote(id, "alpha", json!({"vote": reported})))
        .await;
    connection
        .send(decision(id, "approved", true, listed))
        .await;
    let done = now(&rig, &working).await;
    (rig, done)
}

fn warning(task: &Task) -> Option<&str> {
    task.json()["artifacts"][0]["metadata"]["warning"].as_str()
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_cannot_be_read_is_an_error_at_once() {
    for wrong in [
        json!({"result": 7}),
        json!({"result": "maybe"}),
        json!({"votes": {}}),
        json!({"result": "approved", "votes": ["approve"]}),
        json!({"result": "approved", "consensus": "yes"}),
    ] {
        let mut rig = rig(settings());
        let mut connection = rig.connected().await;
        let resend = rig.send("triad", text("X"));
        let asked = connection.recv().await;
        let mut content = wrong.clone();
        content["proposalId"] = asked["id"].clone();
        let began = tokio::time::Instant::now();
        connection
            .send(json!({"type": "decision", "from": "gateway", "content": content}))
            .await;
        let error = resend.await.unwrap().expect_err("no decision");
        assert_eq!(
            (error.kind, error.delivered),
            (
                PeerErrorKind::Gateway(ErrorCode::ProtocolError),
                Delivered::Unknown
            ),
            "{wrong}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(rig.warnings().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_can_be_read_counts_after_one_that_cannot() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    connection
        .send(decision(&asked["id"], "maybe", true, json!({})))
        .await;
    let failed = now(&rig, &working).await;
    assert_eq!(failed.state(), TaskState::Failed);
    assert!(failed.status_text().unwrap().contains("PROTOCOL_ERROR"));
    let votes = json!({"alpha": "approve", "beta": "approve"});
    connection
        .send(decision(&asked["id"], "approved", true, votes))
        .await;
    assert_eq!(decided(&now(&rig, &working).await)["result"], "approved");
}

#[tokio::test(start_paused = true)]
async fn event_without_decision_keeps_the_vote_open() {
    let mut rig = rig(settings());
    let (mut connection, asked, working) = proposed(&mut rig, text("X")).await;
    connection
        .send(json!({"type": "event", "from": "gateway", "content": {"event": "triad:decision", "proposalId": asked["id"], "state": "counting"}}))
        .await;
    assert_eq!(now(&rig, &working).await.state(), TaskState::Working);
}

#[tokio::test(start_paused = true)]
async fn h_35_decision_with_other_votes_is_logged() {
    for (listed, wrong) in [
        (
            json!({"alpha": "approve", "beta": "approve"}),
            "alpha reject before and approve now",
        ),
        (
            json!({"beta": "approve", "charlie": "approve"}),
            "alpha reject before and no vote now",
        ),
    ] {
        let (rig, done) = said_of_votes("reject", listed).await;
        assert_eq!(decided(&done)["result"], "approved");
        let warning = warning(&done).unwrap();
        assert!(warning.contains(wrong), "{warning}");
        assert_eq!(rig.warnings().len(), 1);
        assert!(rig.warnings()[0].contains(wrong));
    }
}

#[tokio::test(start_paused = true)]
async fn h_35_missing_votes_are_not_a_contradiction() {
    let listed = json!({"alpha": "approve", "beta": "approve", "charlie": "reject"});
    let (rig, done) = said_of_votes("approve", listed).await;
    assert_eq!(warning(&done), None);
    assert_eq!(rig.warnings(), [""; 0]);
}

/// Returns a followed proposal whose gateway disconnects with the reason `manual`.
async fn dismissed(rig: &mut Rig) -> (Value, Task) {
    let (mut connection, asked, working) = proposed(rig, text("X")).await;
    let mut stream = rig
        .peer("triad")
        .resubscribe(working.id().unwrap())
        .await
        .unwrap();
    event(&mut stream).await;
    let began = tokio::time::Instant::now();
    connection
        .send(json!({"type": "disconnect", "content": {"reason": "manual"}}))
        .await;
    let Event::Status(end) = event(&mut stream).await else {
        panic!("the end")
    };
    assert_eq!(end.state(), TaskState::Failed);
    let why = end.status_text().unwrap();
    assert!(
        why.contains("CONNECTION_RESET") && why.contains("manual"),
        "{why}"
    );
    assert!(began.elapsed() < Duration::from_millis(10));
    assert_eq!(rig.net.requests().len(), 1);
    (asked, working)
}

#[tokio::test(start_paused = true)]
async fn h_47_manual_ends_a_call_that_follows_a_proposal_at_once() {
    let mut rig = rig(settings());
    dismissed(&mut rig).await;
}

#[tokio::test(start_paused = true)]
async fn h_47_the_call_after_manual_connects_and_receives_the_decision() {
    let mut rig = rig(settings());
    let (asked, working) = dismissed(&mut rig).await;
    let peer = rig.peer("triad");
    let id = working.id().unwrap().to_owned();
    let watching = tokio::spawn(async move { peer.resubscribe(&id).await });
    let mut connection = rig.greeted().await;
    assert_eq!(
        connection.recv().await["content"]["channel"],
        "triad:decision"
    );
    let mut stream = watching.await.unwrap().unwrap();
    let Event::Task(still) = event(&mut stream).await else {
        panic!("a task")
    };
    assert_eq!(still.state(), TaskState::Working);
    let votes = json!({"alpha": "approve", "beta": "approve"});
    connection
        .send(decision(&asked["id"], "approved", true, votes))
        .await;
    assert!(matches!(event(&mut stream).await, Event::Artifact(_)));
}

#[tokio::test(start_paused = true)]
async fn h_47_no_connection_after_the_voting_deadline() {
    let mut rig = rig(settings());
    let (_, working) = dismissed(&mut rig).await;
    tokio::time::sleep(Duration::from_secs(303)).await;
    let reported = rig
        .peer("triad")
        .get_task(working.id().unwrap(), None)
        .await;
    assert_eq!(reported.unwrap().state(), TaskState::Failed);
    assert_eq!(rig.net.requests().len(), 1);
}
