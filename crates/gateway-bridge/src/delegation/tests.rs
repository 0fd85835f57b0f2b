#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use uuid::Uuid;

use super::*;
use base::log::{Log, Recorder, Silent};
use testkit::folder::Folder;

/// Returns the delegation file of a host with this state directory.
fn file_in(folder: &Folder) -> DelegationFile {
    DelegationFile::of_host(folder.path())
}

/// Writes a delegation file with this content.
fn file_with(folder: &Folder, content: &str) -> DelegationFile {
    let file = file_in(folder);
    fs::create_dir(file.path().parent().unwrap()).unwrap();
    fs::write(file.path(), content).unwrap();
    file
}

fn work(hop: u64) -> Delegation {
    Delegation {
        hop,
        chain: Some(format!("chain-{hop}")),
    }
}

/// Returns a time after all writes of a test.
fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(60)
}

#[test]
fn first_message_is_hop_one_of_a_new_chain() {
    let id = Uuid::new_v4();
    let next = Delegation::next(None, || id);
    assert_eq!(
        next.json(),
        json!({ "hop": 1, "chain": id.simple().to_string() })
    );
}

#[test]
fn delegated_message_is_next_hop_of_same_chain() {
    let next = Delegation::next(Some(work(3)), Uuid::new_v4);
    assert_eq!(next.json(), json!({ "hop": 4, "chain": "chain-3" }));
}

#[test]
fn hop_saturates_at_the_largest_number() {
    assert_eq!(
        Delegation::next(Some(work(u64::MAX)), Uuid::new_v4).hop,
        u64::MAX
    );
}

#[test]
fn hop_is_a_whole_number_in_any_notation() {
    let read = |hop| Delegation::read(&json!({ "hop": hop })).map(|read| read.hop);
    assert_eq!(read(json!(3)), Some(3));
    assert_eq!(read(json!(3.0)), Some(3));
    for invalid in [
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(1e300),
        json!(null),
        json!([1]),
    ] {
        assert_eq!(read(invalid.clone()), None, "{invalid}");
    }
}

#[test]
fn chain_with_unusable_name_counts_its_hops() {
    let nameless = Delegation {
        hop: 2,
        chain: None,
    };
    let long = "x".repeat(129);
    for name in [
        json!(""),
        json!(7),
        json!("two words"),
        json!("a\nb"),
        json!(long),
    ] {
        let read = Delegation::read(&json!({ "hop": 2, "chain": name }));
        assert_eq!(read.as_ref(), Some(&nameless), "{name}");
    }
}

#[test]
fn delegation_is_found_by_its_session() {
    let folder = Folder::new();
    let file = file_in(&folder);
    file.record("agent:a:x", &work(1), &Silent).unwrap();
    file.record("agent:a:y", &work(2), &Silent).unwrap();
    file.record("agent:a:x", &work(3), &Silent).unwrap();
    assert_eq!(file.find("agent:a:x").unwrap(), Some(work(3)));
    assert_eq!(file.find("agent:a:y").unwrap(), Some(work(2)));
    assert_eq!(file.find("agent:a").unwrap(), None);
    assert_eq!(file.read().unwrap().len(), 2);
}

#[test]
fn missing_file_has_no_delegations() {
    assert_eq!(file_in(&Folder::new()).find("agent:a:x").unwrap(), None);
}

#[test]
fn oldest_session_above_the_limit_is_removed() {
    let folder = Folder::new();
    let full: Vec<_> = (0..MAX_SESSIONS)
        .map(|i| json!({ "session": format!("s{i}"), "hop": 1, "chain": "c" }))
        .collect();
    let file = file_with(
        &folder,
        &json!({ "version": 1, "sessions": full }).to_string(),
    );
    file.record("new", &work(1), &Silent).unwrap();
    let all = file.read().unwrap();
    assert_eq!(
        (
            all.len(),
            all[0].0.as_str(),
            all[MAX_SESSIONS - 1].0.as_str()
        ),
        (MAX_SESSIONS, "s1", "new")
    );
}

#[test]
fn concurrent_writers_keep_all_records() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let file = file_in(&folder);
            scope.spawn(move || file.record(&format!("s{i}"), &work(i), &Silent).unwrap());
        }
    });
    assert_eq!(file_in(&folder).read().unwrap().len(), 8);
}

#[test]
fn long_key_is_refused_and_file_unchanged() {
    let folder = Folder::new();
    let file = file_in(&folder);
    file.record("s", &work(1), &Silent).unwrap();
    for key in [String::new(), "x".repeat(MAX_SESSION_KEY_BYTES + 1)] {
        assert!(file.record(&key, &work(2), &Silent).is_err());
    }
    assert_eq!(file.read().unwrap().len(), 1);
}

