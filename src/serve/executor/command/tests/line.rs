//! How the command is run.

use super::*;

#[tokio::test]
async fn every_setting_is_on_the_command_line() {
    let fake = Fake::printing(LOCAL);
    let settings = CommandSettings {
        agent_id: Some("helper".into()),
        thinking: Some(Thinking::High),
        timeout: Duration::from_millis(41_500),
        ..fake.settings()
    };
    outcome_of(&executor(settings), job("do it")).await;
    let expected = [
        "agent",
        "--message",
        "do it",
        "--json",
        "--session-id",
        "a2a-context",
        "--agent",
        "helper",
    ];
    let seen = fake.seen();
    assert_eq!(seen[..8], expected);
    assert_eq!(seen[8..], ["--thinking", "high", "--timeout", "42"]);
}

#[tokio::test]
async fn the_agent_of_a_message_comes_before_the_one_of_the_settings() {
    let fake = Fake::printing(LOCAL);
    let settings = CommandSettings {
        agent_id: Some("helper".into()),
        ..fake.settings()
    };
    let mut job = job("hello");
    job.agent = Some("other".into());
    outcome_of(&executor(settings), job).await;
    assert!(
        fake.seen()
            .windows(2)
            .any(|pair| pair == ["--agent", "other"]),
        "{:?}",
        fake.seen()
    );
}

#[tokio::test]
async fn what_is_no_name_of_an_agent_never_gets_there() {
    let fake = Fake::printing(LOCAL);
    for name in ["--local", "a b", "", "../x", "agent:main"] {
        let mut job = job("hello");
        job.agent = Some(name.into());
        let (outcome, _) = outcome_of(&fake.executor(), job).await;
        assert!(
            matches!(outcome, Outcome::Rejected(_)),
            "{name}: {outcome:?}"
        );
    }
    assert!(!fake.file("seen").exists());
}

#[tokio::test]
async fn text_is_one_argument_whatever_it_says() {
    for text in ["--local", "-x", "$(touch x); `id` \"'", "two\nlines"] {
        let fake = Fake::printing(LOCAL);
        outcome_of(&fake.executor(), job(text)).await;
        let seen = fake.seen();
        assert_eq!(seen[..2], ["agent", "--message"]);
        assert!(
            seen[2] == text || seen[2].ends_with(&format!("\n\n{text}")),
            "{seen:?}"
        );
        assert_eq!(seen[3], "--json");
    }
}

#[tokio::test]
async fn a_slash_in_front_comes_behind_a_line_of_ours() {
    let fake = Fake::printing(LOCAL);
    outcome_of(&fake.executor(), job("/new")).await;
    assert!(
        fake.seen()[2].starts_with("// ") && fake.seen()[2].ends_with("\n\n/new"),
        "{:?}",
        fake.seen()
    );
}

#[tokio::test]
async fn a_message_too_long_for_a_command_line_is_read_from_the_input() {
    let fake = Fake::new(&format!(
        "wc -c < /dev/stdin > \"$OPENCLAW_STATE_DIR/read\"; echo '{LOCAL}'"
    ));
    let (outcome, _) = outcome_of(&fake.executor(), job(&"x".repeat(300_000))).await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(written(&fake.file("read")).await, "300000");
}

#[tokio::test]
async fn it_runs_where_it_is_told_to_with_the_variables_it_is_given() {
    let fake =
        Fake::new(r#"printf '{"payloads":[{"text":"%s %s"}],"meta":{}}' "$(pwd -P)" "$GIVEN""#);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = fake.settings();
    settings.working_directory = Some(folder.path().to_owned());
    settings.env_vars.push(("GIVEN".into(), "this".into()));
    let (outcome, _) = outcome_of(&executor(settings), job("hello")).await;
    let place = folder.path().canonicalize().unwrap();
    let expected = format!("{} this", place.display());
    assert_eq!(
        outcome,
        Outcome::Completed(Some(vec![Part::text(expected)]))
    );
}
