//! The baseline: the same bytes appended to a plain file.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::{sample, share};

/// About the line that the store writes.
pub(crate) fn line() -> Vec<u8> {
    let mut line = b"01234567 ".to_vec();
    serde_json::to_writer(&mut line, &sample::chunk(7)).unwrap();
    line.extend_from_slice(
        br#"{"change":{"id":"task-00000000","revision":7,"atMs":1790000000000}}"#,
    );
    line.push(b'\n');
    line
}

pub(crate) fn measure(name: &str, time: Duration, sync: bool) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("plain");
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    let line = line();
    let mut took = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let began = Instant::now();
        file.write_all(&line).unwrap();
        if sync {
            file.sync_data().unwrap();
        }
        took.push(began.elapsed());
    }
    let a_second = took.len() as f64 / start.elapsed().as_secs_f64();
    took.sort_unstable();
    println!(
        "{name:<40} {a_second:>9.0}/s   p50 {:>6} us   p99 {:>6} us",
        share(&took, 0.5),
        share(&took, 0.99)
    );
}
