//! Members that are targets of the tool: A2A agents, and agents of OpenClaw.

use std::io::Write as _;
use std::sync::Mutex;

use collective::{Envelope, Kind};
use gateway_bridge::client::{ClientConnection, Connector, Endpoint, message_text};
use testkit::conformance::{gateways::Gateways, peers::Peers};
use testkit::support::http;

use super::*;

/// Writes the configuration of the plugin, and returns its path.
fn write_plugin_config(folder: &Path, config: &Value) -> String {
    let file = folder.join("plugin.json");
    std::fs::write(&file, config.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Starts a gateway and the member `judge`, which is the A2A agent at `origin`.
fn start_judge(name: &str, origin: &str) -> (GatewayProcess, GatewayProcess, String) {
    let folder = scratch(name);
    let targets = write_plugin_config(
        &folder,
        &json!({"targets": [{"alias": "desk", "baseUrl": origin}]}),
    );
    let (gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let target = ["--target", "desk", "--target-config", &targets];
    let judge = GatewayProcess::agent(&url, "judge", &target);
    (gateway, judge, url)
}

/// A client that sends messages to the judge in one session.
struct Requester(ClientConnection);

impl Requester {
    async fn connect(url: &str) -> Self {
        let endpoint = Endpoint::new(url.parse().unwrap());
        let connector = Connector::new().unwrap();
        let connection = connector.open(&endpoint, &["steward"]).await;
        Self(connection.unwrap().0)
    }

    async fn send(&self, text: &str) {
        let content = json!({"role": "user", "content": text});
        let message = Envelope::new(Kind::Message, content)
            .with("agent", "judge")
            .with("sessionId", "s-1")
            .with_metadata("requiresResponse", true);
        self.0.sender().send(message).await.unwrap();
    }

    /// Returns the next envelope of the judge.
    async fn next(&mut self) -> Envelope {
        let received = tokio::time::timeout(OUTPUT_TIMEOUT, async {
            loop {
                let envelope = self.0.recv().await.unwrap();
                if envelope.from() == Some("judge") {
                    return envelope;
                }
            }
        });
        received.await.expect("an envelope")
    }

    /// Sends a message, and returns its answer.
    async fn request(&mut self, text: &str) -> Envelope {
        self.send(text).await;
        loop {
            let envelope = self.next().await;
            if envelope.kind() != Kind::Status {
                return envelope;
            }
        }
    }
}

/// Starts a desk whose task reports its progress, and completes after the test sends on the channel.
fn start_gated_desk() -> (String, mpsc::Sender<()>) {
    let (release, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let url = http::serve_agent(&card(), move |request, stream| {
        let id = &request.json()["id"];
        let end = json!({"artifacts": [{"artifactId": "a-1", "parts": text_parts("Here it is.")}]});
        let events = [
            task("working", json!({})),
            status("working", "reading the code"),
            task("completed", end),
        ];
        let mut events = events.into_iter().enumerate();
        http::answer_slowly(stream, || {
            let (number, result) = events.next()?;
            if number == 2 {
                gate.lock().unwrap().recv().ok()?;
            }
            Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        });
        let _ = stream.flush();
    });
    (url, release)
}

#[tokio::test]
async fn progress_of_a_streamed_task_reaches_the_sender() {
    let (origin, release) = start_gated_desk();
    let (_gateway, _judge, url) = start_judge("gateway-target-progress", &origin);
    let mut requester = Requester::connect(&url).await;
    requester.send("Look at it").await;
    let report = requester.next().await;
    assert_eq!(report.kind(), Kind::Status);
    assert_eq!(report.content_str("message"), Some("reading the code"));
    release.send(()).unwrap();
    let answer = requester.next().await;
    assert_eq!(message_text(&answer), "Here it is.");
}

#[tokio::test]
async fn answer_to_a_question_of_a_target_continues_its_task() {
    let question_events = [
        task("working", json!({})),
        status("input-required", "Publish it?"),
    ];
    let end = json!({"artifacts": [{"artifactId": "a-1", "parts": text_parts("Published.")}]});
    let answers = [question_events.to_vec(), vec![task("completed", end)]];
    let streams = answers.map(|events| {
        let events: Vec<_> = events
            .into_iter()
            .map(|event| json!({"result": event}))
            .collect();
        json!({"sse": events})
    });
    let peers = start_desk(json!({"message/stream": streams})).await;
    let (_gateway, _judge, url) = start_judge("gateway-target-question", peers.origin("desk"));
    let mut requester = Requester::connect(&url).await;
    let question = requester.request("Write it").await;
    assert_eq!(message_text(&question), "Publish it?");
    let answer = requester.request("Yes").await;
    assert_eq!(message_text(&answer), "Published.");
    let sent = last_message(&peers);
    assert_eq!(sent["taskId"], "task-1");
    assert_eq!(sent["parts"][0]["text"], "Yes");
}

/// Waits until a peer has received a request of this method.
async fn wait_for_call(peers: &Peers, method: &str) {
    let called = async {
        for count in 1.. {
            peers.wait_for("desk", count).await;
            let last = peers.log("desk").swap_remove(count - 1);
            if last.body.is_some_and(|body| body["method"] == method) {
                return;
            }
        }
    };
    let called = tokio::time::timeout(OUTPUT_TIMEOUT, called).await;
    called.unwrap_or_else(|_| panic!("no {method}"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_that_stops_cancels_the_task_of_its_target() {
    let events = results([task("working", json!({})), status("working", "reading")]);
    let peers = start_desk(json!({
        "message/stream": [{"sse": events, "end": "hang"}],
        "tasks/cancel": results([task("canceled", json!({}))]),
    }))
    .await;
    let (_gateway, mut judge, url) = start_judge("gateway-target-cancel", peers.origin("desk"));
    let mut requester = Requester::connect(&url).await;
    requester.send("Write it").await;
    assert_eq!(
        requester.next().await.content_str("message"),
        Some("reading")
    );
    interrupt(&judge.child);
    wait_for_call(&peers, "tasks/cancel").await;
    assert_eq!(judge.child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn time_limit_cancels_the_task_of_a_target() {
    let events = results([task("working", json!({})), status("working", "reading")]);
    let peers = start_desk(json!({
        "message/stream": [{"sse": events, "end": "hang"}],
        "tasks/cancel": results([task("canceled", json!({}))]),
    }))
    .await;
    let folder = scratch("gateway-target-limit");
    let config = json!({"targets": [{"alias": "desk", "baseUrl": peers.origin("desk")}]});
    let targets = write_plugin_config(&folder, &config);
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let target = format!("--target desk --target-config '{targets}' --answer-timeout-ms 2000");
    let _judge = GatewayProcess::agent(&url, "judge", &words(&target));
    let mut requester = Requester::connect(&url).await;
    let answer = requester.request("Write it").await;
    assert_eq!(answer.content()["code"], 3004);
    wait_for_call(&peers, "tasks/cancel").await;
}

#[tokio::test]
async fn member_answers_after_a_failed_call_of_its_target() {
    let agent_text = |text: &str| {
        let end = json!({"artifacts": [{"artifactId": "a-1", "parts": [{"kind": "text", "text": text}]}]});
        json!({"sse": [{"result": task("completed", end)}]})
    };
    let error = json!({"error": {"code": -32603, "message": "the disk at /srv/desk is full"}});
    let peers =
        start_desk(json!({"message/stream": [agent_text("One."), error, agent_text("Three.")]}))
            .await;
    let (_gateway, _judge, url) = start_judge("gateway-target-failure", peers.origin("desk"));
    let mut requester = Requester::connect(&url).await;
    assert_eq!(message_text(&requester.request("First").await), "One.");
    let failed = requester.request("Second").await;
    assert_eq!(failed.content()["code"], 3004);
    // The text of the agent's error is for the operator.
    assert!(
        !failed.to_text().contains("/srv/desk"),
        "{}",
        failed.to_text()
    );
    assert_eq!(last_message(&peers)["contextId"], "ctx-1");
    assert_eq!(message_text(&requester.request("Third").await), "Three.");
    // The failed call ended the conversation with the target.
    assert_eq!(last_message(&peers).get("contextId"), None);
}

#[tokio::test]
async fn text_for_an_openclaw_target_is_no_command() {
    let openclaw = Gateways::named("openclaw").await.unwrap();
    for dialect in ["openclaw", "auto"] {
        let folder = scratch(&format!("gateway-target-{dialect}"));
        let gateway = json!({
            "enabled": true, "url": openclaw.url(), "dialect": dialect, "token": "scripted-token",
        });
        let config = write_plugin_config(&folder, &json!({ "gateway": gateway }));
        let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
        let target = ["--target", "gateway:main", "--target-config", &config];
        let _judge = GatewayProcess::agent(&url, "judge", &target);
        let mut requester = Requester::connect(&url).await;
        let answer = requester.request("/model cheap").await;
        assert_eq!(answer.kind(), Kind::Message, "{}", answer.to_text());
        let sent = openclaw.log().matching(&json!({"/method": "agent"}));
        let sent = sent.last().unwrap()["params"]["message"].as_str().unwrap();
        let (notice, rest) = sent.split_once("\n\n").unwrap();
        assert!(notice.starts_with("// Text of an A2A client."), "{sent}");
        assert_eq!(rest, "/model cheap");
    }
}
