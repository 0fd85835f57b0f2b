//! Lists, commits, archives and deletes sessions, and moves them to other workspaces.

use super::*;

fn exported(sessions: &Sessions, agent: &str, session: &str) -> String {
    let mut out = Vec::new();
    sessions.export(agent, session, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn session_list_omits_message_content() {
    let place = Place::new();
    let sessions = place.open();
    let now = |place: &Place| place.clock.system_time();
    let began = now(&place);
    sessions.create("alpha", Some("s")).await.unwrap();
    place.advance(Duration::from_secs(1));
    append_entry(&sessions, "alpha", "s", "secret").await;
    let updated = now(&place);
    sessions.commit("alpha", "s").await.unwrap();
    let one = Summary {
        agent: "alpha".into(),
        session_id: "s".into(),
        state: State::Active,
        form: Some(Form::Plain),
        entries: 1,
        created: began,
        updated,
        committed: Some(updated),
        missing_key: None,
    };
    assert_eq!(
        sessions.list("alpha", true, 100).unwrap(),
        std::slice::from_ref(&one)
    );
    // The next process reads the same metadata, also from the archive.
    drop(sessions);
    let sessions = place.open();
    assert_eq!(
        sessions.list("alpha", true, 100).unwrap(),
        std::slice::from_ref(&one)
    );
    sessions.archive("alpha", Duration::ZERO).unwrap();
    let archived = Summary {
        state: State::Archived,
        ..one
    };
    assert_eq!(sessions.list("alpha", true, 100).unwrap(), [archived]);
    assert_eq!(sessions.agents().unwrap(), ["alpha"]);
}

#[tokio::test]
async fn commit_syncs_at_any_fsync() {
    let place = Place::new();
    let config = ServerConfig {
        fsync: Fsync::Interval,
        fsync_interval_ms: 3_600_000,
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    let is_unsynced = || {
        sessions
            .0
            .store
            .unsynced
            .lock()
            .contains(&place.file("alpha", "s"))
    };
    assert!(is_unsynced());
    sessions.commit("alpha", "s").await.unwrap();
    assert!(!is_unsynced());
    assert_eq!(ids(&sessions, "alpha", "s"), ["one"]);
}

#[tokio::test]
async fn older_sessions_are_archived_and_closed() {
    let place = Place::new();
    let sessions = place.open();
    let week = Duration::from_secs(7 * 24 * 3600);
    append_entry(&sessions, "alpha", "old", "one").await;
    append_entry(&sessions, "beta", "old", "two").await;
    place.advance(week);
    append_entry(&sessions, "alpha", "young", "three").await;
    let before = exported(&sessions, "alpha", "old");
    assert_eq!(sessions.archive("alpha", week).unwrap(), ["old"]);
    assert_eq!(sessions.archive("alpha", week).unwrap(), [""; 0]);
    let refused = sessions.append("alpha", &entry("old", "four", "")).await;
    assert_eq!(code(refused), ErrorCode::SessionExpired);
    assert_eq!(
        code(sessions.get("alpha", "old")),
        ErrorCode::SessionExpired
    );
    assert_eq!(
        code(sessions.create("alpha", Some("old")).await),
        ErrorCode::InvalidContent
    );
    assert_eq!(exported(&sessions, "alpha", "old"), before);
    assert_eq!(ids(&sessions, "alpha", "young"), ["three"]);
    assert_eq!(ids(&sessions, "beta", "old"), ["two"]);
    assert_eq!(sessions.count("alpha"), 1);
}

#[tokio::test]
async fn deleted_session_leaves_no_file() {
    let place = Place::new();
    let sessions = place.open();
    for (session, id) in [("s", "secret-1"), ("t", "other"), ("s", "secret-2")] {
        append_entry(&sessions, "alpha", session, id).await;
    }
    sessions.delete("alpha", "s").unwrap();
    assert!(!place.file("alpha", "s").exists());
    assert_eq!(code(sessions.get("alpha", "s")), ErrorCode::SessionNotFound);
    assert_eq!(
        code(sessions.delete("alpha", "s")),
        ErrorCode::SessionNotFound
    );
    assert_eq!(ids(&sessions, "alpha", "t"), ["other"]);
    sessions.archive("alpha", Duration::ZERO).unwrap();
    sessions.delete("alpha", "t").unwrap();
    assert_eq!(code(sessions.get("alpha", "t")), ErrorCode::SessionNotFound);
    assert_eq!(sessions.list("alpha", true, 100).unwrap(), []);
    append_entry(&sessions, "alpha", "t", "again").await;
    assert_eq!(ids(&sessions, "alpha", "t"), ["again"]);
}

#[tokio::test]
async fn export_and_import_moves_a_session() {
    let place = Place::new();
    let sessions = place.open();
    sessions.create("alpha", Some("s")).await.unwrap();
    for id in ["one", "two"] {
        append_entry(&sessions, "alpha", "s", id).await;
        append_entry(&sessions, "alpha", "t", "foreign").await;
    }
    sessions.commit("alpha", "s").await.unwrap();
    let text = exported(&sessions, "alpha", "s");
    assert_eq!(text.lines().count(), 2);
    let mut from = text.as_bytes();
    let imported = sessions.import("beta", &mut from, None).unwrap();
    assert_eq!(imported, ("s".to_owned(), 2));
    assert_eq!(exported(&sessions, "beta", "s"), text);
    let again = sessions.import("beta", &mut text.as_bytes(), None);
    assert_eq!(code(again), ErrorCode::InvalidContent);
    let renamed = sessions
        .import("beta", &mut text.as_bytes(), Some("u"))
        .unwrap();
    assert_eq!(renamed, ("u".to_owned(), 2));
    assert_eq!(
        exported(&sessions, "beta", "u"),
        text.replace("\"s\"", "\"u\"")
    );
    assert_eq!(ids(&place.read_only(), "beta", "u"), ["one", "two"]);
    append_entry(&sessions, "beta", "u", "three").await;
    // An id in the archive stays in use.
    sessions.archive("beta", Duration::ZERO).unwrap();
    let again = sessions.import("beta", &mut text.as_bytes(), None);
    assert_eq!(code(again), ErrorCode::InvalidContent);
}

#[tokio::test]
async fn imported_session_ages_from_now() {
    let place = Place::new();
    let config = ServerConfig {
        session_ttl_ms: Some(60_000),
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    place.advance(Duration::from_secs(61));
    let text = exported(&sessions, "alpha", "s");
    sessions.import("beta", &mut text.as_bytes(), None).unwrap();
    assert_eq!(ids(&sessions, "beta", "s"), ["one"]);
}

#[tokio::test]
async fn failed_import_leaves_no_file() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "one").await;
    let before = place.bytes("alpha", "s");
    let good = r#"{"timestamp":1,"role":"user","content":"x","sessionId":"n","id":"1"}"#;
    let other = good.replace("\"n\"", "\"m\"");
    for (text, line) in [
        (String::new(), "line 1"),
        ("{}".into(), "line 1"),
        (format!("{good}\n{other}\n"), "line 2"),
        (format!("{good}\n\nno JSON"), "line 3"),
        (good.replace("\"role\":\"user\",", ""), "line 1"),
    ] {
        let error = sessions
            .import("alpha", &mut text.as_bytes(), None)
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidContent);
        assert!(error.to_string().contains(line), "{error}");
    }
    let bad_id = good.replace("\"n\"", "\"a\\nb\"");
    assert_eq!(
        code(sessions.import("alpha", &mut bad_id.as_bytes(), None)),
        ErrorCode::InvalidContent
    );
    assert_eq!(place.bytes("alpha", "s"), before);
    let folder = place.file("alpha", "s").parent().unwrap().to_owned();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    append_entry(&sessions, "alpha", "s", "two").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deleting_other_sessions_keeps_entries() {
    let place = Place::new();
    let sessions = place.open();
    let writer = tokio::spawn({
        let sessions = sessions.clone();
        async move {
            for i in 0..300 {
                append_entry(&sessions, "alpha", "s", &i.to_string()).await;
            }
        }
    });
    let mut rounds = 0;
    while !writer.is_finished() || rounds < 3 {
        let gone = format!("gone-{rounds}");
        append_entry(&sessions, "alpha", &gone, "x").await;
        let sessions = sessions.clone();
        tokio::task::spawn_blocking(move || sessions.delete("alpha", &gone).unwrap())
            .await
            .unwrap();
        rounds += 1;
    }
    writer.await.unwrap();
    let all: Vec<_> = (0..300).map(|i| i.to_string()).collect();
    assert_eq!(ids(&sessions, "alpha", "s"), all);
    drop(sessions);
    assert_eq!(ids(&place.open(), "alpha", "s"), all);
}

#[tokio::test]
async fn reader_sees_a_session_as_of_opening() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "one").await;
    let reader = sessions.get("alpha", "s").unwrap();
    append_entry(&sessions, "alpha", "s", "two").await;
    sessions.delete("alpha", "s").unwrap();
    assert_eq!(reader.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_archiving_loses_no_entry() {
    let place = Place::new();
    let sessions = place.open();
    let mut stored_ids = Vec::new();
    for round in 0..20 {
        let session = format!("s{round}");
        append_entry(&sessions, "alpha", &session, "0").await;
        stored_ids.push("0".to_owned());
        let archiving = sessions.clone();
        let archiving =
            tokio::task::spawn_blocking(move || archiving.archive("alpha", Duration::ZERO));
        for id in 1.. {
            let entry = entry(&session, &id.to_string(), "");
            match sessions.append("alpha", &entry).await {
                Ok(()) => stored_ids.push(id.to_string()),
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::SessionExpired);
                    break;
                }
            }
        }
        let archived = archiving.await.unwrap().unwrap();
        assert_eq!(archived, std::slice::from_ref(&session));
        let text = exported(&sessions, "alpha", &session);
        let ids = text.lines().map(|line| {
            let entry: Entry<'static> = serde_json::from_str(line).unwrap();
            entry.id.into_owned()
        });
        assert_eq!(ids.collect::<Vec<_>>(), stored_ids);
        stored_ids.clear();
    }
    assert_eq!(sessions.count("alpha"), 0);
}
