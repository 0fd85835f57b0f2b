//! Ctrl-C during a call.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::cli::{process::wait_for_output, support::*};

#[tokio::test]
async fn interrupt_cancels_the_call_and_shows_its_outcome() {
    let peers = start_desk(json!({"message/send": [{"delay_ms": 3_600_000, "result": {}}]})).await;
    for (option, shown) in [
        ("--json", ""),
        ("--task-required", "check before you send it again"),
    ] {
        let known = peers.log("desk").len();
        let child = command(&["send", "hi", option, "--url", peers.origin("desk")])
            .spawn()
            .unwrap();
        peers.wait_for("desk", known + 2).await;
        interrupt(&child);
        let output = wait_for_output(child).await;
        assert_exit_code(&output, 130);
        assert_contains(&output.stderr, &[shown]);
        assert!(!output.stderr.contains("error:"), "{output:?}");
        if option == "--json" {
            assert_eq!(json_lines(&output)[0]["error"]["reason"], "aborted");
        }
    }
}

#[tokio::test]
async fn interrupt_leaves_the_task_and_shows_how_to_follow_it() {
    let events = results([task("working", json!({}))]);
    let stream = json!([{"sse": events, "end": "hang"}]);
    let peers = start_desk(json!({"message/stream": stream, "tasks/resubscribe": stream})).await;
    let url = peers.origin("desk");
    for args in [
        &["send", "--follow", "go", "--url", url][..],
        &["watch", "--task", "task-1", "--url", url],
    ] {
        let mut child = tokio::process::Command::from(command(args))
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut shown = String::new();
        while !shown.contains("working\n") {
            assert_ne!(stderr.read_line(&mut shown).await.unwrap(), 0, "{shown}");
        }
        let id = child.id().unwrap().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-INT", &id])
            .status();
        assert!(sent.unwrap().success());
        stderr.read_to_string(&mut shown).await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(130), "{shown}");
        let watch = format!("  remote-agent watch --url {url} --task task-1\n");
        assert_contains(&shown, &["stopped waiting; the task goes on\n", &watch]);
        assert!(!shown.contains("error:"), "{shown}");
    }
    let canceled = peers.log("desk").iter().any(|request| {
        let body = request.body.as_ref();
        body.is_some_and(|body| body["method"] == "tasks/cancel")
    });
    assert!(!canceled);
}
