//! Targets that fail, callers that go away, restarts and limits.

use openclaw_remote_agent::plugin::CallInput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Agents, answers, group, states, works};
use crate::contract::in_process::check_result;
use crate::faults::tool_fixture::{ToolFixture, card, parse, reason, within_timeout};

#[tokio::test]
async fn hanging_lying_and_flooding_targets_leave_the_rest_whole() {
    let flood = json!({"card": card(), "rpc": {"message/stream": {"sse": [
        {"result": super::task("t9", "working", "")}, {"repeat": {"from": 0, "each":
            {"result": {"kind": "artifact-update", "taskId": "t9", "contextId": "c", "append": true,
                "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x".repeat(2000)}]}}}}}]}}});
    let lie = |reply: Value| json!({"card": card(), "rpc": {"message/stream": reply}});
    let lies = [
        lie(json!({"body": "not JSON"})),
        lie(json!({"sse": [{"result": {"kind": "task", "id": 7}}]})),
        lie(json!({"json": {"jsonrpc": "2.0", "id": "other", "result": {}}})),
    ];
    // Of those that hang, four accept the message.
    let hangs = |i: usize| match i {
        0..3 => json!({"accept_only": true}),
        i => works(&format!("hangs{i}")),
    };
    let answer = |i: usize| answers(&format!("t{i}"), &format!("answer {i}."));
    let named = |kind: &str, scripts: Vec<Value>| {
        let scripts = scripts.into_iter().enumerate();
        let scripts: Vec<_> = scripts
            .map(|(i, script)| (format!("{kind}{i}"), script))
            .collect();
        scripts
    };
    let kinds = [
        named("flood", vec![flood]),
        named("lie", lies.into()),
        named("hang", (0..7).map(hangs).collect()),
        named("good", (0..9).map(answer).collect()),
    ];
    let config = json!({"limits": {"responseBytes": 4 << 20, "groupTargets": 20}});
    let agents = Agents::start(kinds.concat(), config).await;
    let envelope = within_timeout(agents.send(json!({"timeout_ms": 10_000}))).await;
    let results = group(&envelope)["results"].as_array().unwrap();
    assert_eq!(results.len(), 20);
    let state = |kind: &str| -> Vec<&str> {
        let of_kind = results
            .iter()
            .filter(|result| result["target_alias"].as_str().unwrap().starts_with(kind));
        of_kind
            .map(|result| result["state"].as_str().unwrap())
            .collect()
    };
    assert_eq!(state("good"), ["completed"; 9], "{envelope}");
    for kind in ["flood", "lie", "hang"] {
        assert!(!state(kind).contains(&"completed"), "{envelope}");
    }
    let missing = group(&envelope)["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 11, "{missing:?}");
    assert!(envelope.to_string().len() < 8 << 20);
    assert_eq!(envelope["summary"]["wait_expired"], true);
    let text = agents.fixture.plugin.render(&envelope.to_string());
    assert!(text.chars().count() <= 12_000);
    for i in 0..9 {
        assert!(text.contains(&format!("answer {i}.")), "{text}");
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
    let request = |action: &str, ms: u64| json!({"action": action, "continuation": continuation, "timeout_ms": ms});
    let watched = other.call(&request("watch", 3000)).await;
    check_result(&watched);
    assert_eq!(states(&watched), ["working", "working"]);
    let canceled = other.call(&request("cancel", 20_000)).await;
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
        .send(json!({"timeout_ms": 3000, "target_aliases": ["a", "b"]}))
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
async fn continuation_calls_each_target_once_and_no_more_than_the_operator_allows() {
    let agents = Agents::start(
        [("a", works("t1")), ("b", works("t2")), ("c", works("t3"))],
        json!({}),
    )
    .await;
    let envelope = agents.send(json!({"timeout_ms": 3000})).await;
    let group = &envelope["summary"]["continuation"]["group"];
    let asked = |names: &[&str]| -> usize {
        let asked = names.iter().map(|name| agents.count(name, "tasks/get"));
        asked.sum()
    };
    let before = asked(&["a", "b", "c"]);
    let mut twice = group.clone();
    twice["members"][2] = group["members"][0].clone();
    // Without its alias it is the same target, and so it is with other transports.
    let target = twice["members"][2]["target"].as_object_mut().unwrap();
    target.remove("target_alias");
    target["preferred_transports"] = json!(["HTTP+JSON"]);
    let request = json!({"action": "status", "continuation": {"group": twice}});
    let refused = agents.call(&request).await;
    assert_eq!(reason(&refused), "invalid_request");
    assert!(refused.to_string().contains("names a target twice"));
    let mut config = agents.config.clone();
    config["limits"] = json!({"groupTargets": 2});
    let request = json!({"action": "status", "continuation": {"group": group}});
    let refused = ToolFixture::new(&config).call(&request).await;
    assert_eq!(refused["error"]["path"], "/continuation/group");
    assert!(refused.to_string().contains("limits.groupTargets"));
    assert_eq!(asked(&["a", "b", "c"]), before);
}

#[tokio::test]
async fn group_shows_an_agent_nothing_of_targets_that_it_may_not_use() {
    let agents = Agents::start(
        [("a", answers("t1", "one")), ("b", answers("t2", "two"))],
        json!({}),
    )
    .await;
    let mut config = agents.config.clone();
    config["targets"][1]["allowedAgents"] = json!(["main"]);
    let fixture = ToolFixture::new(&config);
    let call = async |agent: &str, request: &Value| {
        let input = CallInput {
            request: request.to_string(),
            caller: Some(json!({"agent_id": agent}).to_string()),
            ..CallInput::default()
        };
        parse(&within_timeout(fixture.plugin.start(input)).await)
    };
    let sent = call("main", &agents.request(json!({}))).await;
    assert_eq!(states(&sent), ["completed", "completed"]);
    let continuation = &sent["summary"]["continuation"];
    for request in [
        json!({"action": "status", "task_handle": continuation["group"]["id"]}),
        json!({"action": "status", "continuation": continuation}),
    ] {
        assert_eq!(states(&call("main", &request).await), ["completed"; 2]);
        let refused = call("other", &request).await;
        assert_eq!(reason(&refused), "agent_not_allowed");
        for secret in ["t1", "t2", agents.peers.origin("b")] {
            assert!(!refused.to_string().contains(secret), "{refused}");
        }
    }
}

#[tokio::test]
async fn continuation_adds_no_group_and_replaces_none() {
    let agents = Agents::start([("a", works("t1")), ("b", works("t2"))], json!({})).await;
    let envelope = agents.send(json!({"timeout_ms": 3000})).await;
    let continuation = &envelope["summary"]["continuation"];
    let by_handle = json!({"action": "status", "task_handle": continuation["group"]["id"]});
    let other = ToolFixture::new(&agents.config);
    let status = json!({"action": "status", "continuation": continuation});
    assert_eq!(states(&other.call(&status).await), ["working", "working"]);
    assert_eq!(reason(&other.call(&by_handle).await), "unknown_handle");
    let mut forged = continuation.clone();
    forged["group"]["members"][1]["message_id"] = json!("m");
    forged["group"]["members"][0]["task"]["task_id"] = json!("t9");
    agents
        .call(&json!({"action": "status", "continuation": forged}))
        .await;
    let known = agents.call(&by_handle).await;
    assert_eq!(
        known["summary"]["continuation"]["group"]["members"],
        continuation["group"]["members"]
    );
    // A cancellation is remembered.
    agents
        .call(&json!({"action": "cancel", "continuation": continuation}))
        .await;
    let update = agents.fixture.call_with_updates(&by_handle).await.1;
    assert_eq!(states(&update[0]), ["canceled", "canceled"]);
    let mut long = continuation.clone();
    long["group"]["winner"] = "w".repeat(256 << 10).into();
    let refused = agents
        .call(&json!({"action": "status", "continuation": long}))
        .await;
    assert_eq!(reason(&refused), "invalid_request");
    assert!(refused.to_string().contains("256 KiB"), "{refused}");
}

#[tokio::test]
async fn cancelled_group_shows_the_tasks_that_ended_before() {
    let meanwhile = |id: &str| {
        let mut script = answers(id, "done");
        let working = json!({"result": super::task(id, "working", "")});
        script["rpc"]["message/send"] = working.clone();
        script["rpc"]["message/stream"] = json!({"sse": [working]});
        script
    };
    let scripts = [("a", meanwhile("t1")), ("b", meanwhile("t2"))];
    let agents = Agents::start(scripts, json!({})).await;
    let sent = agents.send(json!({})).await;
    let mut continuation = sent["summary"]["continuation"].clone();
    for member in continuation["group"]["members"].as_array_mut().unwrap() {
        member["state"] = "working".into();
        member["task"]["status"] = "working".into();
        member["task"]["can_cancel"] = true.into();
    }
    let request = json!({"action": "cancel", "continuation": continuation, "timeout_ms": 20_000});
    let canceled = agents.call(&request).await;
    assert_eq!(states(&canceled), ["completed", "completed"]);
    assert_eq!(group(&canceled)["results"][0]["canceled"], "not_cancelable");
    assert_eq!(group(&canceled)["decided_by"], "all");
    assert_eq!(canceled["summary"]["next_step"], Value::Null);
    assert_eq!(agents.count("a", "tasks/cancel"), 1);
}

#[tokio::test]
async fn fifty_groups_complete_under_the_limits() {
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
async fn task_that_its_agent_has_forgotten_is_not_waited_for() {
    let gone = json!({"error": {"code": -32001, "message": "no such task"}});
    let mut forgets = works("t1");
    forgets["rpc"]["tasks/get"] = gone.clone();
    forgets["rpc"]["tasks/resubscribe"] = gone;
    let agents = Agents::start([("a", forgets), ("b", answers("t2", "two"))], json!({})).await;
    let envelope = agents.send(json!({"timeout_ms": 3000})).await;
    let continuation = &envelope["summary"]["continuation"];
    for action in ["watch", "status"] {
        let request = json!({"action": action, "continuation": continuation, "timeout_ms": 20_000});
        let envelope = ToolFixture::new(&agents.config).call(&request).await;
        check_result(&envelope);
        assert_eq!(states(&envelope), ["forgotten", "completed"], "{envelope}");
        let missing = json!([{"target_alias": "a", "reason": "forgotten"}]);
        assert_eq!(group(&envelope)["missing"], missing);
        assert_eq!(group(&envelope)["decided_by"], "all");
        let summary = &envelope["summary"];
        assert!(summary["next_step"].is_null() && summary["wait_expired"].is_null());
        assert_eq!(
            group(&envelope)["results"][0]["error"]["reason"],
            "rpc_error"
        );
    }
}

#[tokio::test]
async fn group_outlives_the_handles_of_its_members() {
    let config = json!({"taskHandles": {"ttlMs": 1}});
    let agents = Agents::start([("a", works("t1")), ("b", answers("t2", "two"))], config).await;
    let envelope = agents.send(json!({"timeout_ms": 3000})).await;
    let group_of = &envelope["summary"]["continuation"]["group"];
    let handle = &group_of["members"][0]["task"]["task_handle"];
    let expired = agents
        .call(&json!({"action": "status", "task_handle": handle}))
        .await;
    assert_eq!(reason(&expired), "expired_handle");
    for request in [
        json!({"action": "status", "task_handle": group_of["id"]}),
        json!({"action": "status", "continuation": {"group": group_of}}),
        json!({"action": "watch", "continuation": {"group": group_of}, "timeout_ms": 2000}),
    ] {
        let envelope = agents.call(&request).await;
        assert_eq!(states(&envelope), ["working", "completed"], "{envelope}");
        let missing = json!([{"target_alias": "a", "reason": "working"}]);
        assert_eq!(group(&envelope)["missing"], missing);
        assert_eq!(
            group(&envelope)["results"][1]["summary"]["message_text"],
            "two"
        );
    }
}
