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
    let mut theatre = theatre().await;
    let one = theatre.begin(says("one")).await;
    let two = theatre.begin(says("two")).await;
    assert_ne!(one.context_id, two.context_id);
    let (first, second) = (theatre.run().await, theatre.run().await);
    assert_ne!(first.input.session, second.input.session);
}

#[tokio::test]
async fn context_keeps_its_session() {
    let mut theatre = theatre().await;
    let one = theatre.begin(says("one")).await;
    let run = theatre.run().await;
    let session = run.input.session.clone();
    run.done();
    theatre.ended(&one.id).await;
    let two = theatre.begin(says("two").in_context(&one.context_id)).await;
    assert_eq!(two.context_id, one.context_id);
    assert_ne!(two.id, one.id);
    assert_eq!(theatre.run().await.input.session, session);
}

#[tokio::test]
async fn configured_session_is_the_default() {
    let mut theatre = TestService::with(settings(Some("my-session"), false)).await;
    let one = theatre.begin(says("one")).await;
    let run = theatre.run().await;
    assert_eq!(run.input.session, "my-session");
    run.done();
    theatre.ended(&one.id).await;
    // A message that names the context joins it.
    theatre.begin(says("two").in_context(&one.context_id)).await;
    assert_eq!(theatre.run().await.input.session, "my-session");
}

#[tokio::test]
async fn configured_session_maps_to_its_context() {
    let mut theatre = TestService::with(settings(Some("a2a-work"), false)).await;
    let task = theatre.begin(says("one")).await;
    assert_eq!(task.context_id, "work");
    assert_eq!(theatre.run().await.input.session, "a2a-work");
}

#[tokio::test]
async fn configured_session_is_separate_for_each_client() {
    let mut theatre = TestService::with(settings(Some("mine"), true)).await;
    theatre.begin_as(&alice(), says("one")).await;
    theatre.begin_as(&bob(), says("two")).await;
    let (first, second) = (theatre.run().await, theatre.run().await);
    assert_ne!(first.input.session, second.input.session);
    assert_ne!(first.input.context_id, second.input.context_id);
}

#[tokio::test]
async fn default_context_is_reserved_for_its_client() {
    let theatre = TestService::with(settings(Some("mine"), true)).await;
    let send = says("one").in_context("mine:bob");
    let refusal = theatre.service.send(&alice(), send).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotFound);
    assert_eq!(
        theatre.begin_as(&bob(), says("two")).await.context_id,
        "mine:bob"
    );
}

#[tokio::test]
async fn session_contains_client_name_with_several() {
    let mut theatre = TestService::with(settings(None, true)).await;
    theatre.begin(says("one").in_context("c")).await;
    assert_eq!(theatre.run().await.input.session, "a2a-alice-c");
}

#[tokio::test]
async fn context_of_other_client_is_not_found() {
    let mut theatre = TestService::with(settings(None, true)).await;
    theatre.begin(says("one").in_context("c")).await;
    let send = says("two").in_context("c");
    let refusal = theatre.service.send(&bob(), send).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::TaskNotFound);
    assert_eq!(text(&theatre.run().await.input.message), "one");
    assert!(theatre.runs.try_recv().is_err());
}

#[tokio::test]
async fn long_id_is_rejected() {
    let theatre = theatre().await;
    let send = says("one").in_context(&"c".repeat(513));
    let refusal = theatre.service.send(&alice(), send).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::InvalidParams);
    assert_eq!(refusal.field.as_deref(), Some("message.contextId"));
}
