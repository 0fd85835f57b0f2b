//! How fast session entries are kept, by when they count as kept.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use collective::Envelope;
use common::environment::SystemEnvironment;
use common::log::Silent;
use gateway_server::{
    config::{Fsync, ServerConfig},
    sessions::{Entry, Sessions},
};
use serde_json::json;

/// Entries a second of so many `writers`, each of whom waits for its own, in so many workspaces.
async fn pace(fsync: Fsync, writers: usize, workspaces: usize, took: Duration) -> f64 {
    let folder = std::env::temp_dir().join(format!("gateway-bench-entries-{}", std::process::id()));
    let config = ServerConfig {
        state_dir: folder.clone(),
        fsync,
        ..ServerConfig::default()
    };
    let sessions = Sessions::open(&config, Arc::new(SystemEnvironment), Arc::new(Silent)).unwrap();
    let message = json!({"type": "message", "id": "m", "content": {"role": "user", "content": "x".repeat(200)}});
    let message = Arc::new(Envelope::parse(&message.to_string()).unwrap());
    let begun = Instant::now();
    let tasks = (0..writers).map(|writer| {
        let (sessions, message) = (sessions.clone(), Arc::clone(&message));
        tokio::spawn(async move {
            let (agent, session) = (format!("a{}", writer % workspaces), format!("s{writer}"));
            let mut count = 0_u32;
            while begun.elapsed() < took {
                let entry = Entry::new(&message, &session, SystemTime::now());
                sessions.append(&agent, &entry).await.unwrap();
                count += 1;
            }
            count
        })
    });
    let mut count = 0;
    for task in tasks.collect::<Vec<_>>() {
        count += task.await.unwrap();
    }
    let per_second = f64::from(count) / begun.elapsed().as_secs_f64();
    drop(sessions);
    let _ = std::fs::remove_dir_all(folder);
    per_second
}

/// Prints a row for each way to keep entries, and a column for each number of writers and workspaces.
pub(crate) fn run(runtime: &tokio::runtime::Runtime, took: Duration) {
    const COLUMNS: [(usize, usize); 4] = [(1, 1), (64, 1), (64, 12), (1000, 12)];
    print!("{:<34}", "entries/s (writers, workspaces)");
    for (writers, workspaces) in COLUMNS {
        print!(" {:>10}", format!("{writers}, {workspaces}"));
    }
    println!();
    for (name, fsync) in [
        ("fsync always", Fsync::Always),
        ("fsync interval", Fsync::Interval),
        ("fsync never", Fsync::Never),
    ] {
        print!("{name:<34}");
        for (writers, workspaces) in COLUMNS {
            let entries = runtime.block_on(pace(fsync, writers, workspaces, took));
            print!(" {entries:>10.0}");
        }
        println!();
    }
}
