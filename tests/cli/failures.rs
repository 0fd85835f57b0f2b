//! Failures of the command, and their exit codes.

use std::{fs, io::Write, process::Stdio};

use serde_json::json;
use testkit::conformance::peers::Peers;

use crate::cli::{process::wait_for_output, support::*};

#[tokio::test]
async fn peer_refusal_is_a_failure() {
    let peers =
        start_desk(json!({"message/send": [{"error": {"code": -32000, "message": "not today"}}]}))
            .await;
    let output = run_subcommand(&peers, "send", &["hi"]).await;
    assert_exit_code(&output, 1);
    assert_eq!(output.stdout, "");
    assert_contains(&output.stderr, &["error: ", "not today", "what to do: "]);
}

#[tokio::test]
async fn token_in_place_of_its_variable_is_not_printed() {
    let token = "rat_Hf7ZqP0aXw9b_3kd";
    let pair = format!("X-Key={token}");
    let auth = json!({"type": "bearer", "token": {"source": "env", "id": token}});
    let target = json!({"alias": "desk", "baseUrl": "http://127.0.0.1:9", "auth": auth});
    let config = config_file("token-as-name", &json!({ "targets": [target] }));
    let url = ["--url", "http://127.0.0.1:9"];
    for (args, text) in [
        (
            &["send", "hi", url[0], url[1], "--bearer-env", token][..],
            "`--bearer-env` takes",
        ),
        (
            &[
                "send",
                "--json",
                "hi",
                url[0],
                url[1],
                "--header-env",
                &pair,
            ],
            "`--header-env` takes",
        ),
        (
            &["doctor", url[0], url[1], "--bearer-env", "$TOKEN"],
            "without the leading `$`",
        ),
        (
            &[
                "targets",
                "--gateway",
                "ws://127.0.0.1:9",
                "--gateway-token-env",
                token,
            ],
            "`--gateway-token-env` takes",
        ),
        (
            &[
                "mcp",
                "--print-config",
                "claude-code",
                url[0],
                url[1],
                "--bearer-env",
                token,
            ],
            "not its value",
        ),
        (
            &["gateway", "status", "--token-env", token],
            "`--token-env` takes",
        ),
        (
            &[
                "add",
                url[1],
                "--force",
                "--config",
                &config,
                "--bearer-env",
                token,
            ],
            "`--bearer-env` takes",
        ),
        (&["send", "hi", "--config", &config], "not its value"),
        (
            &["send", "hi", "--json", "--config", &config],
            "not its value",
        ),
        (&["doctor", "--config", &config], "not its value"),
        (&["targets", "--config", &config], "not its value"),
    ] {
        let output = run(args).await;
        let shown = output.stdout + &output.stderr;
        assert_contains(&shown, &[text]);
        assert!(!shown.contains(token), "{args:?}: {shown}");
    }
}

