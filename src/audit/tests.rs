#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use common::log::Level;
use testkit::folder::Folder;

/// The audit log of a test.
const LOG: &str = "audit.jsonl";

fn lines(folder: &Folder, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.file(name)).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Log for Told {
    fn log(&self, level: Level, line: &str) {
        self.0
            .lock()
            .unwrap()
            .push(format!("{}: {line}", level.as_str()));
    }
}

impl Told {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn log(folder: &Folder, max_bytes: u64) -> (AuditLog, Arc<Told>) {
    let told = Arc::new(Told::default());
    let log = AuditLog::new(folder.file(LOG), max_bytes, Arc::clone(&told) as _);
    (log, told)
}

fn record(task_id: &str) -> Record<'_> {
    Record {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        agent: Some("main"),
        session: None,
        action: "send",
        target: Some("desk"),
        origin: Some("https://desk.example"),
        transport: Some("JSONRPC"),
        task_id: Some(task_id),
        context_id: None,
        sent_bytes: 7,
        received_bytes: 0,
        state: Some("working"),
        duration: Duration::from_micros(2999),
        outcome: "ok",
    }
}

#[test]
fn a_line_is_the_record_as_json_without_what_is_not_known() {
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
fn what_a_peer_calls_its_task_cannot_begin_a_line_or_fill_the_file() {
    let name = format!("a\nb{}", "ä".repeat(10_000));
    let line = record(&name).line();
    assert_eq!(line.matches('\n').count(), 1);
    let shown: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(shown["task_id"].as_str().unwrap().chars().count(), 256);
}

#[test]
fn nothing_is_opened_before_the_first_line() {
    let folder = Folder::new();
    let (log, _) = log(&folder, 4096);
    drop(log);
    assert!(!folder.file(LOG).exists());
}

#[tokio::test]
async fn closing_leaves_no_line_unwritten() {
    let folder = Folder::new();
    let (log, told) = log(&folder, 1 << 20);
    for i in 0..100 {
        log.write(&record(&i.to_string()));
    }
    log.close();
    let ids: Vec<_> = lines(&folder, "audit.jsonl")
        .iter()
        .map(|line| line["task_id"].clone())
        .collect();
    assert_eq!(
        ids,
        (0..100).map(|i| json!(i.to_string())).collect::<Vec<_>>()
    );
    assert_eq!(told.lines(), [""; 0]);
}

#[test]
fn lines_that_wait_are_written_even_where_the_runtime_has_ended() {
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
fn a_file_is_put_aside_before_it_outgrows_its_size_and_no_line_is_cut() {
    let folder = Folder::new();
    let size = record("0").line().len() as u64;
    let (log, told) = log(&folder, size * 3);
    for i in 0..7 {
        log.write(&record(&i.to_string()));
    }
    let ids = |name| {
        lines(&folder, name)
            .iter()
            .map(|line| line["task_id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("audit.jsonl.1"), ["3", "4", "5"]);
    assert_eq!(ids("audit.jsonl"), ["6"]);
    assert_eq!(told.lines(), [""; 0]);
}

#[test]
fn a_file_that_another_instance_put_aside_is_left_for_the_new_one() {
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
fn instances_that_write_side_by_side_cut_no_line() {
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
fn instances_that_put_the_file_aside_side_by_side_keep_the_newest_lines() {
    let folder = Folder::new();
    let size = record("00").line().len() as u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // What all of them write fits into two files, so nothing may be gone.
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
fn a_file_that_cannot_be_written_is_told_of_once_and_so_is_its_return() {
    let folder = Folder::new();
    let told = Arc::new(Told::default());
    let path = folder.path().join("missing").join("audit.jsonl");
    let log = AuditLog::new(path, 4096, Arc::clone(&told) as _);
    for _ in 0..3 {
        log.write(&record("t"));
    }
    let lines = told.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("error: ") && lines[0].contains("missing"),
        "{lines:?}"
    );
    fs::create_dir(folder.path().join("missing")).unwrap();
    log.write(&record("t"));
    log.write(&record("t"));
    let lines = told.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[1].starts_with("warn: ") && lines[1].ends_with("lost lines: 3"),
        "{lines:?}"
    );
}

/// A device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_of_once() {
    let told = Arc::new(Told::default());
    let log = AuditLog::new("/dev/full".into(), 4096, Arc::clone(&told) as _);
    for _ in 0..3 {
        log.write(&record("t"));
    }
    let lines = told.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("/dev/full"), "{lines:?}");
}

#[cfg(unix)]
#[test]
fn nobody_but_the_owner_may_read_it() {
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
