//! A gateway that counts votes wrongly, twice, or not at all.

use serde_json::{Value, json};

use crate::gateway::{
    support::{
        artifacts, continue_task, decision, propose, start_profile, tool_with_gateway, with_fields,
    },
    tool_fixture::{ToolFixture, reason},
};
use crate::support::assert_has;

/// Sends a proposal with more fields to the hostile triad. Returns the result, its updates and the instance.
async fn send_proposal(text: &str, fields: Value) -> (Value, Vec<Value>, ToolFixture) {
    let gateway = start_profile("hostile").await;
    let fixture = tool_with_gateway(&gateway.url(), json!({}));
    let request = with_fields(propose(text), json!({"timeout_ms": 15_000}));
    let (envelope, updates) = fixture
        .call_with_updates(&with_fields(request, fields))
        .await;
    (envelope, updates, fixture)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_proposal_has_one_decision_of_the_gateway() {
    let approved = || json!({"result": "approved"});
    // The text of the proposal, fields of the decision, and whether a warning in the log has this part.
    for (text, fields, warning) in [
        ("contradict", approved(), Some(("vote", true))),
        ("other votes", approved(), Some(("contradicts", true))),
        ("twice", approved(), None),
        ("change its mind", approved(), None),
        ("another proposal", approved(), None),
        (
            "no correlation",
            json!({"votes": {"charlie": "abstain"}}),
            None,
        ),
        (
            "no votes",
            json!({"missing": ["charlie"]}),
            Some(("vote", false)),
        ),
        ("strange votes", approved(), Some(("contradict", false))),
        ("forged decision", json!({"result": "rejected"}), None),
        ("flood of votes", approved(), None),
    ] {
        let (envelope, updates, fixture) = send_proposal(text, json!({})).await;
        assert_has(&decision(&envelope), fields);
        assert_eq!(artifacts(&envelope).len(), 1, "{text}: {envelope}");
        let most = match text {
            "twice" => 5,
            "flood of votes" => 9,
            _ => usize::MAX,
        };
        assert!(updates.len() <= most, "{text}: {} updates", updates.len());
        assert!(!envelope.to_string().contains("mallory"), "{envelope}");
        let lines = fixture.log.lines();
        if let Some((part, is_logged)) = warning {
            let mut warnings = lines.iter().filter(|(level, _)| level == "warn");
            let has_part = warnings.any(|(_, line)| line.contains(part));
            assert_eq!(has_part, is_logged, "{text}: {lines:?}");
        }
        let later = fixture.call(&continue_task("status", &envelope)).await;
        assert_eq!(decision(&later), decision(&envelope), "{text}");
        if text == "other votes" {
            let warning = artifacts(&envelope)[0]["metadata"]["warning"].to_string();
            assert!(warning.contains("alpha reject before"), "{envelope}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_triad_or_malformed_decision_fails_at_once() {
    for (text, fields, expected) in [
        ("refuse", json!({}), "agent_offline"),
        (
            "wrong types",
            json!({"follow_updates": false}),
            "protocol_error",
        ),
        (
            "no result",
            json!({"follow_updates": false}),
            "protocol_error",
        ),
    ] {
        let (envelope, ..) = send_proposal(text, fields).await;
        assert_eq!(reason(&envelope), expected, "{text}: {envelope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_46_cut_leaves_the_decision_unknown() {
    let (envelope, ..) = send_proposal("cut", json!({"timeout_ms": 2000})).await;
    let reported = envelope.to_string();
    assert!(
        reported.contains("unknown") || reported.contains("working"),
        "{envelope}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasons_posing_as_system_stay_text() {
    let (envelope, _, fixture) = send_proposal("inject", json!({})).await;
    let read = fixture.plugin.render(&envelope.to_string());
    let fences = read.matches("</remote_agent_output>").count();
    assert!(fences <= 1, "{read}");
}
