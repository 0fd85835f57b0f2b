//! Secrets that the running server keeps from its clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::cli::support::words;
use crate::serve::http_client::{call, message_params};
use testkit::support::serve::Server;

/// An answer of OpenClaw that contains secrets.
const ANSWER: &str = r#"{"payloads":[{"text":"deploy-token-1 gate-token-2 st%40re-3 st@re-3 given-value-4","mediaUrl":"https://e.com/deploy-token-1.png"}],
  "meta":{"agentMeta":{"usage":{"total":1,"gate-token-2":1}}}}"#;

#[test]
fn answers_of_the_command_show_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let openclaw = folder.path().join("openclaw");
    let script = format!("#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{ANSWER}\nEND\n");
    fs::write(&openclaw, script).unwrap();
    fs::set_permissions(&openclaw, fs::Permissions::from_mode(0o755)).unwrap();
    let variables = [
        ("DEPLOY_TOKEN", "deploy-token-1"),
        ("GATE", "gate-token-2"),
        ("STORE", "rediss://me:st%40re-3@store.example/0"),
        ("OPENCLAW_STATE_DIR", folder.path().to_str().unwrap()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let flags = format!(
        "--port 0 --executor command --openclaw-path '{}' --task-store memory --gateway-token-env GATE --env-var GIVEN=given-value-4",
        openclaw.display()
    );
    let server = Server::start(&words(&flags), &variables);
    let mut params = message_params("hello", false);
    params["message"]["metadata"] = json!({});
    let task: Value = call(&server, "SendMessage", &params)["result"]["task"].take();
    println!(
        "what a client reads: {} {}",
        task["status"]["message"]["parts"], task["metadata"]
    );
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task:#}");
    let text = task.to_string();
    for secret in [
        "deploy-token-1",
        "gate-token-2",
        "st%40re-3",
        "st@re-3",
        "given-value-4",
    ] {
        assert!(!text.contains(secret), "{secret}: {task:#}");
    }
    assert!(
        text.contains("[redacted] [redacted] [redacted]"),
        "{task:#}"
    );
}
