//! Several agents behind one server.

use super::*;

fn with_agent_path(agent: &str) -> CallContext {
    CallContext {
        agent: Some(agent.to_owned()),
        ..alice()
    }
}

fn with_agent_metadata(agent: &str) -> SendMessage {
    let mut send = text_message("hello");
    send.request.message.metadata = metadata(AGENT, agent);
    send
}

#[tokio::test]
async fn path_metadata_or_tenant_names_agent() {
    let mut harness = harness().await;
    let mut in_request = text_message("hello");
    in_request.request.metadata = metadata(AGENT, "other");
    let mut as_tenant = text_message("hello");
    as_tenant.request.tenant = Some("other".to_owned());
    for (caller, send) in [
        (with_agent_path("other"), text_message("hello")),
        (alice(), with_agent_metadata("other")),
        (alice(), in_request),
        (alice(), as_tenant),
        (with_agent_path("other"), with_agent_metadata("other")),
    ] {
        harness.send_immediate_as(&caller, send).await;
        let run = harness.run().await;
        assert_eq!(run.input.agent.as_deref(), Some("other"));
    }
}

#[tokio::test]
async fn executor_chooses_without_agent() {
    let mut harness = harness().await;
    harness.send_immediate(text_message("hello")).await;
    assert_eq!(harness.run().await.input.agent, None);
}

#[tokio::test]
async fn configured_agent_is_the_default() {
    let settings = Settings {
        agent_id: Some("main".to_owned()),
        ..Settings::default()
    };
    let mut harness = TestService::with(settings).await;
    harness.send_immediate(text_message("hello")).await;
    assert_eq!(harness.run().await.input.agent.as_deref(), Some("main"));
    harness.send_immediate(with_agent_metadata("other")).await;
    assert_eq!(harness.run().await.input.agent.as_deref(), Some("other"));
}

#[tokio::test]
async fn unknown_agent_is_rejected() {
    let harness = harness().await;
    let refused = harness
        .service
        .send(&alice(), with_agent_metadata("unknown"))
        .await;
    let error = refused.unwrap_err();
    assert_eq!(error.reason, ErrorReason::InvalidParams);
    assert!(error.text.contains("main, other"), "{error}");
}

#[tokio::test]
async fn contradicting_agents_are_rejected() {
    let harness = harness().await;
    let refused = harness
        .service
        .send(&with_agent_path("main"), with_agent_metadata("other"))
        .await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
}

#[tokio::test]
async fn task_stays_with_its_agent() {
    let mut harness = harness().await;
    let id = harness
        .send_immediate(with_agent_metadata("other"))
        .await
        .id;
    let run = harness.run().await;
    run.end(Outcome::InputRequired(vec![Part::text("which?")]));
    harness.ended(&id).await;
    let refused = harness
        .service
        .send(&alice(), with_agent_metadata("main").with_task_id(&id))
        .await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::InvalidParams);
    harness
        .send_immediate(text_message("this one").with_task_id(&id))
        .await;
    assert_eq!(harness.run().await.input.agent.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn cached_agents_outlast_executor_errors() {
    let harness = harness().await;
    let before = harness.service.agents().await.unwrap();
    let gone = ExecutorError("the gateway is gone".to_owned());
    *harness.executor.agents.lock() = Err(gone);
    tokio::time::advance(120 * SECOND).await;
    assert_eq!(harness.service.agents().await.unwrap(), before);
}

#[tokio::test]
async fn agents_without_cache_are_unavailable() {
    let harness = harness().await;
    let gone = ExecutorError("the gateway is gone".to_owned());
    *harness.executor.agents.lock() = Err(gone);
    let error = harness.service.agents().await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::Unavailable);
}
