//! The lifecycle of a vote.

use super::*;

#[tokio::test(start_paused = true)]
async fn late_stream_gets_current_votes_and_the_rest() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![REJECT], vec![APPROVE]]);
    agents.gate.forget_permits(98);
    let mut first = triad.stream(&call(), &proposal_message("x")).await.unwrap();
    first.next().await;
    first.next().await;
    let mut late = triad.resubscribe("proposal-1").unwrap();
    let Some(Ok((Event::Task(task), _))) = late.next().await else {
        panic!("no task")
    };
    assert!(
        task.status_text().unwrap().contains("votes"),
        "{}",
        task.json()
    );
    agents.gate.add_permits(2);
    let mut votes = 0;
    while let Some(Ok((event, _))) = late.next().await {
        votes += usize::from(
            event
                .json()
                .pointer("/status/message/parts/1/data")
                .is_some(),
        );
    }
    assert_eq!(votes, 2);
}

#[tokio::test(start_paused = true)]
async fn canceled_vote_cancels_all_requests() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![HANG], vec![HANG]]);
    let mut stream = triad.stream(&call(), &proposal_message("x")).await.unwrap();
    stream.next().await;
    stream.next().await;
    let task = triad.cancel("proposal-1").await.unwrap();
    assert_eq!(task.state().as_str(), "canceled");
    while agents.canceled.lock().len() < 2 {
        agents.stopped.notified().await;
    }
    assert_eq!(
        triad.get_task("proposal-1").unwrap().state().as_str(),
        "canceled"
    );
}

#[tokio::test(start_paused = true)]
async fn unreferenced_proposal_is_dropped() {
    let (triad, _) = triad(Quorum::All, [vec![], vec![], vec![]]);
    assert_eq!(
        triad.get_task("x").unwrap_err().kind,
        PeerErrorKind::TaskForgotten
    );
    assert_eq!(
        triad.cancel("x").await.unwrap_err().kind,
        PeerErrorKind::TaskForgotten
    );
    assert!(
        triad
            .resubscribe("x")
            .is_err_and(|error| error.kind == PeerErrorKind::TaskForgotten)
    );
}

#[tokio::test(start_paused = true)]
async fn h_45_repeated_proposal_returns_the_same_outcome() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![APPROVE], vec![APPROVE]]);
    let first = decided(&triad).await;
    assert_eq!(decided(&triad).await, first);
    assert_eq!(agents.requests.lock().len(), 3);
    let error = triad
        .send(&call(), &proposal_message("Something else."))
        .await
        .unwrap_err();
    assert_eq!(
        error.kind,
        PeerErrorKind::Gateway(ErrorCode::InvalidContent)
    );
}

#[tokio::test(start_paused = true)]
async fn long_vote_returns_a_running_task() {
    let (triad, _) = triad(Quorum::Majority, [vec![HANG], vec![HANG], vec![HANG]]);
    let Reply::Task(task) = triad.send(&call(), &proposal_message("x")).await.unwrap() else {
        panic!("no task")
    };
    assert_eq!(task.state().as_str(), "working");
}

#[tokio::test(start_paused = true)]
async fn missing_gateway_is_an_error() {
    let (mut triad, _) = triad(Quorum::Majority, [vec![], vec![], vec![]]);
    triad.links = Arc::new(|| {
        Box::pin(async {
            Err(PeerError::new(
                PeerErrorKind::Gateway(ErrorCode::ConnectionRefused),
                "unknown agent",
            )
            .undelivered())
        })
    });
    let error = triad
        .send(&call(), &proposal_message("x"))
        .await
        .unwrap_err();
    let refused = PeerErrorKind::Gateway(ErrorCode::ConnectionRefused);
    assert_eq!((error.kind, error.delivered), (refused, Delivered::No));
    assert!(triad.get_task("proposal-1").is_err());
}

#[tokio::test]
async fn triad_requires_three_distinct_members() {
    let (mut triad, _) = triad(Quorum::Majority, [vec![], vec![], vec![]]);
    for members in [vec![], vec!["a", "b"], vec!["a", "b", "a"]] {
        let mut settings = (*triad.settings).clone();
        settings.triad.members = members.into_iter().map(str::to_owned).collect();
        triad.settings = Arc::new(settings);
        assert!(triad.send(&call(), &proposal_message("x")).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn message_to_task_uses_its_session() {
    let twice = || vec![APPROVE, APPROVE];
    let (triad, _agents) = triad(Quorum::All, [twice(), twice(), twice()]);
    let first = SendRequest {
        context_id: Some("sess-7".into()),
        ..proposal_message("x")
    };
    triad.send(&call(), &first).await.unwrap();
    let next = |task: &str| SendRequest {
        message_id: "proposal-2".into(),
        task_id: Some(task.into()),
        ..proposal_message("y")
    };
    let forgotten = triad.send(&call(), &next("proposal-0")).await;
    assert_eq!(forgotten.unwrap_err().kind, PeerErrorKind::TaskForgotten);
    let _ = triad.stream(&call(), &next("proposal-1")).await;
    let task = triad.get_task("proposal-2").unwrap();
    assert_eq!(task.context_id(), Some("sess-7"));
}
