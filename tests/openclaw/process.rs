//! What Linux tells of a running process.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

/// How many images of the plugin's library a process has mapped.
pub fn images(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    // Device and inode tell images apart; the path of a copy may be gone.
    let images: BTreeSet<_> = maps
        .lines()
        .filter(|line| line.contains("/native/remote_agent."))
        .map(|line| {
            line.split_whitespace()
                .skip(3)
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    images.len()
}

/// How many threads of the plugin's runtime a process has.
pub fn plugin_threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("remote-agent"))
        .count()
}

/// Waits until the plugin's runtime is gone: its threads end on their own after the plugin has closed, and nothing tells when.
pub fn wait_for_no_plugin_thread(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while plugin_threads(pid) > 0 {
        assert!(
            Instant::now() < deadline,
            "{} threads of the plugin are still there",
            plugin_threads(pid)
        );
        thread::sleep(Duration::from_millis(20));
    }
}
