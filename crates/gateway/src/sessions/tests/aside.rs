//! What goes on while sessions are taken out of a file.

use std::cell::Cell;

use super::super::aside::put_aside;
use super::super::rewrite::renew;
use super::*;

/// A workspace of two sessions.
async fn two(place: &Place) -> Sessions {
    let sessions = place.open();
    keep(&sessions, "alpha", "a", "one").await;
    keep(&sessions, "alpha", "b", "two").await;
    sessions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_do_not_wait_while_what_was_there_is_copied() {
    let place = Place::new();
    let sessions = two(&place).await;
    let (kept, runtime) = (sessions.clone(), tokio::runtime::Handle::current());
    let copying = tokio::task::spawn_blocking(move || {
        let workspace = kept.0.known("alpha").unwrap();
        let asked = Cell::new(0);
        let without_a = |session: &str| {
            asked.set(asked.get() + 1);
            let id = format!("meanwhile-{}", asked.get());
            let came = runtime.block_on(async {
                let entry = entry("b", &id, "said");
                tokio::time::timeout(Duration::from_secs(20), kept.append("alpha", &entry)).await
            });
            came.expect("it waits").unwrap();
            session != "a"
        };
        renew(&workspace, &without_a, None, &|| START).unwrap();
        asked.get()
    });
    assert_eq!(copying.await.unwrap(), 2);
    let all = ["two", "meanwhile-1", "meanwhile-2"];
    assert_eq!(ids(&sessions, "alpha", "b"), all);
    keep(&sessions, "alpha", "b", "after").await;
    drop(sessions);
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "b").len(), 4);
    assert_eq!(code(sessions.get("alpha", "a")), ErrorCode::SessionNotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_on_its_way_to_the_archive_is_4003_and_goes_on_where_it_does_not_get_there() {
    let place = Place::new();
    let sessions = two(&place).await;
    let (kept, runtime) = (sessions.clone(), tokio::runtime::Handle::current());
    let stopped = tokio::task::spawn_blocking(move || {
        let workspace = kept.0.known("alpha").unwrap();
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            if asked.get() == 3 {
                // One of the two is in the archive by now.
                for session in ["a", "b"] {
                    let entry = entry(session, "m", "said");
                    let refused = runtime.block_on(kept.append("alpha", &entry));
                    assert_eq!(code(refused), ErrorCode::SessionLocked);
                    assert_eq!(code(kept.get("alpha", session)), ErrorCode::SessionLocked);
                }
            }
            asked.get() == 3
        };
        let both = |_: &super::super::index::Index| vec!["b".to_owned(), "a".to_owned()];
        put_aside(&workspace, &both, &|| START, &stop)
    });
    assert_eq!(code(stopped.await.unwrap()), ErrorCode::AgentBusy);
    for (session, id) in [("a", "one"), ("b", "two")] {
        assert_eq!(ids(&sessions, "alpha", session), [id]);
        keep(&sessions, "alpha", session, "more").await;
    }
    drop(sessions);
    assert_eq!(ids(&place.open(), "alpha", "a"), ["one", "more"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_as_many_sessions_as_may_be_the_longest_silent_go_to_the_archive() {
    let place = Place::new();
    let options = Options {
        most: 10,
        ..place.options()
    };
    let sessions = place.opened(options).unwrap();
    for n in 0..10 {
        keep(&sessions, "alpha", &format!("s{n}"), "one").await;
        place.pass(Duration::from_secs(1));
    }
    keep(&sessions, "alpha", "s0", "two").await;
    place.pass(Duration::from_secs(120));
    let eleventh = entry("s10", "one", "said");
    let came = async {
        // It is refused until there is room.
        while let Err(error) = sessions.append("alpha", &eleventh).await {
            assert_eq!(error.code(), ErrorCode::AgentBusy);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), came)
        .await
        .unwrap();
    let archived = async {
        // There is room as soon as it is on its way.
        while code(sessions.get("alpha", "s1")) == ErrorCode::SessionLocked {
            tokio::task::yield_now().await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(20), archived);
    done.await.unwrap();
    assert_eq!(code(sessions.get("alpha", "s1")), ErrorCode::SessionExpired);
    assert_eq!(ids(&sessions, "alpha", "s0"), ["one", "two"]);
    assert_eq!(ids(&sessions, "alpha", "s10"), ["one"]);
}

#[tokio::test]
async fn sessions_that_were_just_spoken_in_do_not_go_by_themselves() {
    let place = Place::new();
    let options = Options {
        most: 2,
        ..place.options()
    };
    let sessions = place.opened(options).unwrap();
    for session in ["a", "b"] {
        keep(&sessions, "alpha", session, "one").await;
    }
    let refused = sessions.append("alpha", &entry("c", "m", "said")).await;
    assert_eq!(code(refused), ErrorCode::AgentBusy);
    drop(sessions);
    assert_eq!(place.open().list("alpha").unwrap().len(), 2);
}

/// A copy of everything that is on the disk.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for one in fs::read_dir(from).unwrap() {
        let one = one.unwrap();
        let there = to.join(one.file_name());
        if one.file_type().unwrap().is_dir() {
            copy(&one.path(), &there);
        } else {
            fs::copy(one.path(), there).unwrap();
        }
    }
}

/// The ids of a session's entries, wherever it is.
fn anywhere(sessions: &Sessions, session: &str) -> Vec<String> {
    let mut lines = Vec::new();
    sessions.export("alpha", session, &mut lines).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let entries = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["id"].as_str().unwrap().to_owned()
    });
    entries.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_anywhere_on_the_way_to_the_archive_loses_no_entry_and_doubles_none() {
    let place = Place::new();
    let sessions = place.open();
    for (session, id) in [
        ("a", "a1"),
        ("b", "b1"),
        ("c", "c1"),
        ("a", "a2"),
        ("c", "c2"),
    ] {
        keep(&sessions, "alpha", session, id).await;
    }
    let (kept, runtime) = (sessions.clone(), tokio::runtime::Handle::current());
    let state = place.state.clone();
    let crashes = tokio::task::spawn_blocking(move || {
        let workspace = kept.0.known("alpha").unwrap();
        let crashes = std::cell::RefCell::new(Vec::new());
        let acknowledged = Cell::new(0);
        // What is asked for on the way is where a crash may come.
        let crash = || {
            let one = Place::new();
            copy(&state, &one.state);
            crashes.borrow_mut().push((one, acknowledged.get()));
        };
        let say = || {
            let id = format!("meanwhile-{}", acknowledged.get());
            let entry = entry("c", &id, "said");
            runtime.block_on(kept.append("alpha", &entry)).unwrap();
            acknowledged.set(acknowledged.get() + 1);
        };
        let both = |_: &super::super::index::Index| vec!["a".to_owned(), "b".to_owned()];
        let now = || {
            crash();
            START
        };
        let stop = || {
            crash();
            say();
            false
        };
        let gone = put_aside(&workspace, &both, &now, &stop).unwrap();
        assert_eq!(gone, ["a", "b"]);
        crashes.into_inner()
    });
    let crashes = crashes.await.unwrap();
    assert!(crashes.len() > 5, "{}", crashes.len());
    for (place, acknowledged) in crashes {
        for sessions in [place.read_only(), place.open()] {
            assert_eq!(anywhere(&sessions, "a"), ["a1", "a2"]);
            assert_eq!(anywhere(&sessions, "b"), ["b1"]);
            let meanwhile = (0..acknowledged).map(|n| format!("meanwhile-{n}"));
            let all: Vec<_> = ["c1".to_owned(), "c2".to_owned()]
                .into_iter()
                .chain(meanwhile)
                .collect();
            assert_eq!(anywhere(&sessions, "c"), all);
        }
    }
    assert_eq!(code(sessions.get("alpha", "a")), ErrorCode::SessionExpired);
    assert_eq!(anywhere(&sessions, "a"), ["a1", "a2"]);
}
