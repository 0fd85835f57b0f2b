//! Every outcome of a vote, through the tool, the bridge and the reference gateway. `-- --nocapture` prints the table.

use serde_json::{Value, json};
use testkit::conformance::gateways::Member;

use crate::gateway::{
    support::{
        decision, propose, reference_gateway::ReferenceGateway, state, tool_with_gateway, voters,
        with_fields,
    },
    tool_fixture::ToolFixture,
};

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

const MEMBERS: [&str; 3] = ["alpha", "beta", "charlie"];

/// A gateway with its triad, and the tool.
struct TriadHarness {
    fixture: ToolFixture,
    _gateway: ReferenceGateway,
    _triad: Vec<Member>,
}

impl TriadHarness {
    async fn new(quorum: &str, deadline_ms: u64) -> Self {
        let settings = json!({"triad": {"quorum": quorum, "deadlineMs": deadline_ms}});
        let gateway = ReferenceGateway::start(settings.clone()).await;
        let triad = voters::start_triad(&gateway.url).await;
        Self {
            fixture: tool_with_gateway(&gateway.url, settings),
            _gateway: gateway,
            _triad: triad,
        }
    }

    async fn decide(&self, votes: [&str; 3]) -> Value {
        let choices: Vec<String> = MEMBERS
            .iter()
            .zip(votes)
            .map(|(name, vote)| format!("{name}={vote}"))
            .collect();
        let request = with_fields(propose(&choices.join(" ")), json!({"timeout_ms": 15_000}));
        let envelope = self.fixture.call(&request).await;
        assert_eq!(state(&envelope), "completed", "{envelope}");
        decision(&envelope)
    }
}

/// Returns the votes and the members without one, up to the decision.
#[track_caller]
fn check_decision(decision: &Value, votes: [&str; 3]) {
    let counted = decision["votes"].as_object().unwrap();
    let missing = decision["missing"].as_array().unwrap();
    assert_eq!(counted.len() + missing.len(), 3, "{decision}");
    for (name, vote) in MEMBERS.iter().zip(votes) {
        match counted.get(*name) {
            Some(reported) => assert_eq!(reported, vote, "{decision}"),
            None => assert!(missing.contains(&json!(name)), "{decision}"),
        }
    }
}

fn print(quorum: &str, votes: [&str; 3], decision: &Value) {
    let count = |name: &str| votes.iter().filter(|vote| **vote == name).count();
    println!(
        "{quorum:8} | {}-{}-{} | {} missing | {:8} | consensus {:5} | {}",
        count("approve"),
        count("reject"),
        count("abstain"),
        count("silent"),
        decision["result"].as_str().unwrap(),
        decision["consensus"],
        decision["votes"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_39_ten_tallies_with_quorum_all_reach_the_tool() {
    let harness = TriadHarness::new("all", 60_000).await;
    for (votes, result, consensus) in TALLIES {
        let decision = harness.decide(votes).await;
        print("all", votes, &decision);
        check_decision(&decision, votes);
        assert_eq!(decision["missing"], json!([]), "{decision}");
        assert_eq!(
            (&decision["result"], &decision["consensus"]),
            (&json!(result), &json!(consensus)),
            "{votes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_40_ten_majority_tallies_reach_the_tool() {
    let harness = TriadHarness::new("majority", 60_000).await;
    for (votes, result, consensus) in TALLIES {
        let decision = harness.decide(votes).await;
        print("majority", votes, &decision);
        check_decision(&decision, votes);
        assert_eq!(
            (&decision["result"], &decision["consensus"]),
            (&json!(result), &json!(consensus)),
            "{votes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_41_deadline_decides_with_received_votes() {
    let harness = TriadHarness::new("all", 250).await;
    for (votes, result, consensus) in TALLIES_WITH_MISSING_VOTES {
        let decision = harness.decide(votes).await;
        print("all", votes, &decision);
        check_decision(&decision, votes);
        let silent: Vec<&str> = MEMBERS
            .into_iter()
            .zip(votes)
            .filter(|(_, vote)| *vote == "silent")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(decision["missing"], json!(silent), "{decision}");
        assert_eq!(
            (&decision["result"], &decision["consensus"]),
            (&json!(result), &json!(consensus)),
            "{votes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_40_two_equal_votes_decide() {
    let harness = TriadHarness::new("majority", 60_000).await;
    for (votes, result) in [
        (["approve", "approve", "silent"], "approved"),
        (["reject", "silent", "reject"], "rejected"),
    ] {
        let decision = harness.decide(votes).await;
        check_decision(&decision, votes);
        assert_eq!(decision["result"], result, "{decision}");
        assert_eq!(
            decision["missing"].as_array().unwrap().len(),
            1,
            "{decision}"
        );
    }
}
