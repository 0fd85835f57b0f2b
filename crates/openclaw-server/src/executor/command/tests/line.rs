//! The arguments of the command.

use super::*;

#[tokio::test]
async fn every_setting_is_on_the_command_line() {
    let fake = FakeCommand::printing(LOCAL_ANSWER);
    let settings = CommandSettings {
        agent_id: Some("helper".into()),
        thinking: Some(Thinking::High),
        timeout: Duration::from_millis(41_500),
        ..fake.settings()
    };
    outcome_of(&executor(settings), input("do it")).await;
    let expected = [
        "agent",
        "--message-file=/dev/stdin",
        "--json",
        "--session-id=a2a-context",
        "--agent=helper",
        "--thinking=high",
        "--timeout=42",
    ];
    assert_eq!(fake.arguments(), expected);
}

#[tokio::test]
async fn agent_of_a_message_overrides_the_setting() {
    let fake = FakeCommand::printing(LOCAL_ANSWER);
    let settings = CommandSettings {
        agent_id: Some("helper".into()),
        ..fake.settings()
    };
    let mut input = input("hello");
    input.agent = Some("other".into());
    outcome_of(&executor(settings), input).await;
    let arguments = fake.arguments();
    assert!(
        arguments.contains(&"--agent=other".to_owned()),
        "{arguments:?}"
    );
}

#[tokio::test]
async fn invalid_agent_name_is_not_passed_on() {
    let fake = FakeCommand::printing(LOCAL_ANSWER);
    for name in ["--local", "a b", "", "../x", "agent:main"] {
        let mut input = input("hello");
        input.agent = Some(name.into());
        let (outcome, _) = outcome_of(&fake.executor(), input).await;
        assert!(
            matches!(outcome, Outcome::Rejected(_)),
            "{name}: {outcome:?}"
        );
    }
    assert!(!fake.file("seen").exists());
}

/// The options that OpenClaw's launcher searches for in all arguments, and some options of `agent`.
const OPTIONS: [&str; 14] = [
    "--profile=stranger",
    "--profile",
    "--dev",
    "--container=stranger",
    "--container",
    "--log-level=silent",
    "--log-level",
    "--no-color",
    "--update",
    "--help",
    "--version",
    "--local",
    "--json",
    "--",
];

#[tokio::test]
async fn text_of_a_client_is_no_argument() {
    for text in OPTIONS
        .into_iter()
        .chain(["$(touch x); `id`", "two\nlines"])
    {
        let fake = FakeCommand::printing(LOCAL_ANSWER);
        outcome_of(&fake.executor(), input(text)).await;
        let expected = [
            "agent",
            "--message-file=/dev/stdin",
            "--json",
            "--session-id=a2a-context",
            "--thinking=low",
            "--timeout=300",
        ];
        assert_eq!(fake.arguments(), expected, "{text}");
    }
}

#[tokio::test]
async fn every_value_is_in_one_argument_with_its_option() {
    let fake = FakeCommand::printing(LOCAL_ANSWER);
    outcome_of(&fake.executor(), input("hello")).await;
    let bare: Vec<_> = fake.arguments();
    let bare: Vec<_> = bare.iter().filter(|word| !word.starts_with("--")).collect();
    assert_eq!(bare, ["agent"]);
}

/// Returns the message that the command reads.
async fn read(text: &str) -> String {
    let fake = FakeCommand::new(&format!(
        "cat /dev/stdin > \"$OPENCLAW_STATE_DIR/read\"; echo '{LOCAL_ANSWER}'"
    ));
    let (outcome, _) = outcome_of(&fake.executor(), input(text)).await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    fs::read_to_string(fake.file("read")).unwrap()
}

#[tokio::test]
async fn message_is_read_from_the_input_unchanged() {
    let long = "x".repeat(300_000);
    for text in ["do it", "-x \0 \"'", &long] {
        assert!(read(text).await == text);
    }
}

#[tokio::test]
async fn slash_command_text_follows_an_inserted_line() {
    let text = read("/new").await;
    assert!(
        text.starts_with("// ") && text.ends_with("\n\n/new"),
        "{text}"
    );
}

#[tokio::test]
async fn command_sees_no_other_variables_of_the_server() {
    let fake = FakeCommand::new(
        r#"printf '{"payloads":[{"text":"%s %s"}],"meta":{}}' "${CARGO_MANIFEST_DIR-unset}" "${PATH:+set}""#,
    );
    assert_eq!(answer_of(&fake).await, [Part::text("unset set")]);
}

#[tokio::test]
async fn command_has_configured_directory_and_environment() {
    let fake = FakeCommand::new(
        r#"printf '{"payloads":[{"text":"%s %s"}],"meta":{}}' "$(pwd -P)" "$GIVEN""#,
    );
    let folder = tempfile::tempdir().unwrap();
    let mut settings = fake.settings();
    settings.working_directory = Some(folder.path().to_owned());
    settings.env_vars.push(("GIVEN".into(), "this".into()));
    let (outcome, _) = outcome_of(&executor(settings), input("hello")).await;
    let place = folder.path().canonicalize().unwrap();
    let expected = format!("{} this", place.display());
    assert_eq!(
        outcome,
        Outcome::Completed(Some(vec![Part::text(expected)]))
    );
}
