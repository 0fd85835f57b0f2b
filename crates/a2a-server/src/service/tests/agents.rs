//! Several agents behind one server.

use super::*;

fn of(agent: &str) -> CallContext {
    CallContext {
        agent: Some(agent.to_owned()),
        ..alice()
    }
}

fn to(agent: &str) -> Send {
    let mut send = says("hello");
    send.request.message.metadata = metadata(AGENT, agent);
    send
}

#[tokio::test]
async fn the_path_the_metadata_or_the_tenant_names_the_agent() {
    let mut theatre = theatre().await;
    let mut in_request = says("hello");
    in_request.request.metadata = metadata(AGENT, "other");
    let mut as_tenant = says("hello");
    as_tenant.request.tenant = Some("other".to_owned());
    for (caller, send) in [
        (of("other"), says("hello")),
        (alice(), to("other")),
        (alice(), in_request),
        (alice(), as_tenant),
        (of("other"), to("other")),
    ] {
        theatre.begin_as(&caller, send).await;
        let run = theatre.run().await;
        assert_eq!(run.job.agent.as_deref(), Some("other"));
    }
}

#[tokio::test]
async fn where_nobody_names_one_the_executor_chooses() {
    let mut theatre = theatre().await;
    theatre.begin(says("hello")).await;
    assert_eq!(theatre.run().await.job.agent, None);
}

#[tokio::test]
async fn the_configured_agent_is_asked_where_the_request_names_none() {
    let settings = Settings {
        agent_id: Some("main".to_owned()),
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    theatre.begin(says("hello")).await;
    assert_eq!(theatre.run().await.job.agent.as_deref(), Some("main"));
    theatre.begin(to("other")).await;
    assert_eq!(theatre.run().await.job.agent.as_deref(), Some("other"));
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_refused() {
    let theatre = theatre().await;
    let refused = theatre.service.send(&alice(), to("nobody")).await;
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    assert!(refusal.text.contains("main, other"), "{refusal}");
}

#[tokio::test]
async fn two_names_that_differ_are_refused() {
    let theatre = theatre().await;
    let refused = theatre.service.send(&of("main"), to("other")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
}

#[tokio::test]
async fn a_task_stays_with_its_agent() {
    let mut theatre = theatre().await;
    let id = theatre.begin(to("other")).await.id;
    let run = theatre.run().await;
    run.end(Outcome::InputRequired(vec![Part::text("which?")]));
    theatre.ended(&id).await;
    let refused = theatre
        .service
        .send(&alice(), to("main").answering(&id))
        .await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
    theatre.begin(says("this one").answering(&id)).await;
    assert_eq!(theatre.run().await.job.agent.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn what_the_executor_said_before_holds_while_it_cannot_say() {
    let theatre = theatre().await;
    let before = theatre.service.agents().await.unwrap();
    let gone = ExecutorError("the gateway is gone".to_owned());
    *theatre.stage.agents.lock().unwrap() = Err(gone);
    tokio::time::advance(120 * SECOND).await;
    assert_eq!(theatre.service.agents().await.unwrap(), before);
}

#[tokio::test]
async fn an_executor_that_never_said_is_not_made_up_for() {
    let theatre = theatre().await;
    let gone = ExecutorError("the gateway is gone".to_owned());
    *theatre.stage.agents.lock().unwrap() = Err(gone);
    let refusal = theatre.service.agents().await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
}
