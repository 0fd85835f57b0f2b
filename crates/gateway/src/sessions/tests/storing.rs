//! The format, the order and the acknowledgement of stored entries.

use super::*;

#[tokio::test]
async fn entries_have_the_specified_format() {
    let place = Place::new();
    let sessions = place.open();
    let mut hello = entry("sess-123", "msg-001", "Hello!");
    sessions.append("steward", &hello).await.unwrap();
    hello.content = std::borrow::Cow::Owned(json!({"parts": [1, "é\n"]}));
    sessions.append("steward", &hello).await.unwrap();
    let lines = r#"{"timestamp":1711843200000,"role":"user","content":"Hello!","sessionId":"sess-123","id":"msg-001"}
{"timestamp":1711843200000,"role":"user","content":{"parts":[1,"é\n"]},"sessionId":"sess-123","id":"msg-001"}
"#;
    assert_eq!(place.text("steward", "sess-123"), lines);
}

#[tokio::test]
async fn message_entry_keeps_its_content() {
    let text =
        r#"{"type": "message", "id": "m", "content": {"role": "assistant", "content": [1]}}"#;
    let message = Envelope::parse(text).unwrap();
    let now = UNIX_EPOCH + Duration::from_millis(5);
    let entry = Entry::new(&message, "s", now);
    assert_eq!(
        (entry.timestamp, &*entry.role, &*entry.id),
        (5, "assistant", "m")
    );
    assert_eq!(*entry.content, json!([1]));
    // The entry contains other content unchanged, and a client cannot invent a role.
    let text = r#"{"type": "broadcast", "content": {"role": "root", "message": "x"}}"#;
    let message = Envelope::parse(text).unwrap();
    let entry = Entry::new(&message, "s", now);
    assert_eq!((&*entry.role, &*entry.id), ("agent", ""));
    assert_eq!(*entry.content, json!({"role": "root", "message": "x"}));
}

#[tokio::test]
async fn acknowledged_entries_are_written_at_any_fsync() {
    for fsync in [Fsync::Always, Fsync::Interval, Fsync::Never] {
        let place = Place::new();
        let config = ServerConfig {
            fsync,
            fsync_interval_ms: 3_600_000,
            ..place.config()
        };
        let sessions = place.try_open(&config).unwrap();
        append_entry(&sessions, "alpha", "s", "one").await;
        assert!(place.text("alpha", "s").contains("one"), "{fsync:?}");
        assert_eq!(ids(&place.read_only(), "alpha", "s"), ["one"]);
    }
}

