use super::*;

/// The types of Heretek A2A, "Appendix A", with the required fields of Heretek Architecture, "Message Types".
const TABLE: &[(u8, &str, &[&str])] = &[
    (0x01, "message", &["content", "agent"]),
    (0x02, "status", &["content"]),
    (0x03, "error", &["content", "error"]),
    (0x04, "event", &["content", "event"]),
    (0x10, "handshake", &["content.action"]),
    (0x11, "discovery", &["content.action"]),
    (0x12, "subscribe", &["content.channel"]),
    (0x13, "unsubscribe", &["content.channel"]),
    (0x14, "ping", &[]),
    (0x15, "pong", &[]),
    (0x20, "auth", &["content.token"]),
    (0x21, "auth-response", &["content.status"]),
    (0x22, "disconnect", &["content.reason"]),
    (0x30, "proposal", &["content.proposal"]),
    (0x31, "decision", &["content.result"]),
    (0x32, "vote", &["content.vote"]),
    (0x33, "request", &["content.service"]),
    (0x34, "response", &["content.result"]),
    (0x35, "broadcast", &["content.message"]),
];

#[test]
fn h_05_types_match_appendix_a_and_workspace() {
    let known: Vec<_> = Kind::ALL
        .iter()
        .filter_map(|kind| Some((kind.code()?, kind.as_str())))
        .collect();
    let listed: Vec<_> = TABLE.iter().map(|(code, name, _)| (*code, *name)).collect();
    assert_eq!(known, listed);
    let numberless: Vec<_> = Kind::ALL
        .iter()
        .filter(|kind| kind.code().is_none())
        .collect();
    assert_eq!(numberless, [&Kind::Workspace]);
}

#[test]
fn each_type_requires_the_fields_of_its_row() {
    for (_, name, required) in TABLE {
        // The rows of `error` and `event` name the field beside the content; the examples have it inside.
        fn content_field(path: &'static str) -> &'static str {
            match path {
                "error" => "content.error",
                "event" => "content.event",
                path => path,
            }
        }
        let required: Vec<&str> = required.iter().copied().map(content_field).collect();
        let kind = Kind::from_name(name);
        assert_eq!(kind.map(Kind::required), Some(&*required), "{name}");
    }
}

#[test]
fn only_exact_type_names_parse() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_name(kind.as_str()), Some(*kind));
        assert_eq!(kind.to_string(), kind.as_str());
    }
    for name in [
        "",
        "Message",
        "message ",
        "auth_response",
        "0x01",
        "welcome",
    ] {
        assert_eq!(Kind::from_name(name), None, "{name}");
    }
}

#[test]
fn h_30_parses_every_status_and_active_as_online() {
    assert_eq!(AgentStatus::reported("Active"), Some(AgentStatus::Online));
    for status in AgentStatus::ALL {
        assert_eq!(AgentStatus::reported(status.as_str()), Some(status));
    }
    assert_eq!(AgentStatus::reported("asleep"), None);
}
