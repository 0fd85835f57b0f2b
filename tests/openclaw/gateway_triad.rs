//! Three real agents that vote.

use serde_json::{Value, json};

use crate::{
    Behind,
    gateway_rig::{send, state, with},
};

type Test = (&'static str, fn(&Behind));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&Behind))),*] };
}

/// In the order they run in.
pub const TESTS: &[Test] = tests![
    three_agents_vote_and_the_decision_is_the_artifact
    an_answer_that_is_no_vote_is_asked_for_once_more
    a_member_that_takes_too_long_is_missing_and_its_run_is_stopped
    a_vote_that_is_canceled_is_over
];

fn decision(envelope: &Value) -> &Value {
    let parts = envelope["summary"]["artifacts"][0]["parts"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("no decision in {envelope:#}"));
    &parts.iter().find(|part| part["kind"] == "data").unwrap()["data"]
}

fn three_agents_vote_and_the_decision_is_the_artifact(behind: &Behind) {
    let tool = behind.another(json!({"triad": {"members": ["alpha", "beta", "charlie"], "deadlineMs": 60_000, "quorum": "all"}}));
    let proposal = "Move the backups to the new disk. (alpha:approve beta:reject charlie:approve)";
    let running = tool.begin(with(send("triad", proposal), "follow_updates", json!(true)));
    let updates = running.updates.clone();
    let envelope = running.envelope();
    assert_eq!(state(&envelope), "completed", "{envelope:#}");
    for update in updates.all(|_| true) {
        println!(
            "update: {}",
            update["raw"]["status"]["message"]["parts"][0]["text"]
        );
    }
    println!("decision: {:#}", envelope["summary"]["artifacts"]);
    let decided = decision(&envelope);
    assert_eq!(
        (
            &decided["result"],
            &decided["consensus"],
            &decided["votes"],
            &decided["missing"]
        ),
        (
            &json!("approved"),
            &json!(true),
            &json!({"alpha": "approve", "beta": "reject", "charlie": "approve"}),
            &json!([])
        )
    );
    let reported = |text: &str| {
        !updates
            .all(|update| update.to_string().contains(text))
            .is_empty()
    };
    assert!(
        reported("beta votes reject (confidence 0.8): My script says reject."),
        "{:#?}",
        updates.all(|_| true)
    );
    // Status and watch work as long as this process remembers.
    let id = &envelope["summary"]["continuation"]["task"]["task_id"];
    for action in ["status", "watch"] {
        let again =
            tool.good(json!({"action": action, "target_alias": "gateway:triad", "task_id": id}));
        assert_eq!(decision(&again), decided, "{action}");
    }
    let elsewhere = behind.another(json!({}));
    let forgotten =
        elsewhere.call(json!({"action": "status", "target_alias": "gateway:triad", "task_id": id}));
    assert_eq!(
        forgotten["error"]["reason"], "task_forgotten",
        "{forgotten:#}"
    );
}

fn an_answer_that_is_no_vote_is_asked_for_once_more(behind: &Behind) {
    let envelope = behind.tool.good(send(
        "triad",
        "Paint it blue. (alpha:nonsense beta:reject charlie:approve)",
    ));
    assert_eq!(
        decision(&envelope)["votes"]["alpha"],
        "approve",
        "{envelope:#}"
    );
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope:#}");
}

fn a_member_that_takes_too_long_is_missing_and_its_run_is_stopped(behind: &Behind) {
    let envelope = behind.tool.good(send(
        "triad",
        "Paint it green. (alpha:reject beta:reject charlie:sleep)",
    ));
    let decided = decision(&envelope);
    assert_eq!(
        (&decided["result"], &decided["missing"]),
        (&json!("rejected"), &json!(["charlie"])),
        "{envelope:#}"
    );
    // The gateway tells that charlie has nothing to do any more; it is asked until it says so.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let listed = behind.tool.good(json!({"action": "list_targets"}));
        let targets = listed["summary"]["targets"].as_array().unwrap();
        let charlie = targets
            .iter()
            .find(|target| target["target_alias"] == "gateway:charlie")
            .unwrap();
        if charlie.to_string().contains("idle") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{charlie:#}");
    }
}

fn a_vote_that_is_canceled_is_over(behind: &Behind) {
    let mut proposal = send(
        "triad",
        "Paint it red. (alpha:sleep beta:sleep charlie:sleep)",
    );
    proposal["task_requirement"] = json!("required");
    let begun = behind.tool.good(proposal);
    assert_eq!(state(&begun), "working", "{begun:#}");
    let canceled = behind.tool.good(
        json!({"action": "cancel", "target_alias": "gateway:triad", "task_id": begun["summary"]["continuation"]["task"]["task_id"]}),
    );
    assert_eq!(state(&canceled), "canceled", "{canceled:#}");
}
