//! Commands that send, watch and vote at a running gateway.

use super::*;
use crate::{cli::process::ProcessOutput, gateway::server::digest};
use testkit::{authority::Authority, support::free_port};

async fn run_gateway_command(url: &str, args: &[&str]) -> ProcessOutput {
    run(&[&["gateway"], args, &["--url", url]].concat()).await
}

#[tokio::test]
async fn watch_prints_messages_without_their_texts() {
    let folder = scratch("gateway-watch");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut watch = GatewayProcess::watch(&url);
    let mut full_watch =
        GatewayProcess::start(&["gateway", "watch", "--json", "--content", "--url", &url]);
    for watch in [&mut watch, &mut full_watch] {
        watch.wait_for("status");
    }
    // The list of agents follows the subscription to events, which is the second one.
    let _coder = GatewayProcess::agent(&url, "coder", &["--reply", "I read: {text}"]);
    watch.wait_for_status("coder", "online");
    let request = run_gateway_command(&url, &["request", "--to", "coder", "hush"]).await;
    assert_exit_code(&request, 0);
    assert_eq!(request.stdout, "I read: hush\n");
    let message = watch.wait_for("message");
    assert_eq!(message["to"], "coder");
    assert_eq!(message.get("text"), None);
    assert_eq!(watch.wait_for("reply")["from"], "coder");
    assert_eq!(full_watch.wait_for("message")["text"], "hush");
    assert_eq!(full_watch.wait_for("reply")["text"], "I read: hush");
}

#[cfg(unix)]
#[tokio::test]
async fn interrupt_ends_watch_with_0() {
    let folder = scratch("gateway-watch-end");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut watch = GatewayProcess::watch(&url);
    watch.wait_for("status");
    interrupt(&watch.child);
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn watch_reconnects_to_a_restarted_gateway() {
    let folder = scratch("gateway-watch-again");
    let state = folder.to_str().unwrap();
    let port = free_port().to_string();
    let args = ["gateway", "--port", &port, "--json", "--state-dir", state];
    let mut gateway = GatewayProcess::start(&args);
    let url = gateway.next()["url"].as_str().unwrap().to_owned();
    let mut watch = GatewayProcess::watch(&url);
    watch.wait_for("status");
    drop(gateway);
    watch.wait_for("lost");
    let mut restarted = GatewayProcess::start(&args);
    restarted.next();
    watch.wait_for("connected");
    watch.wait_for("status");
}

#[tokio::test]
async fn send_reports_refused_recipient() {
    let folder = scratch("gateway-send");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut coder = GatewayProcess::agent(&url, "coder", &[]);
    let output = run_gateway_command(&url, &["send", "--to", "coder", "one", "two"]).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stdout, &["sent msg-", "to coder"]);
    assert_eq!(coder.wait_for("received")["text"], "one two");
    let unknown = run_gateway_command(&url, &["send", "--to", "ghost", "hello"]).await;
    assert_exit_code(&unknown, 1);
    assert_contains(&unknown.stderr, &["3001"]);
    let offline = run_gateway_command(&url, &["send", "--to", "alpha", "hello"]).await;
    assert_exit_code(&offline, 3);
    assert_contains(&offline.stderr, &["3002"]);
}

#[tokio::test]
async fn request_without_a_reply_exits_with_5() {
    let folder = scratch("gateway-request");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _slow = GatewayProcess::agent(&url, "slow", &["--delay-ms", "60000"]);
    let output = run_gateway_command(
        &url,
        &["request", "--to", "slow", "--wait-ms", "300", "hello"],
    )
    .await;
    assert_exit_code(&output, 5);
    assert_contains(&output.stderr, &["`slow` did not reply within 300 ms"]);
}

/// Makes a key, and returns its file and its public key.
async fn make_key(folder: &std::path::Path, name: &str) -> (String, Value) {
    let file = folder.join(name).to_str().unwrap().to_owned();
    let output = run(&["gateway", "keygen", &file]).await;
    assert_exit_code(&output, 0);
    let again = run(&["gateway", "keygen", &file]).await;
    assert_eq!(again.stdout, output.stdout, "an existing key stays");
    (file, serde_json::from_str(&output.stdout).unwrap())
}

