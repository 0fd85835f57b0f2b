//! A loss of power after which session files lack what only the log has, and the bounds and errors of the log.

use super::*;

const LOG: &str = ".sync-log";

impl Place {
    fn log_file(&self) -> PathBuf {
        self.state.join("agents").join(LOG)
    }

    /// The log of the files that could not be synced or completed.
    fn kept(&self) -> PathBuf {
        self.state.join("agents/.sync-log.failed")
    }

    async fn wait_until_logs_lack(&self, text: &str) {
        let has_text = || {
            let logs = fs::read_dir(self.state.join("agents")).unwrap();
            let mut logs = logs.map(|log| fs::read(log.unwrap().path()).unwrap_or_default());
            logs.any(|log| String::from_utf8_lossy(&log).contains(text))
        };
        let wait = async {
            while has_text() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        waited.expect("the text leaves the logs");
    }

    fn always(&self) -> ServerConfig {
        ServerConfig {
            fsync: Fsync::Always,
            ..self.config()
        }
    }

    /// Appends entries to `s` and `t`, and returns the log that a crash would leave.
    async fn crashed_log(&self) -> Vec<u8> {
        let sessions = self.try_open(&self.always()).unwrap();
        for id in ["one", "two", "three"] {
            append_entry(&sessions, "alpha", "s", id).await;
            append_entry(&sessions, "beta", "t", id).await;
        }
        let log = fs::read(self.log_file()).unwrap();
        drop(sessions);
        assert!(!self.log_file().exists(), "a clean stop leaves no log");
        log
    }
}

#[tokio::test]
async fn start_completes_the_files() {
    let damages: [fn(&Place, &[u8]); 6] = [
        |_, _| {},
        |place, _| fs::remove_dir_all(place.state.join("agents/alpha")).unwrap(),
        |place, _| place.write("alpha", "s", b""),
        |place, whole| place.write("alpha", "s", &whole[..whole.len() - 7]),
        |place, whole| place.write("alpha", "s", &vec![0; whole.len()]),
        |place, whole| place.write("alpha", "s", &[&whole[..9], &[0; 4096]].concat()),
    ];
    for (case, damage) in damages.into_iter().enumerate() {
        let place = Place::new();
        let log = place.crashed_log().await;
        let whole = place.bytes("alpha", "s");
        damage(&place, &whole);
        fs::write(place.log_file(), log).unwrap();
        let sessions = place.open();
        for (agent, session) in [("alpha", "s"), ("beta", "t")] {
            let found = ids(&sessions, agent, session);
            assert_eq!(found, ["one", "two", "three"], "case {case}");
        }
        let logged = place.logged();
        assert_eq!(logged.len(), usize::from(case > 0), "case {case}");
        let names_command = logged.iter().any(|line| line.contains("`sessions delete`"));
        assert_eq!(names_command, case == 1, "case {case}");
        assert!(!place.log_file().exists());
        append_entry(&sessions, "alpha", "s", "four").await;
        assert_eq!(ids(&sessions, "alpha", "s").len(), 4);
    }
}

#[tokio::test]
async fn log_cut_at_any_byte_restores_what_it_has() {
    let place = Place::new();
    let log = place.crashed_log().await;
    let all = ["one", "two", "three"];
    let mut most = 0;
    for cut in (0..=log.len()).step_by(13).chain([log.len()]) {
        let _ = fs::remove_dir_all(place.state.join("agents/alpha"));
        // Bytes that did not reach the disk are missing or zero.
        let tail = if cut % 2 == 0 { 0 } else { log.len() - cut };
        let torn = [&log[..cut], &vec![0; tail]].concat();
        fs::write(place.log_file(), torn).unwrap();
        let sessions = place.open();
        let found = match sessions.get("alpha", "s") {
            Ok(_) => ids(&sessions, "alpha", "s"),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::SessionNotFound);
                Vec::new()
            }
        };
        assert!(all.starts_with(&found.iter().map(String::as_str).collect::<Vec<_>>()));
        assert!(found.len() >= most, "cut at {cut}: {found:?}");
        most = found.len();
    }
    assert_eq!(most, 3);
}

