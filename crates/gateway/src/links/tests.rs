#![allow(clippy::unwrap_used)]

use super::*;

fn link(agents: &[&str], export: &[&str]) -> Link {
    let config =
        json!({"name": "berlin", "certificate": "berlin", "agents": agents, "export": export});
    Link::new(serde_json::from_value(config).unwrap()).unwrap()
}

#[test]
fn h_59_patterns_match_part_by_part() {
    for (pattern, name, expected) in [
        ("*", "coder", true),
        ("*", "coder@paris", false),
        ("*@paris", "coder@paris", true),
        ("*@paris", "coder@rome", false),
        ("team-*", "team-a", true),
        ("team-*", "coder", false),
        ("coder", "coder", true),
        ("*", "triad", false),
        ("*@paris", "triad@paris", false),
        ("triad", "triad", true),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn h_59_hostile_names_are_not_listed() {
    let link = link(&["*", "*@*", "*@*@*"], &[]);
    assert!(link.lists("coder") && link.lists("coder@paris"));
    let long = "x".repeat(10 << 10);
    for name in [
        "",
        "@",
        "a@",
        "@a",
        "a b",
        "a\u{1b}[2J",
        "a\nb",
        "../a",
        &long,
        "gateway",
        "triad",
        "client-1",
        "SYSTEM",
        "a@..",
        "a@b c",
        "a@b@c@d",
    ] {
        assert!(!link.lists(name), "{name:?}");
    }
    let long_path = format!("{}@{}", "a".repeat(64), "b".repeat(64));
    assert!(!link.lists(&long_path), "longer than a name in an envelope");
}

#[test]
fn h_61_agent_behind_the_link_never_goes_back() {
    let link = link(&[], &["*", "*@*", "client-*"]);
    assert!(link.exports("coder") && link.exports("coder@paris"));
    for name in ["coder@berlin", "coder@paris@berlin", "client-1", "triad"] {
        assert!(!link.exports(name), "{name}");
    }
}

#[test]
fn h_61_message_passes_four_links() {
    let mut envelope = Envelope::new(Kind::Message, json!({}));
    for hops in 1..=MAX_HOPS {
        envelope = next_hop(envelope).unwrap();
        assert_eq!(envelope.metadata("hops"), Some(&json!(hops)));
    }
    let error = next_hop(envelope.clone()).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidContent);
    for hops in [json!("1"), json!(-1), json!(1.5)] {
        let forged = envelope.clone().with_metadata("hops", hops);
        assert!(next_hop(forged).is_err());
    }
}

#[test]
fn h_60_names_are_those_of_the_receiver() {
    let link = link(&["*"], &["steward"]);
    let message = |from: &str| {
        Envelope::new(Kind::Message, json!({}))
            .with("from", from)
            .with("agent", "coder@berlin")
    };
    let sent = link.outgoing(message("steward")).unwrap();
    assert_eq!(
        (sent.from(), sent.agent()),
        (Some("steward"), Some("coder"))
    );
    let hidden = link.outgoing(message("empath")).unwrap();
    assert_eq!(hidden.from(), Some("gateway"));
    let received = link.incoming(Envelope::new(Kind::Message, json!({})).with("from", "coder"));
    assert_eq!(received.from(), Some("coder@berlin"));
    let large = message("steward").with_content("text", "x".repeat(MAX_FRAME_BYTES - 100));
    assert_eq!(
        link.outgoing(large).unwrap_err().code,
        ErrorCode::InvalidContent
    );
}

#[test]
fn only_a_link_by_ws_is_not_encrypted() {
    let dialing = |url: &str| {
        let config = json!({"name": "berlin", "url": url});
        Link::new(serde_json::from_value(config).unwrap()).unwrap()
    };
    for (link, is_encrypted) in [
        (dialing("ws://127.0.0.1:1"), false),
        (dialing("WSS://berlin.example"), true),
        (link(&[], &[]), true),
    ] {
        assert_eq!(link.to_json()["encrypted"], is_encrypted);
    }
}

#[test]
fn h_62_last_error_has_its_time_while_the_link_is_up() {
    let link = link(&[], &[]);
    assert!(link.set_error("refused", 2));
    link.set_up(3);
    let state = link.to_json();
    assert_eq!(
        (&state["status"], &state["since"]),
        (&json!("up"), &json!(3))
    );
    assert_eq!(
        (&state["lastError"], &state["lastErrorAt"]),
        (&json!("refused"), &json!(2))
    );
}
