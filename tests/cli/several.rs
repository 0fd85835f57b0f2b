//! One message to several agents, on the command line.

use std::{
    fs,
    io::{BufRead as _, BufReader},
};

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::{local_gateway, support::*};

/// Returns the configuration of agents `a`, `b` and `c`, which answer with these texts, and the agents.
async fn three(test: &str, texts: [&str; 3], gateway: Value) -> (String, Peers) {
    let script = |text: &str| {
        let done = task(
            "completed",
            json!({"artifacts": [{"artifactId": "a", "parts": text_parts(text)}]}),
        );
        json!({"card": card(), "rpc": {"message/stream": sse_stream([done.clone()]), "tasks/get": {"result": done}}})
    };
    let [a, b, c] = texts.map(script);
    let peers = Peers::start(&json!({"peers": {"a": a, "b": b, "c": c}}))
        .await
        .unwrap();
    let targets = ["a", "b", "c"].map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}));
    (
        config_file(test, &json!({"targets": targets, "gateway": gateway})),
        peers,
    )
}

#[tokio::test]
async fn agents_of_a_gateway_and_a2a_agents_mix() {
    let gateway = local_gateway::gateway(None).await;
    let settings = json!({"enabled": true, "url": gateway.url()});
    let (config, _peers) = three("several-mix", ["one", "two", "three"], settings).await;
    let rest = ["--target", "a", "--target", "gateway:alpha", "How is it?"];
    let output = run(&[&["send", "--config", &config], &rest[..]].concat()).await;
    assert_exit_code(&output, 0);
    assert_eq!(
        output.stdout,
        "a:\n  one\n\ngateway:alpha:\n  All is well.\n"
    );
}

#[tokio::test]
async fn answer_of_several_parts_is_printed_once() {
    let answer = json!({"kind": "message", "messageId": "m-1", "role": "agent",
        "parts": [{"kind": "text", "text": "hel"}, {"kind": "text", "text": "lo"}, {"kind": "data", "data": 7}]});
    let desk = json!({"card": card(), "rpc": {"message/stream": sse_stream([answer])}});
    let peers = Peers::start(&json!({"peers": {"a": desk.clone(), "b": desk}}))
        .await
        .unwrap();
    let targets = ["a", "b"].map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}));
    let config = config_file("several-parts", &json!({ "targets": targets }));
    let rest = ["--target", "a", "--target", "b", "--follow", "hi"];
    let output = run(&[&["send", "--config", &config], &rest[..]].concat()).await;
    assert_exit_code(&output, 0);
    let mut answers: Vec<_> = output.stdout.trim_end().split("\n\n").collect();
    answers.sort_unstable();
    assert_eq!(answers, ["a:\n  hel\n  lo\n  7", "b:\n  hel\n  lo\n  7"]);
}

#[tokio::test]
async fn vote_is_counted_and_its_group_can_be_read_later() {
    let (config, peers) = three("several-vote", ["yes", "Yes", "no"], json!({})).await;
    let saved = scratch("several-vote-saved")
        .join("vote.json")
        .display()
        .to_string();
    let vote = |quorum: &'static str| {
        [
            "send", "--config", &config, "--target", "a", "--target", "b", "--target", "c",
            "--mode", "vote", "--choice", "yes", "--choice", "no", "--save", &saved, "--quorum",
            quorum, "Ship it?",
        ]
        .map(str::to_owned)
    };
    let run_all = async |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(&args).await
    };
    let output = run_all(&vote("3")).await;
    assert_exit_code(&output, 11);
    assert_contains(
        &output.stderr,
        &["yes: 2 votes", "no: 1 vote\n", "nothing is decided"],
    );
    let output = run_all(&vote("2")).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stderr, &["decided: yes"]);
    let sent = peers.log("a").len();
    let output = run(&["status", "--continuation", &saved, "--json"]).await;
    assert_exit_code(&output, 0);
    let lines = json_lines(&output);
    assert_eq!(lines.last().unwrap()["summary"]["group"]["winner"], "yes");
    let methods = peers.log("a");
    assert!(methods[sent..].iter().all(|request| {
        request
            .body
            .as_ref()
            .is_none_or(|body| body["method"] != "message/stream")
    }));
}

#[tokio::test]
async fn wrong_options_are_named() {
    let (config, peers) = three("several-wrong", ["yes", "no", "no"], json!({})).await;
    for (rest, expected) in [
        (
            &["send", "--target", "a", "--target", "a", "hi"][..],
            "cannot use `--target`",
        ),
        (
            &[
                "send", "--target", "a", "--target", "b", "--mode", "first", "--quorum", "1", "hi",
            ],
            "`--quorum` goes only with `--mode vote`",
        ),
        (
            &[
                "send", "--target", "a", "--target", "b", "--mode", "first", "--choice", "1", "hi",
            ],
            "`--choice` goes only with `--mode vote`",
        ),
        (
            &[
                "send", "--target", "a", "--target", "b", "--mode", "vote", "--choice", "1", "hi",
            ],
            "`--choice` needs at least 2 choices",
        ),
        (&["send", "--target", "a", "--quorum", "1", "hi"], "--mode"),
        (
            &["watch", "--target", "a", "--target", "b", "--task", "t"],
            "takes one `--target`",
        ),
    ] {
        let args = [&rest[..1], &["--config", &config], &rest[1..]].concat();
        let output = run(&args).await;
        assert_exit_code(&output, 2);
        assert_contains(&output.stderr, &[expected]);
    }
    assert!(["a", "b"].iter().all(|name| peers.log(name).is_empty()));
}

