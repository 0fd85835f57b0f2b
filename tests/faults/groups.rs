//! One message to several targets.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::contract::in_process::check_result;
use crate::faults::tool_fixture::{ToolFixture, card, peers, reason, within_timeout};

/// Returns the task of an agent, with this text as an artifact.
fn task(id: &str, state: &str, text: &str) -> Value {
    let mut task = json!({"kind": "task", "id": id, "contextId": format!("c-{id}"), "status": {"state": state}});
    if !text.is_empty() {
        task["artifacts"] = json!([{"artifactId": "a", "parts": [{"kind": "text", "text": text}]}]);
    }
    task
}

/// Returns the script of an agent that completes its task with this text.
fn answers(id: &str, text: &str) -> Value {
    let done = json!({"result": task(id, "completed", text)});
    json!({"card": card(), "rpc": {"message/stream": {"sse": [done]}, "tasks/get": done,
        "tasks/cancel": {"error": {"code": -32002, "message": "too late"}}}})
}

/// Returns the script of an agent whose task goes on until it is cancelled.
fn works(id: &str) -> Value {
    let working = json!({"result": task(id, "working", "")});
    json!({"card": card(), "rpc": {"message/stream": {"sse": [working], "end": "hang"},
        "tasks/resubscribe": {"sse": [working], "end": "hang"}, "tasks/get": working,
        "tasks/cancel": {"result": task(id, "canceled", "")}}})
}

/// Agents of these names, and the tool with them as targets.
struct Agents {
    peers: Peers,
    fixture: ToolFixture,
    names: Vec<String>,
    config: Value,
}

impl Agents {
    async fn start<const N: usize>(scripts: [(&str, Value); N], more: Value) -> Self {
        let names: Vec<String> = scripts.iter().map(|(name, _)| (*name).to_owned()).collect();
        let scripts: Map<String, Value> = scripts
            .into_iter()
            .map(|(name, script)| (name.to_owned(), script))
            .collect();
        let peers = peers(Value::Object(scripts)).await;
        let targets: Vec<Value> = names
            .iter()
            .map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}))
            .collect();
        let mut config = more;
        config["targets"] = targets.into();
        Self {
            fixture: ToolFixture::new(&config),
            peers,
            names,
            config,
        }
    }

    /// Returns a message to all, with further fields.
    fn request(&self, more: Value) -> Value {
        let mut request = json!({"action": "send", "target_aliases": self.names, "timeout_ms": 2000,
            "parts": [{"kind": "text", "text": "hello"}]});
        let fields = request.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        request
    }

    async fn send(&self, more: Value) -> Value {
        self.call(&self.request(more)).await
    }

    async fn call(&self, request: &Value) -> Value {
        let (envelope, updates) = self.fixture.call_with_updates(request).await;
        updates.iter().for_each(check_result);
        check_result(&envelope);
        envelope
    }

    /// Returns how often an agent received a JSON-RPC method.
    fn count(&self, name: &str, method: &str) -> usize {
        let log = self.peers.log(name);
        log.iter()
            .filter(|request| {
                request
                    .body
                    .as_ref()
                    .is_some_and(|body| body["method"] == method)
            })
            .count()
    }
}

fn group(envelope: &Value) -> &Value {
    &envelope["summary"]["group"]
}

fn states(envelope: &Value) -> Vec<&str> {
    let results = group(envelope)["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| result["state"].as_str().unwrap())
        .collect()
}

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
                fast["rpc"]["message/stream"]["delay_ms"] = json!(300);
                fast
            }),
        ],
        json!({}),
    )
    .await;
    let began = Instant::now();
    let envelope = agents
        .send(json!({"mode": "first", "timeout_ms": 20_000, "target_aliases": ["slow", "late", "silent", "fast"]}))
        .await;
    assert!(began.elapsed() < Duration::from_secs(10));
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
    assert!(
        place("here") < place("agent: slow: canceled, cancelled"),
        "{text}"
    );
}

