//! Messages as tasks.

use super::*;

#[tokio::test(start_paused = true)]
async fn timely_answer_is_a_message() {
    let (_harness, mut connection, request, resend) = sent(text_message("hello")).await;
    tokio::time::sleep(Duration::from_secs(19)).await;
    connection.send(reply(&request, "alpha", "well")).await;
    let Reply::Message(message) = resend.await.unwrap().unwrap() else {
        panic!("a message")
    };
    assert_eq!(message.context_id(), request["sessionId"].as_str());
}

#[tokio::test(start_paused = true)]
async fn h_28_late_reply_is_stored_for_its_task() {
    let mut harness = harness(settings());
    let resend = harness.send("alpha", text_message("slow"));
    let mut connection = harness.connect().await;
    let slow = connection.recv().await;
    let working = task(resend.await.unwrap());
    assert_eq!(working.state(), TaskState::Working);
    let other = harness.send("alpha", text_message("quick"));
    let quick = connection.recv().await;
    connection
        .send(reply(&slow, "alpha", "the slow answer"))
        .await;
    connection
        .send(reply(&quick, "alpha", "the quick answer"))
        .await;
    assert_eq!(reply_text(other.await.unwrap()), "the quick answer");
    let later = harness.stored("alpha", &working).await;
    assert_eq!(
        (later.state(), artifact_text(&later)),
        (TaskState::Completed, "the slow answer".into())
    );
}

#[tokio::test(start_paused = true)]
async fn h_28_oldest_of_257_answers_is_evicted() {
    let (harness, mut connection) = listed().await;
    let mut ids = Vec::new();
    for n in 0..257 {
        let resend = harness.send("alpha", as_task(text_message(&n.to_string())));
        let request = connection.recv().await;
        connection.send(reply(&request, "alpha", "done")).await;
        ids.push(task(resend.await.unwrap()).id().unwrap().to_owned());
    }
    let peer = harness.peer("alpha");
    let error = peer.get_task(&ids[0], None).await.unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::TaskForgotten);
    for id in [&ids[1], &ids[256]] {
        assert_eq!(
            peer.get_task(id, None).await.unwrap().state(),
            TaskState::Completed
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h_28_answer_expires_after_a_day() {
    let mut harness = harness(Settings {
        heartbeat: Duration::from_secs(1_000_000),
        ..settings()
    });
    let mut connection = harness.connect_with_list().await;
    let resend = harness.send("alpha", as_task(text_message("hello")));
    let request = connection.recv().await;
    connection.send(reply(&request, "alpha", "done")).await;
    let done = task(resend.await.unwrap());
    let peer = harness.peer("alpha");
    tokio::time::sleep(Duration::from_secs(23 * 60 * 60)).await;
    assert!(peer.get_task(done.id().unwrap(), None).await.is_ok());
    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
    assert_eq!(
        peer.get_task(done.id().unwrap(), None)
            .await
            .unwrap_err()
            .kind,
        PeerErrorKind::TaskForgotten
    );
}

#[tokio::test(start_paused = true)]
async fn task_of_another_run_is_forgotten() {
    let mut harness = harness(settings());
    let _connection = harness.connect_with_list().await;
    let error = harness
        .peer("alpha")
        .get_task("corr-of-yesterday", None)
        .await
        .unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::TaskForgotten);
    assert!(error.message.contains("this process remembers"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn task_is_visible_only_to_its_agent() {
    let (harness, mut connection) = listed().await;
    let resend = harness.send("alpha", as_task(text_message("hello")));
    connection.recv().await;
    let working = task(resend.await.unwrap());
    let error = harness
        .peer("beta")
        .get_task(working.id().unwrap(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::TaskForgotten);
}

#[tokio::test(start_paused = true)]
async fn required_task_returns_at_once_unless_refused() {
    let (harness, mut connection) = listed().await;
    let (request, working) = harness.start_task(&mut connection).await;
    assert_eq!(
        json!(working.id().unwrap()),
        request["metadata"]["correlationId"]
    );
    assert_eq!(json!(working.context_id()), request["sessionId"]);
    let resend = harness.send("alpha", as_task(text_message("hello")));
    let request = connection.recv().await;
    connection
        .send(error(&request, ErrorCode::AgentOffline, "away"))
        .await;
    assert_eq!(
        resend.await.unwrap().unwrap_err().kind,
        fault(ErrorCode::AgentOffline)
    );
}

#[tokio::test(start_paused = true)]
async fn stream_has_task_steps_answer_and_end() {
    let (harness, mut connection) = listed().await;
    let streaming = harness.stream("alpha", "hello");
    let request = connection.recv().await;
    let mut stream = streaming.await.unwrap().unwrap();
    let task = task_event(&mut stream).await;
    assert_eq!(task.state(), TaskState::Working);
    connection.send(json!({"type": "status", "from": "gateway", "content": {"agent": "alpha", "status": "busy", "previous": "online"}})).await;
    let step = status_event(&mut stream).await;
    assert_eq!(step.status_text().as_deref(), Some("alpha is busy"));
    connection.send(reply(&request, "alpha", "well")).await;
    let Event::Artifact(artifact) = event(&mut stream).await else {
        panic!("an artifact")
    };
    assert_eq!(artifact.artifact().text().as_deref(), Some("well"));
    let end = status_event(&mut stream).await;
    assert_eq!((end.state(), end.is_final()), (TaskState::Completed, true));
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn second_subscriber_receives_the_same_task() {
    let (harness, mut connection) = listed().await;
    let (request, working) = harness.start_task(&mut connection).await;
    let peer = harness.peer("alpha");
    let mut stream = peer.resubscribe(working.id().unwrap()).await.unwrap();
    event(&mut stream).await;
    connection.send(reply(&request, "alpha", "well")).await;
    assert!(matches!(event(&mut stream).await, Event::Artifact(_)));
}

#[tokio::test(start_paused = true)]
async fn cancel_drops_answer_and_warns_of_running_agent() {
    let (harness, mut connection) = listed().await;
    let (request, working) = harness.start_task(&mut connection).await;
    let peer = harness.peer("alpha");
    let canceled = peer.cancel(working.id().unwrap()).await.unwrap();
    assert_eq!(canceled.state(), TaskState::Canceled);
    assert!(
        canceled
            .status_text()
            .unwrap()
            .contains("the agent may continue")
    );
    connection.send(reply(&request, "alpha", "well")).await;
    wait_until_idle().await;
    assert_eq!(
        harness.stored("alpha", &working).await.state(),
        TaskState::Canceled
    );
}
