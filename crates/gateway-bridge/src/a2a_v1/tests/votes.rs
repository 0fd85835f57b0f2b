//! Votes that arrive before a stream is open.

use super::triad::{decision, vote};
use super::*;

/// All members vote at once, and the gateway decides.
async fn vote_and_decide(connection: &mut Connection, id: &Value) {
    let votes = [
        ("alpha", "approve"),
        ("beta", "approve"),
        ("charlie", "reject"),
    ];
    for (member, value) in votes {
        let vote = vote(id, member, json!({"vote": value}));
        connection.send(vote).await;
    }
    let votes = json!({"alpha": "approve", "beta": "approve", "charlie": "reject"});
    connection.send(decision(id, "approved", true, votes)).await;
}

/// Returns one word for each event of a stream that ends without an error.
async fn event_texts(stream: &mut Box<dyn EventStream>) -> Vec<String> {
    let mut event_texts = Vec::new();
    loop {
        event_texts.push(match stream.next().await {
            Some(Ok((Event::Task(task), _))) => format!("task {}", task.state().as_str()),
            Some(Ok((Event::Status(update), _))) => {
                let text = update.status_text().unwrap_or_default();
                format!("{} {text}", update.state().as_str())
            }
            Some(Ok((Event::Artifact(_), _))) => "artifact".to_owned(),
            Some(Ok((other, _))) => panic!("{other:?}"),
            None => return event_texts,
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
    let (harness, mut connection) = listed().await;
    let streaming = harness.stream("triad", "X");
    let request = connection.recv().await;
    vote_and_decide(&mut connection, &request["id"]).await;
    let mut stream = streaming.await.unwrap().unwrap();
    assert_eq!(event_texts(&mut stream).await, ALL);
}

#[tokio::test(start_paused = true)]
async fn word_of_a_vote_that_is_none_is_reported() {
    let (harness, mut connection) = listed().await;
    let streaming = harness.stream("triad", "X");
    let request = connection.recv().await;
    let id = &request["id"];
    for word in [json!("APPROVE"), json!("maybe"), json!(true), Value::Null] {
        let member = if word == "APPROVE" { "alpha" } else { "beta" };
        connection
            .send(vote(id, member, json!({"vote": word})))
            .await;
    }
    connection
        .send(decision(
            id,
            "approved",
            true,
            json!({"alpha": "approve", "charlie": "approve"}),
        ))
        .await;
    let texts = event_texts(&mut streaming.await.unwrap().unwrap()).await;
    let none = "which is not `approve`, `reject` or `abstain`";
    let expected = [
        "working alpha votes approve".to_owned(),
        format!("working beta votes \"maybe\", {none}"),
        format!("working beta votes true, {none}"),
        format!("working beta votes null, {none}"),
    ];
    assert_eq!(texts[1..5], expected);
}

#[tokio::test(start_paused = true)]
async fn h_43_early_votes_are_reported_once_the_task_is_followed() {
    let (harness, mut connection) = listed().await;
    let followed = SendRequest {
        followed: true,
        ..as_task(text_message("X"))
    };
    let resend = harness.send("triad", followed);
    let request = connection.recv().await;
    vote_and_decide(&mut connection, &request["id"]).await;
    let working = task(resend.await.unwrap());
    assert_eq!(working.state(), TaskState::Working);
    let mut stream = harness.follow("triad", &working).await;
    assert_eq!(event_texts(&mut stream).await, ALL);
}

#[tokio::test(start_paused = true)]
async fn vote_continues_after_caller_takes_the_task() {
    let (harness, mut connection) = listed().await;
    let resend = harness.send("triad", as_task(text_message("X")));
    let request = connection.recv().await;
    vote_and_decide(&mut connection, &request["id"]).await;
    assert_eq!(task(resend.await.unwrap()).state(), TaskState::Completed);
}

#[tokio::test(start_paused = true)]
async fn reported_votes_are_not_repeated_to_a_later_stream() {
    let (harness, mut connection) = listed().await;
    let streaming = harness.stream("triad", "X");
    let request = connection.recv().await;
    let id = request["id"].as_str().unwrap().to_owned();
    vote_and_decide(&mut connection, &request["id"]).await;
    event_texts(&mut streaming.await.unwrap().unwrap()).await;
    let mut again = harness.peer("triad").resubscribe(&id).await.unwrap();
    assert_eq!(event_texts(&mut again).await, ["task completed"]);
}
