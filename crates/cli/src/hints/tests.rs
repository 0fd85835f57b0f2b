#![allow(clippy::unwrap_used)]

use openclaw_remote_agent::remote_agent::ToolError;
use peer::Delivered;
use serde_json::json;

use super::*;
use crate::local::LocalArgs;

fn hint_text(reason: &str, details: &Value) -> String {
    let envelope =
        json!({"ok": false, "action": "send", "error": {"reason": reason, "details": details}});
    hint(&envelope, &PeerArgs::default(), About::default()).unwrap()
}

#[test]
fn hints_name_the_options_of_the_command() {
    for (reason, option) in [
        ("auth_required", "`--bearer-env VAR`"),
        ("address_refused", "`--allow-private`"),
        ("message_returned", "`--task-required`"),
        ("stream_cut", "`remote-agent status`"),
        ("timeout", "`--timeout`"),
        ("busy", "`--timeout`"),
        ("tls", "targets[].tls.caFile"),
        ("target_not_allowed", "`--url URL`"),
        ("agent_not_allowed", "`--agent NAME`"),
        ("credential_unresolved", "`env` only"),
    ] {
        let hint = hint_text(reason, &json!({"hint": "Ask the operator."}));
        assert!(hint.contains(option), "{hint}");
    }
}

#[test]
fn no_hint_has_words_of_the_tool() {
    // These reasons need fields that the command does not send.
    let of_fields = [
        "contradiction",
        "unknown_artifact",
        "unknown_handle",
        "expired_handle",
    ];
    let reasons = Reason::ALL
        .iter()
        .filter(|reason| !of_fields.contains(&reason.as_str()));
    for reason in reasons {
        for (delivered, has_task) in [
            ("no", false),
            ("unknown", false),
            ("yes", false),
            ("yes", true),
        ] {
            let delivered = match delivered {
                "no" => Delivered::No,
                "yes" => Delivered::Yes,
                _ => Delivered::Unknown,
            };
            let mut error = ToolError::new(*reason, "no").delivered(delivered);
            if has_task {
                error = error.with(
                    "latest_event_summary",
                    json!({"continuation": {"task": {}}}),
                );
            }
            let error = error.for_send();
            let mut details = Value::Object(error.details);
            if details["hint"].is_null() {
                details["hint"] = reason.hint().into();
            }
            let hint = hint_text(reason.as_str(), &details);
            for word in [
                "details.",
                "list_targets",
                "task_id",
                "context_id",
                "timeout_ms",
                "follow_updates",
                "task_requirement",
                "history_length",
                "sk the operator",
                "or the operator",
                "task_handle",
                "Do not answer for the person",
            ] {
                assert!(!hint.contains(word), "{reason:?}: {hint}");
            }
        }
    }
}

#[test]
fn hints_with_a_gateway_name_no_settings() {
    for is_embedded in [false, true] {
        let mut peers = PeerArgs::default();
        peers.local = LocalArgs::at("ws://127.0.0.1:1", is_embedded);
        let lacks_target = json!([{"instancePath": "", "keyword": "anyOf"}]);
        for reason in Reason::ALL {
            let error = ToolError::new(*reason, "no").for_gateway().for_send();
            let error = error.with("errors", lacks_target.clone());
            let details = Value::Object(error.details);
            let envelope = json!({"error": {"reason": reason, "details": details}});
            let hint = hint(&envelope, &peers, About::default()).unwrap_or_default();
            assert!(
                !hint.contains("gateway.")
                    && (!is_embedded || !hint.contains("; `remote-agent targets` shows")),
                "{reason:?}: {hint}"
            );
        }
    }
}

#[test]
fn refused_budget_names_the_command_that_raises_it() {
    for (details, command) in [
        (
            json!({"target_alias": "desk", "scope": "target", "unit": "calls"}),
            "`remote-agent budget desk --add calls=1`",
        ),
        (
            json!({"scope": "total", "unit": "usd"}),
            "`remote-agent budget --add usd=1`",
        ),
    ] {
        let hint = hint_text("budget_exceeded", &details);
        assert!(hint.contains(command), "{hint}");
    }
}

#[test]
fn refused_answer_names_the_command_that_asks_the_person() {
    let envelope = json!({"error": {"reason": "person_required"}});
    let about = About {
        task_options: Some(" --continuation f.json"),
        ..About::default()
    };
    let hint = hint(&envelope, &PeerArgs::default(), about).unwrap();
    let command = "`remote-agent watch --continuation f.json --ask`";
    assert!(hint.contains(command), "{hint}");
}

#[test]
fn message_with_the_command_that_signs_in_needs_no_hint() {
    let error = json!({"reason": "token_unavailable", "details": {"hint": "Ask."},
        "message": "no person is signed in; sign in with `remote-agent sign-in desk`"});
    let peers = PeerArgs::default();
    assert_eq!(agent_hint(&error, "desk", &peers, false), "");
    let envelope = json!({ "error": error });
    assert_eq!(hint(&envelope, &peers, About::default()), None);
}

#[test]
fn hint_names_up_to_five_agents() {
    let aliases = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(alias_list(&aliases(2)), "`0`, `1`");
    assert_eq!(alias_list(&aliases(7)), "`0`, `1`, `2`, `3`, `4`, 2 more");
}

#[test]
fn hint_after_uncertain_send_advises_against_resending() {
    let hint = hint_text("timeout", &json!({"delivered": "unknown"}));
    assert!(hint.contains("before you send it again"), "{hint}");
    let hint = hint_text("timeout", &json!({"delivered": "no"}));
    assert!(!hint.contains("send it again"), "{hint}");
}

#[test]
fn failing_server_hint_does_not_blame_the_address() {
    for (status, delivered, advice) in [
        (503, "no", "Try again later"),
        (503, "unknown", "check before you send it again"),
        (429, "no", "then try again"),
        (429, "unknown", "then try again"),
        (404, "no", "Check the address"),
    ] {
        let details = json!({"http_status": status, "delivered": delivered});
        let hint = hint_text("http_status", &details);
        assert!(hint.contains(advice), "{status} {delivered}: {hint}");
    }
}

#[test]
fn falls_back_to_the_hint_of_the_library() {
    assert_eq!(hint_text("dns", &json!({"hint": "Check it."})), "Check it.");
}