#[tokio::test]
async fn entries_are_in_call_order() {
    let place = Place::new();
    let sessions = place.open();
    let names: Vec<String> = (0..500).map(|i| format!("m{i}")).collect();
    let calls: Vec<_> = names
        .iter()
        .map(|id| sessions.append("alpha", &entry("s", id, id)))
        .collect();
    for call in calls.into_iter().rev() {
        call.await.unwrap();
    }
    assert_eq!(ids(&sessions, "alpha", "s"), names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_keep_workspaces_apart() {
    let place = Place::new();
    let config = ServerConfig {
        fsync: Fsync::Always,
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    let tasks = (0..40).map(|task| {
        let sessions = sessions.clone();
        tokio::spawn(async move {
            let (agent, session) = (format!("a{}", task % 5), format!("s{task}"));
            for i in 0..25 {
                append_entry(&sessions, &agent, &session, &format!("{session}-{i}")).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for task in 0..40 {
        let session = format!("s{task}");
        let all: Vec<_> = (0..25).map(|i| format!("{session}-{i}")).collect();
        assert_eq!(ids(&sessions, &format!("a{}", task % 5), &session), all);
    }
}

#[tokio::test]
async fn entry_is_stored_without_a_waiting_caller() {
    let place = Place::new();
    let sessions = place.open();
    drop(sessions.append("alpha", &entry("s", "one", "one")));
    sessions.close().unwrap();
    assert_eq!(ids(&sessions, "alpha", "s"), ["one"]);
}

#[test]
fn entries_are_stored_without_a_runtime() {
    let place = Place::new();
    let sessions = place.open();
    let done = sessions.append("alpha", &entry("s", "one", "one"));
    assert!(place.text("alpha", "s").contains("one"));
    futures_util::future::FutureExt::now_or_never(done)
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn interval_fsync_syncs_within_the_interval() {
    tokio::time::pause();
    let place = Place::new();
    let config = ServerConfig {
        fsync: Fsync::Interval,
        fsync_interval_ms: 50,
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    let unsynced = &sessions.0.store.unsynced;
    assert!(unsynced.lock().contains(&place.file("alpha", "s")));
    tokio::time::sleep(Duration::from_millis(60)).await;
    // Another thread syncs.
    while !unsynced.lock().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Opening a pipe without a reader blocks, like the sync of a slow disk.
#[cfg(unix)]
#[tokio::test]
async fn entries_do_not_wait_for_the_syncs_of_others() {
    let place = Place::new();
    let config = ServerConfig {
        fsync: Fsync::Interval,
        fsync_interval_ms: 1,
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    append_entry(&sessions, "alpha", "fast", "one").await;
    let pipe = place.file("alpha", "slow");
    base::testing::make_pipe(&pipe);
    let unsynced = &sessions.0.store.unsynced;
    unsynced.lock().insert(pipe.clone());
    let appended = async {
        // Another thread syncs.
        while unsynced.try_lock().is_none_or(|paths| !paths.is_empty()) {
            tokio::task::yield_now().await;
        }
        append_entry(&sessions, "alpha", "fast", "two").await;
    };
    let appended = tokio::time::timeout(Duration::from_secs(20), appended).await;
    drop(std::fs::File::open(&pipe).unwrap());
    appended.unwrap();
}

#[tokio::test]
async fn workspace_hides_sessions_from_others() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "same", "a").await;
    append_entry(&sessions, "beta", "same", "b").await;
    append_entry(&sessions, "beta", "other", "c").await;
    assert_eq!(ids(&sessions, "alpha", "same"), ["a"]);
    assert_eq!(ids(&sessions, "beta", "same"), ["b"]);
    assert_eq!(
        code(sessions.get("alpha", "other")),
        ErrorCode::SessionNotFound
    );
    assert!(!place.text("alpha", "same").contains("\"b\""));
    assert_eq!((sessions.count("alpha"), sessions.count("beta")), (1, 2));
}

#[tokio::test]
async fn h_22_unknown_session_is_created_or_4001_if_strict() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "s", "one").await;
    let strict = ServerConfig {
        strict: true,
        ..place.config()
    };
    let sessions = place.try_open(&strict).unwrap();
    append_entry(&sessions, "alpha", "s", "two").await;
    let refused = sessions.append("alpha", &entry("new", "three", "")).await;
    assert_eq!(code(refused), ErrorCode::SessionNotFound);
    assert!(!place.file("alpha", "new").exists());
    sessions.create("alpha", Some("new")).await.unwrap();
    append_entry(&sessions, "alpha", "new", "three").await;
    assert_eq!(ids(&sessions, "alpha", "new"), ["three"]);
    assert_eq!(
        code(sessions.commit("alpha", "none").await),
        ErrorCode::SessionNotFound
    );
}

#[tokio::test]
async fn session_is_created_once() {
    let place = Place::new();
    let sessions = place.open();
    let id = sessions.create("alpha", None).await.unwrap();
    assert_eq!(ids(&sessions, "alpha", &id), [""; 0]);
    assert_eq!(
        code(sessions.create("alpha", Some(&id)).await),
        ErrorCode::InvalidContent
    );
    let both = [
        sessions.create("alpha", Some("x")),
        sessions.create("alpha", Some("x")),
    ];
    let made = futures_util::future::join_all(both).await;
    assert_eq!(made.iter().filter(|one| one.is_ok()).count(), 1);
}

#[tokio::test]
async fn expired_session_is_4002() {
    let place = Place::new();
    let config = ServerConfig {
        session_ttl_ms: Some(60_000),
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    place.advance(Duration::from_secs(60));
    assert_eq!(ids(&sessions, "alpha", "s"), ["one"]);
    place.advance(Duration::from_millis(1));
    let check = |sessions: &Sessions| {
        let over = [code(sessions.get("alpha", "s"))];
        assert_eq!(over, [ErrorCode::SessionExpired]);
        assert_eq!(
            sessions.list("alpha", true, 100).unwrap()[0].state,
            State::Expired
        );
    };
    check(&sessions);
    let refused = sessions.append("alpha", &entry("s", "two", "")).await;
    assert_eq!(code(refused), ErrorCode::SessionExpired);
    // The next process sees the same state.
    drop(sessions);
    let sessions = place.try_open(&config).unwrap();
    check(&sessions);
    let mut out = Vec::new();
    assert_eq!(sessions.export("alpha", "s", &mut out).unwrap(), 1);
}

#[tokio::test]
async fn future_timestamp_does_not_keep_a_session() {
    let place = Place::new();
    let config = ServerConfig {
        session_ttl_ms: Some(60_000),
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    let mut late = entry("s", "one", "");
    late.timestamp = u64::MAX;
    sessions.append("alpha", &late).await.unwrap();
    place.advance(Duration::from_secs(61));
    assert_eq!(code(sessions.get("alpha", "s")), ErrorCode::SessionExpired);
}

#[tokio::test]
async fn full_write_queue_is_3003_without_entry() {
    let place = Place::new();
    let config = ServerConfig {
        limits: Limits {
            total_queue_bytes: 400,
            ..Limits::default()
        },
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    let refused = sessions.append("alpha", &entry("s", "one", &"x".repeat(400)));
    assert_eq!(code(refused.await), ErrorCode::AgentBusy);
    append_entry(&sessions, "alpha", "s", "two").await;
    // Written lines no longer count as queued.
    for i in 0..20 {
        append_entry(&sessions, "alpha", "s", &format!("m{i}")).await;
    }
    assert_eq!(ids(&sessions, "alpha", "s").len(), 21);
}

#[tokio::test]
async fn failed_write_is_reported_and_leaves_no_entry() {
    let place = Place::new();
    let sessions = place.open();
    // A directory in place of the file, so that writes fail.
    let folder = place.file("alpha", "s");
    fs::create_dir_all(&folder).unwrap();
    let refused = sessions
        .append("alpha", &entry("s", "one", "secret"))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::AgentError);
    assert!(
        !refused
            .public_message()
            .contains(place.state.to_str().unwrap()),
        "{}",
        refused.public_message()
    );
    assert!(!refused.to_string().contains("secret"));
    fs::remove_dir(&folder).unwrap();
    append_entry(&sessions, "alpha", "s", "two").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["two"]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_sessions() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "one").await;
    sessions.archive("alpha", Duration::ZERO).unwrap();
    append_entry(&sessions, "alpha", "t", "one").await;
    let file = place.file("alpha", "s");
    let folder = file.parent().unwrap();
    let workspace = folder.parent().unwrap();
    let archive = workspace.join("archive");
    let archived = archive.join("s.jsonl");
    for folder in [folder, workspace, &place.state, &archive] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
    for file in [&place.file("alpha", "t"), &archived] {
        assert_eq!(mode(file), 0o600, "{file:?}");
    }
    // The store also restricts the permissions of a file that another program created.
    drop(sessions);
    fs::set_permissions(place.file("alpha", "t"), fs::Permissions::from_mode(0o644)).unwrap();
    append_entry(&place.open(), "alpha", "t", "two").await;
    assert_eq!(mode(&place.file("alpha", "t")), 0o600);
}

#[tokio::test]
async fn second_process_gets_the_id_of_the_first() {
    let place = Place::new();
    let sessions = place.open();
    let refused = place.try_open(&place.config()).map(drop).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SessionLocked);
    let process = format!("process {}", std::process::id());
    assert!(refused.to_string().contains(&process), "{refused}");
    // A read-only process can read but not write.
    append_entry(&sessions, "alpha", "s", "one").await;
    let other = place.read_only();
    assert_eq!(ids(&other, "alpha", "s"), ["one"]);
    let written = other.append("alpha", &entry("s", "two", "")).await;
    assert_eq!(code(written), ErrorCode::SessionLocked);
    assert_eq!(code(other.delete("alpha", "s")), ErrorCode::SessionLocked);
    assert_eq!(
        code(other.archive("alpha", Duration::ZERO)),
        ErrorCode::SessionLocked
    );
    assert_eq!(
        code(other.import("alpha", &mut io::empty(), None)),
        ErrorCode::SessionLocked
    );
    drop(sessions);
    append_entry(&place.open(), "alpha", "s", "two").await;
}

#[tokio::test]
async fn entry_after_a_replaced_file_is_in_the_new_file() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "one").await;
    let (file, copy) = (place.file("alpha", "s"), place.state.join("copy"));
    fs::copy(&file, &copy).unwrap();
    fs::rename(&copy, &file).unwrap();
    append_entry(&sessions, "alpha", "s", "two").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["one", "two"]);
    fs::remove_file(&file).unwrap();
    append_entry(&sessions, "alpha", "s", "three").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["three"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn open_files_are_bounded_and_closed_at_the_end() {
    let place = Place::new();
    let sessions = place.open();
    let names: Vec<String> = (0..200).map(|number| format!("s{number}")).collect();
    for round in ["one", "two"] {
        for name in &names {
            append_entry(&sessions, "alpha", name, round).await;
        }
    }
    for name in &names {
        assert_eq!(ids(&sessions, "alpha", name), ["one", "two"]);
    }
    let open = || {
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = files.filter_map(|file| fs::read_link(file.path()).ok());
        let session_files = files.filter(|file| file.starts_with(&place.state));
        session_files
            .filter(|file| file.extension().is_some_and(|it| it == "jsonl"))
            .count()
    };
    assert_eq!(open(), 64);
    sessions.close().unwrap();
    assert_eq!(open(), 0);
}

#[tokio::test]
async fn closed_sessions_are_unlocked_while_a_child_process_shares_their_files() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "one").await;
    // A child process shares the files between its creation and the start of its program, like these descriptors.
    let inner = &sessions.0;
    let directory = inner.lock.as_ref().unwrap()._file.try_clone().unwrap();
    let path = place.file("alpha", "s");
    let file = inner.store.open_append(&path).unwrap();
    let shared = (directory, file.try_clone().unwrap());
    inner.store.keep_open(path, file);
    drop(sessions);
    append_entry(&place.open(), "alpha", "s", "two").await;
    drop(shared);
}
