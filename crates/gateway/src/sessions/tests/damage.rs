//! A file that something else has damaged.

use super::*;

/// A file whose lines belong to the sessions in `order`; the entries' ids are `0`, `1`, …
async fn filled(place: &Place, order: &[&str]) -> Vec<Vec<u8>> {
    let sessions = place.open();
    for (i, session) in order.iter().enumerate() {
        keep(&sessions, "alpha", session, &i.to_string()).await;
    }
    drop(sessions);
    let lines = place.bytes("alpha");
    lines
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[tokio::test]
async fn a_damaged_line_is_4004_for_its_session_and_names_file_and_line() {
    let place = Place::new();
    let mut lines = filled(&place, &["a", "b", "a", "b"]).await;
    // A byte in the middle of the second entry of `a`, of which the rest can be read.
    lines[2][20] = b'\0';
    place.write("alpha", &lines.concat());
    for sessions in [place.read_only(), place.open()] {
        let error = sessions.get("alpha", "a").map(drop).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionCorrupt);
        let told = error.to_string();
        let file = place.file("alpha").display().to_string();
        assert!(told.contains(&file) && told.contains("line 3"), "{told}");
        assert!(!error.told().contains(&file), "{}", error.told());
        assert_eq!(ids(&sessions, "alpha", "b"), ["1", "3"]);
        let states: Vec<_> = sessions
            .list("alpha")
            .unwrap()
            .iter()
            .map(|one| one.state)
            .collect();
        assert_eq!(states, [State::Corrupt, State::Active]);
    }
    let told = place.told();
    assert!(told[0].starts_with("error: line 3 of "), "{told:?}");
    let sessions = place.open();
    let refused = sessions.append("alpha", &entry("a", "x", "")).await;
    assert_eq!(code(refused), ErrorCode::SessionCorrupt);
    let mut out = Vec::new();
    assert_eq!(
        code(sessions.export("alpha", "a", &mut out)),
        ErrorCode::SessionCorrupt
    );
    keep(&sessions, "alpha", "b", "5").await;
    keep(&sessions, "alpha", "c", "6").await;
    // It is never archived, so what is left of it stays in sight; deleting it mends the file.
    assert_eq!(
        sessions.archive("alpha", Duration::ZERO).unwrap(),
        ["b", "c"]
    );
    sessions.delete("alpha", "a").unwrap();
    assert_eq!(place.text("alpha"), "");
    keep(&sessions, "alpha", "a", "new").await;
    assert_eq!(ids(&sessions, "alpha", "a"), ["new"]);
}

#[tokio::test]
async fn a_line_that_says_nothing_belongs_to_the_session_around_it() {
    let place = Place::new();
    let mut lines = filled(&place, &["a", "b", "b", "b", "a"]).await;
    lines[2] = b"\x01\x02garbage\n".to_vec();
    place.write("alpha", &lines.concat());
    let sessions = place.open();
    assert_eq!(code(sessions.get("alpha", "b")), ErrorCode::SessionCorrupt);
    assert_eq!(ids(&sessions, "alpha", "a"), ["0", "4"]);
}

#[tokio::test]
async fn a_line_that_could_be_anybodys_is_told_and_counted() {
    let place = Place::new();
    let mut lines = filled(&place, &["a", "b", "a"]).await;
    lines[1] = b"garbage\n".to_vec();
    lines.insert(0, b"{}\n".to_vec());
    lines.push(b"[1]\n".to_vec());
    place.write("alpha", &lines.concat());
    let sessions = place.open();
    // Between two lines of `a` it was `a`'s, as far as anybody can see.
    assert_eq!(code(sessions.get("alpha", "a")), ErrorCode::SessionCorrupt);
    assert_eq!(sessions.strays("alpha").unwrap(), 2);
    let told = place.told().join("\n");
    for line in ["line 1 of", "line 3 of", "line 5 of"] {
        assert!(told.contains(line), "{told}");
    }
}

#[tokio::test]
async fn what_nobody_understands_stays_when_the_file_is_written_anew() {
    let place = Place::new();
    let mut lines = filled(&place, &["a", "b"]).await;
    lines.insert(1, b"garbage\n".to_vec());
    place.write("alpha", &lines.concat());
    let sessions = place.open();
    sessions.delete("alpha", "a").unwrap();
    assert_eq!(
        place.bytes("alpha"),
        [&b"garbage\n"[..], &lines[2]].concat()
    );
    assert_eq!(ids(&sessions, "alpha", "b"), ["1"]);
}

#[tokio::test]
async fn damage_after_the_file_was_read_is_found_when_the_session_is() {
    let place = Place::new();
    let mut lines = filled(&place, &["a", "b", "a"]).await;
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "a"), ["0", "2"]);
    lines[2][20] = b'\0';
    place.write("alpha", &lines.concat());
    let read: Vec<_> = sessions.get("alpha", "a").unwrap().collect();
    assert!(read[0].is_ok());
    let error = read[1].as_ref().unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
    assert_eq!((error.code(), read.len()), (ErrorCode::SessionCorrupt, 2));
}

#[tokio::test]
async fn what_others_write_in_this_form_is_read() {
    let place = Place::new();
    let text = concat!(
        r#"{"id": "1", "sessionId": "s", "content": {"sessionId": "t"}, "role": "user", "timestamp": 1.0, "more": [1]}"#,
        "\r\n\n",
        r#"{"role": "assistant", "content": null, "sessionId": "s"}"#,
    );
    place.write("alpha", text.as_bytes());
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["1", ""]);
    assert_eq!(sessions.list("alpha").unwrap().len(), 1);
    keep(&sessions, "alpha", "s", "3").await;
    assert_eq!(ids(&place.read_only(), "alpha", "s"), ["1", "", "3"]);
}

#[tokio::test]
async fn a_thousand_damaged_lines_are_not_told_one_by_one() {
    let place = Place::new();
    place.write("alpha", "x\n".repeat(1000).as_bytes());
    let sessions = place.open();
    assert_eq!(sessions.strays("alpha").unwrap(), 1000);
    assert_eq!(place.told().len(), 11);
}
