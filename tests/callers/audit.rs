//! The audit log.

use std::fs;

use openclaw_remote_agent::plugin::{self, CallInput};
use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::callers::{
    call,
    folder::Folder,
    start_desk,
    tool_fixture::{
        NEVER_MS, ToolFixture, card, peers, reason, send_request, stream_request, within_timeout,
    },
};

/// Returns an instance with an audit log in `folder`.
fn fixture(peers: &Peers, folder: &Folder) -> ToolFixture {
    let auth = json!({"type": "bearer", "token": "tok-secret"});
    let target = json!({"alias": "main", "baseUrl": format!("{}/desk-path", peers.origin("main")), "default": true, "auth": auth,
        "cardUrl": format!("{}/.well-known/agent-card.json", peers.origin("main"))});
    let audit = json!({"enabled": true, "path": folder.path().join("audit.jsonl")});
    ToolFixture::new(&json!({"targets": [target], "audit": audit}))
}

fn log_text(folder: &Folder) -> String {
    fs::read_to_string(folder.path().join("audit.jsonl")).unwrap_or_default()
}

/// Closes the instance and returns the lines of its log.
fn close_and_read_log(fixture: &ToolFixture, folder: &Folder) -> Vec<Value> {
    fixture.plugin.close();
    let text = log_text(folder);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn caller() -> Value {
    json!({"agent_id": "clerk", "session_key": "agent:clerk:x", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
}

#[tokio::test]
async fn audit_line_has_caller_target_and_outcome() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    let request = send_request();
    let sent = request["parts"][0].to_string().len();
    let envelope = call(&fixture, &caller(), &request).await;
    let received = envelope["raw"].to_string().len();
    let all = close_and_read_log(&fixture, &folder);
    assert_eq!(all.len(), 1, "{all:?}");
    let mut line = all[0].clone();
    let object = line.as_object_mut().unwrap();
    let time = object.remove("time").unwrap();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    assert!(object.remove("duration_ms").unwrap().is_u64());
    assert_eq!(
        object.remove("chain").unwrap().as_str().unwrap().len(),
        32,
        "{all:?}"
    );
    let expected = json!({
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "agent": "clerk", "session": "agent:clerk:x", "action": "send",
        "target": "main", "origin": peers.origin("main"), "transport": "JSONRPC", "sent_bytes": sent, "received_bytes": received, "outcome": "ok",
    });
    assert_eq!(line, expected);
}

#[tokio::test]
async fn audit_line_has_task_ids_and_last_state() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    call(&fixture, &caller(), &stream_request()).await;
    for action in ["watch", "status", "cancel"] {
        let request = json!({"action": action, "target_alias": "main", "task_id": "t-1"});
        call(&fixture, &caller(), &request).await;
    }
    let all = close_and_read_log(&fixture, &folder);
    let states: Vec<_> = all
        .iter()
        .map(|line| line["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["completed", "completed", "working", "canceled"]);
    for line in &all {
        assert_eq!(
            (&line["task_id"], &line["context_id"]),
            (&json!("t-1"), &json!("c-1")),
            "{line}"
        );
        assert!(line["received_bytes"].as_u64().unwrap() > 40, "{line}");
    }
}

#[tokio::test]
async fn audit_log_has_no_content_and_no_secret() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    for mut request in [send_request(), stream_request()] {
        request["parts"][0]["text"] = json!("hush-hush");
        request["metadata"] = json!({"note": "hush-hush"});
        request["service_parameters"] = json!({"X-Key": "hush-hush"});
        call(&fixture, &caller(), &request).await;
    }
    call(&fixture, &caller(), &json!({"action": "hush-hush"})).await;
    let invalid = json!({"action": "send", "target_url": "https://hush-hush.example/?key=hush-hush", "parts": []});
    call(&fixture, &caller(), &invalid).await;
    assert_eq!(close_and_read_log(&fixture, &folder).len(), 4);
    let text = log_text(&folder);
    for word in ["hush-hush", "tok-secret", "pong", "desk-path", "Desk"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

#[tokio::test]
async fn call_that_fails_is_reported_by_its_reason() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    let request =
        json!({"action": "status", "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0"});
    assert_eq!(
        reason(&call(&fixture, &caller(), &request).await),
        "unknown_handle"
    );
    call(&fixture, &caller(), &json!({"action": "send"})).await;
    let job = CallInput {
        request: "{".to_owned(),
        ..CallInput::default()
    };
    within_timeout(fixture.plugin.start(job)).await;
    let all = close_and_read_log(&fixture, &folder);
    let reported: Vec<_> = all
        .iter()
        .map(|line| {
            (
                line["action"].as_str().unwrap(),
                line["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            ("status", "unknown_handle"),
            ("send", "invalid_request"),
            ("unknown", "invalid_request")
        ]
    );
}

#[tokio::test]
async fn refused_call_is_audited_with_its_target() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let audit = json!({"enabled": true, "path": folder.path().join("audit.jsonl")});
    let target = |alias: &str, agents: Value| json!({"alias": alias, "baseUrl": peers.origin("main"), "allowedAgents": agents});
    let targets = [
        target("clerks", json!(["clerk"])),
        target("others", json!(["other"])),
    ];
    let fixture = ToolFixture::new(&json!({"targets": targets, "audit": audit}));
    let mut caller = caller();
    caller["chain"] = json!({"hop": 4, "chain": "row-1"});
    for alias in ["clerks", "others"] {
        let mut request = send_request();
        request["target_alias"] = json!(alias);
        call(&fixture, &caller, &request).await;
    }
    let all = close_and_read_log(&fixture, &folder);
    let reported: Vec<_> = all
        .iter()
        .map(|line| json!([line["target"], line["outcome"]]))
        .collect();
    assert_eq!(
        json!(reported),
        json!([
            ["clerks", "delegation_too_deep"],
            ["others", "agent_not_allowed"]
        ])
    );
}

#[tokio::test]
async fn listing_targets_is_audited() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    call(&fixture, &caller(), &json!({"action": "list_targets"})).await;
    let all = close_and_read_log(&fixture, &folder);
    assert_eq!(
        (&all[0]["action"], &all[0]["outcome"]),
        (&json!("list_targets"), &json!("ok"))
    );
}

/// Returns a peer that receives a message and never answers.
async fn silent() -> Peers {
    let never = json!({"delay_ms": NEVER_MS, "result": {}});
    peers(json!({"main": {"card": card(), "rpc": {"message/send": never}}})).await
}

#[tokio::test]
async fn audit_line_of_aborted_call_has_sent_bytes() {
    let (peers, folder) = (silent().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    let cancel = CancellationToken::new();
    let running = tokio::spawn(fixture.start(&send_request(), &cancel, |_| ()));
    within_timeout(peers.wait_for("main", 2)).await;
    cancel.cancel();
    within_timeout(running).await.unwrap();
    let all = close_and_read_log(&fixture, &folder);
    assert_eq!(all[0]["outcome"], "aborted", "{all:?}");
    assert!(all[0]["sent_bytes"].as_u64().unwrap() > 0, "{all:?}");
}

#[tokio::test]
async fn call_ended_by_close_is_audited() {
    let (peers, folder) = (silent().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    let running = tokio::spawn(fixture.start(&send_request(), &CancellationToken::new(), |_| ()));
    within_timeout(peers.wait_for("main", 2)).await;
    fixture.plugin.close();
    assert_eq!(
        reason(&within_timeout(running).await.unwrap()),
        "shutting_down"
    );
    // The threads end after the answer, and the log is complete once they have dropped the instance.
    let weak = std::sync::Arc::downgrade(&fixture.plugin);
    drop(fixture);
    within_timeout(async {
        while weak.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let text = log_text(&folder);
    assert_eq!(
        text.matches("\"outcome\":\"shutting_down\"").count(),
        1,
        "{text}"
    );
}

#[tokio::test]
async fn unwritable_log_fails_no_call() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    fs::create_dir(folder.path().join("audit.jsonl")).unwrap();
    for _ in 0..3 {
        assert_eq!(call(&fixture, &caller(), &send_request()).await["ok"], true);
    }
    fixture.plugin.close();
    let reported = fixture.log.lines();
    let errors: Vec<_> = reported
        .iter()
        .filter(|(level, _)| level == "error")
        .collect();
    assert_eq!(errors.len(), 1, "{reported:?}");
    assert!(errors[0].1.contains("audit.jsonl"), "{errors:?}");
}

#[tokio::test]
async fn instances_on_one_file_share_it() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let rigs = [fixture(&peers, &folder), fixture(&peers, &folder)];
    for _ in 0..10 {
        let [one, other] = [&rigs[0], &rigs[1]];
        let (caller, request) = (caller(), send_request());
        tokio::join!(call(one, &caller, &request), call(other, &caller, &request));
    }
    rigs[0].plugin.close();
    assert_eq!(close_and_read_log(&rigs[1], &folder).len(), 20);
}

#[tokio::test]
async fn audit_log_is_off_by_default() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let path = folder.path().join("audit.jsonl");
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true});
    let fixture = ToolFixture::new(&json!({"targets": [target], "audit": {"path": path}}));
    assert_eq!(call(&fixture, &caller(), &send_request()).await["ok"], true);
    fixture.plugin.close();
    assert!(!path.exists());
}

#[test]
fn audit_log_needs_a_file() {
    let error = plugin::parse_config(r#"{"audit": {"enabled": true}}"#).unwrap_err();
    assert_eq!(error.path, "/audit/path");
}

#[tokio::test]
async fn call_of_an_operator_is_audited_with_the_operator() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = fixture(&peers, &folder);
    for caller in [
        json!({"operator": "cli"}),
        json!({"operator": "cli", "agent_id": "main"}),
    ] {
        call(&fixture, &caller, &send_request()).await;
    }
    let all = close_and_read_log(&fixture, &folder);
    let callers = |line: &Value| json!([line["operator"], line["agent"]]);
    let reported: Vec<_> = all.iter().map(callers).collect();
    assert_eq!(json!(reported), json!([["cli", null], ["cli", "main"]]));
}
