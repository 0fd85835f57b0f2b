//! What the journal takes of the disk, and what happens when there is no more.

use std::time::Duration;

use a2a::TaskState;

use super::{any, journals, open, reopen, try_open};
use crate::record::{Change, Record};
use crate::store::conformance::{all, append, artifact, create, ids, load, moment, record, settle};
use crate::store::durable::{Durable, Options};
use crate::store::{Retention, Store, StoreError};

fn size(directory: &tempfile::TempDir) -> u64 {
    let files = journals(directory);
    files
        .iter()
        .map(|file| file.metadata().unwrap().len())
        .sum()
}

async fn talk(store: &Durable, id: &str, at: i64) -> Record {
    let tasks = any(store);
    let mut task = create(&tasks, id, "ann", &format!("context-of-{id}"), at).await;
    for n in 0..20 {
        let change = Change::Artifact {
            artifact: artifact("a", &format!("chunk {n} of {id}")),
            append: n > 0,
            last_chunk: false,
        };
        append(&tasks, &mut task, change, at).await;
    }
    settle(&tasks, &mut task, TaskState::Completed, at).await;
    task
}

#[tokio::test]
async fn what_nobody_needs_is_taken_out() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut waiting = create(&any(&store), "waiting", "ann", "w", 0).await;
    append(&any(&store), &mut waiting, Change::Run("run".to_owned()), 0).await;
    let first = talk(&store, "first", 0).await;
    let retention = Retention {
        age: Duration::from_secs(3_600),
        count: 5,
    };
    let mut last = Vec::new();
    let mut most = 0;
    for n in 0..150 {
        last.push(talk(&store, &format!("t{n}"), n).await);
        if n < 50 {
            // Kept as the newest for a while, so that its line is written again and again.
            store
                .retire(
                    &Retention {
                        count: 51,
                        ..retention
                    },
                    moment(n),
                )
                .await
                .unwrap();
        } else {
            store.retire(&retention, moment(n)).await.unwrap();
        }
        most = most.max(size(&directory));
    }
    // One task takes about 8 kB of which 2 are needed.
    assert!(most < 500_000, "{most}");
    assert!(size(&directory) < 60_000, "{}", size(&directory));
    let store = reopen(store, &directory).await;
    assert_eq!(store.damages(), []);
    assert_eq!(
        ids(&any(&store), &all()).await,
        ["t149", "t148", "t147", "t146", "t145", "waiting"]
    );
    for task in last.iter().skip(145).chain([&waiting]) {
        assert_eq!(load(&any(&store), &task.task.id).await.as_ref(), Some(task));
    }
    assert_eq!(load(&any(&store), &first.task.id).await, None);
    // The contexts of those that are gone are free, the others are not.
    assert_eq!(
        store
            .claim("context-of-first", "bob", "s")
            .await
            .unwrap()
            .owner,
        "bob"
    );
    assert_eq!(
        store
            .claim("context-of-t149", "bob", "s")
            .await
            .unwrap()
            .owner,
        "ann"
    );
}

#[tokio::test]
async fn what_is_needed_survives_every_tidying() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut kept = Vec::new();
    let mut running = create(&any(&store), "running", "ann", "w", 0).await;
    for n in 0..60 {
        kept.push(talk(&store, &format!("kept{n}"), n).await);
        talk(&store, &format!("gone{n}"), n).await;
        store.delete(&format!("gone{n}")).await.unwrap();
        append(
            &any(&store),
            &mut running,
            Change::Run(format!("run{n}")),
            n,
        )
        .await;
    }
    let first = journals(&directory).remove(0);
    assert!(
        !first.ends_with("0000000001.journal"),
        "nothing was taken out"
    );
    for round in 0..2 {
        for task in kept.iter().chain([&running]) {
            let found = load(&any(&store), &task.task.id).await;
            assert_eq!(found.as_ref(), Some(task), "round {round}");
        }
    }
    let store = reopen(store, &directory).await;
    assert_eq!(store.damages(), []);
    assert_eq!(store.list(&all()).await.unwrap().total, 61);
    for task in kept.iter().chain([&running]) {
        assert_eq!(load(&any(&store), &task.task.id).await.as_ref(), Some(task));
    }
}

#[tokio::test]
async fn what_is_damaged_is_put_aside_and_still_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let kept = talk(&store, "kept", 0).await;
    create(&any(&store), "hurt", "ann", "h", 0).await;
    store.close().await.unwrap();
    for file in journals(&directory) {
        let text = std::fs::read_to_string(&file).unwrap();
        let hurt = |line: &str| line.contains("{\"new\"") && line.contains("\"id\":\"hurt\"");
        let lines = text.split_inclusive('\n');
        let text: String = lines
            .map(|line| {
                if hurt(line) {
                    line.replace("do it", "do me")
                } else {
                    line.to_owned()
                }
            })
            .collect();
        std::fs::write(file, text).unwrap();
    }
    let store = try_open(directory.path()).unwrap();
    assert_eq!(store.damages().len(), 1);
    for n in 0..30 {
        talk(&store, &format!("gone{n}"), n).await;
        store.delete(&format!("gone{n}")).await.unwrap();
    }
    let aside = std::fs::read_dir(directory.path())
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".damaged")
        });
    assert!(aside.count() > 0);
    let store = reopen(store, &directory).await;
    assert!(store.load("hurt").await.is_err());
    assert_eq!(load(&any(&store), "kept").await, Some(kept));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_told_and_nothing_is_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    // It is always full.
    let store = writing_to(&directory, "/dev/full");
    let refused = store.create(&record("t", "ann", "c", 0)).await;
    let Err(StoreError::Failed(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        why.contains("No space left on device") && why.contains("free some space"),
        "{why}"
    );
    assert_eq!(store.load("t").await, Ok(None));
    let Err(StoreError::Failed(why)) = store.ready().await else {
        panic!("it is ready");
    };
    // Half a line cannot be taken back from a device.
    assert!(
        why.contains("nothing more until the server is started again"),
        "{why}"
    );
    assert_eq!(
        store.create(&record("t", "ann", "c", 0)).await,
        Err(StoreError::Failed(why))
    );
}

/// A store that writes to a file of its own choice.
fn writing_to(directory: &tempfile::TempDir, head: &str) -> Durable {
    let options = Options::new(directory.path());
    let mut opened = crate::store::durable::open::open(&options, moment(0)).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(head).unwrap();
    opened.head = file.into();
    Durable::start(opened, &options).unwrap()
}

#[test]
fn a_directory_in_place_of_a_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("0000000001.journal")).unwrap();
    match try_open(directory.path()) {
        Err(StoreError::Failed(why)) => assert!(why.contains("it is no file"), "{why}"),
        _ => panic!("it was opened"),
    }
}
