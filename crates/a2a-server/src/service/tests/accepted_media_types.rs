//! Accepted output modes.

use a2a::v1_0::AgentSkill;

use super::*;

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
    let error = harness.service.send(&alice(), send).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::ContentTypeNotSupported);
    let field = "configuration.acceptedOutputModes";
    assert_eq!(error.field.as_deref(), Some(field));
    let listed = harness.service.list(&alice(), lists::all()).await.unwrap();
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