#[tokio::test]
async fn files_of_all_agents_are_named_and_saved() {
    let file = |bytes: &str| json!({"kind": "file", "file": {"name": "a.bin", "mimeType": "application/octet-stream", "bytes": bytes}});
    let done = |parts: Value| {
        let done = task(
            "completed",
            json!({"artifacts": [{"artifactId": "same", "parts": parts}]}),
        );
        json!({"card": card(), "rpc": {"message/stream": sse_stream([done.clone()]), "tasks/get": {"result": done}}})
    };
    let mut answer = message("see");
    answer["parts"].as_array_mut().unwrap().push(file("Yg=="));
    let peers = Peers::start(&json!({"peers": {
        "a": done(json!([file("YQ==")])),
        "b": {"card": card(), "rpc": {"message/stream": sse_stream([answer])}},
        "c": done(json!([{"kind": "data", "data": {"n": 1}}])),
    }}))
    .await
    .unwrap();
    let targets = ["a", "b", "c"].map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}));
    let config = config_file("several-files", &json!({ "targets": targets }));
    let directory = scratch("several-files-saved");
    let path = directory.to_str().unwrap();
    let output = run(&[
        "send",
        "--config",
        &config,
        "--target",
        "a",
        "--target",
        "b",
        "--target",
        "c",
        "--save-artifacts",
        path,
        "hi",
    ])
    .await;
    assert_exit_code(&output, 0);
    assert_eq!(
        output.stdout,
        "a:\n  [file: a.bin, application/octet-stream, 1 bytes]\n\n\
         b:\n  see\n  [file: a.bin, application/octet-stream, 1 bytes]\n\n\
         c:\n  {\n    \"n\": 1\n  }\n"
    );
    assert_contains(&output.stderr, &["a.bin (1 bytes)", "a-2.bin (1 bytes)"]);
    let saved = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert_eq!([saved("a.bin"), saved("a-2.bin")], ["a", "b"]);
}

#[tokio::test]
async fn agent_that_asks_is_answered_by_the_printed_command() {
    let asks = task(
        "input-required",
        json!({"status": {"state": "input-required", "message": message("Which colour?")}}),
    );
    let done = task(
        "completed",
        json!({"artifacts": [{"artifactId": "a", "parts": text_parts("done")}]}),
    );
    let script = |task: &Value| json!({"card": card(), "rpc": {"message/stream": sse_stream([task.clone()]), "tasks/get": {"result": task}}});
    let peers = Peers::start(&json!({"peers": {"a": script(&asks), "b": script(&done)}}))
        .await
        .unwrap();
    let targets = ["a", "b"].map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}));
    let config = config_file("several-asks", &json!({ "targets": targets }));
    let output = run(&[
        "send", "--config", &config, "--target", "a", "--target", "b", "Paint it",
    ])
    .await;
    assert_eq!(output.stdout, "a:\n  Which colour?\n\nb:\n  done\n");
    let command =
        format!("\n  remote-agent send --config {config} --target a --task task-1 'YOUR ANSWER'\n");
    assert_contains(&output.stderr, &["a: input-required\n", &command]);
    assert!(!output.stderr.contains("--target b"), "{}", output.stderr);
    let saved = scratch("several-asks-saved").join("group.json");
    let saved = saved.to_str().unwrap();
    let args = ["--config", &config, "--target", "a", "--target", "b"];
    run(&[&["send", "--save", saved, "Paint it"], &args[..]].concat()).await;
    let output = run(&["status", "--continuation", saved]).await;
    assert_eq!(output.stdout, "a:\n  Which colour?\n\nb:\n  done\n");
    let origin = peers.origin("a");
    let command = format!("  remote-agent send --url {origin}/ --task task-1 'YOUR ANSWER'\n");
    assert_contains(&output.stderr, &[&command]);
}

