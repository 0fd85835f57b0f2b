//! Rewriting all sessions with another key, or from and to plain text.

use super::*;

/// Rewrites all sessions, and returns the ids with the outcome.
fn rekey(sessions: &Sessions, form: Form) -> Vec<(String, Result<bool, ErrorCode>)> {
    let mut seen = Vec::new();
    let done = sessions.rekey(form, |key, result| {
        seen.push((key.session.clone(), result.map_err(|error| error.code())));
    });
    done.unwrap();
    seen
}

fn rewritten(ids: &[&str]) -> Vec<(String, Result<bool, ErrorCode>)> {
    ids.iter().map(|id| ((*id).to_owned(), Ok(true))).collect()
}

/// Returns the content of all files of a workspace, by name.
fn all_files(place: &Place) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for folder in ["sessions", "archive"] {
        let folder = place.state.join("agents/alpha").join(folder);
        for file in fs::read_dir(folder).into_iter().flatten().flatten() {
            found.insert(file.path(), fs::read(file.path()).unwrap());
        }
    }
    found
}

#[tokio::test]
async fn rekey_encrypts_and_decrypts_every_byte() {
    let place = Place::new();
    let sessions = place.open();
    sessions.create("alpha", Some("archived")).await.unwrap();
    append_entry(&sessions, "alpha", "archived", "m1").await;
    sessions.archive("alpha", Duration::ZERO).unwrap();
    append_entry(&sessions, "alpha", "a", "m1").await;
    sessions.commit("alpha", "a").await.unwrap();
    drop(sessions);
    let foreign = r#"{"id":"1","sessionId":"b","content":"x","role":"user","timestamp":1.0,"more":[1]}
{"sessionId":"b","content":"renamed","role":"system","event":"renamed"}
"#;
    place.write("alpha", "b", foreign.as_bytes());
    let before = all_files(&place);
    let sessions = place.open_with(&[KEY]);
    assert_eq!(
        rekey(&sessions, Form::Encrypted),
        rewritten(&["a", "b", "archived"])
    );
    for (file, bytes) in all_files(&place) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.contains("enc") && !text.contains("content"),
            "{file:?}"
        );
    }
    assert_eq!(ids(&sessions, "alpha", "b"), ["1"]);
    // What is encrypted with the first key is left.
    assert!(
        rekey(&sessions, Form::Encrypted)
            .iter()
            .all(|(_, result)| *result == Ok(false))
    );
    drop(sessions);
    let sessions = place.open_with(&[OTHER_KEY, KEY]);
    assert_eq!(
        rekey(&sessions, Form::Encrypted),
        rewritten(&["a", "b", "archived"])
    );
    drop(sessions);
    let sessions = place.open_with(&[OTHER_KEY]);
    assert_eq!(ids(&sessions, "alpha", "a"), ["m1"]);
    assert_eq!(
        rekey(&sessions, Form::Plain),
        rewritten(&["a", "b", "archived"])
    );
    assert_eq!(all_files(&place), before);
    append_entry(&sessions, "alpha", "a", "m2").await;
    drop(sessions);
    assert_eq!(ids(&place.open(), "alpha", "a"), ["m1", "m2"]);
}

#[tokio::test]
async fn appended_lines_follow_rewritten_ones() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "s", "m1").await;
    let sessions = place.open_with(&[KEY]);
    append_entry(&sessions, "alpha", "s", "m2").await;
    rekey(&sessions, Form::Encrypted);
    append_entry(&sessions, "alpha", "s", "m3").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["m1", "m2", "m3"]);
    drop(sessions);
    assert_eq!(
        ids(&place.open_with(&[KEY]), "alpha", "s"),
        ["m1", "m2", "m3"]
    );
}

#[tokio::test]
async fn draft_of_a_killed_rekey_is_no_session_and_replaced() {
    let place = Place::new();
    append_entry(&place.open_with(&[KEY]), "alpha", "s", "m1").await;
    let whole = place.bytes("alpha", "s");
    let draft = place.file("alpha", "s").with_extension("rekey");
    for bytes in 0..=whole.len() {
        place.write("alpha", "s", &whole);
        fs::write(&draft, &whole[..bytes]).unwrap();
        let sessions = place.open_with(&[OTHER_KEY, KEY]);
        assert_eq!(ids(&sessions, "alpha", "s"), ["m1"]);
        assert_eq!(rekey(&sessions, Form::Encrypted), rewritten(&["s"]));
        assert!(!draft.exists());
        assert_eq!(ids(&sessions, "alpha", "s"), ["m1"]);
    }
    fs::write(&draft, &whole).unwrap();
    place.open_with(&[OTHER_KEY]).delete("alpha", "s").unwrap();
    assert!(!draft.exists());
}

#[tokio::test]
async fn an_unreadable_session_stays_and_the_next_follows() {
    let place = Place::new();
    let sessions = place.open_with(&[KEY]);
    for session in ["damaged", "fine", "forged"] {
        for id in ["m1", "m2"] {
            append_entry(&sessions, "alpha", session, id).await;
        }
    }
    drop(sessions);
    append_entry(
        &place.open_with(&["QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8"]),
        "alpha",
        "lost",
        "m1",
    )
    .await;
    place.write("alpha", "damaged", b"damaged\n");
    let text = place.text("alpha", "forged");
    let (one, two) = text.split_once('\n').unwrap();
    place.write("alpha", "forged", format!("{two}{one}\n").as_bytes());
    let before = all_files(&place);
    let sessions = place.open_with(&[OTHER_KEY, KEY]);
    let expected = [
        ("damaged", Err(ErrorCode::SessionCorrupt)),
        ("fine", Ok(true)),
        ("forged", Err(ErrorCode::SessionCorrupt)),
        ("lost", Err(ErrorCode::AgentError)),
    ];
    let expected: Vec<_> = expected.map(|(id, result)| (id.to_owned(), result)).into();
    assert_eq!(rekey(&sessions, Form::Encrypted), expected);
    let mut after = all_files(&place);
    let fine = place.file("alpha", "fine");
    assert_ne!(
        after.insert(fine.clone(), before[&fine].clone()).unwrap(),
        before[&fine]
    );
    assert_eq!(after, before);
}

#[tokio::test]
async fn rekey_cuts_an_unfinished_line_and_says_so() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "s", "m1").await;
    let whole = place.bytes("alpha", "s");
    place.write("alpha", "s", &[&whole[..], b"{\"timestamp\""].concat());
    let sessions = place.open_with(&[KEY]);
    rekey(&sessions, Form::Encrypted);
    assert_eq!(ids(&sessions, "alpha", "s"), ["m1"]);
    let logged = place.logged();
    assert!(
        logged.len() == 1 && logged[0].contains("12 bytes"),
        "{logged:?}"
    );
}

#[tokio::test]
async fn rekey_needs_a_key_and_the_lock() {
    let place = Place::new();
    let refused = place.open().rekey(Form::Encrypted, |_, _| {});
    assert!(matches!(refused, Err(SessionError::NoKeys)), "{refused:?}");
    let refused = place.read_only().rekey(Form::Plain, |_, _| {});
    assert_eq!(code(refused), ErrorCode::SessionLocked);
}