#[tokio::test]
async fn h_55_signed_request_is_answered_and_both_sides_show_the_status() {
    let folder = scratch("gateway-signing");
    let (coder_file, coder_key) = make_key(&folder, "coder.pem").await;
    let (steward_file, steward_key) = make_key(&folder, "steward.pem").await;
    let agent = |name: &str, key: &Value| json!({"name": name, "role": "r", "keys": [key]});
    let agents = [agent("coder", &coder_key), agent("steward", &steward_key)];
    let config = json!({"agents": agents, "signing": {"mode": "require"}});
    let (_gateway, url) = GatewayProcess::configured(&folder, &config);
    let mut coder = GatewayProcess::agent(&url, "coder", &["--signing-key", &coder_file]);
    let signs = ["--signing-key", &steward_file, "--as", "steward"];
    let request = ["request", "--to", "coder", "--json", "hello"];
    let output = run_gateway_command(&url, &[&request[..], &signs].concat()).await;
    assert_exit_code(&output, 0);
    assert_eq!(json_lines(&output)[0]["signature"], "verified");
    assert_eq!(coder.wait_for("received")["signature"], "verified");
    let output = run_gateway_command(&url, &["send", "--to", "coder", "hello"]).await;
    assert_exit_code(&output, 4);
    assert_contains(&output.stderr, &["5002", "no signature"]);
    let output = run_gateway_command(
        &url,
        &[
            "send",
            "--to",
            "coder",
            "hello",
            "--signing-key",
            &coder_file,
        ],
    )
    .await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["--as AGENT"]);
}

#[tokio::test]
async fn clients_present_a_certificate() {
    let folder = scratch("gateway-client-certificate");
    let authority = Authority::new();
    authority.signed("127.0.0.1");
    let (certificate, _) = authority.signed("steward");
    authority.signed("other");
    let file = |name: &str| authority.file(name).to_str().unwrap().to_owned();
    let config = json!({
        "tls": {"certFile": file("127.0.0.1.pem"), "keyFile": file("127.0.0.1.key"), "clientCaFile": file("ca.pem")},
        "auth": {"certificates": [{"name": "steward", "sha256": digest(&certificate)}]},
    });
    let (_gateway, url) = GatewayProcess::configured(&folder, &config);
    let files = [file("ca.pem"), file("steward.pem"), file("steward.key")];
    let own = [
        "--ca-file",
        &files[0],
        "--cert-file",
        &files[1],
        "--key-file",
        &files[2],
    ];
    let _coder = GatewayProcess::agent(&url, "coder", &[&own[..], &["--reply", "done"]].concat());
    let request = ["request", "--to", "coder", "hello"];
    let output = run_gateway_command(&url, &[&request[..], &own].concat()).await;
    assert_exit_code(&output, 0);
    assert_eq!(output.stdout, "done\n");
    let (cert, key) = (file("other.pem"), file("other.key"));
    let other = ["--cert-file", &cert, "--key-file", &key];
    let output = run_gateway_command(&url, &[&request[..], &own[..2], &other].concat()).await;
    assert_exit_code(&output, 4);
    assert_contains(&output.stderr, &["auth.certificates", "--cert-file"]);
    let output = run_gateway_command(&url, &[&request[..], &own[..2]].concat()).await;
    assert_exit_code(&output, 3);
    assert_contains(
        &output.stderr,
        &["requires a client certificate", "for a gateway"],
    );
    let plain = url.replace("wss:", "ws:");
    for (url, options, shown) in [
        (&url, &["--cert-file", &cert][..], "--key-file"),
        (
            &url,
            &["--cert-file", &key, "--key-file", &key],
            "no certificate",
        ),
        (&plain, &other, "`wss:`"),
    ] {
        let output = run_gateway_command(url, &[&["status"], options].concat()).await;
        assert_exit_code(&output, 2);
        assert_contains(&output.stderr, &[shown]);
    }
}

#[tokio::test]
async fn broadcast_names_its_recipients() {
    let folder = scratch("gateway-broadcast");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    assert_exit_code(
        &run_gateway_command(&url, &["broadcast", "hello?"]).await,
        1,
    );
    let _coder = GatewayProcess::agent(&url, "coder", &[]);
    let output = run_gateway_command(&url, &["broadcast", "hello", "--json"]).await;
    assert_exit_code(&output, 0);
    assert_eq!(json_lines(&output)[0]["delivered"], json!(["coder"]));
}

