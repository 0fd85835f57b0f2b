//! Which answers come back, and what they decide.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Agents, answers, group, states, task, works};
use crate::contract::in_process::check_result;
use crate::faults::tool_fixture::{card, reason};
use crate::mcp::Host;
use crate::support::command;

#[tokio::test]
async fn all_answers_come_back_and_one_failure_voids_nothing() {
    let agents = Agents::start(
        [
            ("desk", answers("t1", "one")),
            ("gone", json!({"unreachable": true})),
            ("lab", answers("t2", "two")),
        ],
        json!({}),
    )
    .await;
    let (envelope, updates) = agents
        .fixture
        .call_with_updates(&agents.request(json!({})))
        .await;
    check_result(&envelope);
    assert_eq!(states(&envelope), ["completed", "not_sent", "completed"]);
    let shown = group(&envelope);
    assert_eq!(shown["decided_by"], "all");
    assert_eq!(
        shown["missing"],
        json!([{"target_alias": "gone", "reason": "not_sent"}])
    );
    assert_eq!(shown["results"][2]["summary"]["message_text"], "two");
    assert!(shown["results"][1]["error"]["reason"].is_string());
    // Every id stands in the first update, and each target has its own.
    let first = &updates[0]["summary"];
    let ids = |group: &Value| -> Vec<String> {
        let results = group["results"].as_array().unwrap();
        results
            .iter()
            .map(|result| result["message_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(first["group"]["id"], shown["id"]);
    assert_eq!(ids(&first["group"]), ids(shown));
    let mut unique = ids(shown);
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 3);
    let sent = agents.peers.log("desk");
    let mut sent = sent.iter().filter_map(|request| request.body.as_ref());
    let sent = sent
        .find(|body| body["method"] == "message/stream")
        .unwrap();
    let sent = &sent["params"]["message"];
    assert_eq!(sent["messageId"], ids(shown)[0].as_str());
    assert!(sent["contextId"].is_null());
}

#[tokio::test]
async fn first_completed_task_ends_the_others_at_their_agents() {
    let mut late = answers("t2", "late");
    late["rpc"]["message/stream"]["end"] = json!("hang");
    late["rpc"]["message/stream"]["sse"] = json!([{"result": task("t2", "working", "")}]);
    let agents = Agents::start(
        [
            ("slow", works("t1")),
            ("late", late),
            ("silent", json!({"card": card(), "rpc": {"message/stream": {"delay_ms": 60_000, "json": {}}}})),
            ("failing", answers("t4", "")),
            ("fast", {
                let mut fast = answers("t3", "here");
                fast["rpc"]["message/stream"]["delay_ms"] = json!(3000);
                fast
            }),
        ],
        json!({}),
    )
    .await;
    let envelope = agents
        .send(json!({"mode": "first", "timeout_ms": 40_000, "target_aliases": ["slow", "late", "silent", "fast"]}))
        .await;
    let shown = group(&envelope);
    assert_eq!(
        (&shown["decided_by"], &shown["winner"]),
        (&json!("first"), &json!("fast"))
    );
    let canceled: Vec<&Value> = shown["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["canceled"])
        .collect();
    assert_eq!(
        canceled,
        [
            &json!("canceled"),
            &json!("not_cancelable"),
            &json!("unknown"),
            &Value::Null
        ]
    );
    assert_eq!(agents.count("slow", "tasks/cancel"), 1);
    assert_eq!(states(&envelope)[0], "canceled");
    let text = agents.fixture.plugin.render(&envelope.to_string());
    assert!(
        text.starts_with("send: 1 of 4 agents answered, mode first; decided by first\n"),
        "{text}"
    );
    let place = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words} in {text}"))
    };
    assert!(place("here") < place("agent: slow: canceled"), "{text}");
    assert!(!text.contains("canceled, cancelled"), "{text}");
}

#[tokio::test]
async fn failed_task_does_not_win() {
    let failed = json!({"card": card(), "rpc": {"message/stream": {"sse": [{"result": task("t1", "failed", "no")}]}}});
    let mut fine = answers("t2", "yes");
    fine["rpc"]["message/stream"]["delay_ms"] = json!(3000);
    let agents = Agents::start([("bad", failed), ("good", fine)], json!({})).await;
    let envelope = agents.send(json!({"mode": "first"})).await;
    assert_eq!(group(&envelope)["winner"], "good");
    assert_eq!(states(&envelope), ["failed", "completed"]);
}

#[tokio::test]
async fn vote_counts_only_the_choices() {
    let vote = |texts: [&'static str; 4], more: Value| async move {
        let [a, b, c, d] = texts;
        let agents = Agents::start(
            [
                ("a", answers("t1", a)),
                ("b", answers("t2", b)),
                ("c", answers("t3", c)),
                ("d", answers("t4", d)),
            ],
            json!({}),
        )
        .await;
        let mut request = json!({"mode": "vote", "choices": ["yes", "no"]});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let envelope = agents.send(request).await;
        let shown = group(&envelope);
        (
            shown["decided_by"].clone(),
            shown["winner"].clone(),
            shown["votes"].clone(),
        )
    };
    let (by, winner, votes) = vote(["yes", " YES\n", "no", "Yes"], json!({})).await;
    assert_eq!((by, winner), (json!("quorum"), json!("yes")));
    assert_eq!(votes[0]["votes"], 3);
    // No majority, and answers outside the choices.
    let (by, winner, votes) = vote(["yes", "no", "yes, I think", "no way"], json!({})).await;
    assert_eq!((by, winner), (json!("none"), Value::Null));
    assert_eq!(votes[0]["votes"], 1);
    // Two choices with as many votes each.
    let (by, ..) = vote(["yes", "no", "no", "yes"], json!({"quorum": 2})).await;
    assert_eq!(by, "none");
    let (by, winner, _) = vote(["yes", "no", "maybe", "yes"], json!({"quorum": 2})).await;
    assert_eq!((by, winner), (json!("quorum"), json!("yes")));
}

#[tokio::test]
async fn vote_reads_a_data_part_at_the_pointer() {
    let data = |id: &str, parts: Value| {
        let mut done = task(id, "completed", "see data");
        done["artifacts"][0]["parts"] = parts;
        json!({"card": card(), "rpc": {"message/stream": {"sse": [{"result": done}]}}})
    };
    let part = |value: Value| json!({"kind": "data", "data": {"verdict": {"value": value}}});
    let agents = Agents::start(
        [
            ("a", data("t1", json!([part(json!(true))]))),
            ("b", data("t2", json!([part(json!("true"))]))),
            // It lies twice.
            (
                "c",
                data("t3", json!([part(json!(true)), part(json!(false))])),
            ),
        ],
        json!({}),
    )
    .await;
    let envelope = agents
        .send(json!({"mode": "vote", "choice_pointer": "/verdict/value"}))
        .await;
    let shown = group(&envelope);
    assert_eq!(
        (&shown["winner"], &shown["votes"][0]["votes"]),
        (&json!("true"), &json!(2))
    );
    assert!(shown["results"][2]["vote"].is_null());
}

#[tokio::test]
async fn decided_vote_cancels_those_that_still_work() {
    let later = |id: &str| {
        let mut later = answers(id, "yes");
        later["rpc"]["message/stream"]["delay_ms"] = json!(3000);
        later
    };
    let agents = Agents::start(
        [("a", later("t1")), ("b", later("t2")), ("c", works("t3"))],
        json!({}),
    )
    .await;
    let envelope = agents
        .send(json!({"mode": "vote", "choices": ["yes", "no"], "timeout_ms": 20_000}))
        .await;
    assert_eq!(group(&envelope)["winner"], "yes");
    assert_eq!(group(&envelope)["results"][2]["canceled"], "canceled");
    assert_eq!(agents.count("c", "tasks/cancel"), 1);
}

#[tokio::test]
async fn wrong_requests_are_refused_before_anything_is_sent() {
    let agents = Agents::start(
        [("a", answers("t1", "one")), ("b", answers("t2", "two"))],
        json!({"limits": {"groupTargets": 2}}),
    )
    .await;
    for (more, place) in [
        (json!({"target_aliases": ["a", "a"]}), "/target_aliases"),
        (
            json!({"target_aliases": ["a", "b", "c"]}),
            "/target_aliases/2",
        ),
        (json!({"message_id": "m"}), "/message_id"),
        (json!({"context_id": "c"}), "/context_id"),
        (json!({"target_alias": "a"}), "/target_alias"),
        (json!({"notify": true}), "/notify"),
        (json!({"mode": "any"}), "/mode"),
        (json!({"quorum": 2}), "/quorum"),
        (json!({"mode": "vote", "quorum": 3}), "/quorum"),
        (
            json!({"mode": "vote", "choices": ["yes", "Yes "]}),
            "/choices",
        ),
        (
            json!({"mode": "first", "choice_pointer": "/x"}),
            "/choice_pointer",
        ),
    ] {
        let envelope = agents.send(more.clone()).await;
        assert_eq!(reason(&envelope), "invalid_request", "{more}");
        assert_eq!(envelope["error"]["path"], place, "{more}: {envelope}");
    }
    let mode_alone = json!({"action": "send", "target_alias": "a", "mode": "all", "parts": [{"kind": "text", "text": "x"}]});
    let path = &agents.call(&mode_alone).await["error"]["path"];
    assert_eq!(path, "/target_aliases");
    assert_eq!(agents.peers.log("a").len() + agents.peers.log("b").len(), 0);
}

#[tokio::test]
async fn cap_of_the_operator_is_checked_before_the_first_send() {
    let agents = Agents::start(
        [
            ("a", answers("t1", "one")),
            ("b", answers("t2", "two")),
            ("c", answers("t3", "three")),
        ],
        json!({"limits": {"groupTargets": 2}}),
    )
    .await;
    let envelope = agents.send(json!({})).await;
    assert_eq!(envelope["error"]["path"], "/target_aliases");
    assert!(
        envelope.to_string().contains("limits.groupTargets"),
        "{envelope}"
    );
    assert!(
        agents
            .names
            .iter()
            .all(|name| agents.peers.log(name).is_empty())
    );
}

#[tokio::test]
async fn agent_that_asks_is_a_result_with_its_own_continuation() {
    let agents = Agents::start([("a", asks("t1")), ("b", answers("t2", "two"))], json!({})).await;
    let envelope = agents.send(json!({})).await;
    assert_eq!(states(&envelope), ["input-required", "completed"]);
    assert_eq!(group(&envelope)["missing"], json!([]));
    let continuation = &group(&envelope)["results"][0]["summary"]["continuation"];
    let answer = json!({"action": "send", "continuation": continuation, "parts": [{"kind": "text", "text": "This."}]});
    let envelope = agents.call(&answer).await;
    assert_eq!(
        envelope["summary"]["continuation"]["task"]["status"],
        "completed"
    );
}

/// Returns the script of an agent that asks before it completes its task.
fn asks(id: &str) -> Value {
    let mut asking = task(id, "input-required", "");
    asking["status"]["message"] = json!({"kind": "message", "messageId": "q", "role": "agent", "parts": [{"kind": "text", "text": "Which?"}]});
    let asking = json!({"result": asking});
    json!({"card": card(), "rpc": {"message/stream": {"sse": [asking]}, "tasks/get": asking, "tasks/resubscribe": {"sse": [asking]},
        "message/send": {"result": task(id, "completed", "done")}}})
}

/// In MCP 2026-07-28 a question ends a call, and would take the place of the other answers.
#[tokio::test(flavor = "multi_thread")]
async fn question_does_not_replace_the_answers_of_a_group_that_a_handle_names() {
    let agents = Agents::start([("a", asks("t1")), ("b", answers("t2", "two"))], json!({})).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agents.json");
    let mut config = agents.config.clone();
    for target in config["targets"].as_array_mut().unwrap() {
        target["answers"] = json!("person");
    }
    std::fs::write(&file, config.to_string()).unwrap();
    let request = agents.request(json!({}));
    let calls = move || {
        let mut start = Command::new(command());
        start.arg("mcp").arg("--config").arg(&file);
        start.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut host = Host::of(&mut start);
        let mut call = |arguments: &Value| {
            let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "support", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
            let params = json!({"name": "remote_agent", "arguments": arguments, "_meta": meta});
            host.request("tools/call", params)["result"].take()
        };
        let envelope = |result: &Value| result["_meta"]["dev.remote-agent/envelope"].clone();
        let sent = envelope(&call(&request));
        assert_eq!(states(&sent), ["input-required", "completed"]);
        let watch = json!({"action": "watch", "task_handle": group(&sent)["id"]});
        let watched = envelope(&call(&watch));
        assert_eq!(states(&watched), ["input-required", "completed"]);
        // The agent alone gets its answer from the person.
        let alone = &group(&sent)["results"][0]["summary"]["continuation"];
        let asked = call(&json!({"action": "watch", "continuation": alone}));
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        host.end();
    };
    tokio::task::spawn_blocking(calls).await.unwrap();
}

#[tokio::test]
async fn update_has_the_answer_that_is_new_if_the_request_asks_for_updates() {
    let scripts = [("a", answers("t1", "one")), ("b", answers("t2", "two"))];
    let agents = Agents::start(scripts, json!({})).await;
    for (more, expected) in [(json!({"follow_updates": true}), 1), (json!({}), 0)] {
        let request = agents.request(more);
        let (_, updates) = agents.fixture.call_with_updates(&request).await;
        updates.iter().for_each(check_result);
        for place in [0, 1] {
            let has_answer =
                |update: &&Value| group(update)["results"][place]["summary"].is_object();
            let count = updates.iter().filter(has_answer).count();
            assert_eq!(count, expected, "{request} {updates:?}");
        }
    }
}