#[tokio::test]
async fn file_that_another_program_changed_stays() {
    let place = Place::new();
    let log = place.crashed_log().await;
    let edited = place.text("alpha", "s").replace("\"one\"", "\"edited\"");
    place.write("alpha", "s", edited.as_bytes());
    fs::write(place.log_file(), log).unwrap();
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["edited", "two", "three"]);
    let logged = place.logged();
    assert!(
        logged.len() == 1 && logged[0].contains("another program changed"),
        "{logged:?}"
    );
    let kept = place.state.join("agents/.sync-log.changed");
    assert!(fs::read_to_string(&kept).unwrap().contains("\"three\""));
    sessions.delete("alpha", "s").unwrap();
    assert!(!kept.exists());
}

#[tokio::test]
async fn removed_sessions_do_not_come_back() {
    let place = Place::new();
    let sessions = place.try_open(&place.always()).unwrap();
    for session in ["deleted", "archived", "again"] {
        append_entry(&sessions, "alpha", session, "one").await;
    }
    sessions.0.store.sync_log.schedule_emptying();
    sessions.delete("alpha", "deleted").unwrap();
    sessions.delete("alpha", "again").unwrap();
    append_entry(&sessions, "alpha", "again", "two").await;
    place.advance(Duration::from_secs(60));
    append_entry(&sessions, "alpha", "again", "three").await;
    let old = Duration::from_secs(60);
    assert_eq!(sessions.archive("alpha", old).unwrap(), ["archived"]);
    let log = fs::read(place.log_file()).unwrap();
    drop(sessions);
    fs::remove_file(place.file("alpha", "again")).unwrap();
    fs::write(place.log_file(), log).unwrap();
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "again"), ["two", "three"]);
    assert!(!place.file("alpha", "deleted").exists());
    assert!(!place.file("alpha", "archived").exists());
}

#[tokio::test]
async fn deleted_content_leaves_the_logs() {
    for case in ["active", "archived", "during an emptying", "after an error"] {
        let place = Place::new();
        let sessions = place.try_open(&place.always()).unwrap();
        append_entry(&sessions, "alpha", "s", "secret").await;
        let sync_log = &sessions.0.store.sync_log;
        let obstacle = place.state.join("agents/.sync-log.old");
        match case {
            "archived" => drop(sessions.archive("alpha", Duration::ZERO).unwrap()),
            "during an emptying" => assert!(sync_log.schedule_emptying()),
            "after an error" => fs::create_dir(&obstacle).unwrap(),
            _ => {}
        }
        sessions.delete("alpha", "s").unwrap();
        match case {
            "during an emptying" => {
                // The task that it stands for ends like this.
                assert!(!sync_log.end_emptying(), "the log must be emptied again");
                sync_log.empty().unwrap();
            }
            "after an error" => {
                while place.logged().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                fs::remove_dir(&obstacle).unwrap();
            }
            _ => {}
        }
        place.wait_until_logs_lack("secret").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_at_full_speed_do_not_grow_the_log() {
    for fsync in [Fsync::Interval, Fsync::Always] {
        let place = Place::new();
        let config = ServerConfig {
            fsync,
            ..place.config()
        };
        let sessions = place.try_open(&config).unwrap();
        let mut largest = 0;
        for round in 0..20 {
            let appends = (0..50).map(|number| {
                let entry = entry(&format!("s{round}-{number}"), "one", &"x".repeat(200));
                sessions.append("alpha", &entry)
            });
            for append in appends.collect::<Vec<_>>() {
                append.await.unwrap();
            }
            // The log of a full batch more.
            largest = largest.max(fs::metadata(place.log_file()).map_or(0, |log| log.len()));
        }
        assert!(largest < 200 * 500, "{largest}");
        assert_eq!(sessions.count("alpha"), 1000);
        sessions.close().unwrap();
        let names = fs::read_dir(place.state.join("agents")).unwrap();
        assert_eq!(names.count(), 2, "`.lock` and `alpha`");
    }
}

#[tokio::test]
async fn start_that_cannot_complete_a_file_names_it_and_keeps_its_lines() {
    let place = Place::new();
    let log = place.crashed_log().await;
    let file = place.file("alpha", "s");
    for agent in ["alpha", "beta"] {
        fs::remove_dir_all(place.state.join("agents").join(agent)).unwrap();
    }
    fs::create_dir_all(&file).unwrap();
    fs::write(place.log_file(), &log).unwrap();
    for _start in 0..2 {
        let sessions = place.try_open(&place.always()).unwrap();
        let message = place.logged().pop().unwrap();
        assert!(message.contains(file.to_str().unwrap()), "{message}");
        assert!(!place.log_file().exists());
        append_entry(&sessions, "beta", "t", "more").await;
        assert!(ids(&sessions, "beta", "t").starts_with(&["one".into(), "two".into()]));
    }
    let sessions = place.open();
    fs::remove_dir(&file).unwrap();
    // A line in place of the missing ones would keep them out of the file.
    let refused = sessions.append("alpha", &entry("s", "early", "")).await;
    assert_eq!(code(refused), ErrorCode::AgentError);
    drop(sessions);
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["one", "two", "three"]);
    assert!(!place.kept().exists());
    append_entry(&sessions, "alpha", "s", "four").await;
}

#[tokio::test]
async fn start_on_a_full_disk_serves_the_sessions_that_are_whole() {
    let place = Place::new();
    let log = place.crashed_log().await;
    let file = place.file("alpha", "s");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    fs::write(place.log_file(), &log).unwrap();
    // No other log can be written.
    let draft = place.state.join("agents/.sync-log.new");
    fs::create_dir(&draft).unwrap();
    let sessions = place.try_open(&place.always()).unwrap();
    assert_eq!(ids(&sessions, "beta", "t").len(), 3);
    append_entry(&sessions, "beta", "t", "four").await;
    fs::remove_dir(&draft).unwrap();
    fs::remove_dir(&file).unwrap();
    sessions.delete("beta", "t").unwrap();
    drop(sessions);
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["one", "two", "three"]);
    assert!(!place.file("beta", "t").exists());
    assert!(!place.kept().exists());
}

