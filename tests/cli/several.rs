//! One message to several agents, on the command line.

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
    assert_eq!(output.stdout, "a:\none\n\ngateway:alpha:\nAll is well.\n");
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
        "a:\n[file: a.bin, application/octet-stream, 1 bytes]\n\n\
         b:\nsee\n[file: a.bin, application/octet-stream, 1 bytes]\n\n\
         c:\n{\n  \"n\": 1\n}\n"
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
    assert_eq!(output.stdout, "a:\nWhich colour?\n\nb:\ndone\n");
    let command =
        format!("\n  remote-agent send --config {config} --target a --task task-1 'YOUR ANSWER'\n");
    assert_contains(&output.stderr, &["a: input-required\n", &command]);
    assert!(!output.stderr.contains("--target b"), "{}", output.stderr);
    let saved = scratch("several-asks-saved").join("group.json");
    let saved = saved.to_str().unwrap();
    let args = ["--config", &config, "--target", "a", "--target", "b"];
    run(&[&["send", "--save", saved, "Paint it"], &args[..]].concat()).await;
    let output = run(&["status", "--continuation", saved]).await;
    assert_eq!(output.stdout, "a:\nWhich colour?\n\nb:\ndone\n");
    let origin = peers.origin("a");
    let command = format!("  remote-agent send --url {origin}/ --task task-1 'YOUR ANSWER'\n");
    assert_contains(&output.stderr, &[&command]);
}
