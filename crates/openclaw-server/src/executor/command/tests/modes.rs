//! Turns with and without a gateway, and with and without a thinking level.

use super::*;

/// Creates a script that prints `with_local` if it receives `--local`, and `without` otherwise.
fn fake_with_modes(with_local: &str, without: &str) -> FakeCommand {
    FakeCommand::new(&format!(
        "case \" $* \" in *' --local '*) echo local >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{with_local}';; \
         *) echo gateway >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{without}';; esac"
    ))
}

async fn complete_twice(executor: &CommandExecutor) {
    for _ in 0..2 {
        let (outcome, _) = outcome_of(executor, input("hello")).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
}

fn attempts(fake: &FakeCommand) -> Vec<String> {
    let attempts = fs::read_to_string(fake.file("ways")).unwrap();
    attempts.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn turn_without_a_gateway_runs_with_local() {
    let fake = fake_with_modes(LOCAL_ANSWER, GATEWAY_UNREACHABLE);
    let executor = fake.executor();
    complete_twice(&executor).await;
    assert_eq!(attempts(&fake), ["gateway", "local", "local"]);
}

#[tokio::test]
async fn turn_uses_a_gateway_that_started_later() {
    let fake = fake_with_modes(GATEWAY_RUNS, GATEWAY_ANSWER);
    let executor = fake.executor();
    executor.0.local.store(true, Ordering::Relaxed);
    complete_twice(&executor).await;
    assert_eq!(attempts(&fake), ["local", "gateway", "gateway"]);
}

const NO_LEVEL: &str = r#"{"ok":false,"error":{"type":"cli_error","message":"Thinking level \"low\" is not supported for a/b. Use one of: off."}}"#;

/// Creates a script that rejects thinking levels, as OpenClaw does for a model without them.
fn without_thinking() -> FakeCommand {
    FakeCommand::new(&format!(
        "case \" $* \" in *' --thinking='*) echo level >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{NO_LEVEL}'; exit 1;; \
         *) echo none >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{LOCAL_ANSWER}';; esac"
    ))
}

#[tokio::test]
async fn default_level_is_dropped_once_the_model_rejects_it() {
    let fake = without_thinking();
    let executor = fake.executor();
    complete_twice(&executor).await;
    assert_eq!(attempts(&fake), ["level", "none", "none"]);
}

#[tokio::test]
async fn rejected_configured_level_is_an_error() {
    let fake = without_thinking();
    let mut settings = fake.settings();
    settings.thinking = Some(Thinking::High);
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "thinking_not_supported");
    assert!(text.contains("Use one of: off"), "{text}");
    assert_eq!(attempts(&fake), ["level"]);
}

#[tokio::test]
async fn each_mode_is_tried_once() {
    let fake = fake_with_modes(GATEWAY_RUNS, GATEWAY_UNREACHABLE);
    assert_eq!(failure(&fake.executor()).await.0, "gateway_unreachable");
    assert_eq!(attempts(&fake), ["gateway", "local"]);
}

#[tokio::test]
async fn local_always_is_never_run_through_a_gateway() {
    let fake = fake_with_modes(GATEWAY_RUNS, GATEWAY_ANSWER);
    let settings = CommandSettings {
        local: RunMode::InProcess,
        ..fake.settings()
    };
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "gateway_running");
    assert!(text.contains("stop it"), "{text}");
    assert_eq!(attempts(&fake), ["local"]);
}

#[tokio::test]
async fn local_never_is_always_run_through_a_gateway() {
    let fake = fake_with_modes(LOCAL_ANSWER, GATEWAY_UNREACHABLE);
    let settings = CommandSettings {
        local: RunMode::Gateway,
        ..fake.settings()
    };
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "gateway_unreachable");
    assert!(text.contains("start it"), "{text}");
    assert_eq!(attempts(&fake), ["gateway"]);
}
