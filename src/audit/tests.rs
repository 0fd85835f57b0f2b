#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use base::log::Recorder;
use testkit::folder::Folder;

/// The audit log of a test.
const LOG: &str = "audit.jsonl";

fn lines(folder: &Folder, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.file(name)).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the task ids in a file.
fn ids(folder: &Folder, name: &str) -> Vec<Value> {
    let lines = lines(folder, name);
    lines.iter().map(|line| line["task_id"].clone()).collect()
}

fn lines_of(log: &Recorder) -> Vec<String> {
    log.0.lock().unwrap().clone()
}

fn log(folder: &Folder, max_bytes: u64) -> (AuditLog, Arc<Recorder>) {
    let lines_log = Arc::new(Recorder::default());
    let log = AuditLog::new(folder.file(LOG), max_bytes, Arc::clone(&lines_log) as _);
    (log, lines_log)
}

fn record(task_id: &str) -> Record<'_> {
    Record {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        agent: Some("main"),
        operator: None,
        session: None,
        chain: None,
        action: "send",
        group: None,
        target: Some("desk"),
        origin: Some("https://desk.example"),
        transport: Some("JSONRPC"),
        task_id: Some(task_id),
        context_id: None,
        sent_bytes: 7,
        received_bytes: 0,
        state: Some("working"),
        questions: &[],
        usage: None,
        duration: Duration::from_micros(2999),
        outcome: "ok",
    }
}

#[test]
fn line_omits_unknown_members() {
    let line = record("t-1").line();
    let expected = json!({
        "time": "1970-01-01T00:00:01.500Z", "trace_id": "0af7651916cd43dd8448eb211c80319c", "agent": "main",
        "action": "send", "target": "desk", "origin": "https://desk.example", "transport": "JSONRPC", "task_id": "t-1",
        "sent_bytes": 7, "received_bytes": 0, "state": "working", "duration_ms": 2, "outcome": "ok",
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    assert_eq!(line.matches('\n').count(), 1);
}

#[test]
fn peer_ids_are_escaped_and_shortened() {
    let name = format!("a\nb{}", "ä".repeat(10_000));
    let line = record(&name).line();
    assert_eq!(line.matches('\n').count(), 1);
    let shown: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(shown["task_id"].as_str().unwrap().chars().count(), 256);
}

#[test]
fn opens_no_file_before_first_line() {
    let folder = Folder::new();
    let (log, _) = log(&folder, 4096);
    drop(log);
    assert!(!folder.file(LOG).exists());
}

#[tokio::test]
async fn close_writes_all_lines() {
    let folder = Folder::new();
    let (log, lines_log) = log(&folder, 1 << 20);
    for i in 0..100 {
        log.write(&record(&i.to_string()));
    }
    log.close();
    let written: Vec<_> = (0..100).map(|i| json!(i.to_string())).collect();
    assert_eq!(ids(&folder, LOG), written);
    assert_eq!(lines_of(&lines_log), [""; 0]);
}

#[test]
fn queued_lines_are_written_after_the_runtime_ends() {
    let folder = Folder::new();
    let (log, _) = log(&folder, 1 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let _inside = handle.enter();
    log.write(&record("t-1"));
    log.write(&record("t-2"));
    log.close();
    log.write(&record("t-3"));
    assert_eq!(lines(&folder, "audit.jsonl").len(), 3);
}

#[test]
fn file_rotates_before_its_limit_between_lines() {
    let folder = Folder::new();
    let size = record("0").line().len() as u64;
    let (log, lines_log) = log(&folder, size * 3);
    for i in 0..7 {
        log.write(&record(&i.to_string()));
    }
    assert_eq!(ids(&folder, "audit.jsonl.1"), ["3", "4", "5"]);
    assert_eq!(ids(&folder, LOG), ["6"]);
    assert_eq!(lines_of(&lines_log), [""; 0]);
}

#[test]
fn follows_rotation_by_another_instance() {
    let folder = Folder::new();
    let size = record("0").line().len() as u64;
    let [(one, _), (other, _)] = [log(&folder, size * 2), log(&folder, size * 2)];
    for (log, id) in [(&one, "0"), (&other, "1"), (&one, "2"), (&other, "3")] {
        log.write(&record(id));
    }
    assert_eq!(lines(&folder, "audit.jsonl.1").len(), 2);
    assert_eq!(lines(&folder, "audit.jsonl").len(), 2);
}

#[test]
fn concurrent_instances_cut_no_line() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (log, _) = log(&folder, 1 << 20);
            scope.spawn(move || {
                for i in 0..100 {
                    log.write(&record(&i.to_string()));
                }
            });
        }
    });
    assert_eq!(lines(&folder, "audit.jsonl").len(), 400);
}

#[test]
fn concurrent_rotations_keep_newest_lines() {
    let folder = Folder::new();
    let size = record("00").line().len() as u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // All lines fit into two files, so each must be there.
            let (log, _) = log(&folder, size * 60);
            scope.spawn(move || {
                for i in 10..35 {
                    log.write(&record(&i.to_string()));
                }
            });
        }
    });
    let all = lines(&folder, "audit.jsonl").len() + lines(&folder, "audit.jsonl.1").len();
    assert_eq!(all, 100);
}

#[test]
fn write_failure_and_recovery_are_logged_once() {
    let folder = Folder::new();
    let lines_log = Arc::new(Recorder::default());
    let path = folder.path().join("missing").join("audit.jsonl");
    let log = AuditLog::new(path, 4096, Arc::clone(&lines_log) as _);
    for _ in 0..3 {
        log.write(&record("t"));
    }
    let lines = lines_of(&lines_log);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("error: ") && lines[0].contains("missing"),
        "{lines:?}"
    );
    fs::create_dir(folder.path().join("missing")).unwrap();
    log.write(&record("t"));
    log.write(&record("t"));
    let lines = lines_of(&lines_log);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[1].starts_with("warn: ") && lines[1].ends_with("lost lines: 3"),
        "{lines:?}"
    );
}

/// A device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_logged_once() {
    let lines_log = Arc::new(Recorder::default());
    let log = AuditLog::new("/dev/full".into(), 4096, Arc::clone(&lines_log) as _);
    for _ in 0..3 {
        log.write(&record("t"));
    }
    let lines = lines_of(&lines_log);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("/dev/full"), "{lines:?}");
}

#[cfg(unix)]
#[test]
fn file_is_readable_by_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let (log, _) = log(&folder, 1);
    log.write(&record("a"));
    log.write(&record("b"));
    for name in ["audit.jsonl", "audit.jsonl.1"] {
        let mode = fs::metadata(folder.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