#[tokio::test]
async fn workspaces_lists_sessions_of_an_agent() {
    let folder = scratch("gateway-workspaces");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _coder = GatewayProcess::agent(&url, "coder", &[]);
    let request = ["request", "--to", "coder", "--session", "sess-7", "hello"];
    assert_exit_code(&run_gateway_command(&url, &request).await, 0);
    let all_workspaces = run_gateway_command(&url, &["workspaces"]).await;
    assert_exit_code(&all_workspaces, 0);
    assert_contains(&all_workspaces.stdout, &["AGENT", "coder", "agents/coder"]);
    let coder_workspaces = run_gateway_command(&url, &["workspaces", "coder", "--json"]).await;
    assert_exit_code(&coder_workspaces, 0);
    let workspace = &json_lines(&coder_workspaces)[0]["workspaces"][0];
    assert_eq!(workspace["sessionList"][0]["sessionId"], "sess-7");
    assert_exit_code(
        &run_gateway_command(&url, &["workspaces", "ghost"]).await,
        1,
    );
}

#[tokio::test]
async fn exit_code_of_vote_is_the_decision() {
    let folder = scratch("gateway-vote");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let cases: [(&[&str; 3], i32, &str); 3] = [
        (
            &["approve", "approve", "reject"],
            0,
            "approved, by consensus",
        ),
        (
            &["reject", "approve", "reject"],
            10,
            "rejected, by consensus",
        ),
        (
            &["approve", "reject", "abstain"],
            11,
            "rejected, without consensus",
        ),
    ];
    assert_exit_code(&run_gateway_command(&url, &["vote", "too early"]).await, 3);
    for (votes, code, decision) in cases {
        let members: Vec<GatewayProcess> = ["alpha", "beta", "charlie"]
            .iter()
            .zip(votes)
            .map(|(name, vote)| {
                GatewayProcess::agent(&url, name, &["--vote", vote, "--reason", "Because."])
            })
            .collect();
        let output = run_gateway_command(&url, &["vote", "Ship", "it"]).await;
        assert_exit_code(&output, code);
        assert_contains(&output.stdout, &["votes ", ": Because.", decision]);
        drop(members);
    }
}

#[tokio::test]
async fn repeated_vote_prints_the_same_decision() {
    let folder = scratch("gateway-vote-again");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _members =
        ["alpha", "beta"].map(|name| GatewayProcess::agent(&url, name, &["--vote", "approve"]));
    let vote = ["vote", "Ship it", "--id", "release-7", "--json"];
    let first = run_gateway_command(&url, &vote).await;
    assert_exit_code(&first, 0);
    let restarted = run_gateway_command(&url, &vote).await;
    assert_exit_code(&restarted, 0);
    assert_eq!(json_lines(&restarted).last(), json_lines(&first).last());
    assert_eq!(json_lines(&restarted).len(), 1);
    let other = run_gateway_command(&url, &["vote", "Another", "--id", "release-7"]).await;
    assert_exit_code(&other, 1);
}

/// Returns the finding of a check.
fn finding(output: &ProcessOutput, check: &str) -> serde_json::Value {
    let findings = json_lines(output).remove(0)["findings"].take();
    let mut findings = findings.as_array().unwrap().iter();
    let found = findings.find(|finding| finding["check"] == check);
    found
        .unwrap_or_else(|| panic!("{check}: {}", output.stdout))
        .clone()
}

#[tokio::test]
async fn doctor_names_the_process_with_the_port() {
    let folder = scratch("gateway-doctor-port");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let state = folder.to_str().unwrap();
    let doctor = format!("doctor --json --state-dir '{state}' --timeout-ms 300");
    let output = run_gateway_command(&url, &words(&doctor)).await;
    assert_exit_code(&output, 5);
    let port = finding(&output, "port");
    let own = format!("process {}", std::process::id());
    assert!(port["message"].as_str().unwrap().contains(&own), "{port}");
}

#[tokio::test]
async fn doctor_explains_offline_agents() {
    let folder = scratch("gateway-doctor");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _coder = GatewayProcess::agent(&url, "coder", &[]);
    let state = folder.to_str().unwrap();
    let output = run_gateway_command(&url, &["doctor", "--json", "--state-dir", state]).await;
    assert_exit_code(&output, 0);
    assert_eq!(finding(&output, "clock")["severity"], "ok");
    let agent = finding(&output, "agent");
    assert_eq!(agent["severity"], "warning");
    let message = agent["message"].as_str().unwrap();
    assert_contains(message, &["no client serves them", "alpha, beta"]);
    assert!(!message.contains("coder"), "{agent}");
    let all = json_lines(&output)[0].to_string();
    assert_eq!(all.matches("gateway agent --name").count(), 1, "{all}");
}

