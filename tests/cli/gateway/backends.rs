//! Agents with backends: commands, models and A2A agents that answer and vote.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use crate::cli::process::ProcessOutput;

const APPROVE: &str = r#"echo '{"vote":"approve","reasoning":"Tests pass","confidence":0.9}'"#;

/// Starts a model that answers every request with the same text, and returns its URL.
fn start_model(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let read = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&request);
                let Some((head, body)) = text.split_once("\r\n\r\n") else {
                    continue;
                };
                let head = head.to_ascii_lowercase();
                let (_, length) = head.split_once("content-length: ").unwrap();
                let length: usize = length.lines().next().unwrap().parse().unwrap();
                if body.len() >= length {
                    break;
                }
            }
            let message = json!({"role": "assistant", "content": answer});
            let body =
                json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

/// Writes the configuration of a target, and returns its path.
fn write_target_config(folder: &Path, url: &str) -> String {
    let file = folder.join("targets.json");
    let config = json!({"targets": [{"alias": "judge", "baseUrl": url}]});
    std::fs::write(&file, config.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Starts a gateway that decides once all three members have voted.
fn start_gateway_with_quorum_all(folder: &Path) -> (GatewayProcess, String) {
    let config = json!({"triad": {"quorum": "all"}});
    GatewayProcess::configured(folder, &config)
}

async fn vote(url: &str) -> ProcessOutput {
    run(&["gateway", "vote", "Ship it", "--json", "--url", url]).await
}

#[tokio::test]
async fn command_model_and_a2a_agent_decide_a_proposal() {
    let folder = scratch("gateway-backends");
    // The A2A agent is an agent of another gateway, behind a real A2A server.
    let (_other_gateway, other_gateway_url) = GatewayProcess::gateway(&folder.join("behind"), &[]);
    let reject = r#"echo '{"vote":"reject","reasoning":"Not on a Friday"}'"#;
    let _judge = GatewayProcess::agent(&other_gateway_url, "coder", &["--run", reject]);
    let state = folder.join("serve");
    let serve = format!(
        "serve --gateway {other_gateway_url} --port 0 --json --task-store memory --state-dir '{}'",
        state.display()
    );
    let mut serve = GatewayProcess::start(&words(&serve));
    let serve_url = serve.next()["url"].as_str().unwrap().to_owned();
    let judge = format!("{}/agents/coder", serve_url.trim_end_matches('/'));
    let targets = write_target_config(&folder, &judge);

    let (_gateway, url) = start_gateway_with_quorum_all(&folder);
    let approve =
        start_model(r#"{"vote":"approve","reasoning":"The model agrees","confidence":0.7}"#);
    let _beta = GatewayProcess::agent(
        &url,
        "beta",
        &["--model", &approve, "--model-name", "small"],
    );
    let _alpha = GatewayProcess::agent(&url, "alpha", &["--run", APPROVE]);
    let charlie = ["--target", "judge", "--target-config", &targets];
    let _charlie = GatewayProcess::agent(&url, "charlie", &charlie);
    let output = vote(&url).await;
    assert_exit_code(&output, 0);
    let events = json_lines(&output);
    let event_from = |name: &str| events.iter().find(|event| event["from"] == name).cloned();
    assert_eq!(
        event_from("charlie").expect("a vote")["reasoning"],
        "Not on a Friday"
    );
    let beta = event_from("beta").expect("a vote");
    assert_eq!(
        (&beta["vote"], &beta["confidence"]),
        (&json!("approve"), &json!(0.7))
    );
    assert_eq!(
        event_from("alpha").expect("a vote")["reasoning"],
        "Tests pass"
    );
}

#[tokio::test]
async fn gateway_does_not_use_itself_as_openclaw() {
    let folder = scratch("gateway-itself");
    let port = testkit::support::free_port();
    let url = format!("ws://127.0.0.1:{port}");
    let agents = json!([{"name": "charlie", "role": "Member", "backend": {"openclaw": {"agent": "main", "url": url}}}]);
    let config = json!({"listen": format!("127.0.0.1:{port}"), "agents": agents});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let output = run(&["gateway", "--state-dir", folder.to_str().unwrap()]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stderr,
        &[
            "cannot start the agent `charlie`",
            &url,
            "is the address of this gateway",
        ],
    );
}

/// Returns the command that calls another agent and prints its answer or the error.
fn request_command(agent: &str, url: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_remote-agent");
    format!("'{binary}' gateway request --to {agent} --url {url} 'go on' 2>&1 || true")
}

#[tokio::test]
async fn recursive_agents_end_at_the_maximum_depth() {
    let folder = scratch("gateway-loop");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _alpha = GatewayProcess::agent(&url, "alpha", &["--run", &request_command("beta", &url)]);
    let mut beta = GatewayProcess::agent(&url, "beta", &["--run", &request_command("alpha", &url)]);
    let request = ["gateway", "request", "--to", "alpha", "--url", &url, "go"];
    let output = run(&request).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stdout, &["3004", "the delegation depth is 5"]);
    // Beta received the first, third and fifth of the five delegations, and refused the fifth.
    for _ in 0..3 {
        beta.wait_for("received");
    }
}

#[tokio::test]
async fn text_of_a_peer_is_no_option_and_no_command() {
    let folder = scratch("gateway-injection");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let marker = folder.join("taken");
    let hostile = format!("--url $(touch '{0}'); touch '{0}'", marker.display());
    // The command prints the text that it reads.
    let _coder = GatewayProcess::agent(&url, "coder", &["--run", "cat"]);
    let request = ["gateway", "request", "--to", "coder", "--url", &url, "--"];
    let output = run(&[&request[..], &[&hostile]].concat()).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stdout, &["--url $(touch"]);
    assert!(!marker.exists());
}

#[tokio::test]
async fn progress_of_a_command_reaches_the_requester() {
    let folder = scratch("gateway-progress");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let work = r#"echo '{"type":"status","text":"reading the code"}'; sleep 2; echo '{"type":"message","text":"done"}'"#;
    let _coder = GatewayProcess::agent(&url, "coder", &["--run", work]);
    let output = run(&["gateway", "request", "--to", "coder", "--url", &url, "go"]).await;
    assert_eq!(output.stdout, "done\n");
    assert_contains(&output.stderr, &["coder: reading the code"]);
}

/// A command, a model and the official Python server decide; prints the transcript.
#[cfg(feature = "real")]
#[tokio::test]
async fn command_model_and_official_server_decide_a_proposal() {
    use testkit::support::sdk::{Sdk, server};

    let folder = scratch("gateway-three-backends");
    let (_gateway, url) = start_gateway_with_quorum_all(&folder);
    let mut watch = GatewayProcess::start(&["gateway", "watch", "--url", &url]);
    let approve =
        start_model(r#"{"vote":"approve","reasoning":"The model agrees","confidence":0.7}"#);
    let targets = write_target_config(&folder, &server(Sdk::Py13).origin("1.0"));
    let charlie = ["--target", "judge", "--target-config", &targets];
    let _charlie = GatewayProcess::agent(&url, "charlie", &charlie);
    let beta = ["--model", &approve, "--model-name", "small"];
    let _beta = GatewayProcess::agent(&url, "beta", &beta);
    let _alpha = GatewayProcess::agent(&url, "alpha", &["--run", APPROVE]);
    let output = run(&["gateway", "vote", "Ship it", "--url", &url]).await;
    println!("{}{}", output.stderr, output.stdout);
    assert_exit_code(&output, 0);
    let expected = [
        "charlie votes reject (confidence 0.6): Not on a Friday",
        "beta votes approve (confidence 0.7): The model agrees",
        "alpha votes approve (confidence 0.9): Tests pass",
        "approved, by consensus",
    ];
    assert_contains(&output.stdout, &expected);
    loop {
        let line = watch.line(Instant::now() + OUTPUT_TIMEOUT).unwrap();
        println!("watch: {line}");
        if line.contains("approved") {
            break;
        }
    }
}

#[cfg(feature = "real")]
#[tokio::test]
async fn javascript_client_calls_a_member_with_a_backend() {
    use crate::gateway::support::node::NodeClient;

    let folder = scratch("gateway-javascript");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _explorer = GatewayProcess::agent(&url, "explorer", &["--run", "echo 'I look around'"]);
    let options = json!({"role": "request", "agent": "explorer", "text": "Where are we?"});
    let mut client = NodeClient::start(&url, &options);
    client.next_report("ready").await;
    let answer = client.next_report("answer").await;
    println!("{answer}");
    assert_eq!(answer["content"]["content"], "I look around");
}

#[tokio::test]
async fn gateway_runs_agents_of_its_configuration() {
    let folder = scratch("gateway-own-agents");
    let agent = |name: &str, run: &str| json!({"name": name, "role": "Triad member", "backend": {"run": run}});
    let config = json!({"agents": [
        agent("alpha", APPROVE), agent("beta", APPROVE),
        // It kills itself before each answer.
        agent("charlie", "kill -9 $$"),
    ]});
    let (_gateway, url) = GatewayProcess::configured(&folder, &config);
    let mut watch = GatewayProcess::watch(&url);
    for _ in 0..3 {
        while watch.wait_for("status")["status"] != "online" {}
    }
    let output = vote(&url).await;
    assert_exit_code(&output, 0);
    let listed = run(&["gateway", "agents", "list", "--json", "--url", &url]).await;
    let agents = json_lines(&listed).remove(0)["agents"].take();
    for agent in agents.as_array().unwrap() {
        assert_eq!(agent["backend"], "run", "{agent}");
        assert_ne!(agent["status"], "offline", "{agent}");
    }
    let output = run(&["gateway", "agents", "restart", "alpha", "--url", &url]).await;
    assert_exit_code(&output, 0);
    watch.wait_for_status("alpha", "online");
    let output = run_line(&format!("gateway request --to charlie --url {url} hello")).await;
    assert_exit_code(&output, 1);
    let output = run(&["gateway", "request", "--to", "beta", "--url", &url, "hello"]).await;
    assert_exit_code(&output, 0);
}

#[tokio::test]
async fn killed_gateway_keeps_messages_and_agents_reconnect() {
    let folder = scratch("gateway-own-agents-killed");
    let answer = r#"read -r line; case "$line" in *again*) echo back;; *) sleep 60;; esac"#;
    let config = json!({"fsync": "always", "agents": [
        {"name": "coder", "role": "Developer", "backend": {"run": answer}},
    ]});
    let (gateway, url) = GatewayProcess::configured(&folder, &config);
    let mut watch = GatewayProcess::watch(&url);
    while watch.wait_for("status")["status"] != "online" {}
    let sent = run_line(&format!(
        "gateway send --to coder --session s-1 --url {url} think"
    ))
    .await;
    assert_exit_code(&sent, 0);
    // `Drop` kills the process.
    drop(gateway);
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut watch = GatewayProcess::watch(&url);
    while watch.wait_for("status")["status"] != "online" {}
    let state = folder.to_str().unwrap();
    let session = run_line(&format!(
        "gateway sessions get coder s-1 --state-dir '{state}'"
    ))
    .await;
    assert_contains(&session.stdout, &["think"]);
    let output = run_line(&format!("gateway request --to coder --url {url} again")).await;
    assert_eq!(output.stdout, "back\n", "{}", output.stderr);
}

#[tokio::test]
async fn agents_commands_show_the_reason_of_a_restart() {
    use gateway_bridge::client::{Connector, Endpoint};

    let folder = scratch("gateway-run-status");
    let config = json!({"agents": [
        {"name": "coder", "role": "Developer", "backend": {"run": "cat"}},
    ]});
    let (_gateway, url) = GatewayProcess::configured(&folder, &config);
    let mut watch = GatewayProcess::watch(&url);
    watch.wait_for_status("coder", "online");
    let state = folder.to_str().unwrap();
    let agents = async |args: &[&str]| {
        let place = ["--json", "--url", &url, "--state-dir", state];
        run(&[&["gateway", "agents"], args, &place].concat()).await
    };
    let listed = agents(&["list"]).await;
    let first = &json_lines(&listed)[0]["agents"][0];
    assert_eq!(first["run"], json!({"restarts": 0}));

    // Another client takes the name while the agent is between two connections.
    let connector = Connector::new().unwrap();
    let endpoint = Endpoint::new(url.parse().unwrap());
    let mut requester = connector.connect(endpoint.clone()).await.unwrap();
    let holder = loop {
        let _ = requester
            .manage("agents.restart", json!({"agent": "coder"}))
            .await;
        if let Ok((holder, _)) = connector.open(&endpoint, &["coder"]).await {
            break holder;
        }
    };
    let waiting = loop {
        let listed = agents(&["list"]).await;
        let agent = json_lines(&listed)[0]["agents"][0].take();
        let reason = agent["run"]["lastExit"].as_str().unwrap_or_default();
        if agent["run"]["startsInMs"].is_u64() && reason.contains("5004") {
            break agent;
        }
    };
    assert!(waiting["run"]["startsInMs"].as_u64().unwrap() <= 60_000);
    let expected = run(&["gateway", "agents", "list", "--url", &url]).await;
    assert_contains(&expected.stdout, &["RESTARTS", "LAST EXIT", "5004"]);
    let reported = agents(&["config", "coder", "get"]).await;
    let run_status = &json_lines(&reported)[0]["run"];
    assert!(
        run_status["lastExit"].as_str().unwrap().contains("5004"),
        "{run_status}"
    );

    drop(holder);
    let back = loop {
        watch.wait_for_status("coder", "online");
        let listed = agents(&["list"]).await;
        let run = json_lines(&listed)[0]["agents"][0]["run"].take();
        if run.get("startsInMs").is_none() {
            break run;
        }
    };
    assert!(back["restarts"].as_u64().unwrap() > 0, "{back}");
    assert!(
        back["lastExit"].as_str().unwrap().contains("5004"),
        "{back}"
    );
    let restarted = agents(&["restart", "coder"]).await;
    assert_eq!(json_lines(&restarted)[0]["run"], back);
}
