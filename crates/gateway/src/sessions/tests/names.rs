//! Names and ids cannot refer to other directories.

use super::*;

#[tokio::test]
async fn agent_name_cannot_leave_the_state_directory() {
    let place = Place::new();
    let sessions = place.open();
    let long = "x".repeat(65);
    for name in [
        "", ".", "..", "../alpha", "a/b", "a\\b", "/etc", ".hidden", "-x", "a b", "a\0b", "ä",
        "a.", ".lock", &long,
    ] {
        let result = sessions.append(name, &entry("s", "m", "")).await;
        assert_eq!(code(result), ErrorCode::AgentNotFound, "{name:?}");
        assert_eq!(code(sessions.get(name, "s")), ErrorCode::AgentNotFound);
        assert_eq!(code(sessions.list(name, true, 1)), ErrorCode::AgentNotFound);
        assert_eq!(code(sessions.delete(name, "s")), ErrorCode::AgentNotFound);
    }
    assert_eq!(sessions.agents().unwrap(), [""; 0]);
    for name in ["alpha", "Alpha-2", "a.b_c", "_x", "7"] {
        append_entry(&sessions, name, "s", "m").await;
    }
}

#[tokio::test]
async fn session_id_cannot_leave_its_directory() {
    let place = Place::new();
    let sessions = place.open();
    let long = "x".repeat(257);
    for id in ["", "a\nb", "a\0", "\u{7f}", &long] {
        let result = sessions.append("alpha", &entry(id, "m", "")).await;
        assert_eq!(code(result), ErrorCode::InvalidContent, "{id:?}");
        assert_eq!(
            code(sessions.create("alpha", Some(id)).await),
            ErrorCode::InvalidContent
        );
        assert_eq!(code(sessions.get("alpha", id)), ErrorCode::InvalidContent);
        assert_eq!(
            code(sessions.delete("alpha", id)),
            ErrorCode::InvalidContent
        );
    }
    // Any other text is a valid session id; the file name is then a hash.
    let ids_ = ["../../../escape", "agent:main:x", "ä\"{}", "/", "*"];
    for id in ids_ {
        append_entry(&sessions, "alpha", id, "m").await;
    }
    let archived = sessions.archive("alpha", Duration::ZERO).unwrap();
    assert_eq!(archived.len(), ids_.len());
    let folder = place.state.join("agents/alpha/archive");
    assert_eq!(fs::read_dir(folder).unwrap().count(), ids_.len());
    for id in ids_ {
        assert_eq!(code(sessions.get("alpha", id)), ErrorCode::SessionExpired);
        let mut out = Vec::new();
        assert_eq!(sessions.export("alpha", id, &mut out).unwrap(), 1, "{id}");
    }
}

#[tokio::test]
async fn name_differing_only_in_case_is_refused() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "m").await;
    let result = sessions.append("Alpha", &entry("s", "m", "")).await;
    assert_eq!(code(result), ErrorCode::AgentNotFound);
    drop(sessions);
    // The same holds for a process that has not used the other workspace yet.
    assert_eq!(
        code(place.open().list("ALPHA", true, 1)),
        ErrorCode::AgentNotFound
    );
}

/// Other systems may have case-insensitive file systems.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn directories_differing_only_in_case_are_refused() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "m").await;
    append_entry(&sessions, "beta", "s", "m").await;
    let agents = place.state.join("agents");
    for name in ["Alpha", "Beta"] {
        fs::create_dir(agents.join(name)).unwrap();
    }
    // A workspace in use stays usable.
    assert_eq!(
        code(sessions.list("Alpha", true, 1)),
        ErrorCode::AgentNotFound
    );
    assert_eq!(sessions.list("alpha", true, 1).unwrap().len(), 1);
    drop(sessions);
    let sessions = place.open();
    for name in ["alpha", "Alpha", "beta"] {
        assert_eq!(code(sessions.list(name, true, 1)), ErrorCode::AgentNotFound);
    }
    fs::remove_dir(agents.join("Alpha")).unwrap();
    assert_eq!(sessions.list("alpha", true, 1).unwrap().len(), 1);
}

#[test]
fn error_shows_short_printable_name() {
    let place = Place::new();
    let refused = place
        .open()
        .list(&format!("\u{1b}[31m{}", "x".repeat(9999)), true, 1);
    let message = refused.unwrap_err().to_string();
    assert!(
        message.len() < 400 && !message.contains('\u{1b}'),
        "{message}"
    );
}
