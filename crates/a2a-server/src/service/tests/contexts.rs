//! Contexts, their owners and their sessions.

use super::*;

fn settings(session_id: Option<&str>, several_clients: bool) -> Settings {
    Settings {
        session_id: session_id.map(str::to_owned),
        several_clients,
        ..Settings::default()
    }
}

#[tokio::test]
async fn message_without_context_creates_one() {
    let mut harness = harness().await;
    let one = harness.send_immediate(text_message("one")).await;
    let two = harness.send_immediate(text_message("two")).await;
    assert_ne!(one.context_id, two.context_id);
    let (first, second) = (harness.run().await, harness.run().await);
    assert_ne!(first.input.session, second.input.session);
}

#[tokio::test]
async fn context_keeps_its_session() {
    let mut harness = harness().await;
    let one = harness.send_immediate(text_message("one")).await;
    let run = harness.run().await;
    let session = run.input.session.clone();
    run.done();
    harness.ended(&one.id).await;
    let two = harness
        .send_immediate(text_message("two").with_context_id(&one.context_id))
        .await;
    assert_eq!(two.context_id, one.context_id);
    assert_ne!(two.id, one.id);
    assert_eq!(harness.run().await.input.session, session);
}

#[tokio::test]
async fn configured_session_is_the_default() {
    let mut harness = TestService::with(settings(Some("my-session"), false)).await;
    let one = harness.send_immediate(text_message("one")).await;
    let run = harness.run().await;
    assert_eq!(run.input.session, "my-session");
    run.done();
    harness.ended(&one.id).await;
    // A message that names the context joins it.
    harness
        .send_immediate(text_message("two").with_context_id(&one.context_id))
        .await;
    assert_eq!(harness.run().await.input.session, "my-session");
}

#[tokio::test]
async fn configured_session_maps_to_its_context() {
    let mut harness = TestService::with(settings(Some("a2a-work"), false)).await;
    let task = harness.send_immediate(text_message("one")).await;
    assert_eq!(task.context_id, "work");
    assert_eq!(harness.run().await.input.session, "a2a-work");
}

#[tokio::test]
async fn configured_session_is_separate_for_each_client() {
    let mut harness = TestService::with(settings(Some("mine"), true)).await;
    harness.send_immediate(text_message("one")).await;
    harness.send_immediate_as(&bob(), text_message("two")).await;
    let (first, second) = (harness.run().await, harness.run().await);
    assert_ne!(first.input.session, second.input.session);
    assert_ne!(first.input.context_id, second.input.context_id);
}

#[tokio::test]
async fn default_context_is_reserved_for_its_client() {
    let harness = TestService::with(settings(Some("mine"), true)).await;
    let send = text_message("one").with_context_id("mine:bob");
    let error = harness.refusal(send).await;
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
    assert_eq!(
        harness
            .send_immediate_as(&bob(), text_message("two"))
            .await
            .context_id,
        "mine:bob"
    );
}

#[tokio::test]
async fn session_contains_client_name_with_several() {
    let mut harness = TestService::with(settings(None, true)).await;
    harness.send_in_context("one").await;
    assert_eq!(harness.run().await.input.session, "a2a-alice-c");
}

#[tokio::test]
async fn context_of_other_client_is_not_found() {
    let mut harness = TestService::with(settings(None, true)).await;
    harness.send_in_context("one").await;
    let send = text_message("two").with_context_id("c");
    let error = harness.service.send(&bob(), send).await.unwrap_err();
    assert_eq!(error.reason, ErrorReason::TaskNotFound);
    assert_eq!(text(&harness.run().await.input.message), "one");
    assert!(harness.runs.try_recv().is_err());
}

#[tokio::test]
async fn long_id_is_rejected() {
    let harness = harness().await;
    let send = text_message("one").with_context_id(&"c".repeat(513));
    let error = harness.refusal(send).await;
    assert_eq!(error.reason, ErrorReason::InvalidParams);
    assert_eq!(error.field.as_deref(), Some("message.contextId"));
}
