//! A gateway that counts votes wrongly, twice, or not at all.

use serde_json::{Value, json};

use crate::gateway::{
    support::{
        artifacts, continue_task, decision, propose, start_profile, tool_with_gateway, with_fields,
    },
    tool_fixture::{ToolFixture, reason},
};

/// Sends a proposal to the hostile triad. Returns the result, its updates and the instance.
async fn send_proposal(text: &str) -> (Value, Vec<Value>, ToolFixture) {
    send_proposal_with_timeout(text, 15_000).await
}

/// Sends a proposal with this timeout.
async fn send_proposal_with_timeout(
    text: &str,
    timeout_ms: u64,
) -> (Value, Vec<Value>, ToolFixture) {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let request = with_fields(propose(text), json!({"timeout_ms": timeout_ms}));
    let (envelope, updates) = fixture.call_with_updates(&request).await;
    (envelope, updates, fixture)
}

fn has_warning(fixture: &ToolFixture, part: &str) -> bool {
    let lines = fixture.log.lines();
    lines
        .iter()
        .any(|(level, line)| level == "warn" && line.contains(part))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_35_contradictory_decision_has_a_warning() {
    let (envelope, _, fixture) = send_proposal("contradict").await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    assert!(has_warning(&fixture, "vote"), "{:?}", fixture.log.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_decision_is_one() {
    let (envelope, updates, _) = send_proposal("twice").await;
    assert_eq!(decision(&envelope)["result"], "approved");
    assert_eq!(artifacts(&envelope).len(), 1, "{envelope}");
    assert!(updates.len() <= 5, "{updates:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_decision_is_ignored() {
    let (envelope, _, fixture) = send_proposal("change its mind").await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    let later = fixture.call(&continue_task("status", &envelope)).await;
    assert_eq!(decision(&later)["result"], "approved", "{later}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_on_another_proposal_is_ignored() {
    let (envelope, _, _) = send_proposal("another proposal").await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_37_decision_belongs_to_the_named_proposal() {
    let (envelope, _, _) = send_proposal("no correlation").await;
    assert_eq!(
        decision(&envelope)["votes"]["charlie"],
        "abstain",
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_43_decision_without_votes_is_accepted() {
    let (envelope, _, fixture) = send_proposal("no votes").await;
    assert_eq!(
        decision(&envelope)["missing"],
        json!(["charlie"]),
        "{envelope}"
    );
    assert!(!has_warning(&fixture, "vote"), "{:?}", fixture.log.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_votes_are_not_counted() {
    let (envelope, _, fixture) = send_proposal("strange votes").await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    assert!(!envelope.to_string().contains("mallory"), "{envelope}");
    assert!(
        !has_warning(&fixture, "contradict"),
        "{:?}",
        fixture.log.lines()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_decision_fails_at_once() {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    for text in ["wrong types", "no result"] {
        let request = with_fields(propose(text), json!({"follow_updates": false}));
        let envelope = fixture.call(&request).await;
        assert_eq!(reason(&envelope), "protocol_error", "{text}: {envelope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_35_decision_with_other_votes_has_a_warning() {
    let (envelope, _, fixture) = send_proposal("other votes").await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    assert!(
        has_warning(&fixture, "contradicts"),
        "{:?}",
        fixture.log.lines()
    );
    let warning = &artifacts(&envelope)[0]["metadata"]["warning"];
    let warning = warning.as_str().unwrap_or_default();
    assert!(warning.contains("alpha reject before"), "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_from_an_agent_is_ignored() {
    let (envelope, _, _) = send_proposal("forged decision").await;
    assert_eq!(decision(&envelope)["result"], "rejected", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_46_cut_leaves_the_decision_unknown() {
    let (envelope, _, _) = send_proposal_with_timeout("cut", 2000).await;
    let reported = envelope.to_string();
    assert!(
        reported.contains("unknown") || reported.contains("working"),
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_38_missing_triad_is_reported_at_once() {
    let (envelope, _, _) = send_proposal("refuse").await;
    assert_eq!(reason(&envelope), "agent_offline", "{envelope}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_votes_of_a_member_count_once() {
    let (envelope, updates, _) = send_proposal("flood of votes").await;
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope}");
    assert!(updates.len() < 10, "{} updates", updates.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasons_posing_as_system_stay_text() {
    let (envelope, _, fixture) = send_proposal("inject").await;
    let read = fixture.plugin.render(&envelope.to_string());
    let fences = read.matches("</remote_agent_output>").count();
    assert!(fences <= 1, "{read}");
}
