//! The settings of the OpenClaw on this machine.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::process::{ProcessOutput, wait_for_output};
use crate::cli::support::*;

/// A state directory of OpenClaw.
struct OpenClaw(PathBuf);

impl OpenClaw {
    fn new(name: &str, config: &Value) -> Self {
        let directory = scratch(name);
        let host = json!({"gateway": {"port": 1}, "plugins": {"entries": {"remote-agent": {"enabled": true, "config": config}}}});
        fs::write(directory.join("openclaw.json"), host.to_string()).unwrap();
        Self(directory)
    }

    fn file(&self) -> String {
        self.0.join("openclaw.json").display().to_string()
    }

    async fn run(&self, args: &[&str]) -> ProcessOutput {
        let mut command = command(args);
        command.env("OPENCLAW_STATE_DIR", &self.0);
        wait_for_output(command.spawn().unwrap()).await
    }
}

fn target(peers: &Peers, token: &Value) -> Value {
    json!({"alias": "desk", "baseUrl": peers.origin("desk"), "auth": {"type": "bearer", "token": token}})
}

fn reference(source: &str, id: &str) -> Value {
    json!({"source": source, "provider": "default", "id": id})
}

#[tokio::test]
async fn settings_of_openclaw_are_the_default() {
    let peers = start_desk(json!({
        "message/send": results([task("working", json!({})), message("hello")]),
        "tasks/get": results([task("completed", json!({}))]),
    }))
    .await;
    let token = reference("env", "WORDS_DESK_TOKEN");
    let openclaw = OpenClaw::new(
        "openclaw-default",
        &json!({"targets": [target(&peers, &token)]}),
    );
    fs::write(openclaw.0.join(".env"), "WORDS_DESK_TOKEN=s3cret-token\n").unwrap();

    let listed = openclaw.run(&["targets"]).await;
    assert_exit_code(&listed, 0);
    assert_contains(&listed.stdout, &["desk", "Help Desk"]);
    let sent = openclaw.run(&["send", "hi"]).await;
    assert_exit_code(&sent, 0);
    assert_contains(
        &sent.stderr,
        &[
            "task task-1 of desk: working",
            "  remote-agent status --target desk --task task-1\n",
        ],
    );
    let last = peers.log("desk").pop().unwrap();
    assert_eq!(last.headers["authorization"], "Bearer s3cret-token");
    let status = openclaw
        .run(&["status", "--target", "desk", "--task", "task-1"])
        .await;
    assert_exit_code(&status, 0);
    let card = openclaw.run(&["card", "desk", "--json"]).await;
    assert_eq!(json_lines(&card)[0]["target_name"], "Help Desk");
    let doctor = openclaw.run(&["doctor"]).await;
    assert_exit_code(&doctor, 0);
    assert_contains(&doctor.stdout, &[&openclaw.file()]);
    assert!(!doctor.stdout.contains("plain text"), "{doctor:?}");

    // Explicitly, from another place.
    let named = format!("--openclaw={}", openclaw.file());
    for options in [&["--config", &openclaw.file()][..], &[&named]] {
        let mut command = command(&[&["send", "hi"], options].concat());
        command.env_remove("OPENCLAW_STATE_DIR");
        let output = wait_for_output(command.spawn().unwrap()).await;
        assert_exit_code(&output, 0);
        let continued = format!("remote-agent send {} --target desk", options.join(" "));
        assert_contains(&output.stderr, &[&continued]);
        assert!(!format!("{output:?}").contains("s3cret"), "{output:?}");
    }
}

#[tokio::test]
async fn missing_secret_of_openclaw_leads_to_its_command_or_file() {
    let peers = start_desk(json!({})).await;
    for (source, id, parts) in [
        (
            "store",
            "DESK",
            ["`store:DESK`", "use `openclaw remote-agent`"],
        ),
        (
            "env",
            "WORDS_UNSET",
            ["`WORDS_UNSET`", "/openclaw-env/.env`"],
        ),
    ] {
        let settings = json!({"targets": [target(&peers, &reference(source, id))]});
        let openclaw = OpenClaw::new(&format!("openclaw-{source}"), &settings);
        for line in ["send hi", "targets", "doctor"] {
            let output = openclaw.run(&words(line)).await;
            if source == "store" {
                assert_exit_code(&output, 2);
            }
            let printed = output.stdout + &output.stderr;
            assert_contains(&printed, &parts);
        }
    }
}