#[tokio::test]
async fn each_answer_is_printed_and_saved_once_it_is_complete() {
    let done = task(
        "completed",
        json!({"artifacts": [{"artifactId": "a", "parts": text_parts("one")}]}),
    );
    let working = json!({"result": task("working", json!({}))});
    let peers = Peers::start(&json!({"peers": {
        "a": {"card": card(), "rpc": {"message/stream": sse_stream([done.clone()]), "tasks/get": {"result": done}}},
        "b": {"card": card(), "rpc": {"message/stream": {"sse": [working], "end": "hang"}, "tasks/get": working}},
    }}))
    .await
    .unwrap();
    let targets = ["a", "b"].map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}));
    let config = config_file("several-follow", &json!({ "targets": targets }));
    let saved = scratch("several-follow-saved").join("group.json");
    let path = saved.to_str().unwrap();
    let args = ["--config", &config, "--target", "a", "--target", "b"];
    let send = [&["send", "--follow", "--save", path, "hi"], &args[..]].concat();
    let mut child = command(&send).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let states = BufReader::new(child.stderr.take().unwrap());
    let lines = tokio::task::spawn_blocking(|| {
        let answer: Vec<String> = output.lines().take(2).map(Result::unwrap).collect();
        // The other agent goes on.
        let mut states = states.lines().map(Result::unwrap);
        (answer, states.any(|line| line == "b: working"))
    });
    let (answer, goes_on) = lines.await.unwrap();
    assert_eq!(answer, ["a:", "  one"]);
    assert!(goes_on);
    let continuation: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(continuation["group"]["members"][0]["state"], "completed");
    child.kill().unwrap();
    child.wait().unwrap();
    let output = run(&["status", "--continuation", path]).await;
    assert_eq!(output.stdout, "a:\n  one\n");
    assert_contains(&output.stderr, &["a: completed\n", "b: working\n"]);
}

#[tokio::test]
async fn followed_answers_are_printed_once_with_the_states_before_them() {
    let (config, _peers) = three("several-once", ["one", "two", "three"], json!({})).await;
    let args = ["--config", &config, "--target", "a", "--target", "b"];
    let output = run(&[&["send", "--follow", "hi"], &args[..]].concat()).await;
    assert_exit_code(&output, 0);
    let mut answers: Vec<&str> = output.stdout.trim_end().split("\n\n").collect();
    answers.sort_unstable();
    assert_eq!(answers, ["a:\n  one", "b:\n  two"]);
    // As they change, and at the end.
    assert_eq!(output.stderr.matches("a: completed\n").count(), 2);
}

#[tokio::test]
async fn task_of_a_gateway_without_history_is_forgotten_by_a_later_command() {
    let gateway = local_gateway::gateway(None).await;
    let settings = json!({"enabled": true, "url": gateway.url()});
    let (config, _peers) = three("several-forgotten", ["one", "two", "three"], settings).await;
    let saved = scratch("several-forgotten-saved").join("group.json");
    let path = saved.to_str().unwrap();
    let args = [
        "--target",
        "a",
        "--target",
        "gateway:gamma",
        "--timeout",
        "2s",
    ];
    let send = ["send", "--config", &config, "--save", path, "hi"];
    let output = run(&[&send, &args[..]].concat()).await;
    assert_exit_code(&output, 5);
    let output = run(&["watch", "--config", &config, "--continuation", path]).await;
    assert_exit_code(&output, 1);
    assert_contains(
        &output.stderr,
        &["gateway:gamma: forgotten: unknown task: the gateway keeps no tasks"],
    );
    assert!(
        !output.stderr.contains("to wait for more"),
        "{}",
        output.stderr
    );
    assert_eq!(
        gateway.log().matching(&json!({"/type": "message"})).len(),
        1
    );
}

#[tokio::test]
async fn agent_of_a_group_gets_the_hint_of_a_single_one() {
    let refusing = json!({"card": card(), "rpc": {"message/stream": [{"status": 401}], "message/send": [{"status": 401}]}});
    let failing = json!({"card": card(), "rpc": {"message/stream": [{"error": {"code": -32603, "message": "no"}}],
        "message/send": [{"error": {"code": -32603, "message": "no"}}]}});
    let peers = Peers::start(&json!({"peers": {"refusing": refusing, "failing": failing}}))
        .await
        .unwrap();
    let auth = json!({"type": "bearer", "token": {"source": "env", "id": "NO_SUCH_TOKEN"}});
    let targets = json!([
        {"alias": "absent", "baseUrl": format!("http://127.0.0.1:{}", testkit::support::free_port())},
        {"alias": "refusing", "baseUrl": peers.origin("refusing")},
        {"alias": "failing", "baseUrl": peers.origin("failing")},
        {"alias": "unset", "baseUrl": peers.origin("failing"), "auth": auth},
    ]);
    let config = config_file("several-hints", &json!({ "targets": targets }));
    for alias in ["absent", "refusing", "failing", "unset", "unknown"] {
        let send = ["send", "--config", &config, "hi", "--target", alias];
        let single = run(&send).await.stderr;
        let other = if alias == "failing" {
            "absent"
        } else {
            "failing"
        };
        let group = run(&[&send[..], &["--target", other]].concat())
            .await
            .stderr;
        let lines = single
            .lines()
            .map(|line| line.trim_start_matches("error: "));
        for line in lines {
            assert_contains(&group, &[line]);
        }
    }
}
