//! The lock on the directory of a store.

use super::{open, refused, reopen, try_open};
use crate::store::sqlite::{Holder, holder};
use crate::store::tests::test_time;
use crate::store::{StoreError, TaskStore};

#[tokio::test]
async fn second_server_gets_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let error = refused(directory.path());
    assert!(
        error.contains(&format!("in use by process {}", std::process::id())),
        "{error}"
    );
    assert!(error.contains("since 2026-09-21 14:13:20 UTC"), "{error}");
    assert!(
        error.contains(&directory.path().display().to_string()),
        "{error}"
    );
    store
        .announce("http://127.0.0.1:8123".to_owned())
        .await
        .unwrap();
    let error = refused(directory.path());
    assert!(error.contains("at http://127.0.0.1:8123,"), "{error}");
}

#[tokio::test]
async fn holder_is_readable_by_commands() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(holder(directory.path()), Ok(None));
    let store = open(&directory);
    store.announce("http://[::1]:9".to_owned()).await.unwrap();
    let expected = Holder {
        process: std::process::id(),
        since: test_time(0),
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
    let clone = first.clone();
    let second = reopen(first, &directory).await;
    assert_eq!(second.ready().await, Ok(()));
    let late = clone.delete("t").await.unwrap_err();
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
    let error = refused(std::path::Path::new("/proc/no/such"));
    assert!(
        error.starts_with("cannot create `/proc/no/such`:"),
        "{error}"
    );
}