#[tokio::test]
async fn failed_task_does_not_win() {
    let failed = json!({"card": card(), "rpc": {"message/stream": {"sse": [{"result": task("t1", "failed", "no")}]}}});
    let mut fine = answers("t2", "yes");
    fine["rpc"]["message/stream"]["delay_ms"] = json!(200);
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
        later["rpc"]["message/stream"]["delay_ms"] = json!(500);
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
async fn hanging_lying_and_flooding_targets_leave_the_rest_whole() {
    let flood = json!({"card": card(), "rpc": {"message/stream": {"sse": [
        {"result": task("t9", "working", "")}, {"repeat": {"from": 0, "each":
            {"result": {"kind": "artifact-update", "taskId": "t9", "contextId": "c", "append": true,
                "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x".repeat(2000)}]}}}}}]}}});
    let lie = |reply: Value| json!({"card": card(), "rpc": {"message/stream": reply}});
    let hang = || json!({"accept_only": true});
    let agents = Agents::start(
        [
            ("a", answers("t1", "one")),
            ("b", answers("t2", "two")),
            ("flood", flood),
            ("lie1", lie(json!({"body": "not JSON"}))),
            (
                "lie2",
                lie(json!({"sse": [{"result": {"kind": "task", "id": 7}}]})),
            ),
            (
                "lie3",
                lie(json!({"json": {"jsonrpc": "2.0", "id": "other", "result": {}}})),
            ),
            ("h1", hang()),
            ("h2", hang()),
            ("h3", works("t3")),
            ("c", answers("t4", "three")),
        ],
        json!({"limits": {"responseBytes": 4 << 20}}),
    )
    .await;
    let began = Instant::now();
    let envelope = agents.send(json!({"timeout_ms": 1500})).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let answered: Vec<&str> = group(&envelope)["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|result| result["state"] == "completed")
        .map(|result| result["target_alias"].as_str().unwrap())
        .collect();
    assert_eq!(answered, ["a", "b", "c"]);
    assert!(envelope.to_string().len() < 8 << 20);
    let missing = group(&envelope)["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 7, "{missing:?}");
    assert_eq!(envelope["summary"]["wait_expired"], true);
    let text = agents.fixture.plugin.render(&envelope.to_string());
    assert!(text.chars().count() <= 12_000);
    for word in ["one", "two", "three"] {
        assert!(text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn cancelled_group_names_its_tasks_and_a_new_process_goes_on() {
    let agents = Agents::start([("a", works("t1")), ("b", works("t2"))], json!({})).await;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let stops = move |update: Value| {
        let members = update["summary"]["continuation"]["group"]["members"].clone();
        let all = members.as_array().unwrap().iter();
        if all.clone().all(|member| member["task"].is_object()) {
            stop.cancel();
        }
    };
    let request = agents.request(json!({"timeout_ms": 60_000}));
    let envelope = within_timeout(agents.fixture.start(&request, &cancel, stops)).await;
    check_result(&envelope);
    assert_eq!(reason(&envelope), "aborted");
    let details = &envelope["error"]["details"];
    let continuation = &details["latest_event_summary"]["continuation"];
    assert_eq!(details["delivered"], "yes");
    // Another process has nothing but the continuation.
    let other = ToolFixture::new(&agents.config);
    let request =
        |action: &str| json!({"action": action, "continuation": continuation, "timeout_ms": 1000});
    let watched = other.call(&request("watch")).await;
    check_result(&watched);
    assert_eq!(states(&watched), ["working", "working"]);
    let canceled = other.call(&request("cancel")).await;
    check_result(&canceled);
    assert_eq!(states(&canceled), ["canceled", "canceled"]);
    assert_eq!(group(&canceled)["results"][0]["canceled"], "canceled");
    for name in ["a", "b"] {
        assert_eq!(agents.count(name, "message/stream"), 1);
    }
    // The handle of the group serves in the process that issued it.
    let id = &continuation["group"]["id"];
    let status = json!({"action": "status", "task_handle": id});
    assert_eq!(states(&agents.call(&status).await), ["working", "working"]);
    assert_eq!(reason(&other.call(&json!({"action": "status", "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0"})).await), "unknown_handle");
    let refused = agents
        .call(
            &json!({"action": "send", "task_handle": id, "parts": [{"kind": "text", "text": "x"}]}),
        )
        .await;
    assert_eq!(refused["error"]["path"], "/continuation");
}

#[tokio::test]
async fn nothing_is_sent_again_after_a_restart_in_the_middle() {
    let agents = Agents::start(
        [
            ("a", answers("t1", "one")),
            ("b", works("t2")),
            ("c", answers("t3", "x")),
        ],
        json!({}),
    )
    .await;
    let envelope = agents
        .send(json!({"timeout_ms": 500, "target_aliases": ["a", "b"]}))
        .await;
    let mut continuation = envelope["summary"]["continuation"].clone();
    // As an update had it before the third message left.
    let mut third = continuation["group"]["members"][0].clone();
    third["target"]["target_url"] = json!(agents.peers.origin("c"));
    third["target"]["target_alias"] = json!("c");
    third["state"] = json!("pending");
    third
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !matches!(name.as_str(), "task" | "conversation"));
    continuation["group"]["members"]
        .as_array_mut()
        .unwrap()
        .push(third);
    let other = ToolFixture::new(&agents.config);
    let status = other
        .call(&json!({"action": "status", "continuation": continuation}))
        .await;
    check_result(&status);
    assert_eq!(states(&status), ["completed", "working", "unknown"]);
    assert_eq!(
        group(&status)["results"][0]["summary"]["message_text"],
        "one"
    );
    assert_eq!(
        group(&status)["missing"],
        json!([{"target_alias": "b", "reason": "working"}, {"target_alias": "c", "reason": "unknown"}])
    );
    assert!(agents.peers.log("c").is_empty());
}

#[tokio::test]
async fn forged_continuations_are_refused() {
    let agents = Agents::start([("a", answers("t1", "one"))], json!({})).await;
    let envelope = agents.send(json!({})).await;
    let good = envelope["summary"]["continuation"]["group"].clone();
    let member = good["members"][0].clone();
    let with = |name: &str, value: Value| {
        let mut forged = good.clone();
        forged[name] = value;
        forged
    };
    for forged in [
        json!({}),
        with("members", json!([])),
        with("members", vec![member.clone(); 21].into()),
        with("id", json!("rah_1")),
        with("more", json!(1)),
        with("mode", json!("any")),
    ] {
        let request = json!({"action": "watch", "continuation": {"group": forged}});
        let envelope = agents.call(&request).await;
        assert_eq!(reason(&envelope), "invalid_request", "{request}");
    }
    // A target that no operator has configured.
    let mut elsewhere = good.clone();
    elsewhere["members"][0]["target"]["target_url"] = json!("http://192.0.2.1/");
    elsewhere["members"][0]["task"] = json!({"task_id": "t1"});
    let request = json!({"action": "status", "continuation": {"group": elsewhere}});
    let envelope = agents.call(&request).await;
    assert_eq!(
        group(&envelope)["results"][0]["error"]["reason"],
        "target_not_allowed"
    );
}

#[tokio::test]
async fn fifty_groups_stay_within_the_limits() {
    let agents = Agents::start(
        [
            ("a", answers("t1", "one")),
            ("b", answers("t2", "two")),
            ("c", answers("t3", "three")),
        ],
        json!({"limits": {"concurrency": 8, "concurrencyPerTarget": 4}}),
    )
    .await;
    let request = agents.request(json!({"timeout_ms": 50_000}));
    let token = CancellationToken::new();
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(agents.fixture.start(&request, &token, |_| ())))
        .collect();
    for call in calls {
        let envelope = within_timeout(call).await.unwrap();
        assert_eq!(states(&envelope), ["completed"; 3]);
    }
    assert_eq!(agents.count("a", "message/stream"), 50);
}

#[tokio::test]
async fn each_message_takes_its_share_of_a_budget() {
    let directory = tempfile::tempdir().unwrap();
    let agents = Agents::start(
        [
            ("a", answers("t1", "one")),
            ("b", answers("t2", "two")),
            ("c", answers("t3", "three")),
        ],
        json!({"budget": {"path": directory.path().join("budget.json"), "total": {"calls": 2}}}),
    )
    .await;
    let envelope = agents.send(json!({})).await;
    let mut all = states(&envelope);
    all.sort_unstable();
    assert_eq!(all, ["completed", "completed", "not_sent"], "{envelope}");
}

#[tokio::test]
async fn agent_that_asks_is_a_result_with_its_own_continuation() {
    let mut asking = task("t1", "input-required", "");
    asking["status"]["message"] = json!({"kind": "message", "messageId": "q", "role": "agent", "parts": [{"kind": "text", "text": "Which?"}]});
    let ask = json!({"card": card(), "rpc": {"message/stream": {"sse": [{"result": asking}]}, "message/send": {"result": task("t1", "completed", "done")}}});
    let agents = Agents::start([("a", ask), ("b", answers("t2", "two"))], json!({})).await;
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