#[tokio::test]
async fn deleted_session_that_could_not_be_completed_does_not_come_back() {
    let place = Place::new();
    let log = place.crashed_log().await;
    let file = place.file("alpha", "s");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    fs::write(place.log_file(), &log).unwrap();
    let sessions = place.open();
    assert!(place.kept().exists());
    fs::remove_dir(&file).unwrap();
    assert_eq!(
        code(sessions.delete("alpha", "s")),
        ErrorCode::SessionNotFound
    );
    assert!(!place.kept().exists());
}

#[cfg(unix)]
#[tokio::test]
async fn file_that_cannot_be_synced_stops_no_other_session() {
    let place = Place::new();
    let sessions = place.try_open(&place.always()).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    append_entry(&sessions, "beta", "t", "one").await;
    let file = place.file("alpha", "s");
    fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.unwrap().success());
    sessions.0.store.sync_log.empty().unwrap();
    let message = place.logged().pop().unwrap();
    assert!(message.contains(file.to_str().unwrap()), "{message}");
    let refused = sessions.append("alpha", &entry("s", "two", "")).await;
    assert_eq!(code(refused), ErrorCode::AgentError);
    append_entry(&sessions, "beta", "t", "two").await;
    sessions.close().unwrap();
    drop(sessions);
    let sessions = place.open();
    assert_eq!(ids(&sessions, "beta", "t"), ["one", "two"]);
    drop(sessions);
    fs::remove_file(&file).unwrap();
    assert_eq!(ids(&place.open(), "alpha", "s"), ["one"]);
}

#[tokio::test]
async fn log_that_cannot_be_written_refuses_entries() {
    let place = Place::new();
    let sessions = place.try_open(&place.always()).unwrap();
    fs::create_dir(place.log_file()).unwrap();
    let refused = sessions.append("alpha", &entry("s", "one", "")).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains(LOG), "{message}");
    assert_eq!(place.text("alpha", "s"), "");
    fs::remove_dir(place.log_file()).unwrap();
    append_entry(&sessions, "alpha", "s", "two").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["two"]);
}

