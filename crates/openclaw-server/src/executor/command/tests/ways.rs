//! Turns with and without a gateway, and with and without a thinking level.

use super::*;

/// Creates a script that prints `with_local` if it receives `--local`, and `without` otherwise.
fn two_ways(with_local: &str, without: &str) -> Fake {
    Fake::new(&format!(
        "case \" $* \" in *' --local '*) echo local >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{with_local}';; \
         *) echo gateway >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{without}';; esac"
    ))
}

fn ways(fake: &Fake) -> Vec<String> {
    let ways = fs::read_to_string(fake.file("ways")).unwrap();
    ways.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn without_a_gateway_it_is_run_with_local_and_stays_so() {
    let fake = two_ways(LOCAL, AWAY);
    let executor = fake.executor();
    for _ in 0..2 {
        let (outcome, _) = outcome_of(&executor, input("hello")).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(ways(&fake), ["gateway", "local", "local"]);
}

#[tokio::test]
async fn a_gateway_that_was_started_since_is_gone_through() {
    let fake = two_ways(RUNS, THROUGH);
    let executor = fake.executor();
    executor.0.local.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let (outcome, _) = outcome_of(&executor, input("hello")).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(ways(&fake), ["local", "gateway", "gateway"]);
}

const NO_LEVEL: &str = r#"{"ok":false,"error":{"type":"cli_error","message":"Thinking level \"low\" is not supported for a/b. Use one of: off."}}"#;

/// Creates a script that rejects thinking levels, as OpenClaw does for a model without them.
fn without_thinking() -> Fake {
    Fake::new(&format!(
        "case \" $* \" in *' --thinking='*) echo level >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{NO_LEVEL}'; exit 1;; \
         *) echo none >> \"$OPENCLAW_STATE_DIR/ways\"; echo '{LOCAL}';; esac"
    ))
}

#[tokio::test]
async fn a_model_without_thinking_is_asked_without_a_level_from_then_on() {
    let fake = without_thinking();
    let executor = fake.executor();
    for _ in 0..2 {
        let (outcome, _) = outcome_of(&executor, input("hello")).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(ways(&fake), ["level", "none", "none"]);
}

#[tokio::test]
async fn a_level_that_was_asked_for_and_is_refused_is_reported() {
    let fake = without_thinking();
    let mut settings = fake.settings();
    settings.thinking = Some(Thinking::High);
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "thinking_not_supported");
    assert!(text.contains("Use one of: off"), "{text}");
    assert_eq!(ways(&fake), ["level"]);
}

#[tokio::test]
async fn a_gateway_that_comes_and_goes_is_tried_once_each_way() {
    let fake = two_ways(RUNS, AWAY);
    assert_eq!(failure(&fake.executor()).await.0, "gateway_unreachable");
    assert_eq!(ways(&fake), ["gateway", "local"]);
}

#[tokio::test]
async fn local_always_is_never_run_through_a_gateway() {
    let fake = two_ways(RUNS, THROUGH);
    let settings = CommandSettings {
        local: Local::Always,
        ..fake.settings()
    };
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "gateway_running");
    assert!(text.contains("stop it"), "{text}");
    assert_eq!(ways(&fake), ["local"]);
}

#[tokio::test]
async fn local_never_is_always_run_through_a_gateway() {
    let fake = two_ways(LOCAL, AWAY);
    let settings = CommandSettings {
        local: Local::Never,
        ..fake.settings()
    };
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "gateway_unreachable");
    assert!(text.contains("start it"), "{text}");
    assert_eq!(ways(&fake), ["gateway"]);
}
