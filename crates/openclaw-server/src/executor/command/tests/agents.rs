//! Agents and delegations.

use super::*;

const AGENTS: &str =
    r#"[{"id":"zeta","isDefault":false},{"id":"main","identityName":"Mainy","isDefault":true}]"#;

#[tokio::test]
async fn default_agent_is_listed_first() {
    let fake = FakeCommand::printing(&format!("[config] a warning\n{AGENTS}"));
    let agents = fake.executor().agents().await.unwrap();
    let reported: Vec<_> = agents
        .iter()
        .map(|agent| (agent.name.as_str(), agent.title.as_deref()))
        .collect();
    assert_eq!(reported, [("main", Some("Mainy")), ("zeta", None)]);
    assert_eq!(fake.arguments(), ["agents", "list", "--json"]);
}

#[tokio::test]
async fn delegation_is_recorded_for_the_default_agent() {
    let fake = FakeCommand::new(&format!(
        "case $1 in agents) echo '{AGENTS}';; *) cp \"$OPENCLAW_STATE_DIR/remote-agent/delegations.json\" \"$OPENCLAW_STATE_DIR/then\"; echo '{LOCAL_ANSWER}';; esac"
    ));
    let mut input = input("hello");
    input.delegation = Some(json!({"hop": 2, "chain": "c"}));
    outcome_of(&fake.executor(), input).await;
    let then: Value =
        serde_json::from_str(&fs::read_to_string(fake.file("then")).unwrap()).unwrap();
    assert_eq!(
        then["sessions"],
        json!([{"session": "agent:main:explicit:a2a-context", "hop": 2, "chain": "c"}])
    );
}