#[test]
fn damaged_file_is_logged_and_replaced() {
    let folder = Folder::new();
    let file = file_in(&folder);
    fs::create_dir(file.path().parent().unwrap()).unwrap();
    for garbage in [
        "",
        "{",
        "[]",
        "{\"version\":2}",
        "{\"version\":1,\"sessions\":7}",
    ] {
        fs::write(file.path(), garbage).unwrap();
        assert!(file.find("s").is_err(), "{garbage}");
        let lines = Recorder::default();
        file.record("s", &work(1), &lines).unwrap();
        assert_eq!(lines.0.lock().unwrap().len(), 1, "{garbage}");
        assert_eq!(file.find("s").unwrap(), Some(work(1)), "{garbage}");
    }
}

#[cfg(unix)]
#[test]
fn temporarily_unreadable_file_is_not_replaced() {
    let folder = Folder::new();
    let file = file_in(&folder);
    fs::create_dir(file.path().parent().unwrap()).unwrap();
    // A symbolic link to itself cannot be opened, but it could be replaced.
    std::os::unix::fs::symlink(file.path(), file.path()).unwrap();
    let lines = Recorder::default();
    file.record("s", &work(1), &lines).unwrap_err();
    assert!(file.path().is_symlink());
    assert!(lines.0.lock().unwrap().is_empty());
}

#[test]
fn invalid_entry_does_not_drop_the_others() {
    let folder = Folder::new();
    let sessions = json!([{ "session": 7, "hop": 1 }, { "session": "s" }, { "session": "t", "hop": 2, "chain": "chain-2" }]);
    let file = file_with(
        &folder,
        &json!({ "version": 1, "sessions": sessions }).to_string(),
    );
    assert_eq!(file.read().unwrap(), [("t".to_owned(), work(2))]);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let file = file_in(&folder);
    file.record("s", &work(1), &Silent).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.path()), 0o600);
    assert_eq!(mode(file.path().parent().unwrap()), 0o700);
}

#[tokio::test]
async fn lookup_reads_each_new_version_of_the_file() {
    let folder = Folder::new();
    let lookup = DelegationLookup::default();
    let log: Arc<dyn Log> = Arc::new(Silent);
    for hop in 1..4 {
        file_in(&folder).record("s", &work(hop), &Silent).unwrap();
        let found = lookup
            .find(folder.path(), "s", SystemTime::now(), &log)
            .await;
        assert_eq!(found, Some(work(hop)));
        assert_eq!(lookup.find(folder.path(), "t", later(), &log).await, None);
    }
    fs::remove_dir_all(file_in(&folder).path().parent().unwrap()).unwrap();
    assert_eq!(lookup.find(folder.path(), "s", later(), &log).await, None);
}

#[tokio::test]
async fn unchanged_file_is_not_read_again() {
    let folder = Folder::new();
    let lookup = DelegationLookup::default();
    let log: Arc<dyn Log> = Arc::new(Silent);
    let file = file_in(&folder);
    file.record("s", &work(1), &Silent).unwrap();
    assert_eq!(
        lookup.find(folder.path(), "s", later(), &log).await,
        Some(work(1))
    );
    // Other content with the same modification time. Only a reader that ignores the cache would notice it.
    let times = fs::metadata(file.path()).unwrap().modified().unwrap();
    let text = fs::read_to_string(file.path())
        .unwrap()
        .replace("chain-1", "chain-9");
    fs::write(file.path(), text).unwrap();
    fs::File::options()
        .write(true)
        .open(file.path())
        .unwrap()
        .set_modified(times)
        .unwrap();
    assert_eq!(
        lookup.find(folder.path(), "s", later(), &log).await,
        Some(work(1))
    );
}

#[tokio::test]
async fn unusable_file_is_logged_once_and_ignored() {
    let folder = Folder::new();
    let lines = Arc::new(Recorder::default());
    let log: Arc<dyn Log> = Arc::clone(&lines) as _;
    file_with(&folder, "garbage");
    let lookup = DelegationLookup::default();
    for now in [SystemTime::now(), SystemTime::now(), later(), later()] {
        assert_eq!(lookup.find(folder.path(), "s", now, &log).await, None);
    }
    let reported = lines.0.lock().unwrap().clone();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].starts_with("warn: ") && reported[0].contains("delegations.json"),
        "{reported:?}"
    );
}

#[tokio::test]
async fn state_directory_is_an_absolute_path() {
    let lines = Arc::new(Recorder::default());
    let log: Arc<dyn Log> = Arc::clone(&lines) as _;
    let found = DelegationLookup::default()
        .find(std::path::Path::new("here"), "s", later(), &log)
        .await;
    assert_eq!((found, lines.0.lock().unwrap().len()), (None, 1));
}
