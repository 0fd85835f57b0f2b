//! Votes of the triad: permission, time, repetition and subscribers.

use serde_json::{Value, json};
use testkit::conformance::gateways::Member;

use super::{client, error_code, exchange, exchange_error, gateway, listener, proposal, vote};
use crate::gateway::{support::reference_gateway::ReferenceGateway, tool_fixture::within_timeout};

/// A gateway with a proposer and three members, which vote on command.
struct Triad {
    _gateway: ReferenceGateway,
    alpha: Member,
    beta: Member,
    charlie: Member,
    steward: Member,
}

impl Triad {
    async fn new(settings: Value) -> Self {
        let gateway = gateway(settings).await;
        Self {
            alpha: listener(&gateway, "alpha").await,
            beta: listener(&gateway, "beta").await,
            charlie: listener(&gateway, "charlie").await,
            steward: listener(&gateway, "steward").await,
            _gateway: gateway,
        }
    }

    /// Sends the proposal, and waits until all members have received it.
    async fn propose(&self, proposal: Value) {
        self.steward.send(&proposal).await.unwrap();
        for member in [&self.alpha, &self.beta, &self.charlie] {
            within_timeout(member.log().frame(1, &json!({"/type": "proposal"}))).await;
        }
    }

    async fn decision(&self) -> Value {
        within_timeout(self.steward.log().frame(1, &json!({"/type": "decision"}))).await
    }
}

#[tokio::test]
async fn h_36_correlation_id_precedes_envelope_id() {
    let triad = Triad::new(json!({})).await;
    triad
        .propose(proposal(
            json!({"id": "other", "metadata": {"correlationId": "p-9"}}),
        ))
        .await;
    triad.alpha.send(&vote("p-9", "approve")).await.unwrap();
    triad.beta.send(&vote("p-9", "approve")).await.unwrap();
    assert_eq!(triad.decision().await["content"]["proposalId"], "p-9");
}

#[tokio::test]
async fn h_36_envelope_id_is_the_fallback() {
    let triad = Triad::new(json!({})).await;
    triad
        .propose(json!({"type": "proposal", "id": "only", "content": {"proposal": "Ship it?"}}))
        .await;
    triad.alpha.send(&vote("only", "reject")).await.unwrap();
    triad.beta.send(&vote("only", "reject")).await.unwrap();
    assert_eq!(triad.decision().await["content"]["proposalId"], "only");
}

#[tokio::test]
async fn h_37_decision_has_both_ids() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    triad.alpha.send(&vote("p-1", "approve")).await.unwrap();
    triad.beta.send(&vote("p-1", "approve")).await.unwrap();
    let decided = triad.decision().await;
    assert_eq!(decided["from"], "gateway", "{decided}");
    assert_eq!(decided["content"]["proposalId"], "p-1", "{decided}");
    assert_eq!(decided["metadata"]["correlationId"], "p-1", "{decided}");
    assert_eq!(
        decided["content"]["missing"],
        json!(["charlie"]),
        "{decided}"
    );
}

#[tokio::test]
async fn h_38_approval_needs_two_members() {
    let gateway = gateway(json!({})).await;
    let _alpha = listener(&gateway, "alpha").await;
    let client = client(&gateway).await;
    let reported = exchange(&client, proposal(json!({})), json!({"/type": "error"})).await;
    assert_eq!(error_code(&reported), 3002);
    assert_eq!(reported["metadata"]["correlationId"], "p-1", "{reported}");
}

#[tokio::test]
async fn h_41_past_deadline_is_refused() {
    let triad = Triad::new(json!({"triad": {"quorum": "all"}})).await;
    let past = proposal(
        json!({"id": "p-0", "metadata": {"correlationId": "p-0"}, "content": {"deadline": 1_711_843_200_000_u64}}),
    );
    assert_eq!(exchange_error(&triad.steward, past).await, 2005);
    let within_timeout = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis() as u64
        + 200;
    triad
        .propose(proposal(json!({"content": {"deadline": within_timeout}})))
        .await;
    triad.alpha.send(&vote("p-1", "approve")).await.unwrap();
    let decided = triad.decision().await;
    assert_eq!(decided["content"]["result"], "rejected", "{decided}");
    assert_eq!(decided["content"]["consensus"], false, "{decided}");
    assert_eq!(
        decided["content"]["missing"],
        json!(["beta", "charlie"]),
        "{decided}"
    );
}

