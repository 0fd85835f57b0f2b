//! A store of many tasks.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use a2a_server::store::{Filter, Fsync, TaskStore};

use super::sample;

const AT_ONCE: u64 = 64;

pub(crate) fn measure(tasks: u64) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = super::open(directory.path(), Fsync::Never);
        let start = Instant::now();
        let work = (0..AT_ONCE).map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for number in (writer..tasks).step_by(usize::try_from(AT_ONCE).unwrap()) {
                    let task = sample::task(number);
                    let (id, at_ms) = (&task.task.id, task.changed_ms);
                    store.create(&task).await.unwrap();
                    for revision in 0..4 {
                        store
                            .append(id, revision, at_ms, &sample::chunk(revision))
                            .await
                            .unwrap();
                    }
                    store.append(id, 4, at_ms, &sample::end()).await.unwrap();
                }
            })
        });
        for done in futures_util::future::join_all(work).await {
            done.unwrap();
        }
        println!(
            "{tasks} tasks of six changes each written in {:?}",
            start.elapsed()
        );
        store.close().await.unwrap();
    });
    let files = std::fs::read_dir(directory.path()).unwrap();
    let size: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    println!("they take {} MB of the disk", size / 1_000_000);
    let status = Command::new(std::env::current_exe().unwrap())
        .arg("--open")
        .arg(directory.path())
        .status()
        .unwrap();
    assert!(status.success());
}

/// Runs in a separate process, so that its memory does not include the writers'.
pub(crate) fn open(directory: &str) {
    let before = memory();
    let start = Instant::now();
    let store = super::open(Path::new(directory), Fsync::Interval);
    let took = start.elapsed();
    println!(
        "opened in {took:?}, with {:.1} MB of memory",
        (memory() - before) as f64 / 1e6
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let all = Filter {
            owner: None,
            context_id: None,
            state: None,
            changed_after: None,
            page_size: 100,
            after: None,
        };
        let own = Filter {
            owner: Some("client-1".to_owned()),
            ..all.clone()
        };
        let context = Filter {
            context_id: Some("context-000100".to_owned()),
            ..own.clone()
        };
        listed(&store, "all", all).await;
        listed(&store, "of one client", own).await;
        let start = Instant::now();
        let found = store.list(&context).await.unwrap();
        println!(
            "of one context: {} found in {:?}",
            found.total,
            start.elapsed()
        );
        let start = Instant::now();
        for number in 0..10_000 {
            let id = format!("task-{:08}", number * 7 % 50_000);
            store.load(&id).await.unwrap();
        }
        println!(
            "loaded one after the other: {:.0}/s",
            10_000.0 / start.elapsed().as_secs_f64()
        );
        println!(
            "{:.1} MB of memory after that",
            (memory() - before) as f64 / 1e6
        );
        let start = Instant::now();
        store.close().await.unwrap();
        println!("closed in {:?}", start.elapsed());
    });
}

async fn listed(store: &Arc<dyn TaskStore>, what: &str, mut filter: Filter) {
    let start = Instant::now();
    let mut read = 0;
    loop {
        let page = store.list(&filter).await.unwrap();
        read += page.tasks.len();
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    let elapsed = start.elapsed();
    println!(
        "listed {what}: {read} tasks on pages of 100 in {elapsed:?}, {:.0} tasks/s",
        read as f64 / elapsed.as_secs_f64()
    );
}

/// Returns the resident memory, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
