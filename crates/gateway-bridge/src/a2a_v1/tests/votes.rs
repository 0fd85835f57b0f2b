//! Votes that arrive before a stream is open.

use super::triad::{decision, vote};
use super::*;

/// All members vote at once, and the gateway decides.
async fn decides(connection: &mut Connection, id: &Value) {
    let votes = [
        ("alpha", "approve"),
        ("beta", "approve"),
        ("charlie", "reject"),
    ];
    for (member, word) in votes {
        let said = vote(id, member, json!({"vote": word}));
        connection.send(said).await;
    }
    let votes = json!({"alpha": "approve", "beta": "approve", "charlie": "reject"});
    connection.send(decision(id, "approved", true, votes)).await;
}

/// Returns one word for each event of a stream that ends without an error.
async fn reported(stream: &mut Box<dyn EventStream>) -> Vec<String> {
    let mut reported = Vec::new();
    loop {
        reported.push(match stream.next().await {
            Some(Ok((Event::Task(task), _))) => format!("task {}", task.state().as_str()),
            Some(Ok((Event::Status(update), _))) => {
                let text = update.status_text().unwrap_or_default();
                format!("{} {text}", update.state().as_str())
            }
            Some(Ok((Event::Artifact(_), _))) => "artifact".to_owned(),
            Some(Ok((other, _))) => panic!("{other:?}"),
            None => return reported,
            Some(Err(error)) => panic!("{error}"),
        });
    }
}

const ALL: [&str; 6] = [
    "task working",
    "working alpha votes approve",
    "working beta votes approve",
    "working charlie votes reject",
    "artifact",
    "completed ",
];

#[tokio::test(start_paused = true)]
async fn h_43_immediate_votes_are_reported_before_the_decision() {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let peer = rig.peer("triad");
    let streaming = tokio::spawn(async move { peer.stream(&text("X")).await });
    let asked = connection.recv().await;
    decides(&mut connection, &asked["id"]).await;
    let mut stream = streaming.await.unwrap().unwrap();
    assert_eq!(reported(&mut stream).await, ALL);
}

#[tokio::test(start_paused = true)]
async fn h_43_early_votes_are_reported_once_the_task_is_followed() {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let followed = SendRequest {
        followed: true,
        ..task_of(text("X"))
    };
    let resend = rig.send("triad", followed);
    let asked = connection.recv().await;
    decides(&mut connection, &asked["id"]).await;
    let begun = task(resend.await.unwrap());
    assert_eq!(begun.state(), TaskState::Working);
    let mut stream = rig
        .peer("triad")
        .resubscribe(begun.id().unwrap())
        .await
        .unwrap();
    assert_eq!(reported(&mut stream).await, ALL);
}

#[tokio::test(start_paused = true)]
async fn vote_continues_after_caller_takes_the_task() {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let resend = rig.send("triad", task_of(text("X")));
    let asked = connection.recv().await;
    decides(&mut connection, &asked["id"]).await;
    assert_eq!(task(resend.await.unwrap()).state(), TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn reported_votes_are_not_repeated_to_a_later_stream() {
    let mut rig = rig(settings());
    let mut connection = rig.connected().await;
    let peer = rig.peer("triad");
    let streaming = tokio::spawn(async move { peer.stream(&text("X")).await });
    let asked = connection.recv().await;
    let id = asked["id"].as_str().unwrap().to_owned();
    decides(&mut connection, &asked["id"]).await;
    reported(&mut streaming.await.unwrap().unwrap()).await;
    let mut again = rig.peer("triad").resubscribe(&id).await.unwrap();
    assert_eq!(reported(&mut again).await, ["task completed"]);
}
