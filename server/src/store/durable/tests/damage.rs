//! A line that is damaged takes nothing else with it.

use std::path::Path;

use a2a::TaskState;

use super::{any, journals, open, try_open};
use crate::record::{Change, Record};
use crate::store::conformance::{all, append, artifact, create, ids, load, settle};
use crate::store::durable::Durable;
use crate::store::{Store, StoreError};

/// Tasks of every kind, and a directory in which nobody has them.
async fn made(directory: &tempfile::TempDir) -> Vec<Record> {
    let store = open(directory);
    let tasks = any(&store);
    let mut made = Vec::new();
    for n in 0..12 {
        let mut task = create(&tasks, &format!("t{n}"), "ann", "c", n).await;
        for (step, text) in ["one", "two"].into_iter().enumerate() {
            let change = Change::Artifact {
                artifact: artifact("a", text),
                append: step > 0,
                last_chunk: false,
            };
            append(&tasks, &mut task, change, n).await;
        }
        if n % 2 == 0 {
            settle(&tasks, &mut task, TaskState::Completed, n).await;
        }
        made.push(task);
    }
    store.close().await.unwrap();
    made
}

/// Flips a bit in the middle of each line that `which` picks out.
fn damage(file: &Path, which: impl Fn(&str) -> bool) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let mut bytes = Vec::new();
    let mut damaged = 0;
    for line in text.split_inclusive('\n') {
        let mut line = line.to_owned().into_bytes();
        if which(&String::from_utf8_lossy(&line)) {
            damaged += 1;
            let middle = line.len() / 2;
            line[middle] ^= 0x10;
        }
        bytes.extend(line);
    }
    std::fs::write(file, bytes).unwrap();
    damaged
}

fn damage_all(directory: &tempfile::TempDir, which: impl Fn(&str) -> bool) -> usize {
    journals(directory)
        .iter()
        .map(|file| damage(file, &which))
        .sum()
}

/// All tasks but one are as they were.
async fn others_are_whole(store: &Durable, made: &[Record], but: &str) {
    for task in made.iter().filter(|task| task.task.id != but) {
        assert_eq!(load(&any(store), &task.task.id).await.as_ref(), Some(task));
    }
}

async fn why(store: &Durable, id: &str) -> String {
    match store.load(id).await {
        Err(StoreError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_damaged_change_costs_its_task_alone() {
    for kind in ["{\"new\":", "\"revision\":0,", "\"revision\":1,"] {
        let directory = tempfile::tempdir().unwrap();
        let made = made(&directory).await;
        let hit = damage_all(&directory, |line| {
            line.contains(kind) && line.contains("\"id\":\"t3\"") && !line.contains("{\"whole\"")
        });
        assert!(hit > 0, "{kind}");
        let store = try_open(directory.path()).unwrap();
        assert_eq!(store.damages().len(), hit);
        assert_eq!(store.damages()[0].task.as_deref(), Some("t3"));
        let told = store.damages()[0].to_string();
        assert!(told.ends_with(".journal`, of the task `t3`"), "{told}");
        let why = why(&store, "t3").await;
        assert!(why.starts_with("the task `t3` cannot be read: "), "{why}");
        assert!(why.contains("delete it, or restore"), "{why}");
        others_are_whole(&store, &made, "t3").await;
        assert_eq!(store.list(&all()).await.unwrap().total, made.len() - 1);
    }
}

#[tokio::test]
async fn a_damaged_whole_is_mended_from_its_changes() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let hit = damage_all(&directory, |line| line.contains("{\"whole\""));
    assert_eq!(hit, 6);
    let store = try_open(directory.path()).unwrap();
    assert_eq!(store.damages().len(), 6);
    others_are_whole(&store, &made, "").await;
}

#[tokio::test]
async fn a_damaged_task_can_be_deleted() {
    let directory = tempfile::tempdir().unwrap();
    made(&directory).await;
    damage_all(&directory, |line| {
        line.contains("{\"new\":") && line.contains("\"id\":\"t3\"")
    });
    let store = try_open(directory.path()).unwrap();
    why(&store, "t3").await;
    assert_eq!(store.delete("t3").await, Ok(true));
    assert_eq!(store.load("t3").await, Ok(None));
    store.close().await.unwrap();
    let store = try_open(directory.path()).unwrap();
    assert_eq!(store.load("t3").await, Ok(None));
    assert_eq!(store.delete("t3").await, Ok(false));
}

#[tokio::test]
async fn a_damaged_task_takes_no_change_and_gives_no_room_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    damage_all(&directory, |line| {
        line.contains("{\"new\":") && line.contains("\"id\":\"t3\"")
    });
    let store = try_open(directory.path()).unwrap();
    let change = Change::Run("r".to_owned());
    let refused = store.append("t3", 2, 0, &change).await;
    assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    assert_eq!(store.create(&made[3]).await, Err(StoreError::Conflict));
    let recovered = store.recover().await.unwrap();
    assert_eq!(recovered.len(), 5);
}

#[tokio::test]
async fn a_flipped_bit_anywhere_costs_one_task_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let files = journals(&directory);
    assert!(files.len() > 2, "{files:?}");
    let copy = tempfile::tempdir().unwrap();
    let whole: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    for (number, text) in whole.iter().enumerate() {
        for at in (0..text.len()).step_by(89) {
            for (file, text) in files.iter().zip(&whole) {
                std::fs::write(copy.path().join(file.file_name().unwrap()), text).unwrap();
            }
            let mut bad = text.clone();
            bad[at] ^= 0x10;
            let file = copy.path().join(files[number].file_name().unwrap());
            std::fs::write(&file, bad).unwrap();
            let store = try_open(copy.path()).unwrap();
            let mut lost = 0;
            for task in &made {
                match store.load(&task.task.id).await {
                    Ok(Some(kept)) if &kept == task => {}
                    // The line does not say any more whose it was, and it was the last.
                    Ok(Some(kept)) if kept.revision + 1 == task.revision => lost += 1,
                    Err(StoreError::Failed(_)) => lost += 1,
                    other => panic!("byte {at} of file {number}: {other:?}"),
                }
            }
            assert!(lost <= 1, "byte {at} of file {number}: {lost} tasks");
            assert_eq!(store.damages().len(), 1, "byte {at} of file {number}");
            store.close().await.unwrap();
            std::fs::remove_dir_all(copy.path()).unwrap();
            std::fs::create_dir(copy.path()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_line_that_is_damaged_while_the_server_runs_costs_its_task_alone() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let store = open(&directory);
    damage_all(&directory, |line| {
        line.contains("{\"whole\"") && line.contains("\"id\":\"t4\"")
    });
    why(&store, "t4").await;
    others_are_whole(&store, &made, "t4").await;
    assert!(!ids(&any(&store), &all()).await.contains(&"t4".to_owned()));
}
