//! Agents with backends: commands, models and A2A agents that answer and vote.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use super::*;
use crate::cli::process::Ended;

const APPROVE: &str = r#"echo '{"vote":"approve","reasoning":"Tests pass","confidence":0.9}'"#;

/// A model that answers every request with the same text, over HTTP/1.1.
fn model(answer: &'static str) -> String {
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

/// Writes the configuration of a target.
fn target(folder: &Path, url: &str) -> String {
    let file = folder.join("targets.json");
    let config = json!({"targets": [{"alias": "judge", "baseUrl": url}]});
    std::fs::write(&file, config.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Starts a gateway that decides once all three members have voted.
fn patient(folder: &Path) -> (Running, String) {
    let config = json!({"triad": {"quorum": "all"}});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    Running::gateway(folder, &[])
}

async fn vote(url: &str) -> Ended {
    run(&["gateway", "vote", "Ship it", "--json", "--url", url]).await
}

#[tokio::test]
async fn command_model_and_a2a_agent_decide_a_proposal() {
    let folder = scratch("gateway-backends");
    // The A2A agent is an agent of another gateway, behind a real A2A server.
    let (_behind, behind) = Running::gateway(&folder.join("behind"), &[]);
    let reject = r#"echo '{"vote":"reject","reasoning":"Not on a Friday"}'"#;
    let _judge = Running::agent(&behind, "coder", &["--run", reject]);
    let state = folder.join("serve");
    let mut serve = Running::start(&[
        "serve",
        "--gateway",
        &behind,
        "--port",
        "0",
        "--json",
        "--task-store",
        "memory",
        "--state-dir",
        state.to_str().unwrap(),
    ]);
    let served = serve.next()["url"].as_str().unwrap().to_owned();
    let judge = format!("{}/agents/coder", served.trim_end_matches('/'));
    let targets = target(&folder, &judge);

    let (_gateway, url) = patient(&folder);
    let approve = model(r#"{"vote":"approve","reasoning":"The model agrees","confidence":0.7}"#);
    let _beta = Running::agent(
        &url,
        "beta",
        &["--model", &approve, "--model-name", "small"],
    );
    let _alpha = Running::agent(&url, "alpha", &["--run", APPROVE]);
    let charlie = ["--target", "judge", "--target-config", &targets];
    let _charlie = Running::agent(&url, "charlie", &charlie);
    let ended = vote(&url).await;
    exits(&ended, 0);
    let events = lines(&ended);
    let of = |name: &str| events.iter().find(|event| event["from"] == name).cloned();
    assert_eq!(
        of("charlie").expect("a vote")["reasoning"],
        "Not on a Friday"
    );
    let beta = of("beta").expect("a vote");
    assert_eq!(
        (&beta["vote"], &beta["confidence"]),
        (&json!("approve"), &json!(0.7))
    );
    assert_eq!(of("alpha").expect("a vote")["reasoning"], "Tests pass");
}

/// Returns the command that calls another agent and prints its answer or the error.
fn asking(agent: &str, url: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_remote-agent");
    format!("'{binary}' gateway request --to {agent} --url {url} 'go on' 2>&1 || true")
}

#[tokio::test]
async fn recursive_agents_end_at_the_maximum_depth() {
    let folder = scratch("gateway-loop");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let _alpha = Running::agent(&url, "alpha", &["--run", &asking("beta", &url)]);
    let mut beta = Running::agent(&url, "beta", &["--run", &asking("alpha", &url)]);
    let request = ["gateway", "request", "--to", "alpha", "--url", &url, "go"];
    let output = run(&request).await;
    exits(&output, 0);
    has(&output.stdout, &["3004", "the delegation depth is 5"]);
    // Beta received the first, third and fifth of the five delegations, and refused the fifth.
    for _ in 0..3 {
        beta.until("received");
    }
}

#[tokio::test]
async fn text_of_a_peer_is_no_option_and_no_command() {
    let folder = scratch("gateway-injection");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let marker = folder.join("taken");
    let hostile = format!("--url $(touch '{0}'); touch '{0}'", marker.display());
    // The command prints the text that it reads.
    let _coder = Running::agent(&url, "coder", &["--run", "cat"]);
    let request = ["gateway", "request", "--to", "coder", "--url", &url, "--"];
    let output = run(&[&request[..], &[&hostile]].concat()).await;
    exits(&output, 0);
    has(&output.stdout, &["--url $(touch"]);
    assert!(!marker.exists());
}

#[tokio::test]
async fn progress_of_a_command_reaches_the_requester() {
    let folder = scratch("gateway-progress");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let work = r#"echo '{"type":"status","text":"reading the code"}'; sleep 2; echo '{"type":"message","text":"done"}'"#;
    let _coder = Running::agent(&url, "coder", &["--run", work]);
    let output = run(&["gateway", "request", "--to", "coder", "--url", &url, "go"]).await;
    assert_eq!(output.stdout, "done\n");
    has(&output.stderr, &["coder: reading the code"]);
}

/// A command, a model and the official Python server decide; prints the transcript.
#[cfg(feature = "real")]
#[tokio::test]
async fn command_model_and_official_server_decide_a_proposal() {
    use testkit::support::sdk::{Sdk, server};

    let folder = scratch("gateway-three-backends");
    let (_gateway, url) = patient(&folder);
    let mut watch = Running::start(&["gateway", "watch", "--url", &url]);
    let approve = model(r#"{"vote":"approve","reasoning":"The model agrees","confidence":0.7}"#);
    let targets = target(&folder, &server(Sdk::Py13).origin("1.0"));
    let charlie = ["--target", "judge", "--target-config", &targets];
    let _charlie = Running::agent(&url, "charlie", &charlie);
    let beta = ["--model", &approve, "--model-name", "small"];
    let _beta = Running::agent(&url, "beta", &beta);
    let _alpha = Running::agent(&url, "alpha", &["--run", APPROVE]);
    let ended = run(&["gateway", "vote", "Ship it", "--url", &url]).await;
    println!("{}{}", ended.stderr, ended.stdout);
    exits(&ended, 0);
    let shown = [
        "charlie votes reject (confidence 0.6): Not on a Friday",
        "beta votes approve (confidence 0.7): The model agrees",
        "alpha votes approve (confidence 0.9): Tests pass",
        "approved, by consensus",
    ];
    has(&ended.stdout, &shown);
    loop {
        let line = watch.line(Instant::now() + OUTPUT_LIMIT).unwrap();
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
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let _explorer = Running::agent(&url, "explorer", &["--run", "echo 'I look around'"]);
    let order = json!({"role": "request", "agent": "explorer", "text": "Where are we?"});
    let mut client = NodeClient::start(&url, &order);
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
        // It ends itself in the middle of each answer.
        agent("charlie", "kill -9 $$"),
    ]});
    let file = folder.join("gateway.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    for _ in 0..3 {
        while watch.until("status")["status"] != "online" {}
    }
    let ended = vote(&url).await;
    exits(&ended, 0);
    let listed = run(&["gateway", "agents", "list", "--json", "--url", &url]).await;
    let agents = lines(&listed).remove(0)["agents"].take();
    for agent in agents.as_array().unwrap() {
        assert_eq!(agent["backend"], "run", "{agent}");
        assert_ne!(agent["status"], "offline", "{agent}");
    }
    let ended = run(&["gateway", "agents", "restart", "alpha", "--url", &url]).await;
    exits(&ended, 0);
    watch.until_status("alpha", "online");
    let ended = run(&[
        "gateway", "request", "--to", "charlie", "--url", &url, "hello",
    ])
    .await;
    exits(&ended, 1);
    let ended = run(&["gateway", "request", "--to", "beta", "--url", &url, "hello"]).await;
    exits(&ended, 0);
}

#[tokio::test]
async fn killed_gateway_keeps_messages_and_agents_reconnect() {
    let folder = scratch("gateway-own-agents-killed");
    let answer = r#"read -r line; case "$line" in *again*) echo back;; *) sleep 60;; esac"#;
    let config = json!({"fsync": "always", "agents": [
        {"name": "coder", "role": "Developer", "backend": {"run": answer}},
    ]});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let (gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    while watch.until("status")["status"] != "online" {}
    let sent = [
        "gateway",
        "send",
        "--to",
        "coder",
        "--session",
        "s-1",
        "--url",
        &url,
        "think",
    ];
    exits(&run(&sent).await, 0);
    // `Drop` kills the process.
    drop(gateway);
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    while watch.until("status")["status"] != "online" {}
    let state = folder.to_str().unwrap();
    let agent_config = [
        "gateway",
        "sessions",
        "get",
        "coder",
        "s-1",
        "--state-dir",
        state,
    ];
    let agent_config = run(&agent_config).await;
    has(&agent_config.stdout, &["think"]);
    let output = [
        "gateway", "request", "--to", "coder", "--url", &url, "again",
    ];
    let output = run(&output).await;
    assert_eq!(output.stdout, "back\n", "{}", output.stderr);
}

#[tokio::test]
async fn agents_commands_show_the_reason_of_a_restart() {
    use gateway_server::clients::{Connector, Endpoint};

    let folder = scratch("gateway-run-status");
    let config = json!({"agents": [
        {"name": "coder", "role": "Developer", "backend": {"run": "cat"}},
    ]});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    watch.until_status("coder", "online");
    let state = folder.to_str().unwrap();
    let agents = async |args: &[&str]| {
        let place = ["--json", "--url", &url, "--state-dir", state];
        run(&[&["gateway", "agents"], args, &place].concat()).await
    };
    let listed = agents(&["list"]).await;
    let first = &lines(&listed)[0]["agents"][0];
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
        let agent = lines(&listed)[0]["agents"][0].take();
        let reason = agent["run"]["lastExit"].as_str().unwrap_or_default();
        if agent["run"]["startsInMs"].is_u64() && reason.contains("5004") {
            break agent;
        }
    };
    assert!(waiting["run"]["startsInMs"].as_u64().unwrap() <= 60_000);
    let shown = run(&["gateway", "agents", "list", "--url", &url]).await;
    has(&shown.stdout, &["RESTARTS", "LAST EXIT", "5004"]);
    let reported = agents(&["config", "coder", "get"]).await;
    let run_status = &lines(&reported)[0]["run"];
    assert!(
        run_status["lastExit"].as_str().unwrap().contains("5004"),
        "{run_status}"
    );

    drop(holder);
    let back = loop {
        watch.until_status("coder", "online");
        let listed = agents(&["list"]).await;
        let run = lines(&listed)[0]["agents"][0]["run"].take();
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
    assert_eq!(lines(&restarted)[0]["run"], back);
}
