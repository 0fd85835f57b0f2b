//! Commands that send, watch and vote at a running gateway.

use super::*;
use crate::cli::process::Ended;
use testkit::support::free_port;

async fn at(url: &str, args: &[&str]) -> Ended {
    run(&[&["gateway"], args, &["--url", url]].concat()).await
}

#[tokio::test]
async fn watch_prints_messages_without_their_texts() {
    let folder = scratch("gateway-watch");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    let mut full = Running::start(&["gateway", "watch", "--json", "--content", "--url", &url]);
    for watch in [&mut watch, &mut full] {
        watch.until("status");
    }
    // The list of agents follows the subscription to events, which is the second one.
    let _coder = Running::agent(&url, "coder", &["--reply", "I read: {text}"]);
    watch.until_status("coder", "online");
    let request = at(&url, &["request", "--to", "coder", "hush"]).await;
    exits(&request, 0);
    assert_eq!(request.stdout, "I read: hush\n");
    let message = watch.until("message");
    assert_eq!(message["to"], "coder");
    assert_eq!(message.get("text"), None);
    assert_eq!(watch.until("reply")["from"], "coder");
    assert_eq!(full.until("message")["text"], "hush");
    assert_eq!(full.until("reply")["text"], "I read: hush");
}

#[cfg(unix)]
#[tokio::test]
async fn interrupt_ends_watch_with_0() {
    let folder = scratch("gateway-watch-end");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    watch.until("status");
    interrupt(&watch.child);
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn watch_reconnects_to_a_restarted_gateway() {
    let folder = scratch("gateway-watch-again");
    let state = folder.to_str().unwrap();
    let port = free_port().to_string();
    let args = ["gateway", "--port", &port, "--json", "--state-dir", state];
    let mut gateway = Running::start(&args);
    let url = gateway.next()["url"].as_str().unwrap().to_owned();
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    watch.until("status");
    drop(gateway);
    watch.until("lost");
    let mut again = Running::start(&args);
    again.next();
    watch.until("connected");
    watch.until("status");
}

#[tokio::test]
async fn send_reports_refused_recipient() {
    let folder = scratch("gateway-send");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut coder = Running::agent(&url, "coder", &[]);
    let sent = at(&url, &["send", "--to", "coder", "one", "two"]).await;
    exits(&sent, 0);
    has(&sent.stdout, &["sent msg-", "to coder"]);
    assert_eq!(coder.until("received")["text"], "one two");
    let unknown = at(&url, &["send", "--to", "ghost", "hello"]).await;
    exits(&unknown, 1);
    has(&unknown.stderr, &["3001"]);
    let offline = at(&url, &["send", "--to", "alpha", "hello"]).await;
    exits(&offline, 3);
    has(&offline.stderr, &["3002"]);
}

#[tokio::test]
async fn request_without_a_reply_exits_with_5() {
    let folder = scratch("gateway-request");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let _slow = Running::agent(&url, "slow", &["--delay-ms", "60000"]);
    let ended = at(
        &url,
        &["request", "--to", "slow", "--wait-ms", "300", "hello"],
    )
    .await;
    exits(&ended, 5);
    has(&ended.stderr, &["`slow` did not reply within 300 ms"]);
}

#[tokio::test]
async fn broadcast_names_its_recipients() {
    let folder = scratch("gateway-broadcast");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    exits(&at(&url, &["broadcast", "hello?"]).await, 1);
    let _coder = Running::agent(&url, "coder", &[]);
    let ended = at(&url, &["broadcast", "hello", "--json"]).await;
    exits(&ended, 0);
    assert_eq!(lines(&ended)[0]["delivered"], serde_json::json!(["coder"]));
}

#[tokio::test]
async fn workspaces_lists_sessions_of_an_agent() {
    let folder = scratch("gateway-workspaces");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let _coder = Running::agent(&url, "coder", &[]);
    let request = ["request", "--to", "coder", "--session", "sess-7", "hello"];
    exits(&at(&url, &request).await, 0);
    let all = at(&url, &["workspaces"]).await;
    exits(&all, 0);
    has(&all.stdout, &["AGENT", "coder", "agents/coder"]);
    let one = at(&url, &["workspaces", "coder", "--json"]).await;
    exits(&one, 0);
    let workspace = &lines(&one)[0]["workspaces"][0];
    assert_eq!(workspace["sessionList"][0]["sessionId"], "sess-7");
    exits(&at(&url, &["workspaces", "ghost"]).await, 1);
}

#[tokio::test]
async fn exit_code_of_vote_is_the_decision() {
    let folder = scratch("gateway-vote");
    let (_gateway, url) = Running::gateway(&folder, &[]);
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
    exits(&at(&url, &["vote", "too early"]).await, 3);
    for (votes, code, decision) in cases {
        let members: Vec<Running> = ["alpha", "beta", "charlie"]
            .iter()
            .zip(votes)
            .map(|(name, vote)| {
                Running::agent(&url, name, &["--vote", vote, "--reason", "Because."])
            })
            .collect();
        let ended = at(&url, &["vote", "Ship", "it"]).await;
        exits(&ended, code);
        has(&ended.stdout, &["votes ", ": Because.", decision]);
        drop(members);
    }
}

#[tokio::test]
async fn repeated_vote_prints_the_same_decision() {
    let folder = scratch("gateway-vote-again");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let _members = ["alpha", "beta"].map(|name| Running::agent(&url, name, &["--vote", "approve"]));
    let vote = ["vote", "Ship it", "--id", "release-7", "--json"];
    let first = at(&url, &vote).await;
    exits(&first, 0);
    let again = at(&url, &vote).await;
    exits(&again, 0);
    assert_eq!(lines(&again).last(), lines(&first).last());
    assert_eq!(lines(&again).len(), 1);
    let other = at(&url, &["vote", "Another", "--id", "release-7"]).await;
    exits(&other, 1);
}

/// Returns the finding of a check.
fn finding(ended: &Ended, check: &str) -> serde_json::Value {
    let findings = lines(ended).remove(0)["findings"].take();
    let mut findings = findings.as_array().unwrap().iter();
    let found = findings.find(|finding| finding["check"] == check);
    found
        .unwrap_or_else(|| panic!("{check}: {}", ended.stdout))
        .clone()
}

#[tokio::test]
async fn doctor_names_the_process_with_the_port() {
    let folder = scratch("gateway-doctor-port");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let state = folder.to_str().unwrap();
    let doctor = [
        "doctor",
        "--json",
        "--state-dir",
        state,
        "--timeout-ms",
        "300",
    ];
    let ended = at(&url, &doctor).await;
    exits(&ended, 5);
    let port = finding(&ended, "port");
    let own = format!("process {}", std::process::id());
    assert!(port["message"].as_str().unwrap().contains(&own), "{port}");
}

#[tokio::test]
async fn doctor_explains_offline_agents() {
    let folder = scratch("gateway-doctor");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let _coder = Running::agent(&url, "coder", &[]);
    let state = folder.to_str().unwrap();
    let ended = at(&url, &["doctor", "--json", "--state-dir", state]).await;
    exits(&ended, 0);
    assert_eq!(finding(&ended, "clock")["severity"], "ok");
    let agent = finding(&ended, "agent");
    assert_eq!(agent["severity"], "warning");
    let message = agent["message"].as_str().unwrap();
    has(message, &["no client serves them", "alpha, beta"]);
    assert!(!message.contains("coder"), "{agent}");
    let all = lines(&ended)[0].to_string();
    assert_eq!(all.matches("gateway agent --name").count(), 1, "{all}");
}

#[tokio::test]
async fn doctor_without_a_gateway_exits_with_3() {
    let folder = scratch("gateway-doctor-none");
    let url = format!("ws://127.0.0.1:{}", free_port());
    let state = folder.to_str().unwrap();
    let ended = at(&url, &["doctor", "--json", "--state-dir", state]).await;
    exits(&ended, 3);
    let gateway = finding(&ended, "gateway");
    assert_eq!(gateway["severity"], "error");
    assert!(
        gateway["repair"]
            .as_str()
            .unwrap()
            .contains("remote-agent gateway")
    );
}

#[tokio::test]
async fn doctor_reports_a_triad_that_cannot_decide() {
    let folder = scratch("gateway-doctor-triad");
    let listen = format!("127.0.0.1:{}", free_port());
    // The doctor checks the triad of a configuration that it reads, without `--url`.
    let config = serde_json::json!({ "listen": listen });
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let state = folder.to_str().unwrap();
    let mut gateway = Running::start(&["gateway", "--json", "--state-dir", state]);
    let url = gateway.next()["url"].as_str().unwrap().to_owned();
    let doctor = ["gateway", "doctor", "--json", "--state-dir", state];
    let _alpha = Running::agent(&url, "alpha", &[]);
    let ended = run(&doctor).await;
    exits(&ended, 1);
    let triad = finding(&ended, "triad");
    let message = triad["message"].as_str().unwrap();
    has(
        message,
        &["1 of 3 members are connected", "a decision needs 2"],
    );
    let _beta = Running::agent(&url, "beta", &[]);
    let ended = run(&doctor).await;
    exits(&ended, 0);
    assert!(
        !ended.stdout.contains(r#""check":"triad""#),
        "{}",
        ended.stdout
    );
}
