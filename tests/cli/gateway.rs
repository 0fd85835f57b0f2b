//! The gateway and its agents, with the commands of operators.

mod backends;
mod commands;
mod encryption;
mod load;
#[cfg(feature = "real")]
mod page;
mod selection;
mod targets;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::cli::{process::wait_for_output, support::*};
use crate::support::assert_has;

/// The process of a gateway or of one of its agents. Dropping it ends the process.
struct GatewayProcess {
    child: Child,
    lines: mpsc::Receiver<String>,
}

/// The timeout of the next output of a process.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

impl GatewayProcess {
    fn start(args: &[&str]) -> Self {
        Self::spawn(command(args))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Ends with the process.
        thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            lines
                .take_while(|line| sender.send(line.clone()).is_ok())
                .count()
        });
        Self { child, lines }
    }

    /// Returns the next line; `None` at the end of the output.
    fn line(&mut self, deadline: Instant) -> Option<String> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(remaining) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no output before the deadline"),
        }
    }

    fn next(&mut self) -> Value {
        self.next_by(Instant::now() + OUTPUT_TIMEOUT)
    }

    fn next_by(&mut self, deadline: Instant) -> Value {
        let line = self.line(deadline).expect("a line before the end");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Reads until an event with this value of `happened`.
    fn wait_for(&mut self, happened: &str) -> Value {
        self.wait_for_event(|event| event["happened"] == happened)
    }

    /// Reads until an event matches `predicate`.
    fn wait_for_event(&mut self, predicate: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + OUTPUT_TIMEOUT;
        loop {
            let next = self.next_by(deadline);
            if predicate(&next) {
                return next;
            }
        }
    }

    /// Reads until an agent has this status.
    fn wait_for_status(&mut self, agent: &str, status: &str) {
        self.wait_for_event(|event| event["agent"] == agent && event["status"] == status);
    }

    fn gateway(folder: &Path, options: &[&str]) -> (Self, String) {
        let folder = folder.to_str().unwrap();
        let args = ["gateway", "--port", "0", "--json", "--state-dir", folder];
        let mut gateway = Self::start(&[&args, options].concat());
        let url = gateway.next()["url"].as_str().unwrap().to_owned();
        (gateway, url)
    }

    /// Starts a gateway with this `gateway.json`.
    fn configured(folder: &Path, config: &Value) -> (Self, String) {
        std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
        Self::gateway(folder, &[])
    }

    fn watch(url: &str) -> Self {
        Self::start(&["gateway", "watch", "--json", "--url", url])
    }

    fn agent(url: &str, name: &str, options: &[&str]) -> Self {
        let args = ["gateway", "agent", "--json", "--url", url, "--name", name];
        let mut agent = Self::start(&[&args, options].concat());
        agent.wait_for("connected");
        agent
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn first_steps_show_a_triad_decision() {
    let folder = scratch("gateway-triad");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    // The members vote in this order, because two approvals could decide before the third vote arrives.
    let vote = |name, vote, after| {
        GatewayProcess::agent(&url, name, &["--vote", vote, "--delay-ms", after])
    };
    let mut triad = [
        vote("alpha", "approve", "200"),
        vote("beta", "abstain", "400"),
        vote("charlie", "approve", "600"),
    ];
    let output = run_line(&format!(
        "send --gateway {url} --target triad --follow 'Ship it'"
    ))
    .await;
    assert_exit_code(&output, 0);
    assert_contains(
        &output.stdout,
        &["alpha approve, beta abstain, charlie approve"],
    );
    for member in &mut triad {
        assert_eq!(member.wait_for("asked")["proposal"], "Ship it");
        member.wait_for("voted");
    }
}

#[tokio::test]
async fn restarted_agent_answers_again() {
    let folder = scratch("gateway-agent");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut coder = GatewayProcess::agent(&url, "coder", &["--reply", "I read: {text}"]);
    let send = ["send", "--gateway", &url, "--target", "coder", "hello"];
    let output = run(&send).await;
    assert_exit_code(&output, 0);
    assert_eq!(output.stdout, "I read: hello\n");
    let output = run(&["gateway", "agents", "restart", "coder", "--url", &url]).await;
    assert_exit_code(&output, 0);
    coder.wait_for("lost");
    coder.wait_for("connected");
    let output = run(&send).await;
    assert_eq!(output.stdout, "I read: hello\n");
    let output = run(&["gateway", "agents", "restart", "unknown", "--url", &url]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["3001 AGENT_NOT_FOUND"]);
}

#[tokio::test]
async fn agents_are_listed_by_gateway_or_configuration() {
    let folder = scratch("gateway-agents");
    let (gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let _alpha = GatewayProcess::agent(&url, "alpha", &[]);
    let status = run(&["gateway", "agents", "status", "alpha", "--url", &url]).await;
    assert_exit_code(&status, 0);
    assert_contains(&status.stdout, &["Triad member", "online"]);
    let away = run(&["gateway", "agents", "status", "beta", "--url", &url]).await;
    assert_exit_code(&away, 1);
    let deep = run(&["gateway", "status", "--deep", "--json", "--url", &url]).await;
    assert_exit_code(&deep, 0);
    let reported = &json_lines(&deep)[0];
    assert_has(
        reported,
        json!({"dialect": "a2a-v1", "protocolVersion": "1.0.0"}),
    );
    assert_eq!(reported["agents"].as_array().unwrap().len(), 12);
    assert!(reported["roundTripMs"].as_f64().is_some());
    drop(gateway);
    let listed = run(&["gateway", "agents", "list", "--url", &url, "--json"]).await;
    assert_exit_code(&listed, 0);
    assert_contains(&listed.stderr, &["no gateway answers"]);
    assert_eq!(json_lines(&listed)[0]["agents"][2]["status"], "offline");
    let status = run(&["gateway", "status", "--url", &url]).await;
    assert_exit_code(&status, 3);
}

#[tokio::test]
async fn created_agent_is_known_after_restart() {
    let folder = scratch("gateway-create");
    let state = folder.to_str().unwrap();
    let files = ["--state-dir", state];
    let create = [
        "gateway", "agents", "create", "reviewer", "--role", "Reviewer",
    ];
    assert_exit_code(&run(&[&create[..], &files].concat()).await, 0);
    let twice = run(&[&create[..], &files].concat()).await;
    assert_exit_code(&twice, 2);
    assert_contains(&twice.stderr, &["already exists"]);
    let config = ["gateway", "agents", "config", "reviewer", "get", "--json"];
    let reported = run(&[&config[..], &files].concat()).await;
    assert_eq!(json_lines(&reported)[0]["role"], "Reviewer");
    assert!(folder.join("agents/reviewer").is_dir());
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let status = run(&["gateway", "agents", "status", "reviewer", "--url", &url]).await;
    assert_contains(&status.stdout, &["Reviewer", "offline"]);
}

#[tokio::test]
async fn sessions_are_managed_with_and_without_a_gateway() {
    let folder = scratch("gateway-sessions");
    let state = folder.to_str().unwrap();
    let (gateway, url) = GatewayProcess::gateway(&folder, &["--profile", "strict"]);
    let place = ["--state-dir", state, "--url", &url];
    let sessions =
        async |args: &[&str]| run(&[&["gateway", "sessions"], args, &place].concat()).await;
    let created = sessions(&["create", "alpha", "--session", "sess-1"]).await;
    assert_exit_code(&created, 0);
    assert_eq!(created.stdout, "sess-1\n");
    let alpha = GatewayProcess::agent(&url, "alpha", &[]);
    let talk = format!("send --gateway {url} --target alpha --context sess-1 hello");
    assert_exit_code(&run_line(&talk).await, 0);
    assert_exit_code(&sessions(&["commit", "alpha", "sess-1"]).await, 0);
    let got = sessions(&["get", "alpha", "sess-1"]).await;
    assert_contains(&got.stdout, &["user: hello", "agent: You said: hello"]);
    let exported = sessions(&["export", "alpha", "sess-1"]).await;
    let entries = json_lines(&exported);
    assert_eq!(entries[0]["sessionId"], "sess-1");
    drop((alpha, gateway));
    let file = folder.join("out.jsonl");
    std::fs::write(&file, &exported.stdout).unwrap();
    let imported = sessions(&["import", "beta", file.to_str().unwrap()]).await;
    assert_exit_code(&imported, 0);
    assert_contains(
        &sessions(&["get", "beta", "sess-1"]).await.stdout,
        &["user: hello"],
    );
    assert_exit_code(
        &sessions(&["archive", "alpha", "--older-than", "0s"]).await,
        0,
    );
    assert_exit_code(&sessions(&["delete", "beta", "sess-1"]).await, 0);
    let listed = sessions(&["list", "--archived", "--json"]).await;
    let all = json_lines(&listed)[0]["sessions"].clone();
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert_has(&all[0], json!({"agent": "alpha", "state": "archived"}));
    let gone = sessions(&["get", "beta", "sess-1"]).await;
    assert_exit_code(&gone, 1);
    assert_contains(&gone.stderr, &["unknown session"]);
}

#[tokio::test]
async fn create_refuses_gateway_with_other_state_directory() {
    let (own, other) = (scratch("gateway-ours"), scratch("gateway-theirs"));
    let (_one, _) = GatewayProcess::gateway(&own, &[]);
    let (_other, url) = GatewayProcess::gateway(&other, &[]);
    let state = own.to_str().unwrap();
    let output = run_line(&format!(
        "gateway sessions create alpha --state-dir '{state}' --url {url}"
    ))
    .await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["another state directory"]);
}

#[tokio::test]
async fn other_gateways_are_reported_by_their_names() {
    for (profile, reported) in [
        ("openclaw", "OpenClaw's own gateway"),
        ("heretek-js", "JavaScript gateway"),
    ] {
        let mut gateway =
            GatewayProcess::start(&["gateway", "--profile", profile, "--port", "0", "--json"]);
        let mut url = gateway.next()["url"].as_str().unwrap().to_owned();
        if profile == "heretek-js" {
            url += "/a2a";
        }
        let output = run(&["gateway", "status", "--url", &url]).await;
        assert_exit_code(&output, 3);
        assert_contains(&output.stderr, &[reported]);
    }
}

#[tokio::test]
async fn taken_port_is_reported_with_its_holder() {
    let folder = scratch("gateway-port");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let port = url.rsplit_once(':').unwrap().1;
    let other = scratch("gateway-port-2");
    let other = other.to_str().unwrap();
    let output = run(&["gateway", "--port", port, "--state-dir", other]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["is taken", "a2a-v1"]);
}

#[cfg(unix)]
#[tokio::test]
async fn interrupted_gateway_disconnects_its_clients() {
    let folder = scratch("gateway-leave");
    let (mut gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut alpha = GatewayProcess::agent(&url, "alpha", &[]);
    interrupt(&gateway.child);
    let status = gateway.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_contains(
        alpha.wait_for("lost")["message"].as_str().unwrap(),
        &["1001", "shutting down"],
    );
}

#[tokio::test]
async fn validate_names_the_place_of_each_error() {
    let folder = scratch("gateway-validate");
    let file = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    assert_exit_code(
        &run(&["gateway", "validate", &file("good.json", "{}")]).await,
        0,
    );
    let bad = run(&["gateway", "validate", &file("bad.json", r#"{"port": 1}"#)]).await;
    assert_exit_code(&bad, 2);
    assert_contains(&bad.stderr, &["port"]);
    let envelopes = file(
        "some.jsonl",
        "{\"type\":\"ping\"}\n{\"type\":\"vote\",\"content\":{}}\n",
    );
    let checked = run(&["gateway", "validate", "--envelopes", &envelopes]).await;
    assert_exit_code(&checked, 2);
    assert_contains(
        &checked.stdout,
        &["line 2: 2002 MISSING_FIELD", "1 valid envelope"],
    );
}

#[tokio::test]
async fn untranslatable_line_is_reported_by_number() {
    use std::io::Write as _;
    let mut child = command(&["translate", "--from", "fipa", "--to", "a2a-v1"]);
    let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let dense = vec![json!({"a": 0}); 50_000];
    let dense = json!({"performative": "inform", "sender": "a", "receiver": "b", "content": dense});
    let (receivers, text) = (vec!["b"; 700], "x".repeat(100_000));
    let copied =
        json!({"performative": "inform", "sender": "a", "receiver": receivers, "content": text});
    let heavy = vec![json!({"a": 0}); 10_000];
    let heavy = json!({"performative": "inform", "sender": "a", "receiver": vec!["b"; 30], "content": {"text": "a", "values": heavy}});
    let lines_in = [
        br#"{"performative":"propose","sender":"steward","content":"Ship it","conversation-id":"p"}"#,
        &b"nonsense"[..],
        b"",
        b"\xff",
        dense.to_string().as_bytes(),
        copied.to_string().as_bytes(),
        heavy.to_string().as_bytes(),
        br#"{"performative":"agree","sender":"alpha","conversation-id":"p"}"#,
        b"",
    ]
    .join(&b'\n');
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&lines_in).unwrap();
    drop(stdin);
    let output = wait_for_output(child).await;
    assert_exit_code(&output, 1);
    let reported = json_lines(&output);
    let kinds: Vec<_> = reported
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["proposal", "vote"]);
    assert_eq!(reported[1]["content"]["vote"], "approve");
    assert_contains(
        &output.stderr,
        &[
            "line 2: 2001 INVALID_JSON",
            "line 4: 2001 INVALID_JSON: the line is not UTF-8",
            "line 5: 2001 INVALID_JSON",
            "line 6: 2005 INVALID_CONTENT: 700 receivers",
            "line 7: 2005 INVALID_CONTENT: 30 receivers",
            "5 lines were not translated",
        ],
    );
}
