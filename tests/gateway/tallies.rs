//! Every outcome of a vote, through the tool, the bridge and the reference gateway. `-- --nocapture` prints the table.

use serde_json::json;

use crate::gateway::support::{
    decision, propose, reference_gateway::ReferenceGateway, state, tool_with_gateway, voters,
    with_fields,
};
use crate::support::assert_has;

/// The three votes and their outcome (H-39).
type Row = ([&'static str; 3], &'static str, bool);

/// The ten tallies: approve, reject, abstain.
const TALLIES: [Row; 10] = [
    (["approve", "approve", "approve"], "approved", true),
    (["approve", "approve", "reject"], "approved", true),
    (["approve", "approve", "abstain"], "approved", true),
    (["approve", "reject", "reject"], "rejected", true),
    (["reject", "reject", "reject"], "rejected", true),
    (["approve", "abstain", "abstain"], "rejected", false),
    (["reject", "reject", "abstain"], "rejected", true),
    (["reject", "abstain", "abstain"], "rejected", false),
    (["abstain", "abstain", "abstain"], "rejected", false),
    (["approve", "reject", "abstain"], "rejected", false),
];

/// The decisions at the deadline without one, two or three votes.
const TALLIES_WITH_MISSING_VOTES: [Row; 10] = [
    (["approve", "approve", "silent"], "approved", true),
    (["reject", "reject", "silent"], "rejected", true),
    (["approve", "reject", "silent"], "rejected", false),
    (["approve", "abstain", "silent"], "rejected", false),
    (["reject", "abstain", "silent"], "rejected", false),
    (["abstain", "abstain", "silent"], "rejected", false),
    (["approve", "silent", "silent"], "rejected", false),
    (["reject", "silent", "silent"], "rejected", false),
    (["abstain", "silent", "silent"], "rejected", false),
    (["silent", "silent", "silent"], "rejected", false),
];

/// With quorum `majority`, two equal votes decide before the third.
const TALLIES_OF_TWO: [Row; 2] = [
    (["approve", "approve", "silent"], "approved", true),
    (["reject", "silent", "reject"], "rejected", true),
];

const MEMBERS: [&str; 3] = ["alpha", "beta", "charlie"];

/// Checks the decision on each row, through the tool and a gateway with its triad.
async fn check_tallies(quorum: &str, deadline_ms: u64, rows: &[Row]) {
    let settings = json!({"triad": {"quorum": quorum, "deadlineMs": deadline_ms}});
    let gateway = ReferenceGateway::start(settings.clone()).await;
    let _triad = voters::start_triad(&gateway.url).await;
    let fixture = tool_with_gateway(&gateway.url, settings);
    for (votes, result, consensus) in rows {
        let choices = MEMBERS.iter().zip(votes);
        let choices: Vec<String> = choices
            .map(|(name, vote)| format!("{name}={vote}"))
            .collect();
        let request = with_fields(propose(&choices.join(" ")), json!({"timeout_ms": 15_000}));
        let envelope = fixture.call(&request).await;
        assert_eq!(state(&envelope), "completed", "{envelope}");
        let decision = decision(&envelope);
        println!("{quorum:8} | {} | {decision}", choices.join(" "));
        assert_has(&decision, json!({"result": result, "consensus": consensus}));
        let missing = decision["missing"].as_array().unwrap();
        for (name, vote) in MEMBERS.iter().zip(votes) {
            let counted = decision["votes"].get(*name);
            assert_eq!(
                counted.is_none(),
                missing.contains(&json!(name)),
                "{decision}"
            );
            // A majority may decide before the third vote.
            if quorum == "all" || *vote == "silent" {
                assert_eq!(
                    counted.is_none(),
                    *vote == "silent",
                    "{votes:?}: {decision}"
                );
            }
            assert!(counted.is_none_or(|counted| counted == vote), "{decision}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_39_ten_tallies_with_quorum_all_reach_the_tool() {
    check_tallies("all", 60_000, &TALLIES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_40_ten_majority_tallies_reach_the_tool() {
    check_tallies("majority", 60_000, &TALLIES).await;
    check_tallies("majority", 60_000, &TALLIES_OF_TWO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_41_deadline_decides_with_received_votes() {
    check_tallies("all", 250, &TALLIES_WITH_MISSING_VOTES).await;
}