#[tokio::test]
async fn doctor_names_backends_that_do_not_exist() {
    let folder = scratch("gateway-doctor-backends");
    let nowhere = free_port();
    let address = format!("http://127.0.0.1:{nowhere}");
    let plugin = json!({"targets": [
        {"alias": "desk", "baseUrl": address},
        {"alias": "own", "baseUrl": address, "allowedAgents": ["h"]},
    ]});
    std::fs::write(folder.join("plugin.json"), plugin.to_string()).unwrap();
    let backends = [
        (
            "a",
            json!({"run": "/nowhere/no-such-program --fast"}),
            "`/nowhere/no-such-program`",
        ),
        (
            "b",
            json!({"model": {"url": format!("http://127.0.0.1:{nowhere}"), "name": "m"}}),
            "cannot connect",
        ),
        (
            "c",
            json!({"target": {"alias": "desk", "configFile": "plugin.json"}}),
            "cannot connect",
        ),
        (
            "d",
            json!({"target": {"alias": "desk2", "configFile": "plugin.json"}}),
            "no agent is called `desk2`",
        ),
        (
            "e",
            json!({"openclaw": {"agent": "main", "url": format!("ws://127.0.0.1:{nowhere}")}}),
            "cannot connect",
        ),
        ("f", json!({"run": "cat"}), "the shell finds"),
        ("g", json!({"run": "FOO=1 no-such-program"}), "not checked"),
        (
            "h",
            json!({"target": {"alias": "own", "configFile": "plugin.json"}}),
            "cannot connect",
        ),
    ];
    let agents = backends
        .iter()
        .map(|(name, backend, _)| json!({"name": name, "role": "r", "backend": backend}));
    let config = json!({"listen": format!("127.0.0.1:{}", free_port()), "agents": agents.collect::<Vec<_>>()});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let state = folder.to_str().unwrap();
    let mut gateway = GatewayProcess::start(&["gateway", "--json", "--state-dir", state]);
    gateway.next();
    let output = run(&["gateway", "doctor", "--json", "--state-dir", state]).await;
    assert_exit_code(&output, 1);
    let findings = &json_lines(&output)[0]["findings"];
    let found = findings.as_array().unwrap().iter();
    let found: Vec<_> = found
        .filter(|finding| finding["check"] == "backend")
        .collect();
    assert_eq!(found.len(), backends.len(), "{findings}");
    for (finding, (name, _, shown)) in found.iter().zip(&backends) {
        let severity = match *name {
            "f" | "g" => "ok",
            _ => "error",
        };
        assert_eq!(finding["severity"], severity, "{finding}");
        let message = finding["message"].as_str().unwrap();
        assert_contains(message, &[&format!("{name}: "), shown]);
    }
}

#[tokio::test]
async fn doctor_warns_of_backends_that_only_the_gateway_can_check() {
    let folder = scratch("gateway-doctor-environment");
    let token = json!({"source": "env", "id": "TOKEN_OF_THE_GATEWAY"});
    let nowhere = free_port();
    let plugin = json!({"targets": [
        {"alias": "desk", "baseUrl": format!("http://127.0.0.1:{nowhere}"), "auth": {"type": "bearer", "token": token}},
    ]});
    std::fs::write(folder.join("plugin.json"), plugin.to_string()).unwrap();
    let openclaw =
        json!({"agent": "main", "url": format!("ws://127.0.0.1:{nowhere}"), "token": token});
    let agents = json!([
        {"name": "alpha", "role": "r", "backend": {"run": "./agent.sh"}},
        {"name": "beta", "role": "r", "backend": {"run": "no-such-program"}},
        {"name": "charlie", "role": "r", "backend": {"target": {"alias": "desk", "configFile": "plugin.json"}}},
        {"name": "d", "role": "r", "backend": {"openclaw": openclaw}},
    ]);
    let config = json!({"listen": format!("127.0.0.1:{}", free_port()), "agents": agents});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let state = folder.to_str().unwrap();
    let mut gateway = command(&["gateway", "--json", "--state-dir", state]);
    gateway.env("TOKEN_OF_THE_GATEWAY", "secret");
    let mut gateway = GatewayProcess::spawn(gateway);
    gateway.next();
    let output = run(&["gateway", "doctor", "--json", "--state-dir", state]).await;
    let findings = &json_lines(&output)[0]["findings"];
    let found = findings.as_array().unwrap().iter();
    let found: Vec<_> = found
        .filter(|finding| finding["check"] == "backend")
        .collect();
    let shown = [
        "alpha: the shell does not find `./agent.sh`",
        "beta: the shell does not find `no-such-program`",
        "charlie: not checked: the environment variable `TOKEN_OF_THE_GATEWAY`",
        "d: not checked: the environment variable `TOKEN_OF_THE_GATEWAY`",
    ];
    assert_eq!(found.len(), shown.len(), "{findings}");
    for (finding, shown) in found.iter().zip(shown) {
        assert_eq!(finding["severity"], "warning", "{finding}");
        assert_contains(finding["message"].as_str().unwrap(), &[shown]);
    }
    assert_exit_code(&output, 0);
}