#[tokio::test]
async fn h_42_first_vote_of_a_member_is_final() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    triad.alpha.send(&vote("p-1", "approve")).await.unwrap();
    assert_eq!(
        exchange_error(&triad.alpha, vote("p-1", "reject")).await,
        2005
    );
    triad.beta.send(&vote("p-1", "approve")).await.unwrap();
    assert_eq!(
        triad.decision().await["content"]["votes"]["alpha"],
        "approve"
    );
}

#[tokio::test]
async fn h_42_late_vote_is_refused() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    triad.alpha.send(&vote("p-1", "approve")).await.unwrap();
    triad.beta.send(&vote("p-1", "approve")).await.unwrap();
    triad.decision().await;
    assert_eq!(
        exchange_error(&triad.charlie, vote("p-1", "reject")).await,
        2005
    );
}

#[tokio::test]
async fn h_42_non_member_may_not_vote() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    let mut forged = vote("p-1", "approve");
    forged["from"] = json!("charlie");
    assert_eq!(exchange_error(&triad.steward, forged).await, 5004);
}

#[tokio::test]
async fn h_42_unknown_proposal_or_vote_is_refused() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    assert_eq!(
        exchange_error(&triad.alpha, vote("p-7", "approve")).await,
        2005
    );
    assert_eq!(
        exchange_error(&triad.alpha, vote("p-1", "maybe")).await,
        2005
    );
}

#[tokio::test]
async fn h_43_votes_are_forwarded_to_the_proposer() {
    for visible in [true, false] {
        let triad = Triad::new(json!({"voteVisibility": visible})).await;
        triad.propose(proposal(json!({}))).await;
        let mut sure = vote("p-1", "approve");
        sure["content"]["confidence"] = json!(0.7);
        triad.alpha.send(&sure).await.unwrap();
        triad.beta.send(&vote("p-1", "approve")).await.unwrap();
        triad.decision().await;
        let reported = triad.steward.log().matching(&json!({"/type": "vote"}));
        assert_eq!(reported.len(), if visible { 2 } else { 0 }, "{reported:?}");
        if visible {
            let of_alpha = reported
                .iter()
                .find(|vote| vote["from"] == "alpha")
                .unwrap();
            assert_eq!(of_alpha["content"]["confidence"], 0.7, "{of_alpha}");
        }
    }
}

#[tokio::test]
async fn h_45_reused_proposal_id_is_refused() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    triad.alpha.send(&vote("p-1", "approve")).await.unwrap();
    triad.beta.send(&vote("p-1", "approve")).await.unwrap();
    let first = triad.decision().await;
    triad.steward.send(&proposal(json!({}))).await.unwrap();
    let again = within_timeout(triad.steward.log().frame(2, &json!({"/type": "decision"}))).await;
    assert_eq!(again["content"], first["content"]);
    assert_eq!(
        triad
            .charlie
            .log()
            .matching(&json!({"/type": "proposal"}))
            .len(),
        1,
        "no second request for votes"
    );
    let other = proposal(json!({"content": {"proposal": "Something else?"}}));
    assert_eq!(exchange_error(&triad.steward, other).await, 2005);
}

#[tokio::test]
async fn h_35_only_the_gateway_decides() {
    let triad = Triad::new(json!({})).await;
    triad.propose(proposal(json!({}))).await;
    let forged = json!({"type": "decision", "agent": "steward", "from": "gateway", "content": {"proposalId": "p-1", "result": "approved", "votes": {}, "consensus": true}, "metadata": {"correlationId": "p-1"}});
    triad.alpha.send(&forged).await.unwrap();
    triad.alpha.send(&vote("p-1", "reject")).await.unwrap();
    triad.beta.send(&vote("p-1", "reject")).await.unwrap();
    let decided = triad.decision().await;
    assert_eq!(decided["content"]["result"], "rejected", "{decided}");
}
