//! Several agents behind one server.

use super::*;

fn of(agent: &str) -> CallContext {
    CallContext {
        agent: Some(agent.to_owned()),
        ..alice()
    }
}

fn to(agent: &str) -> SendMessage {
    let mut send = says("hello");
    send.request.message.metadata = metadata(AGENT, agent);
    send
}

#[tokio::test]
async fn path_metadata_or_tenant_names_agent() {
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
        assert_eq!(run.input.agent.as_deref(), Some("other"));
    }
}

#[tokio::test]
async fn executor_chooses_without_agent() {
    let mut theatre = theatre().await;
    theatre.begin(says("hello")).await;
    assert_eq!(theatre.run().await.input.agent, None);
}

#[tokio::test]
async fn configured_agent_is_the_default() {
    let settings = Settings {
        agent_id: Some("main".to_owned()),
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    theatre.begin(says("hello")).await;
    assert_eq!(theatre.run().await.input.agent.as_deref(), Some("main"));
    theatre.begin(to("other")).await;
    assert_eq!(theatre.run().await.input.agent.as_deref(), Some("other"));
}

#[tokio::test]
async fn unknown_agent_is_rejected() {
    let theatre = theatre().await;
    let refused = theatre.service.send(&alice(), to("unknown")).await;
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    assert!(refusal.text.contains("main, other"), "{refusal}");
}

#[tokio::test]
async fn contradicting_agents_are_rejected() {
    let theatre = theatre().await;
    let refused = theatre.service.send(&of("main"), to("other")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
}

#[tokio::test]
async fn task_stays_with_its_agent() {
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
    assert_eq!(theatre.run().await.input.agent.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn cached_agents_outlast_executor_errors() {
    let theatre = theatre().await;
    let before = theatre.service.agents().await.unwrap();
    let gone = ExecutorError("the gateway is gone".to_owned());
    *theatre.stage.agents.lock() = Err(gone);
    tokio::time::advance(120 * SECOND).await;
    assert_eq!(theatre.service.agents().await.unwrap(), before);
}

#[tokio::test]
async fn agents_without_cache_are_unavailable() {
    let theatre = theatre().await;
    let gone = ExecutorError("the gateway is gone".to_owned());
    *theatre.stage.agents.lock() = Err(gone);
    let refusal = theatre.service.agents().await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
}
