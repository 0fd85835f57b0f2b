//! Errors of the command and their reasons.

use super::*;

#[tokio::test]
async fn missing_command_is_named() {
    let settings = CommandSettings {
        openclaw_path: "/nowhere/openclaw".into(),
        ..CommandSettings::default()
    };
    let executor = executor(settings);
    let (reason, text) = failure(&executor).await;
    assert_eq!(reason, "binary_not_found");
    assert!(
        text.contains("/nowhere/openclaw") && text.contains("`--openclaw-path`"),
        "{text}"
    );
    assert_eq!(executor.ready().await.unwrap_err().0, text);
}

#[tokio::test]
async fn non_executable_file_is_named() {
    let fake = FakeCommand::new("");
    fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(failure(&fake.executor()).await.0, "binary_not_executable");
    let unready = fake.executor().ready().await.unwrap_err();
    assert!(unready.0.contains("cannot be executed"), "{unready}");
}

#[tokio::test]
async fn file_of_another_format_is_named() {
    let fake = FakeCommand::write("\u{7f}nothing");
    assert_eq!(failure(&fake.executor()).await.0, "binary_not_executable");
}

#[tokio::test]
async fn existing_command_is_ready_by_path_and_by_name() {
    let fake = FakeCommand::new("");
    fake.executor().ready().await.unwrap();
    let mut settings = fake.settings();
    settings.openclaw_path = "openclaw".into();
    let folder = fake.0.path().to_str().unwrap().to_owned();
    settings.env_vars.push(("PATH".into(), folder.into()));
    executor(settings).ready().await.unwrap();
}

#[tokio::test]
async fn missing_working_directory_is_named() {
    let fake = FakeCommand::printing(LOCAL_ANSWER);
    let mut settings = fake.settings();
    settings.working_directory = Some("/nowhere".into());
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "working_directory_not_found");
    assert!(text.contains("/nowhere"), "{text}");
}

#[tokio::test]
async fn each_failed_exit_has_its_own_reason() {
    let cli_error = |message: &str| {
        let error = json!({"ok": false, "error": {"type": "cli_error", "message": message}});
        format!("echo '{error}'; exit 1")
    };
    let unknown_agent = cli_error("Unknown agent id \"x\".");
    let request_failed = cli_error("LLM request failed");
    let config_invalid = cli_error("Config invalid");
    let aborted = r#"echo '{"runId":"r","status":"timeout","summary":"aborted","result":{"payloads":[],"meta":{}}}'; exit 1"#;
    let no_model = r#"echo '{"payloads":[{"text":"no model","isError":true}],"meta":{}}'; exit 1"#;
    let bad_config = "echo 'Invalid config at openclaw.json' >&2; exit 1";
    let broke = "status 3; its last output was: it broke";
    for (script, reason, expected) in [
        ("", "no_output", "printed nothing"),
        ("echo hello", "invalid_json", "openclawPath"),
        ("echo '{\"payloads\":['", "invalid_json", "JSON"),
        ("echo '{\"other\":1}'", "invalid_json", "JSON"),
        ("echo it broke >&2; exit 3", "exit_status", broke),
        (bad_config, "bad_config", "openclaw.json"),
        ("kill -9 $$", "killed", "signal 9"),
        (&unknown_agent, "agent_not_found", "Unknown agent id"),
        (&request_failed, "openclaw_error", "LLM request failed"),
        (&config_invalid, "bad_config", "Config invalid"),
        (aborted, "timeout", "timeout"),
        (no_model, "agent_failed", "no model"),
    ] {
        let (reported, text) = failure(&FakeCommand::new(script).executor()).await;
        assert_eq!(reported, reason, "{script}: {text}");
        assert!(text.contains(expected), "{script}: {text}");
    }
}

#[test]
fn settings_show_no_value_of_a_variable() {
    let settings = CommandSettings {
        env_vars: vec![("MY_KEY".into(), "s3cret".into())],
        ..CommandSettings::default()
    };
    assert!(!format!("{settings:?}").contains("s3cret"));
}

#[tokio::test]
async fn long_stderr_is_cut_to_its_end() {
    let fake = FakeCommand::new(
        "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >&2; exit 1",
    );
    let (_, text) = failure(&fake.executor()).await;
    assert!(
        text.ends_with("line 19999") && text.len() < 2000,
        "{}",
        text.len()
    );
}