#[tokio::test]
async fn second_process_leaves_the_log() {
    let place = Place::new();
    let sessions = place.try_open(&place.always()).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    let log = fs::read(place.log_file()).unwrap();
    assert_eq!(
        code(place.try_open(&place.always())),
        ErrorCode::SessionLocked
    );
    drop(place.read_only());
    assert_eq!(fs::read(place.log_file()).unwrap(), log);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(place.log_file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn fsync_never_has_no_log() {
    let place = Place::new();
    let sessions = place.open();
    append_entry(&sessions, "alpha", "s", "one").await;
    sessions.commit("alpha", "s").await.unwrap();
    assert!(!place.log_file().exists());
}

#[tokio::test]
async fn commit_syncs_the_earlier_lines_in_the_old_log() {
    let place = Place::new();
    let config = ServerConfig {
        fsync: Fsync::Interval,
        fsync_interval_ms: 3_600_000,
        ..place.config()
    };
    let sessions = place.try_open(&config).unwrap();
    append_entry(&sessions, "alpha", "s", "one").await;
    let sync_log = &sessions.0.store.sync_log;
    sync_log.begin_another().unwrap();
    sessions.commit("alpha", "s").await.unwrap();
    let old_file = place.state.join("agents/.sync-log.old");
    let mut old = fs::read(&old_file).unwrap();
    old.truncate(old.len() - sync_log.unsynced_bytes() as usize);
    let log = fs::read(place.log_file()).unwrap();
    let whole = place.bytes("alpha", "s");
    drop(sessions);
    place.write("alpha", "s", b"");
    fs::write(old_file, old).unwrap();
    fs::write(place.log_file(), log).unwrap();
    drop(place.open());
    assert_eq!(place.bytes("alpha", "s"), whole);
}

#[tokio::test]
async fn lines_that_no_log_has_are_synced_before_the_log_continues_them() {
    for fsync in [Fsync::Interval, Fsync::Always] {
        let place = Place::new();
        append_entry(&place.open(), "alpha", "s", "unsynced").await;
        let config = ServerConfig {
            fsync,
            ..place.config()
        };
        let sessions = place.try_open(&config).unwrap();
        let file = place.file("alpha", "s");
        for session in ["s", "new"] {
            for id in ["one", "two"] {
                append_entry(&sessions, "alpha", session, id).await;
                sessions.0.store.sync_log.empty().unwrap();
            }
        }
        let synced = || sessions.0.store.synced_files.lock().clone();
        assert_eq!(synced(), vec![file.clone()], "once");
        // Another program adds a line.
        let mut other = File::options().append(true).open(&file).unwrap();
        let line = line::serialize(&entry("s", "other", ""));
        other.write_all(&line).unwrap();
        append_entry(&sessions, "alpha", "s", "three").await;
        assert_eq!(synced(), [file.clone(), file]);
    }
}

/// On a file system without locks, two processes may write at the same time.
#[tokio::test]
async fn processes_without_locks_sync_the_files_and_have_no_log() {
    for fsync in [Fsync::Interval, Fsync::Always] {
        let place = Place::new();
        let config = ServerConfig {
            fsync,
            ..place.config()
        };
        let open = |folder: &str| {
            let lock = ProcessLock {
                is_held: false,
                ..ProcessLock::acquire(&place.state.join(folder)).unwrap()
            };
            let (env, log) = (place.clock.clone(), place.log.clone());
            Sessions::open_with(lock, &config, env, log).unwrap()
        };
        let (one, two) = (open("one"), open("two"));
        append_entry(&one, "alpha", "s", "one").await;
        append_entry(&two, "alpha", "t", "one").await;
        append_entry(&one, "alpha", "s", "two").await;
        assert!(!place.log_file().exists());
        let synced = |sessions: &Sessions| sessions.0.store.synced_files.lock().len();
        assert_eq!((synced(&one), synced(&two)), (2, 1));
        assert_eq!(ids(&two, "alpha", "s"), ["one", "two"]);
    }
}
