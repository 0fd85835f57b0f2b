//! Every outcome of a vote, through the tool, the bridge and the reference gateway. `-- --nocapture` prints the table.

use serde_json::{Value, json};
use testkit::conformance::gateways::Member;

use crate::gateway::{
    rig::Rig,
    support::{and, at, decision, propose, reference::Reference, state, voters},
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
const MISSING: [Row; 10] = [
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

const NAMES: [&str; 3] = ["alpha", "beta", "charlie"];

/// A gateway with its triad, and the tool.
struct TriadHarness {
    rig: Rig,
    _gateway: Reference,
    _triad: Vec<Member>,
}

impl TriadHarness {
    async fn new(quorum: &str, deadline_ms: u64) -> Self {
        let settings = json!({"triad": {"quorum": quorum, "deadlineMs": deadline_ms}});
        let gateway = Reference::start(settings.clone()).await;
        let triad = voters::triad(&gateway.url).await;
        Self {
            rig: at(&gateway.url, settings),
            _gateway: gateway,
            _triad: triad,
        }
    }

    async fn decide(&self, votes: [&str; 3]) -> Value {
        let choices: Vec<String> = NAMES
            .iter()
            .zip(votes)
            .map(|(name, vote)| format!("{name}={vote}"))
            .collect();
        let request = and(propose(&choices.join(" ")), json!({"timeout_ms": 15_000}));
        let envelope = self.rig.call(&request).await;
        assert_eq!(state(&envelope), "completed", "{envelope}");
        decision(&envelope)
    }
}

/// Returns the votes and the members without one, up to the decision.
#[track_caller]
fn check_decision(decided: &Value, votes: [&str; 3]) {
    let counted = decided["votes"].as_object().unwrap();
    let missing = decided["missing"].as_array().unwrap();
    assert_eq!(counted.len() + missing.len(), 3, "{decided}");
    for (name, vote) in NAMES.iter().zip(votes) {
        match counted.get(*name) {
            Some(reported) => assert_eq!(reported, vote, "{decided}"),
            None => assert!(missing.contains(&json!(name)), "{decided}"),
        }
    }
}

fn print(quorum: &str, votes: [&str; 3], decided: &Value) {
    let count = |name: &str| votes.iter().filter(|vote| **vote == name).count();
    println!(
        "{quorum:8} | {}-{}-{} | {} missing | {:8} | consensus {:5} | {}",
        count("approve"),
        count("reject"),
        count("abstain"),
        count("silent"),
        decided["result"].as_str().unwrap(),
        decided["consensus"],
        decided["votes"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_39_ten_tallies_with_quorum_all_reach_the_tool() {
    let stage = TriadHarness::new("all", 60_000).await;
    for (votes, result, consensus) in TALLIES {
        let decided = stage.decide(votes).await;
        print("all", votes, &decided);
        check_decision(&decided, votes);
        assert_eq!(decided["missing"], json!([]), "{decided}");
        assert_eq!(
            (&decided["result"], &decided["consensus"]),
            (&json!(result), &json!(consensus)),
            "{votes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_40_ten_majority_tallies_reach_the_tool() {
    let stage = TriadHarness::new("majority", 60_000).await;
    for (votes, result, consensus) in TALLIES {
        let decided = stage.decide(votes).await;
        print("majority", votes, &decided);
        check_decision(&decided, votes);
        assert_eq!(
            (&decided["result"], &decided["consensus"]),
            (&json!(result), &json!(consensus)),
            "{votes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_41_deadline_decides_with_received_votes() {
    let stage = TriadHarness::new("all", 250).await;
    for (votes, result, consensus) in MISSING {
        let decided = stage.decide(votes).await;
        print("all", votes, &decided);
        check_decision(&decided, votes);
        let silent: Vec<&str> = NAMES
            .into_iter()
            .zip(votes)
            .filter(|(_, vote)| *vote == "silent")
            .map(|(name, _)| name)
            .collect();
        assert_eq!(decided["missing"], json!(silent), "{decided}");
        assert_eq!(
            (&decided["result"], &decided["consensus"]),
            (&json!(result), &json!(consensus)),
            "{votes:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_40_two_equal_votes_decide() {
    let stage = TriadHarness::new("majority", 60_000).await;
    for (votes, result) in [
        (["approve", "approve", "silent"], "approved"),
        (["reject", "silent", "reject"], "rejected"),
    ] {
        let decided = stage.decide(votes).await;
        check_decision(&decided, votes);
        assert_eq!(decided["result"], result, "{decided}");
        assert_eq!(decided["missing"].as_array().unwrap().len(), 1, "{decided}");
    }
}
