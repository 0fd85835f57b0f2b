//! The SQLite store: changes stored a second for each `--fsync`, next to a plain file in the same run; and a store of
//! many tasks: the time to open it, its memory, and lists a second.
//!
//!     cargo bench -p openclaw-remote-agent-a2a-server --bench store                          100,000 tasks, 3 s each
//!     cargo bench -p openclaw-remote-agent-a2a-server --bench store -- TASKS SECONDS

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod changes;
mod floor;
mod many;
mod sample;

use std::time::Duration;

use std::path::Path;
use std::sync::Arc;

use a2a_server::store::sqlite::{Options, SqliteStore};
use a2a_server::store::{Fsync, TaskStore};

pub(crate) fn open(directory: &Path, fsync: Fsync) -> Arc<dyn TaskStore> {
    let mut options = Options::new(directory);
    options.fsync = fsync;
    Arc::new(SqliteStore::open(&options, chrono::DateTime::UNIX_EPOCH).unwrap())
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--open", directory] = words[..] {
        return many::open(directory);
    }
    let mut numbers = words.iter().map(|word| word.parse::<u64>().unwrap());
    let tasks = numbers.next().unwrap_or(100_000);
    let time = Duration::from_secs(numbers.next().unwrap_or(3));

    println!(
        "a change of {} bytes, kept and acknowledged, for {time:?} each",
        floor::line().len()
    );
    floor::measure("plain file, write", time, false);
    floor::measure("plain file, write and fdatasync", time, true);
    for fsync in [Fsync::Never, Fsync::Interval, Fsync::Always] {
        for writers in [1, 16, 128] {
            changes::measure(fsync, writers, time);
        }
    }
    // The speed of disks varies, so the baseline runs again after the runs that sync.
    floor::measure("plain file, write and fdatasync, again", time, true);
    many::measure(tasks);
}

/// Returns the quantile `share`, in microseconds.
fn share(sorted: &[Duration], share: f64) -> u128 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted[at.min(sorted.len() - 1)].as_micros()
}