#[tokio::test]
async fn configuration_error_names_file_and_setting() {
    let folder = scratch("bad-configurations");
    let state = folder.join("state").display().to_string();
    let bad_target = r#"{"targets": [{"alias": "a", "baseUrl": 5}]}"#;
    let bad_url = r#"{"targets": [{"alias": "a", "baseUrl": "nope"}]}"#;
    let unset = r#"{"targets": [{"alias": "a", "baseUrl": "http://127.0.0.1:9", "auth": {"type": "bearer", "token": {"source": "env", "id": "NO_SUCH"}}}]}"#;
    let agent = r#"{"listen": "127.0.0.1:0", "agents": [{"name": "a", "role": "r", "backend": {"model": {"url": "http://127.0.0.1:1", "name": "m", "systemFile": "/nowhere/x"}}}]}"#;
    for (at, (command, text, shown)) in [
        ("targets", bad_target, "/targets/0/baseUrl"),
        ("send hi", bad_url, "/targets/0/baseUrl"),
        ("send hi", unset, "/targets/0/auth/token"),
        ("tasks", r#"{"zz": 1}"#, "/zz"),
        ("card", bad_target, "/targets/0/baseUrl"),
        ("budget", bad_target, "/targets/0/baseUrl"),
        ("doctor", bad_target, "/targets/0/baseUrl"),
        ("pin", bad_target, "/targets/0/baseUrl"),
        ("sign-in a", bad_target, "/targets/0/baseUrl"),
        (
            "mcp --print-config cursor",
            bad_target,
            "/targets/0/baseUrl",
        ),
        ("call {}", bad_target, "/targets/0/baseUrl"),
        ("targets", "{}", "add one to `targets`"),
        ("doctor", "{}", "no agents are configured"),
        ("targets", "{bad", "correct the file"),
        ("serve --port 0", "{bad", "is not JSON"),
        ("serve --port 0", r#"{"zz": 1}"#, "/zz"),
        (
            "serve --port 0",
            r#"{"gateway": {"url": "htp:/x"}}"#,
            "/gateway/url",
        ),
        ("gateway", "[]", "must be object"),
        (
            "gateway",
            r#"{"links": [{"name": "x", "url": "http://x"}]}"#,
            "/links/0/url",
        ),
        ("gateway", agent, "cannot start the agent `a`"),
        ("gateway doctor", r#"{"listen": 5}"#, "/listen"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = folder.join(format!("{at}.json")).display().to_string();
        fs::write(&file, text).unwrap();
        let line = format!("{command} --config {file}");
        let mut args = words(&line);
        if args[0] == "serve" || args[0] == "gateway" {
            args.extend(["--state-dir", &state]);
        }
        let output = run(&args).await;
        assert_exit_code(&output, 2);
        let all = output.stdout + &output.stderr;
        assert_contains(&all, &[&file, shown]);
    }
}

#[tokio::test]
async fn taken_port_names_the_option_of_the_command() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let state = scratch("mcp-taken").display().to_string();
    let output = run(&["mcp", "--listen", &address, "--state-dir", &state]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["`--listen`"]);
    assert!(!output.stderr.contains("`--port"), "{}", output.stderr);
}

#[tokio::test]
async fn output_that_cannot_be_written_is_a_failure() {
    let reply = json!({"result": message("Hello.")});
    let peers = start_desk(json!({"message/send": [reply], "message/stream": [reply]})).await;
    let url = peers.origin("desk");
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for args in [
        &["--version"][..],
        &["send", "--help"],
        &["targets", "--url", url],
        &["targets", "--json", "--url", url],
        &["send", "--url", url, "hi"],
        &["send", "--follow", "--url", url, "hi"],
        &["send", "--json", "--url", url, "hi"],
        &["doctor", "--url", url],
        &["call", r#"{"action":"list_targets"}"#],
        &["gateway", "agents", "list"],
        &["mcp", "--print-config", "claude-desktop", "--url", url],
    ] {
        let mut command = self::command(args);
        command.stdout(full());
        let output = wait_for_output(command.spawn().unwrap()).await;
        assert_exit_code(&output, 1);
        assert_contains(
            &output.stderr,
            &["error: cannot write", "No space left on device"],
        );
    }
    let mut command = self::command(&["call", "--jsonl"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(full())
        .spawn()
        .unwrap();
    let line = b"{\"id\":1,\"op\":\"parse_config\",\"config\":{}}\n";
    child.stdin.take().unwrap().write_all(line).unwrap();
    let output = wait_for_output(child).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["error: cannot write to standard output"]);
}

#[tokio::test]
async fn byte_order_mark_is_accepted_in_files_and_arguments() {
    let peers = start_desk(json!({"message/send": [{"result": message("Hello.")}]})).await;
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "default": true, "allowPrivateNetwork": true});
    let config = config_file("byte_order_mark", &json!({"targets": [target]}));
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("\u{feff}{text}")).unwrap();
    let data = "\u{feff}{\"a\":1}";
    let output = run(&["send", "--config", &config, "--data", data, "hi"]).await;
    assert_exit_code(&output, 0);
    assert_eq!(last_message(&peers)["parts"][1]["data"], json!({"a": 1}));
}

#[tokio::test]
async fn usage_error_names_its_cause() {
    let directory = scratch("usage");
    for (name, text) in [
        ("none.json", r#"{"targets":[]}"#),
        ("list.json", "[]"),
        ("broken.json", "{"),
        ("odd.json", r#"{"task":7}"#),
        (
            "two.json",
            r#"{"targets":[{"alias":"desk","baseUrl":"https://a.example"},{"alias":"shop","baseUrl":"https://b.example"}]}"#,
        ),
        (
            "reserved.json",
            r#"{"targets":[{"alias":"desk","baseUrl":"https://a.example","allowedAgents":["main"],"default":true}]}"#,
        ),
        (
            "bare.json",
            r#"{"targets":[{"alias":"desk","baseUrl":"127.0.0.1:9101"}]}"#,
        ),
        (
            "gateway.json",
            r#"{"gateway":{},"plugins":{"entries":{"remote-agent":{"config":{}}}}}"#,
        ),
        (
            "from_file.json",
            r#"{"targets":[{"alias":"desk","baseUrl":"https://a.example","default":true,"auth":{"type":"bearer","token":{"source":"file","id":"/x"}}}]}"#,
        ),
        (
            "misplaced.json",
            r#"{"targets":[{"alias":"desk","baseUrl":{"source":"env","id":"PATH"},"default":true}]}"#,
        ),
    ] {
        fs::write(directory.join(name), text).unwrap();
    }
    // Half a megabyte whose values would take a hundred times as much memory.
    let dense = format!(r#"{{"x":[{}0]}}"#, r#"{"a":0},"#.repeat(60_000));
    fs::write(directory.join("dense.json"), dense).unwrap();
    let card = json!({"targets": [{"alias": "desk", "baseUrl": "https://a.example", "card": directory.join("dense.json")}]});
    fs::write(directory.join("dense_card.json"), card.to_string()).unwrap();
    for (line, reported) in [
        ("add dense.json", "more values than fit"),
        ("targets --config dense_card.json", "more values than fit"),
        (
            "send --config misplaced.json hi",
            "`/targets/0/baseUrl`: a reference is allowed only for a secret",
        ),
        (
            "send --config two.json hi",
            "`--target ALIAS` (`desk`, `shop`)",
        ),
        (
            "send --config two.json --target house hi",
            "`--target ALIAS` (`desk`, `shop`)",
        ),
        ("targets --config reserved.json", "`--agent NAME`"),
        (
            "targets --config bare.json",
            "has no scheme; try `http://127.0.0.1:9101`",
        ),
        ("targets --config gateway.json", "no agents are configured"),
        (
            "targets --openclaw=/nowhere/openclaw.json",
            "cannot read OpenClaw's configuration `/nowhere/openclaw.json`",
        ),
        ("send hi --openclaw --url http://a", "cannot be used with"),
        (
            "send hi --url http://127.0.0.1:1 --timeout-ms 5s",
            "try `--timeout 5s`",
        ),
        (
            "send hi --url http://127.0.0.1:1 --timeout 5",
            "try `5s` for seconds",
        ),
        ("send --config from_file.json hi", "source `env` only"),
        (
            "send --url http://127.0.0.1:1 --save /nowhere/x hi",
            "cannot write `--save /nowhere/x`",
        ),
        ("send", "<TEXT>..."),
        ("send --data [] hi", "it is not a JSON object"),
        ("send hi", "--url URL"),
        ("targets", "--url URL"),
        ("targets --config none.json", "no agents are configured"),
        ("targets --config list.json", "is not a JSON object"),
        ("targets --config broken.json", "is not JSON"),
        (
            "send hi --config none.json --url http://a",
            "cannot be used with",
        ),
        (
            "status --continuation none.json",
            "contains a configuration; name a file that `remote-agent send --save FILE` wrote",
        ),
        (
            "status --continuation odd.json",
            "name a file that `remote-agent send --save FILE` wrote",
        ),
        ("send hi --bearer-env X", "--url"),
        ("send hi --url ftp://a", "/targets/0/baseUrl"),
        ("send hi --url 127.0.0.1:7801", "http://127.0.0.1:7801"),
        (
            "send hi --attach /nowhere/x --url http://127.0.0.1:1",
            "/nowhere/x",
        ),
        ("status", "--continuation FILE"),
        (
            "watch --continuation /nowhere/task.json",
            "/nowhere/task.json",
        ),
        ("frobnicate", "frobnicate"),
    ] {
        let child = command(&words(line)).current_dir(&directory).spawn();
        let output = wait_for_output(child.unwrap()).await;
        println!("{line}");
        assert_exit_code(&output, 2);
        assert_contains(&output.stderr, &[reported]);
        let advice = output.stderr.matches("remote-agent send --save").count();
        assert!(advice <= 1, "{line} {output:?}");
        assert_eq!(output.stdout, "", "{line}");
    }
}

#[tokio::test]
async fn invalid_request_is_reported_in_terms_of_its_option() {
    let peers = start_desk(json!({})).await;
    let output = run_subcommand(&peers, "send", &["--context", "", "hi"]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stderr,
        &["error: cannot use `--context`: it is empty\n"],
    );
}

#[tokio::test]
async fn missing_peer_is_unreachable() {
    let peers = start_peer(json!({"unreachable": true})).await;
    let output = run_subcommand(&peers, "send", &["hi"]).await;
    assert_exit_code(&output, 3);
    assert_contains(&output.stderr, &["cannot connect", "what to do: "]);
    assert_exit_code(
        &run_subcommand(&peers, "status", &["--task", "task-1", "--json"]).await,
        3,
    );
}

#[tokio::test]
async fn peer_receives_token_of_environment() {
    let peers =
        start_desk(json!({"message/send": [{"status": 401}, {"result": message("Welcome.")}]}))
            .await;
    let refused = run_subcommand(&peers, "send", &["hi"]).await;
    assert_exit_code(&refused, 4);
    assert_contains(&refused.stderr, &["--bearer-env VAR"]);
    let url = peers.origin("desk");
    let send = ["send", "hi", "--url", url, "--bearer-env", "DESK_TOKEN"];
    let output = run_with_env(&send, ("DESK_TOKEN", "s3cret-token")).await;
    assert_exit_code(&output, 0);
    let log = peers.log("desk");
    assert_eq!(
        log.last().unwrap().headers["authorization"],
        "Bearer s3cret-token"
    );
    assert!(!format!("{output:?}").contains("s3cret"), "{output:?}");
    assert_contains(&output.stderr, &["--bearer-env DESK_TOKEN"]);
    let unset = run_line(&format!(
        "send hi --url {url} --bearer-env REMOTE_AGENT_NO_SUCH"
    ))
    .await;
    assert_exit_code(&unset, 2);
    assert_contains(
        &unset.stderr,
        &["error: the secret at", "`REMOTE_AGENT_NO_SUCH`"],
    );
}

#[tokio::test]
async fn silent_peer_times_out() {
    let peers = start_desk(json!({"message/send": [{"delay_ms": 3_600_000, "result": {}}]})).await;
    let output = run_subcommand(&peers, "send", &["hi", "--timeout-ms", "3000"]).await;
    assert_exit_code(&output, 5);
    assert_contains(&output.stderr, &["`--timeout`", "`--task-required`"]);
    assert!(!output.stderr.contains("timeout_ms"), "{output:?}");
}

#[tokio::test]
async fn output_before_timeout_is_printed_once() {
    let events = results([status("working", "Reading the log.")]);
    let peers = start_desk(json!({"message/stream": [{"sse": events, "end": "hang"}]})).await;
    let output = run_subcommand(&peers, "send", &["--follow", "hi", "--timeout-ms", "3000"]).await;
    assert_exit_code(&output, 5);
    let both = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(both.matches("Reading the log.").count(), 1, "{output:?}");
    assert_contains(
        &output.stderr,
        &[
            "the wait ended",
            "the task continues",
            "remote-agent watch --url",
        ],
    );
}

#[tokio::test]
async fn failed_task_exits_with_message_of_agent() {
    for (state, follow) in [("failed", false), ("rejected", false), ("failed", true)] {
        let done = json!({
            "status": {"state": state, "message": message("Disk full.")},
            "artifacts": [{"artifactId": "a-1", "parts": text_parts("Half.")}],
        });
        let task = task(state, done);
        let script =
            json!({"message/send": results([task.clone()]), "message/stream": sse_stream([task])});
        let peers = start_desk(script).await;
        let follow = if follow { &["--follow"][..] } else { &[] };
        let output = run_subcommand(&peers, "send", &[follow, &["go"]].concat()).await;
        assert_exit_code(&output, 1);
        assert_eq!(output.stdout, "Half.\n");
        assert_contains(
            &output.stderr,
            &[&format!("task task-1 of target: {state}: Disk full.\n")],
        );
        assert_eq!(output.stderr.matches("Disk full.").count(), 1, "{output:?}");
        assert_exit_code(&run_subcommand(&peers, "send", &["--json", "go"]).await, 1);
    }
}

#[tokio::test]
async fn list_without_cards_exits_by_the_reason() {
    let script = json!({"peers": {
        "desk": {"card": card()}, "gone": {"unreachable": true},
        "shut": {"routes": {"GET /.well-known/agent-card.json": {"status": 401}}},
    }});
    let peers = Peers::start(&script).await.unwrap();
    for (names, code) in [
        (&["gone"][..], 3),
        (&["shut"], 4),
        (&["gone", "shut"], 3),
        (&["gone", "desk"], 0),
    ] {
        let targets: Vec<_> = names
            .iter()
            .map(|name| json!({"alias": name, "baseUrl": peers.origin(name)}))
            .collect();
        let config = config_file("targets-fail", &json!({"targets": targets}));
        let output = run(&["targets", "--config", &config]).await;
        assert_exit_code(&output, code);
    }
}

#[tokio::test]
async fn page_instead_of_card_is_reported_with_type_and_size() {
    let page = json!({"status": 200, "headers": {"content-type": "text/html"}, "body": "<html>"});
    let peers = start_peer(json!({"routes": {"GET /.well-known/agent-card.json": page}})).await;
    let output = run_subcommand(&peers, "send", &["hi"]).await;
    assert_exit_code(&output, 3);
    assert_contains(&output.stderr, &["not JSON (text/html, 6 bytes)"]);
}

#[tokio::test]
async fn url_option_ignores_configuration_of_environment() {
    let peers = start_desk(json!({"message/send": results([message("Hello.")])})).await;
    let url = peers.origin("desk");
    let send = ["send", "hi", "--url", url, "--allow-private"];
    let output = run_with_env(&send, ("REMOTE_AGENT_CONFIG", "/nowhere/agents.json")).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stderr, &["--allow-private"]);
}

#[tokio::test]
async fn refused_secret_of_a_configuration_is_named() {
    let peers = start_desk(json!({"message/send": [{"status": 401}]})).await;
    let token = json!({"source": "env", "id": "WORDS_REFUSED_TOKEN"});
    let targets = json!([{"alias": "desk", "baseUrl": peers.origin("desk"), "auth": {"type": "bearer", "token": token}}]);
    let config = config_file("refused-secret", &json!({ "targets": targets }));
    let send = ["send", "hi", "--config", &config];
    let output = run_with_env(&send, ("WORDS_REFUSED_TOKEN", "s3cret-token")).await;
    assert_exit_code(&output, 4);
    assert_contains(
        &output.stderr,
        &["`WORDS_REFUSED_TOKEN`: the agent refused it"],
    );
}

#[tokio::test]
async fn command_in_a_hint_has_the_options_of_the_failed_one() {
    let gone = json!([{"error": {"code": -32002, "message": "it has ended"}}]);
    let peers = start_desk(json!({"tasks/cancel": gone})).await;
    let output = run_subcommand(&peers, "cancel", &["--task", "task-1"]).await;
    assert_exit_code(&output, 1);
    let url = peers.origin("desk");
    let status = format!("`remote-agent status --url {url} --task task-1` shows how");
    assert_contains(&output.stderr, &[&status]);
}

#[tokio::test]
async fn misspelled_option_leads_to_the_option_only() {
    let output = run(&["send", "--ulr", "http://127.0.0.1:1", "hi"]).await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["unexpected argument '--ulr'", "'--url'"]);
    assert!(!output.stderr.contains("as a value"), "{output:?}");
}

#[tokio::test]
async fn every_subcommand_has_a_help_with_examples() {
    for subcommand in [
        "targets", "send", "watch", "status", "cancel", "call", "package",
    ] {
        let output = run(&[subcommand, "--help"]).await;
        assert_exit_code(&output, 0);
        assert_contains(&output.stdout, &["Usage: ", "Examples:"]);
    }
}

#[tokio::test]
async fn no_arguments_prints_help() {
    let output = run(&[]).await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["Usage: remote-agent", "Exit codes:"]);
}