#[tokio::test]
async fn other_agents_need_no_settings_of_openclaw() {
    let asks = task("input-required", json!({}));
    let peers = start_desk(json!({
        "message/send": results([asks, message("hello")]),
        "tasks/get": results([task("working", json!({}))]),
    }))
    .await;
    let elsewhere =
        json!({"targets": [{"alias": "shop", "baseUrl": "http://127.0.0.1:1", "default": true}]});
    let openclaw = OpenClaw::new("openclaw-other", &elsewhere);
    let file = openclaw.0.join("task.json");
    let file = file.to_str().unwrap();
    let url = peers.origin("desk");
    let sent = openclaw
        .run(&["send", "--url", url, "--save", file, "hi"])
        .await;
    assert_exit_code(&sent, 6);
    // The continuation names its agent, which OpenClaw does not have.
    let status = openclaw.run(&["status", "--continuation", file]).await;
    assert_exit_code(&status, 0);
    assert_contains(&status.stderr, &["task task-1 of target: working"]);

    // No settings of the plugin, and a file that is not valid.
    let none = OpenClaw::new("openclaw-none", &json!({}));
    let output = none.run(&["targets"]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stderr,
        &["no agent is known", "openclaw remote-agent add URL"],
    );
    fs::write(none.file(), "{\n token: s3cret").unwrap();
    let output = none.run(&["targets"]).await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["openclaw.json`: line 2 is not valid"]);
    assert!(!output.stderr.contains("s3cret"), "{output:?}");
}

#[tokio::test]
async fn tasks_have_the_age_of_the_record() {
    let peers = start_desk(json!({})).await;
    let settings = json!({"targets": [{"alias": "desk", "baseUrl": peers.origin("desk")}]});
    let openclaw = OpenClaw::new("openclaw-tasks", &settings);
    let followed = openclaw.0.join("remote-agent/followed");
    fs::create_dir_all(&followed).unwrap();
    let record = json!({"continuation": {"target": {"target_alias": "desk", "target_url": peers.origin("desk")},
        "task": {"task_id": "task-9"}}, "caller": {"session_key": "s"}, "since": 0, "state": "working"});
    fs::write(followed.join("a.json"), record.to_string()).unwrap();
    let output = openclaw.run(&["tasks", "--json"]).await;
    assert_exit_code(&output, 0);
    let task = &json_lines(&output)[0]["tasks"][0];
    assert_eq!(
        (&task["taskId"], &task["notify"]),
        (&json!("task-9"), &json!(true))
    );
    assert!(
        task["ageMs"].as_u64().unwrap() > 1_000_000_000_000,
        "{task}"
    );
}

#[tokio::test]
async fn targets_have_the_usage_of_the_record() {
    let peers = start_desk(json!({})).await;
    let settings = json!({"targets": [{"alias": "desk", "baseUrl": peers.origin("desk")}]});
    let openclaw = OpenClaw::new("openclaw-usage", &settings);
    let record = openclaw.0.join("remote-agent");
    fs::create_dir_all(&record).unwrap();
    let task = |target: &str, id: &str| json!({"target": target, "taskId": id, "state": "completed", "since": 1, "updated": 2, "usage": {"tokens": {"total": 600}}});
    let tasks = json!([
        task("desk", "t-1"),
        task("desk", "t-2"),
        task("other", "t-3")
    ]);
    fs::write(record.join("tasks.json"), tasks.to_string()).unwrap();
    let output = openclaw.run(&["targets"]).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stderr, &["used by agent desk: 1200 tokens"]);
    assert!(!output.stderr.contains("other"), "{output:?}");
}
