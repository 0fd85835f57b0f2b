//! Changes stored a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_server::store::{Fsync, TaskStore};

use super::{sample, share};

/// The changes of a task before it ends and the next one starts.
const CHANGES: u64 = 50;

pub(crate) fn measure(fsync: Fsync, writers: u64, time: Duration) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = super::open(directory.path(), fsync);
        let start = Instant::now();
        let work = (0..writers)
            .map(|writer| tokio::spawn(write(Arc::clone(&store), writer, start + time)));
        let took = futures_util::future::join_all(work).await;
        let elapsed = start.elapsed();
        let mut took: Vec<Duration> = took.into_iter().flat_map(Result::unwrap).collect();
        took.sort_unstable();
        let name = format!("{fsync:?}, {writers} at a time").to_lowercase();
        println!(
            "{name:<40} {:>9.0}/s   p50 {:>6} us   p99 {:>6} us",
            took.len() as f64 / elapsed.as_secs_f64(),
            share(&took, 0.5),
            share(&took, 0.99)
        );
        store.close().await.unwrap();
    });
}

async fn write(store: Arc<dyn TaskStore>, writer: u64, until: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    for number in 0.. {
        let task = sample::task(writer * 1_000_000 + number);
        store.create(&task).await.unwrap();
        for revision in 0..CHANGES {
            let change = sample::chunk(revision);
            let began = Instant::now();
            store
                .append(&task.task.id, revision, task.changed_ms, &change)
                .await
                .unwrap();
            took.push(began.elapsed());
            if began >= until {
                return took;
            }
        }
        store
            .append(&task.task.id, CHANGES, task.changed_ms, &sample::end())
            .await
            .unwrap();
    }
    took
}
