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

/// Replaces the file of a session by another one, as an operator who restores it.
fn restore(place: &Place, session: &str, bytes: &[u8]) {
    let file = place.file("alpha", session);
    fs::write(file.with_extension("copy"), bytes).unwrap();
    fs::rename(file.with_extension("copy"), file).unwrap();
}

/// Checks that a session is named as unreadable, that its file stays as it is, and that others and its restored file work.
async fn check_unreadable(place: &Place, sessions: &Sessions, what: &str, healthy: &[u8]) {
    let damaged = place.bytes("alpha", "s");
    let refused = sessions.append("alpha", &entry("s", "m5", "")).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionCorrupt, "{what}: {error}");
    assert_eq!(
        code(sessions.commit("alpha", "s").await),
        ErrorCode::SessionCorrupt
    );
    assert_eq!(
        code(sessions.create("alpha", Some("s")).await),
        ErrorCode::InvalidContent
    );
    assert!(sessions.get("alpha", "s").is_err(), "{what}");
    // Another time is no restored content.
    let file = fs::File::options()
        .append(true)
        .open(place.file("alpha", "s"));
    file.unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let refused = sessions.append("alpha", &entry("s", "m5", "")).await;
    assert_eq!(code(refused), ErrorCode::SessionCorrupt, "touched: {what}");
    assert_eq!(place.bytes("alpha", "s"), damaged, "{what}");
    append_entry(sessions, "alpha", "other", "next").await;
    let listed = sessions.list("alpha", true, 9).unwrap();
    let states: Vec<_> = listed
        .iter()
        .map(|one| (&*one.session_id, one.state))
        .collect();
    assert!(
        states.contains(&("s", State::Corrupt)),
        "{what}: {states:?}"
    );
    assert!(
        states.contains(&("other", State::Active)),
        "{what}: {states:?}"
    );
    let file = place.file("alpha", "s").display().to_string();
    let logged = place.logged();
    let is_named = |line: &String| line.starts_with("error: line ") && line.contains(&file);
    assert!(logged.iter().any(is_named), "{what}: {logged:?}");
    restore(place, "s", healthy);
    assert_eq!(ids(sessions, "alpha", "s"), ["m1", "m2", "m3"], "{what}");
    append_entry(sessions, "alpha", "s", "m4").await;
    assert_eq!(
        ids(sessions, "alpha", "s"),
        ["m1", "m2", "m3", "m4"],
        "{what}"
    );
}

/// Returns sessions with one of three entries, encrypted with these keys if there are any, and the content of its file.
async fn start(place: &Place, keys: &[&str]) -> (Sessions, Vec<u8>) {
    let config = match keys {
        [] => place.config(),
        keys => place.encrypted(keys),
    };
    let sessions = place.try_open(&config).unwrap();
    for id in ["m1", "m2", "m3"] {
        append_entry(&sessions, "alpha", "s", id).await;
    }
    let healthy = place.bytes("alpha", "s");
    (sessions, healthy)
}

/// What another program makes of the content of a file.
type Damage = fn(&[u8]) -> Vec<u8>;

#[tokio::test]
async fn file_damaged_under_a_running_gateway_is_not_written_to() {
    let damages: [(&str, Damage); 6] = [
        ("emptied", |_| Vec::new()),
        ("cut in a line", |bytes| bytes[..bytes.len() - 9].to_vec()),
        ("cut after a line", |bytes| {
            let rest = &bytes[..bytes.len() - 1];
            let end = rest.iter().rposition(|byte| *byte == b'\n').unwrap();
            bytes[..=end].to_vec()
        }),
        ("without line ends", |bytes| vec![b'x'; bytes.len() + 100]),
        ("replaced", |_| b"\xff\xfe garbage\n".to_vec()),
        ("longer", |bytes| [bytes, b"garbage\n"].concat()),
    ];
    for keys in [&[][..], &[KEY]] {
        for (what, damage) in damages {
            let place = Place::new();
            let (sessions, healthy) = start(&place, keys).await;
            place.write("alpha", "s", &damage(&healthy));
            let what = format!("{what}, keys: {}", keys.len());
            check_unreadable(&place, &sessions, &what, &healthy).await;
        }
    }
}

/// A line that does not decrypt is found when it is read, or when the length of the file changes.
#[tokio::test]
async fn forged_line_under_a_running_gateway_ends_appends() {
    for (what, end) in [("same length", &b""[..]), ("longer", b"\n")] {
        let place = Place::new();
        let (sessions, healthy) = start(&place, &[KEY]).await;
        let mut forged = [&healthy, end].concat();
        let at = healthy.len() - 20;
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        place.write("alpha", "s", &forged);
        if end.is_empty() {
            let read = sessions.get("alpha", "s").unwrap().last().unwrap();
            assert_eq!(code(read), ErrorCode::SessionCorrupt);
        }
        check_unreadable(&place, &sessions, what, &healthy).await;
    }
}

#[tokio::test]
async fn reader_of_the_damaged_file_does_not_condemn_the_restored_one() {
    let place = Place::new();
    let (sessions, healthy) = start(&place, &[]).await;
    let mut damaged = healthy.clone();
    damaged[20] = b'\0';
    place.write("alpha", "s", &damaged);
    let mut read = sessions.get("alpha", "s").unwrap();
    restore(&place, "s", &healthy);
    assert_eq!(code(read.next().unwrap()), ErrorCode::SessionCorrupt);
    append_entry(&sessions, "alpha", "s", "m4").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["m1", "m2", "m3", "m4"]);
}

#[tokio::test]
async fn file_without_a_line_is_cut_only_if_a_write_may_have_left_it() {
    for (bytes, is_damaged) in [
        (&b"{\"timestamp\": 17"[..], false),
        (&[0; 100], false),
        (b"", false),
        (b"\x1f\x8b\x08 compressed", true),
        (b"notes of the operator", true),
    ] {
        let place = Place::new();
        place.write("alpha", "s", bytes);
        let sessions = place.open();
        let appended = sessions.append("alpha", &entry("s", "m1", "")).await;
        assert_eq!(appended.is_err(), is_damaged, "{bytes:?}");
        assert_eq!(place.bytes("alpha", "s") == bytes, is_damaged, "{bytes:?}");
    }
}
