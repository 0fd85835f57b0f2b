#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::config::AuditConfig;
use base::log::Silent;

/// Writes `passed` to a log. Returns the lines of the log file and of the rotated file.
fn write_records(passed: &[AuditRecord<'_>], max_bytes: u64) -> [Vec<Value>; 2] {
    let path = std::env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
    let config = ServerConfig {
        audit: AuditConfig {
            path: Some(path.clone()),
            max_bytes,
            ..AuditConfig::default()
        },
        ..ServerConfig::default()
    };
    let audit = Audit::new(&config, Arc::new(Silent));
    passed.iter().for_each(|one| audit.write(one));
    audit.close();
    [path.clone(), PathBuf::from(format!("{}.1", path.display()))].map(|path| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    })
}

fn passed(id: &str) -> AuditRecord<'_> {
    AuditRecord {
        time: UNIX_EPOCH + Duration::from_millis(1500),
        id: Some(id),
        kind: Some(Kind::Message),
        from: Some("steward"),
        to: Some("alpha"),
        identity: None,
        outcome: Outcome::Delivered,
        count: None,
    }
}

#[test]
fn h_50_audit_line_has_only_the_listed_fields() {
    let refused = AuditRecord {
        kind: None,
        from: None,
        to: None,
        identity: Some("key-1"),
        outcome: Outcome::Refused(ErrorCode::PermissionDenied),
        ..passed("m-2")
    };
    let [lines, _] = write_records(&[passed("m-1"), refused], 1 << 20);
    let time = "1970-01-01T00:00:01.500Z";
    let all = [
        json!({"time": time, "id": "m-1", "type": "message", "from": "steward", "to": "alpha", "outcome": "delivered"}),
        json!({"time": time, "id": "m-2", "identity": "key-1", "outcome": "PERMISSION_DENIED"}),
    ];
    assert_eq!(lines, all);
}

#[test]
fn full_log_is_rotated() {
    let ids: Vec<_> = (0..40).map(|i| format!("m-{i}")).collect();
    let all: Vec<_> = ids.iter().map(|id| passed(id)).collect();
    let [newer, older] = write_records(&all, 3500);
    assert!(!older.is_empty() && newer.last().unwrap()["id"] == "m-39");
    assert_eq!(newer.len() + older.len(), 40);
}

#[test]
fn message_id_cannot_fill_audit_log() {
    let id = format!("{}\n{{}}", "x".repeat(100_000));
    let [lines, _] = write_records(&[passed(&id)], 1 << 20);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["id"].as_str().unwrap().len(), 256);
}

#[test]
fn log_is_written_unless_it_is_switched_off() {
    let state_dir = std::env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
    fs::create_dir(&state_dir).unwrap();
    let mut config = ServerConfig {
        state_dir: state_dir.clone(),
        ..ServerConfig::default()
    };
    let files = |config: &ServerConfig| {
        let audit = Audit::new(config, Arc::new(Silent));
        audit.write(&passed("m"));
        audit.close();
        fs::read_dir(&state_dir).unwrap().count()
    };
    config.audit.enabled = false;
    assert_eq!(files(&config), 0);
    config.audit.enabled = true;
    assert_eq!(files(&config), 1);
    fs::remove_dir_all(&state_dir).unwrap();
}
