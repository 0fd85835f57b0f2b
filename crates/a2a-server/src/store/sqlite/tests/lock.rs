//! The lock on the directory of a store.

use super::{open, refused, reopen, try_open};
use crate::store::conformance::moment;
use crate::store::sqlite::{Holder, holder};
use crate::store::{StoreError, TaskStore};

#[tokio::test]
async fn second_server_gets_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let why = refused(directory.path());
    assert!(
        why.contains(&format!("in use by process {}", std::process::id())),
        "{why}"
    );
    assert!(why.contains("since 2026-09-21 14:13:20 UTC"), "{why}");
    assert!(
        why.contains(&directory.path().display().to_string()),
        "{why}"
    );
    store
        .announce("http://127.0.0.1:8123".to_owned())
        .await
        .unwrap();
    let why = refused(directory.path());
    assert!(why.contains("at http://127.0.0.1:8123,"), "{why}");
}

#[tokio::test]
async fn holder_is_readable_by_commands() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(holder(directory.path()), Ok(None));
    let store = open(&directory);
    store.announce("http://[::1]:9".to_owned()).await.unwrap();
    let expected = Holder {
        process: std::process::id(),
        since: moment(0),
        url: Some("http://[::1]:9".to_owned()),
    };
    assert_eq!(holder(directory.path()), Ok(Some(Some(expected))));
    store.close().await.unwrap();
    assert_eq!(holder(directory.path()), Ok(None));
}

#[tokio::test]
async fn closed_store_releases_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(&directory);
    let kept = first.clone();
    let second = reopen(first, &directory).await;
    assert_eq!(second.ready().await, Ok(()));
    let late = kept.delete("t").await.unwrap_err();
    assert_eq!(
        late,
        StoreError::Failed("the task store is closed".to_owned())
    );
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_readable_by_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("new").join("tasks");
    let _store = try_open(&directory).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[cfg(unix)]
#[test]
fn failed_directory_creation_names_it() {
    let why = refused(std::path::Path::new("/proc/no/such"));
    assert!(why.starts_with("cannot create `/proc/no/such`:"), "{why}");
}
