//! Several agents behind one server, and the output modes that a client accepts.

use a2a::v1_0::AgentSkill;

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
    let error = harness.refusal(with_agent_metadata("unknown")).await;
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
    run.ask();
    harness.ended(&id).await;
    let refusal = harness
        .refusal(with_agent_metadata("main").with_task_id(&id))
        .await;
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    harness.answer(&id, "this one").await;
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

fn accepting_modes(modes: &[&str]) -> SendMessage {
    text_message("hello")
        .returning_immediately()
        .with_configuration(SendMessageConfiguration {
            accepted_output_modes: Some(modes.iter().map(|mode| (*mode).to_owned()).collect()),
            task_push_notification_config: None,
            history_length: None,
            return_immediately: None,
        })
}

#[tokio::test]
async fn unsupported_output_modes_are_rejected() {
    let harness = harness().await;
    let send = accepting_modes(&["image/png", "application/json"]);
    let error = harness.refusal(send).await;
    assert_eq!(error.reason, ErrorReason::ContentTypeNotSupported);
    let field = "configuration.acceptedOutputModes";
    assert_eq!(error.field.as_deref(), Some(field));
    let listed = harness
        .service
        .list(&alice(), lists::all(), Dialect::V1_0)
        .await
        .unwrap();
    assert_eq!(listed.total_size(), 0);
}

#[tokio::test]
async fn one_matching_output_mode_is_enough() {
    let harness = harness().await;
    for modes in [
        &["image/png", "text/plain"][..],
        &["Text/Plain; charset=utf-8"],
        &["text"],
        &["text/*"],
        &["text/markdown"],
        &["*/*"],
        &[],
    ] {
        let answer = harness.service.send(&alice(), accepting_modes(modes)).await;
        assert!(answer.is_ok(), "{modes:?}: {answer:?}");
    }
}

#[tokio::test]
async fn output_mode_of_skill_matches() {
    let harness = harness().await;
    if let Ok(agents) = &mut *harness.executor.agents.lock() {
        agents[0].skills.push(AgentSkill {
            id: "paint".to_owned(),
            name: "Paint".to_owned(),
            description: "Paints.".to_owned(),
            tags: Vec::new(),
            examples: None,
            input_modes: None,
            output_modes: Some(vec!["image/png".to_owned()]),
            security_requirements: None,
        });
    }
    let answer = harness
        .service
        .send(&alice(), accepting_modes(&["image/png"]))
        .await;
    assert!(answer.is_ok(), "{answer:?}");
}