#[tokio::test]
async fn doctor_without_a_gateway_exits_with_3() {
    let folder = scratch("gateway-doctor-none");
    let url = format!("ws://127.0.0.1:{}", free_port());
    let state = folder.to_str().unwrap();
    let output = run_gateway_command(&url, &["doctor", "--json", "--state-dir", state]).await;
    assert_exit_code(&output, 3);
    let gateway = finding(&output, "gateway");
    assert_eq!(gateway["severity"], "error");
    assert!(
        gateway["repair"]
            .as_str()
            .unwrap()
            .contains("remote-agent gateway")
    );
}

#[tokio::test]
async fn doctor_reports_links_encryption_and_signatures() {
    let folder = scratch("gateway-doctor-links");
    let nowhere = format!("ws://127.0.0.1:{}", free_port());
    let config = json!({
        "listen": format!("127.0.0.1:{}", free_port()),
        "links": [{"name": "berlin", "url": nowhere}],
        "sessions": {"encryption": {"keys": [{"key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}},
        "agents": [{"name": "alpha", "role": "r", "signing": "require"}],
        "signing": {"mode": "verify", "requireVotes": true},
    });
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let state = folder.to_str().unwrap();
    let mut gateway = GatewayProcess::start(&["gateway", "--json", "--state-dir", state]);
    gateway.next();
    let output = run(&["gateway", "doctor", "--json", "--state-dir", state]).await;
    for (check, severity, shown) in [
        (
            "link",
            "warning",
            "berlin is down, not encrypted, and on this machine only",
        ),
        ("sessions", "ok", "new session files are encrypted"),
        (
            "signing",
            "ok",
            "verify, another mode for 1 agent, required of votes; decisions are not signed",
        ),
    ] {
        let found = finding(&output, check);
        assert_eq!(found["severity"], severity, "{found}");
        assert_contains(found["message"].as_str().unwrap(), &[shown]);
    }
}

#[tokio::test]
async fn doctor_reports_a_triad_that_cannot_decide() {
    let folder = scratch("gateway-doctor-triad");
    let listen = format!("127.0.0.1:{}", free_port());
    // The doctor checks the triad of a configuration that it reads, without `--url`.
    let config = json!({ "listen": listen });
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let state = folder.to_str().unwrap();
    let mut gateway = GatewayProcess::start(&["gateway", "--json", "--state-dir", state]);
    let url = gateway.next()["url"].as_str().unwrap().to_owned();
    let doctor = ["gateway", "doctor", "--json", "--state-dir", state];
    let _alpha = GatewayProcess::agent(&url, "alpha", &[]);
    let output = run(&doctor).await;
    assert_exit_code(&output, 1);
    let triad = finding(&output, "triad");
    let message = triad["message"].as_str().unwrap();
    assert_contains(
        message,
        &["1 of 3 members are connected", "a decision needs 2"],
    );
    let _beta = GatewayProcess::agent(&url, "beta", &[]);
    let output = run(&doctor).await;
    assert_exit_code(&output, 0);
    assert!(
        !output.stdout.contains(r#""check":"triad""#),
        "{}",
        output.stdout
    );
}
