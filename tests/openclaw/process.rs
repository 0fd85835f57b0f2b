//! Properties of a running process on Linux.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

/// Returns the number of mapped images of the plugin's library.
pub fn images(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    // Device and inode identify images, because the file of a copy may be deleted.
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

/// Returns the path of the plugin's library in the process. It ends like the installed one, of which OpenClaw loads a copy.
pub fn library(pid: u32) -> String {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let library = paths.find(|path| path.contains("/remote_agent.") && path.ends_with(".node"));
    library.expect("a library of the plugin").to_owned()
}

/// Returns the number of threads of the plugin's runtime.
pub fn plugin_threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("remote-agent"))
        .count()
}

/// Waits until the plugin's runtime has ended. Its threads end some time after the plugin has closed, without an event.
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
