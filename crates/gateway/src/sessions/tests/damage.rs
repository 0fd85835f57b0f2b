//! Session files that another program damaged.

use super::*;

/// Writes `entries` entries with the ids `0`, `1`, …, and returns the lines of the file.
async fn fill_session(place: &Place, session: &str, entries: usize) -> Vec<Vec<u8>> {
    let sessions = place.open();
    for i in 0..entries {
        append_entry(&sessions, "alpha", session, &i.to_string()).await;
    }
    drop(sessions);
    let lines = place.bytes("alpha", session);
    lines
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[tokio::test]
async fn damaged_line_is_4004_and_names_file_and_line() {
    let place = Place::new();
    fill_session(&place, "b", 2).await;
    let mut lines = fill_session(&place, "a", 2).await;
    lines[1][20] = b'\0';
    place.write("alpha", "a", &lines.concat());
    for sessions in [place.read_only(), place.open()] {
        let error = sessions.get("alpha", "a").map(drop).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionCorrupt);
        let message = error.to_string();
        let file = place.file("alpha", "a").display().to_string();
        assert!(
            message.contains(&file) && message.contains("line 2"),
            "{message}"
        );
        let public = error.public_message();
        assert!(!public.contains(&file), "{public}");
        assert_eq!(ids(&sessions, "alpha", "b"), ["0", "1"]);
        let listed = sessions.list("alpha", true, 100).unwrap();
        let states: Vec<_> = listed.iter().map(|one| one.state).collect();
        assert_eq!(states, [State::Corrupt, State::Active]);
    }
    let logged = place.logged();
    assert!(logged[0].starts_with("error: line 2 of "), "{logged:?}");
    let sessions = place.open();
    let refused = sessions.append("alpha", &entry("a", "x", "")).await;
    assert_eq!(code(refused), ErrorCode::SessionCorrupt);
    let mut out = Vec::new();
    assert_eq!(
        code(sessions.export("alpha", "a", &mut out)),
        ErrorCode::SessionCorrupt
    );
    append_entry(&sessions, "alpha", "b", "5").await;
    append_entry(&sessions, "alpha", "c", "6").await;
    // A damaged session is not archived, so that it stays visible.
    assert_eq!(
        sessions.archive("alpha", Duration::ZERO).unwrap(),
        ["b", "c"]
    );
    sessions.delete("alpha", "a").unwrap();
    append_entry(&sessions, "alpha", "a", "new").await;
    assert_eq!(ids(&sessions, "alpha", "a"), ["new"]);
}

#[tokio::test]
async fn foreign_lines_damage_a_session() {
    for foreign in ["garbage\n", "{}\n", "[1]\n"] {
        let place = Place::new();
        let lines = fill_session(&place, "a", 2).await;
        let bytes = [&lines[0], foreign.as_bytes(), &lines[1]].concat();
        place.write("alpha", "a", &bytes);
        let sessions = place.open();
        assert_eq!(code(sessions.get("alpha", "a")), ErrorCode::SessionCorrupt);
        // Only deleting changes the file.
        assert_eq!(place.bytes("alpha", "a"), bytes);
    }
    let place = Place::new();
    let lines = fill_session(&place, "a", 1).await;
    place.write("alpha", "b", &lines.concat());
    assert_eq!(
        code(place.open().get("alpha", "b")),
        ErrorCode::SessionCorrupt
    );
}

#[tokio::test]
async fn damage_after_the_scan_is_found_by_the_reader() {
    let place = Place::new();
    let mut lines = fill_session(&place, "a", 2).await;
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "a"), ["0", "1"]);
    lines[1][20] = b'\0';
    place.write("alpha", "a", &lines.concat());
    let read: Vec<_> = sessions.get("alpha", "a").unwrap().collect();
    assert!(read[0].is_ok());
    let error = read[1].as_ref().unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    assert_eq!(error.code(), ErrorCode::SessionCorrupt);
}

#[tokio::test]
async fn reads_sessions_of_other_writers() {
    let place = Place::new();
    let text = concat!(
        r#"{"id": "1", "sessionId": "s", "content": {"sessionId": "t"}, "role": "user", "timestamp": 1.0, "more": [1]}"#,
        "\r\n\n",
        r#"{"role": "assistant", "content": null, "sessionId": "s"}"#,
    );
    place.write("alpha", "s", text.as_bytes());
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["1", ""]);
    assert_eq!(sessions.list("alpha", true, 100).unwrap().len(), 1);
    append_entry(&sessions, "alpha", "s", "3").await;
    assert_eq!(ids(&place.read_only(), "alpha", "s"), ["1", "", "3"]);
}
